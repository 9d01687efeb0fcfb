"""Checks that what was read is what the file says, for kinds of files where that is simple to check."""

import re
from typing import Any

import numpy as np

from jaxcf.data.reading import Table
from jaxlm.data.vocabulary import Vocabulary


def _plain_lines(content: bytes) -> list[str] | None:
    """Return the lines of a file that are not blank, if it is plain text without quotes."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if re.search('["\r\0]', text) else [line for line in text.split("\n") if line]


def check_ratings(content: bytes, table: Any) -> None:
    """Check that every line but a header is read, and that what is read stands in its line."""
    lines = _plain_lines(content)
    if not lines or re.fullmatch(r"\s*\d+:\s*", lines[0]):  # which makes it a file of the Netflix Prize
        return
    pairs = table.ratings if isinstance(table, Table) else table.pairs
    known = table.catalogue if isinstance(table, Table) else table
    assert 0 <= len(lines) - len(pairs.user) <= 1, f"{len(pairs.user)} rows of {len(lines)} lines"
    for row, line in enumerate(lines[len(lines) - len(pairs.user) :]):
        for name in (known.users[pairs.user[row]], known.items[pairs.item[row]]):
            assert str(name) in line, f"{name} is not in {line!r}"
        if isinstance(table, Table):
            assert any(
                _number(field) == pairs.stars[row] for field in re.split("[\t,;| :]", line)
            ), f"{pairs.stars[row]} is not in {line!r}"  # fmt: skip


def check_netflix(content: bytes, table: Any) -> None:
    """Check that every line but the headings is read."""
    lines = _plain_lines(content)
    if lines and re.fullmatch(r"\s*\d+:\s*", lines[0]):
        pairs = table.ratings if isinstance(table, Table) else table.pairs
        assert len(pairs.user) == sum(not re.fullmatch(r"\s*\d+:\s*", line) for line in lines)


def _number(field: str) -> np.float32 | None:
    try:
        with np.errstate(over="ignore"):
            return np.float32(float(field.strip()))
    except ValueError:
        return None


def check_text(content: bytes, texts: Any) -> None:
    """Check that every word is read, and every line end."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return
    words, corpus = texts.corpus.vocabulary.words, texts.corpus
    read = [words[i] for i in corpus.train]
    assert read.count("<eos>") == text.count("\n") + (not text.endswith("\n"))
    if "<unk>" not in words:
        together = "".join(word for word in read if word != "<eos>")
        assert re.sub(r"\s", "", together) == re.sub(r"\s", "", text)


def check_vocabulary(content: bytes, vocabulary: Vocabulary) -> None:
    """Check that every line is a word."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:  # it is compressed
        return
    assert len(vocabulary) == text.count("\n") + (not text.endswith("\n"))
