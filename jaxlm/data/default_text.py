"""Text that needs no download: the English prose that comes with every CPython.

The module `pydoc_data.topics` holds chapters of the language reference (about 65,000 words on 3.11). They
differ between versions of Python, so results record the sha256 of the cleaned text.
"""

import collections
import hashlib
import platform
import re
from collections.abc import Sequence
from pydoc_data.topics import topics

import numpy as np

from jaxlm.data.corpus import Corpus, Texts, coverage_note
from jaxlm.data.encoding import encode, encode_text
from jaxlm.data.files import EOS, Reading
from jaxlm.data.vocabulary import Vocabulary

_HEADING = re.compile(r"^.*\n([*=\-~^\"'])\1{2,}$")  # an underlined title
_BULLET = re.compile(r"^\s*(?:[*•]|\d+\.|\[\d+\])\s+")
_MARK = re.compile(r"\*+([^\s*](?:[^*]*[^\s*])?)\*+|\"|“|”|‘|’(?!\w)|\[\d+\]")
_WORD = re.compile(r"[(]?[A-Za-z]+(?:['’-][A-Za-z]+)*[)]?[.,:;!?]*")
_SENTENCE = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)\s+(?=[A-Z(])")
_READING = Reading(lower=True, numbers=True, punctuation=True)
BLOCK = 10  # neighbouring lines that go to the same of the three texts


def sentences(text: str) -> list[str]:
    """Extract the prose of a page of documentation: one sentence per line, words separated by spaces.

    Titles, grammar, tables and code are left out: a paragraph is prose if it ends like a sentence and seven
    tenths of it are plain words. Markup is removed, letters become lower case, numbers become `N`, and
    punctuation marks become words.
    """
    lines = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[*•] )", text):
        body = paragraph.strip("\n")
        if _HEADING.match(body) or "::=" in body or ">>>" in body or re.search(r"^\s*[+|]", body, re.M):
            continue
        words = _MARK.sub(r"\1", " ".join(_BULLET.sub("", body).split())).split()
        plain = sum(1 for word in words if _WORD.fullmatch(word))
        if len(words) < 4 or plain < 0.7 * len(words) or words[-1][-1] not in ".:;?!)":
            continue
        for sentence in _SENTENCE.split(" ".join(words)):
            lines.append(" ".join(_READING.prepare(sentence).split()))
    return lines


def prose_lines() -> tuple[list[str], list[str], list[str]]:
    """Split the lines of the prose into training (8 of 10), validation (1) and test (1), in interleaved blocks.

    So all three have the same mixture of topics. Only the first of equal lines is used, since some chapters
    repeat paragraphs of others: no line of the test is in the training text. Neighbouring blocks share topics
    and phrases, so the test is easier than unseen chapters would be, for all models alike.
    """
    lines = list(dict.fromkeys(line for topic in sorted(topics) for line in sentences(topics[topic])))
    split: tuple[list[str], list[str], list[str]] = ([], [], [])
    for start in range(0, len(lines), BLOCK):
        split[max(0, start // BLOCK % 10 - 7)].extend(lines[start : start + BLOCK])
    return split


def prose(min_count: int = 2) -> Corpus:
    """Encode the default text; words that occur fewer than `min_count` times in training become `<unk>`."""
    train, valid, test = ("".join(f"{line}\n" for line in part) for part in prose_lines())
    counts = collections.Counter(train.split())
    counts[EOS] = train.count("\n")
    vocabulary = Vocabulary.from_counts(counts, min_count=min_count)
    ids = [encode_text(part, vocabulary).ids for part in (train, valid, test)]
    sha256 = hashlib.sha256("\0".join((train, valid, test)).encode()).hexdigest()
    note = f"prose of pydoc_data.topics, CPython {platform.python_version()}"
    return Corpus("prose", ids[0], ids[1], ids[2], vocabulary, sha256, note, reading=_READING)


def default(valid: Sequence[str] = (), test: Sequence[str] = (), min_count: int = 2) -> Texts:
    """Return the default data, CPython's prose, with the given validation and test files in place of its own."""
    corpus = prose(min_count)
    notes = [
        f"no --train: the default data is used, {corpus.note}, {len(corpus.train):,} events for training, "
        f"{len(corpus.valid):,} for validation, {len(corpus.test):,} for the test"
    ]
    unknown = {}
    for name, files in {"train": (), "valid": valid, "test": test}.items():
        unknown[name] = int(np.count_nonzero(getattr(corpus, name) == corpus.vocabulary.unk))
        if files:
            ids, unknown[name] = encode(files, corpus.vocabulary, corpus.reading)
            corpus = corpus._replace(**{name: ids})  # type: ignore[arg-type]
            if name == "valid":
                notes.append(coverage_note(ids, corpus.vocabulary, unknown[name]))
    return Texts(corpus, unknown, notes)
