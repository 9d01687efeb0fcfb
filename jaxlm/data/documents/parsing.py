"""Files of documents: one a line, as text or as counts, `labels id:count id:count …`.

The latter is the layout of SVMlight's files, and of many collections of documents: labels separated by commas, or none,
then `qid:n`, which is ignored, and comments after `#`, at the beginning of a line or after a blank. A blank line is a
document without words in both formats; a line with only a comment is not a document. scikit-learn's reader skips blank
lines, takes ids in ascending order only and does not say where a file is wrong.
"""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from jaxfit.errors import UserError, shortened
from jaxfit.files.limits import require_countable
from jaxfit.files.opening import Source
from jaxfit.recipe import INT32_MAX
from jaxlm.data.documents.collection import counted
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.files import ENCODING_ADVICE, Reading, read_lines

_PAIR = r"\d{1,10}:\d{1,10}(?:\.0*)?"
_PAIRS = re.compile(rf"(?:{_PAIR}(?:\s+|$))*")
_LIKE_PAIR = re.compile(r"\d+:[-+\d.eE]+")
_COMMENT = re.compile(r"(?<!\S)#")
_NAMED = re.compile(r"(\S+)(?:\s+(\d+))?\s*")  # a word, and how often it occurs


class Bags(NamedTuple):
    """Documents as files have them.

    Attributes:
        counts: int32 [documents, columns].
        words: of the columns; None in files of counts, where they are the words' numbers.
        labels: of each document.
        lines: int64 [documents], each document's line within its file.
        files: each file, and its first document.
    """

    counts: csr_array
    words: list[str] | None
    labels: tuple[tuple[str, ...], ...]
    lines: NDArray[np.int64]
    files: list[tuple[Source, int]]

    def place(self, document: int) -> str:
        """Return the file and the line of a document, for messages."""
        name = next(name for name, first in reversed(self.files) if first <= document)
        return f"{name}, line {self.lines[document]}"

    def place_of(self, column: int) -> str:
        """Return the place of the first document with a word."""
        first = np.flatnonzero(self.counts.indices == column)[0]
        return self.place(int(np.searchsorted(self.counts.indptr, first, side="right")) - 1)


def read(files: Sequence[Source], reading: DocumentReading) -> Bags:
    """Read documents from files, in their order; `reading.format` must be known.

    Raises:
        UserError: as `jaxlm.data.files.chunks`; a line is not in the format. It names the file and the line.
    """
    return _read_counts(files, reading.encoding) if reading.format == "counts" else _read_text(files, reading)


def format_of(path: Source, encoding: str) -> str:
    """Return the format of a file by its first line: "counts" if at least half of its fields look like counts.

    Lines that are comments, or have a single field, are skipped: that field may be the label of a document without
    words, or the word of a text.

    Raises:
        UserError: as `jaxlm.data.files.chunks`.
    """
    for _, line in _lines(path, encoding):
        fields = _without_comment(line).split()
        if rest := fields[1:] if fields and ":" not in fields[0] else fields:
            pairs = sum(_LIKE_PAIR.fullmatch(field) is not None for field in rest)
            return "counts" if 2 * pairs >= len(rest) else "text"
    return "text"


def _lines(path: Source, encoding: str, advice: str = ENCODING_ADVICE) -> Iterator[tuple[int, str]]:
    return enumerate(read_lines(path, Reading(encoding), advice), 1)


def _without_comment(line: str) -> str:
    return _COMMENT.split(line, 1)[0]


def _read_counts(files: Sequence[Source], encoding: str) -> Bags:
    ids, times, lengths, lines = (array("i") for _ in range(4))
    starts: list[tuple[Source, int]] = []
    labels: list[tuple[str, ...]] = []
    for path in files:
        starts.append((path, len(lines)))
        for number, line in _lines(path, encoding):
            body = _without_comment(line).strip()
            if line.strip() and not body:
                continue
            found, pairs = _parse(body, f"{path}, line {number}")
            pairs = pairs[:, pairs[1] > 0]
            ids.extend(pairs[0].tolist())
            times.extend(pairs[1].tolist())
            lengths.append(pairs.shape[1])
            labels.append(found)
            lines.append(number)
    document = np.repeat(np.arange(len(lines)), lengths)
    word = np.array(ids, np.int64)
    require_countable(int(np.sum(times, dtype=np.int64)), "words", files[0])
    table = counted(document, word, (len(lines), int(word.max(initial=-1)) + 1), times)
    return Bags(table, None, tuple(labels), np.array(lines, np.int64), starts)


def _parse(body: str, where: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Parse a line of counts: the labels; words' numbers and counts, int64 [2, n]."""
    head, *more = body.split(None, 1) or [""]
    labels, rest = (_labels(head), "".join(more)) if ":" not in head else ((), body)
    if rest.startswith("qid:"):
        rest = "".join(rest.split(None, 1)[1:])
    if not _PAIRS.fullmatch(rest):
        wrong = next(field for field in rest.split() if not re.fullmatch(_PAIR, field))
        what = f"{shortened(repr(wrong), 40)} is not the number of a word and how often it occurs"
        do = "write labels, and then id:count for each word, in whole numbers; train on texts with --format text"
        do += "; begin a comment with a blank and #" if "#" in wrong else ""
        raise UserError(what, where, do)
    pairs = np.array(rest.replace(":", " ").split(), np.float64).astype(np.int64).reshape(-1, 2).T
    if pairs.max(initial=0) > INT32_MAX:
        raise UserError(f"the number {pairs.max()} is too large", where, f"give at most {INT32_MAX}")
    distinct, often = np.unique(pairs[0], return_counts=True)
    if len(distinct) < pairs.shape[1]:
        raise UserError(f"word {distinct[often > 1][0]} is there twice", where, "give each word one count")
    return labels, pairs


def _labels(text: str) -> tuple[str, ...]:
    return tuple(label for label in (part.strip() for part in text.split(",")) if label)


def _read_text(files: Sequence[Source], reading: DocumentReading) -> Bags:
    table: defaultdict[str, int] = defaultdict(None)
    table.default_factory = table.__len__  # a new word gets the next id
    ids, lengths, lines = (array("i") for _ in range(3))
    starts: list[tuple[Source, int]] = []
    labels: list[tuple[str, ...]] = []
    for path in files:
        starts.append((path, len(lines)))
        for number, line in _lines(path, reading.encoding):
            found = ""
            if reading.labelled:
                found, tab, line = line.partition("\t")
                if not tab and found.strip():
                    advice = "write labels, separated by commas, and a tab before the document"
                    raise UserError("the line has no tab, which ends the labels", f"{path}, line {number}", advice)
            words = reading.prepare(line).split()
            ids.extend(map(table.__getitem__, words))
            require_countable(len(ids), "words", path)
            lengths.append(len(words))
            labels.append(_labels(found))
            lines.append(number)
    document = np.repeat(np.arange(len(lines)), lengths)
    bags = counted(document, np.array(ids, np.int32), (len(lines), len(table)))
    return Bags(bags, list(table), tuple(labels), np.array(lines, np.int64), starts)


def read_words(path: Source) -> list[str]:
    """Read a list of words, one a line, each of which may be followed by a count, which is not used.

    Raises:
        UserError: a line has another form, or a word that was there before.
    """
    words: dict[str, int] = {}
    for number, line in _lines(path, "utf-8", "write the list in utf-8"):
        found = _NAMED.fullmatch(line)
        if found is None:
            do = "write one word per line, optionally followed by its count"
            raise UserError("the line does not hold exactly one word", f"{path}, line {number}", do)
        if found[1] in words:
            what = f"duplicate word {found[1]!r}, first on line {words[found[1]]}"
            raise UserError(what, f"{path}, line {number}", "remove one of them")
        words[found[1]] = number
    return list(words)
