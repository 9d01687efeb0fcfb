"""From text files to word ids.

The *events* of a text are the words of each line and then its end, `<eos>`; an empty line is one event. A
text is read once; its ids go to memory or to a memory-mapped file.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxfit.errors import UserError
from jaxlm.data.files import CHUNK, EOS, Reading, Source, split, tokens
from jaxlm.data.vocabulary import UNK, Vocabulary


class Encoded(NamedTuple):
    """A text as events."""

    ids: np.ndarray  # int32 [events]: the words of each line, then `<eos>`
    unknown: int  # how many of them are words outside the vocabulary (a literal `<unk>` is not)


class _Known(dict[bytes, int]):
    """Ids of a fixed vocabulary; any other word gets one id more."""

    def __missing__(self, word: bytes) -> int:
        return self[b""]


class _Growing(dict[bytes, int]):
    """Ids in the order of first appearance."""

    def __missing__(self, word: bytes) -> int:
        self[word] = new = len(self)
        return new


def _ids(words: list[bytes], table: dict[bytes, int]) -> np.ndarray:
    return np.fromiter(map(table.__getitem__, words), np.int32, len(words))


def _store(pieces: Iterator[np.ndarray], path: Source | None, memory: int = 0) -> np.ndarray:
    """Gather ids in memory or, given a path, in a file of little-endian int32 that is mapped into memory.

    With a path, up to `memory` events stay in memory nevertheless: how long a text is shows as it is read.
    """
    held, events = [np.zeros(0, np.int32)], 0
    for piece in pieces:
        held.append(piece)
        events += len(piece)
        if path is not None and events > memory:
            break
    else:
        if path is None or memory:
            return np.concatenate(held)
    try:
        with open(path, "wb") as f:
            for piece in itertools.chain(held, pieces):
                f.write(piece.astype("<i4", copy=False).data)
            held.clear()
        return np.memmap(path, "<i4", "r+")
    except OSError as error:
        raise UserError(
            f"the ids cannot be written: {error.strerror or error}", path, "make room there"
        ) from None


def _written(ids: np.ndarray, aside: Path | None, out: Source | None) -> np.ndarray:
    """Give a finished file of ids its name; nothing half-written ever bears it."""
    if aside is None or out is None or not isinstance(ids, np.memmap):
        return ids
    ids.flush()
    os.replace(aside, out)
    return np.memmap(out, "<i4", "r")


def build(
    files: Sequence[Source],
    reading: Reading | None = None,
    size: int | None = None,
    min_count: int = 1,
    vocabulary: Vocabulary | None = None,
    out: Source | None = None,
    memory: int = 0,
) -> tuple[Vocabulary, Encoded]:
    """Read a training text once: choose its vocabulary and encode it.

    Words get ids in the order of appearance, which are exchanged in place when all counts are known, so that
    standard input can be a training text and memory holds one piece and the different words only.

    Args:
        files: names of files, `-` for standard input; gzipped ones are recognised.
        reading: encoding and preprocessing.
        size: of the vocabulary, all entries counted.
        min_count: the count from which on a word belongs to the vocabulary.
        vocabulary: its words are taken instead, ordered and counted anew by this text; `<unk>` is added
            where the text has other words.
        out: where to write the ids, to be mapped into memory; None keeps them in memory.
        memory: events up to which the ids are kept in memory even so.

    Raises:
        UserError: a file that cannot be read as text, fewer than two words.
    """
    table = _Growing({EOS.encode(): 0})
    aside = None if out is None else Path(f"{os.fspath(out)}.part")
    try:
        ids = _store((_ids(w, table) for w, _, _ in tokens(files, reading or Reading())), aside, memory)
        seen = np.zeros(len(table), np.int64)
        for i in range(0, len(ids), CHUNK):
            seen += np.bincount(ids[i : i + CHUNK], minlength=len(table))
        words = [w.decode() for w in table]
        counts = {w: int(n) for w, n in zip(words, seen, strict=True)}
        if vocabulary is None:
            vocabulary = Vocabulary.from_counts(counts, size, min_count)
        else:
            vocabulary = Vocabulary.from_words(vocabulary.words, counts)
        unk = -1 if vocabulary.unk is None else vocabulary.unk
        exchange = np.array([vocabulary.ids.get(w, unk) for w in words], np.int32)
        for i in range(0, len(ids), CHUNK):
            ids[i : i + CHUNK] = exchange[ids[i : i + CHUNK]]
        unknown = sum(n for w, n in counts.items() if w not in vocabulary.ids)
        return vocabulary, Encoded(_written(ids, aside, out), unknown)
    finally:
        if aside is not None:
            aside.unlink(missing_ok=True)


def encode(
    files: Sequence[Source], vocabulary: Vocabulary, reading: Reading | None = None, out: Source | None = None
) -> Encoded:
    """Encode files with a given vocabulary, in memory or to a file `out` that is mapped into memory.

    Raises:
        UserError: a word outside a vocabulary that lacks `<unk>` (no probability can be given to it), a file
            that cannot be read as text.
    """
    unknown = 0

    def pieces() -> Iterator[np.ndarray]:
        nonlocal unknown
        table = _table(vocabulary)
        for words, path, lines in tokens(files, reading or Reading()):
            ids = _ids(words, table)
            unknown += _settle(ids, words, vocabulary, path, lines)
            yield ids

    aside = None if out is None else Path(f"{os.fspath(out)}.part")
    try:
        return Encoded(_written(_store(pieces(), aside), aside, out), unknown)
    finally:
        if aside is not None:
            aside.unlink(missing_ok=True)


def encode_text(
    text: str, vocabulary: Vocabulary, reading: Reading | None = None, where: str = "the text"
) -> Encoded:
    """Encode a string of lines; the line end of the last may be left out.

    Raises:
        UserError: as `encode`.
    """
    text = (reading or Reading()).prepare(text)
    text += "" if text.endswith("\n") or not text else "\n"
    words = split(text)
    ids = _ids(words, _table(vocabulary))
    return Encoded(ids, _settle(ids, words, vocabulary, where, 0))


def _table(vocabulary: Vocabulary) -> _Known:
    return _Known({w.encode(): i for w, i in vocabulary.ids.items()} | {b"": len(vocabulary)})


def _settle(ids: np.ndarray, words: list[bytes], vocabulary: Vocabulary, path: str, lines: int) -> int:
    """Turn unknown words into `<unk>` in place, and count them."""
    unknown = np.flatnonzero(ids == len(vocabulary))
    if len(unknown) and vocabulary.unk is None:
        first = unknown[0]
        line = lines + int(np.count_nonzero(ids[:first] == vocabulary.eos)) + 1
        do = f"train with --min-count 2 or --vocab-size, so that the model has {UNK}"
        raise UserError(f"unknown word {words[first].decode()!r}", f"{path}, line {line}", do)
    ids[unknown] = -1 if vocabulary.unk is None else vocabulary.unk
    return len(unknown)
