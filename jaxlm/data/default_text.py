"""Text that needs no download: the English prose that comes with every CPython.

The module `pydoc_data.topics` holds chapters of the language reference (about 65,000 words on 3.11). They
differ between versions of Python: a result belongs to the sha256 of the cleaned text, which goes with it.
"""

import collections
import hashlib
import platform
import re
from pydoc_data.topics import topics
from typing import NamedTuple

import numpy as np

from jaxlm.data.encoding import encode_text
from jaxlm.data.files import EOS, Reading
from jaxlm.data.vocabulary import Vocabulary

_HEADING = re.compile(r"^.*\n([*=\-~^\"'])\1{2,}$")  # a title underlined
_BULLET = re.compile(r"^\s*(?:[*•]|\d+\.|\[\d+\])\s+")
_MARK = re.compile(r"\*+([^\s*](?:[^*]*[^\s*])?)\*+|\"|“|”|‘|’(?!\w)|\[\d+\]")
_WORD = re.compile(r"[(]?[A-Za-z]+(?:['’-][A-Za-z]+)*[)]?[.,:;!?]*")
_SENTENCE = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)\s+(?=[A-Z(])")
_READING = Reading(lower=True, numbers=True, punctuation=True)


class Corpus(NamedTuple):
    """A data set as models take it."""

    name: str
    train: np.ndarray  # int32 [events], as are valid and test
    valid: np.ndarray
    test: np.ndarray
    vocabulary: Vocabulary
    sha256: str  # of what the ids were made from
    note: str  # what a reader of results should know of the data
    truth: np.ndarray | None = None  # float64 [events of test]: true log-probabilities, where they are known
    reading: Reading = Reading()  # how text that a model of it is given later must be read


def sentences(text: str) -> list[str]:
    """Take the prose out of a page of documentation: one sentence a line, its words separated by blanks.

    Titles, grammar, tables and program text are left out: a paragraph is prose when it ends like a sentence
    and seven tenths of it are plain words. Marks of emphasis and of literals go; letters become lower case,
    numbers `N`, punctuation marks words.
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


def prose_lines(block: int = 10) -> tuple[list[str], list[str], list[str]]:
    """Deal the lines of the prose out to training (8 of 10), validation (1) and test (1), in blocks of lines.

    So all three have the same mixture of topics. Some chapters repeat paragraphs of others word for word: a
    line is taken where it stands first, and no line of the test is in the training text. Neighbouring
    blocks still share topics and turns of phrase: the test is easier than chapters never seen would be,
    for every model alike.
    """
    lines = list(dict.fromkeys(line for topic in sorted(topics) for line in sentences(topics[topic])))
    parts: tuple[list[str], list[str], list[str]] = ([], [], [])
    for start in range(0, len(lines), block):
        turn = start // block % 10
        parts[max(0, turn - 7)].extend(lines[start : start + block])
    return parts


def prose(min_count: int = 2) -> Corpus:
    """Encode the default text; words seen fewer than `min_count` times in training are `<unk>`."""
    train, valid, test = ("".join(f"{line}\n" for line in part) for part in prose_lines())
    counts = collections.Counter(train.split())
    counts[EOS] = train.count("\n")
    vocabulary = Vocabulary.from_counts(counts, min_count=min_count)
    ids = [encode_text(part, vocabulary).ids for part in (train, valid, test)]
    sha256 = hashlib.sha256("\0".join((train, valid, test)).encode()).hexdigest()
    note = f"prose of pydoc_data.topics, CPython {platform.python_version()}"
    return Corpus("prose", ids[0], ids[1], ids[2], vocabulary, sha256, note, reading=_READING)
