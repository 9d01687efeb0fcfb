"""Encoding of text files as word ids.

The *events* of a text are the words of each line followed by its end, `<eos>`; an empty line is one event. A
text is read once; its ids are stored in memory or in a memory-mapped file.
"""

import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxfit.errors import NotInTraining, UserError
from jaxfit.files.large_arrays import Collector
from jaxfit.files.opening import Source
from jaxlm.data.files import CHUNK, EOS, Reading, split, tokens
from jaxlm.data.vocabulary import UNK, Vocabulary


class Encoded(NamedTuple):
    """A text as events."""

    ids: np.ndarray  # int32 [events]: the words of each line, then `<eos>`
    unknown: int  # number of words outside the vocabulary (a literal `<unk>` is not one)


def build(
    files: Sequence[Source],
    reading: Reading | None = None,
    size: int | None = None,
    min_count: int | None = None,
    vocabulary: Vocabulary | None = None,
    closed: bool = False,
) -> tuple[Vocabulary, Encoded]:
    """Read a training text once: choose its vocabulary and encode it.

    Words first get ids in the order of their appearance, which are replaced in place once all counts are known. The
    training text can therefore be standard input, and memory holds only one piece and the distinct words if the ids are
    stored in a file (`jaxfit.files.large_arrays`).

    Args:
        files: names of files, `-` for standard input; compressed ones are recognised.
        reading: encoding and preprocessing.
        size, min_count, closed: as in `jaxlm.data.vocabulary.Vocabulary.from_counts`.
        vocabulary: words to use instead, with `<unk>`, in the order of their counts in this text.

    Raises:
        UserError: a file cannot be read as text; as `Vocabulary.from_counts`.

    Warns:
        UserWarning: the text is not divided into words.
    """
    table: defaultdict[bytes, int] = defaultdict(None, {EOS.encode(): 0})
    table.default_factory = table.__len__  # a new word gets the next id
    texts = (words for words, _, _ in tokens(files, reading or Reading()))
    with Collector("<i4") as collected:
        for words in texts:
            collected.append(np.fromiter(map(table.__getitem__, words), np.int32, len(words)))
        ids = collected.array()
    seen = np.zeros(len(table), np.int64)
    for i in range(0, len(ids), CHUNK):
        seen += np.bincount(ids[i : i + CHUNK], minlength=len(table))
    counts = dict(zip((w.decode() for w in table), seen.tolist(), strict=True))
    if vocabulary is None:
        where = f"{files[0]}, …" if len(files) > 1 else files[0]
        vocabulary = Vocabulary.from_counts(counts, size, min_count, closed, where)
    elif closed:
        raise UserError("a closed vocabulary has all words of the text", do="give it no other vocabulary")
    else:
        vocabulary = Vocabulary.from_words([*vocabulary.words, UNK], counts, "besides the given ones")
    _warn_unsegmented(counts)
    unk = -1 if vocabulary.unk is None else vocabulary.unk
    final_id = np.array([vocabulary.ids.get(w, unk) for w in counts], np.int32)
    for i in range(0, len(ids), CHUNK):
        ids[i : i + CHUNK] = final_id[ids[i : i + CHUNK]]
    assert vocabulary.left_out is not None
    return vocabulary, Encoded(ids, vocabulary.left_out.occurrences)


def _warn_unsegmented(counts: Mapping[str, int]) -> None:
    """Warn of a text whose lines are a long word each, such as Chinese without blanks between words."""
    words = sum(counts.values()) - counts[EOS]
    letters = sum(n * len(w) for w, n in counts.items() if w != EOS)
    if 0 < words < 1.5 * counts[EOS] and letters >= 4 * words:
        longest = max((w for w in counts if w != EOS), key=len)
        shown = longest if len(longest) <= 20 else f"{longest[:20]}…"
        warnings.warn(
            f"the lines of the training text have {words / counts[EOS]:.1f} words on average, such as {shown!r} - if "
            "they are sentences, separate their words by blanks (a segmenter does), or their characters "
            "(sed 's/./& /g')",
            stacklevel=3,
        )


def encode(files: Sequence[Source], vocabulary: Vocabulary, reading: Reading | None = None) -> Encoded:
    """Encode files with a given vocabulary.

    Raises:
        UserError: a word is outside a vocabulary without `<unk>` (it can be given no probability), or a file cannot be
            read as text.
    """
    return encode_pieces(tokens(files, reading or Reading()), vocabulary)


def encode_text(text: str, vocabulary: Vocabulary) -> Encoded:
    """Encode a string of lines, as `encode` does a file; the last line end may be missing."""
    words = split(text if text.endswith("\n") or not text else f"{text}\n")
    return encode_pieces([(words, "the text", 0)], vocabulary)


def encode_pieces(pieces: Iterable[tuple[list[bytes], str, int]], vocabulary: Vocabulary) -> Encoded:
    """Encode pieces of texts as `jaxlm.data.files.tokens` yields them; raises as `encode`."""
    table = {w.encode(): i for w, i in vocabulary.ids.items()}
    encoded, unknown = [np.zeros(0, np.int32)], 0
    for words, path, lines in pieces:
        ids = np.fromiter(map(table.get, words, itertools.repeat(-1)), np.int32, len(words))
        outside = np.flatnonzero(ids < 0)
        if len(outside):
            if vocabulary.unk is None:
                first = outside[0]
                line = lines + words[:first].count(EOS.encode()) + 1
                what = f"unknown word {words[first].decode()!r}"
                raise NotInTraining(what, f"{path}, line {line}", vocabulary.closed_advice)
            ids[outside] = vocabulary.unk
        encoded.append(ids)
        unknown += len(outside)
    return Encoded(np.concatenate(encoded), unknown)


def encode_words(words: Iterable[str], vocabulary: Vocabulary, where: object | None = None) -> list[int]:
    """Return the ids of words, as `jaxlm.trained_model.Model.encode` does and raises."""
    if isinstance(words, str):
        raise UserError("words are given as a list, not as one string", where, "text.split()")
    if not isinstance(words, Iterable):
        raise UserError(f"{type(words).__name__} is no list of words", where, "give a list of strings")
    ids = []
    for word in words:
        if not isinstance(word, str):
            what = f"a word is a string, and one of them is of the type {type(word).__name__}"
            raise UserError(what, where, "for an id i, give model.vocabulary.words[i]")
        found = vocabulary.ids.get(word, vocabulary.unk)
        if found is None:
            raise NotInTraining(f"unknown word {word!r}", where, vocabulary.closed_advice)
        ids.append(found)
    return ids


def checked(ids: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """Return the ids of a text as int32; raises UserError where one is not of the vocabulary."""
    given = np.asarray(ids)
    if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
        raise UserError("ids are not a list of whole numbers", "ids", "use encode for words")
    if given.size and not 0 <= given.min() <= given.max() < len(vocabulary):
        what = f"ids are from {given.min()} to {given.max()}, and the vocabulary has {len(vocabulary):,} words"
        raise UserError(what, "ids", "use encode for words")
    return given.astype(np.int32)
