"""From text files to word ids: the vocabulary, encoding, and the examples of a model.

The *events* of a text are the words of each line and then its end, `<eos>`; an empty line is one event. A
text is read once; its ids go to memory or to a memory-mapped file.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxfit.errors import UserError
from jaxlm.reading import CHUNK, EOS, Reading, Source, chunks, split, tokens

UNK = "<unk>"


@dataclasses.dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words a model knows; a word's id is its place, by falling training count, then by name.

    `<eos>` and, where the training text has words outside the vocabulary, `<unk>` are entries like any other.
    """

    words: tuple[str, ...]
    counts: np.ndarray | None = None  # int64 [N_w]: training counts, `<eos>` once a line
    ids: dict[str, int] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        ids = {word: i for i, word in enumerate(self.words)}
        if len(ids) < len(self.words):
            raise ValueError("a word stands twice in the vocabulary")
        if EOS not in ids:
            raise ValueError(f"the vocabulary lacks {EOS}")
        object.__setattr__(self, "ids", ids)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def eos(self) -> int:
        """Return the id of the line end."""
        return self.ids[EOS]

    @property
    def unk(self) -> int | None:
        """Return the id that stands for words outside the vocabulary, if there is one."""
        return self.ids.get(UNK)

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], size: int | None = None, min_count: int = 1
    ) -> "Vocabulary":
        """Choose the vocabulary: the `size` most frequent words that occur at least `min_count` times.

        `size` counts all entries, `<eos>` and `<unk>` too. What is left out is counted under `<unk>`; where
        nothing is, there is no `<unk>` unless the text has it as a word.

        Raises:
            UserError: fewer than two words in the text, or no room for one besides `<eos>` and `<unk>`.
        """
        if len(counts) - (EOS in counts) < 2:
            raise UserError("the text has fewer than two different words", do="train on a larger text")
        if size is not None and size < 3:
            raise UserError(
                f"a vocabulary of {size} has no room for a word", do=f"it holds {EOS}, {UNK}: give 3 or more"
            )
        order = sorted((w for w in counts if w != EOS), key=lambda w: (-counts[w], w))
        kept = [w for w in order if counts[w] >= min_count or w == UNK]
        if size is not None and len(kept) + (UNK not in kept and len(kept) < len(order)) + 1 > size:
            kept = [w for w in kept if w != UNK][: size - 2]
        if not kept or kept == [UNK]:
            raise UserError("no word is left in the vocabulary", f"minimum count {min_count}", "lower it")
        return cls.from_words(kept, counts)

    @classmethod
    def from_words(cls, kept: Iterable[str], counts: Mapping[str, int]) -> "Vocabulary":
        """Order chosen words by their counts, with `<eos>`, and `<unk>` for what `counts` has beyond them."""
        chosen = {w: int(counts.get(w, 0)) for w in (*kept, EOS)}
        outside = [n for w, n in counts.items() if w not in chosen]
        if outside:
            chosen[UNK] = chosen.get(UNK, 0) + int(sum(outside))
        words = tuple(sorted(chosen, key=lambda w: (-chosen[w], w)))
        return cls(words, np.array([chosen[w] for w in words], np.int64))

    def save(self, path: Source) -> None:
        """Write one line per entry, in the order of ids: the word and, after a tab, its count."""
        counts = [""] * len(self) if self.counts is None else [f"\t{n}" for n in self.counts]
        with open(path, "w", encoding="utf-8", newline="\n") as f:
            f.writelines(f"{w}{n}\n" for w, n in zip(self.words, counts, strict=True))

    @classmethod
    def load(cls, path: Source) -> "Vocabulary":
        """Read what `save` wrote, or a user's list of words, one a line, with or without counts.

        Raises:
            UserError: a word twice, a blank inside a word, a count that is none, no `<eos>`, an empty file.
        """
        words: dict[str, int] = {}
        counts: list[int] = []
        lines = "".join(chunks(path, Reading())).split("\n")[:-1]
        for number, line in enumerate(lines, 1):
            word, tab, count = line.rstrip("\r").partition("\t")
            where = f"{path}, line {number}"
            if word.encode().split() != [word.encode()]:
                raise UserError(
                    "not one word on the line", where, "write one word a line, then tab and count or nothing"
                )
            if word in words:
                raise UserError(
                    f"the word {word!r} stands twice, first on line {words[word]}",
                    where,
                    "remove one of them",
                )
            words[word] = number
            if tab:
                if not (count.isascii() and count.isdigit()):
                    raise UserError(
                        f"{count!r} is no count", where, "write the word, a tab and a whole number"
                    )
                counts.append(int(count))
        if EOS not in words:
            raise UserError(f"the vocabulary has no line end {EOS}", path, f"add a line {EOS}")
        if counts and len(counts) < len(words):
            raise UserError(
                "some words have counts and some have none", path, "give all of them counts or none"
            )
        return cls(tuple(words), np.array(counts, np.int64) if counts else None)


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


class Text(NamedTuple):
    """Events of a text with the history of its beginning, as models with a context of c words read it."""

    padded: jax.Array  # int32 [c + events]: c times `<eos>`, then the events


def pad(ids: np.ndarray, context_size: int, eos: int) -> Text:
    """Put a context of line ends before a text; ids [events]."""
    return Text(jnp.concatenate([jnp.full(context_size, eos, jnp.int32), jnp.asarray(ids, jnp.int32)]))


def gather_contexts(
    padded: jax.Array, index: jax.Array, context_size: int, eos: int, across_lines: bool = True
) -> tuple[jax.Array, jax.Array]:
    """Gather contexts w_1..w_c, oldest first, and the words that follow them.

    Args:
        padded: int32 [c + events].
        index: int32 [B], numbers of events.
        context_size: c.
        eos: id of the line end.
        across_lines: whether a context runs on across line ends, as in the thesis; otherwise all of it that
            lies before the line's start is `<eos>`.

    Returns:
        contexts, int32 [B, c], and words, int32 [B].
    """
    contexts = padded[index[:, None] + jnp.arange(context_size)[None, :]]
    if not across_lines:
        ended = jax.lax.cummax((contexts == eos).astype(jnp.int8), axis=1, reverse=True)
        contexts = jnp.where(ended == 1, eos, contexts)
    return contexts, padded[index + context_size]


def split_validation(ids: np.ndarray, eos: int, part: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Carve validation from a training text that comes without: its last lines, one in `part` (at least one).

    The last lines and not scattered ones: neighbouring sentences share their topic and their names, and would
    make validation easier than a test on other text.

    Raises:
        UserError: the text has a single line.
    """
    ends = np.flatnonzero(ids == eos) + 1
    if len(ends) < 2:
        raise UserError("the training text has too few lines to take validation from", do="give --valid FILE")
    cut = ends[len(ends) - max(1, len(ends) // part) - 1]
    return ids[:cut], ids[cut:]


def leave_out(ids: np.ndarray, eos: int, part: int, parts: int) -> np.ndarray:
    """Leave one of several nearly equal, contiguous parts out of a text; cuts are at line ends (4.6.6).

    Raises:
        UserError: the text has fewer lines than would fill the parts.
    """
    ends = np.concatenate([[0], np.flatnonzero(ids == eos) + 1])
    start, stop = ends[np.searchsorted(ends, [len(ids) * part // parts, len(ids) * (part + 1) // parts])]
    if start == stop:
        raise UserError(f"the text has too few lines to cut it into {parts}", do="use a larger text")
    return np.concatenate([ids[:start], ids[stop:]])
