"""Counts of n-grams of orders 1 to 9, by sorting packed ids; in NumPy, since JAX has no 64-bit integers by default.

An n-gram is stored as one 64-bit key: `id of its first n-1 words * (N_w + 1) + last word`, where the id of an
n-gram is its rank among the sorted keys of its order. So a key fits 64 bits for all orders and for all vocabularies
that fit memory, the n-grams of one history are adjacent, and `searchsorted` finds many n-grams at once.

Each line is a sentence: its first history is `<s>` (id `N_w`, never predicted); `<eos>` is predicted like a word.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxfit.errors import UserError

MAX_ORDER = 9


class Grams(NamedTuple):
    """All n-grams of one order, sorted by their words."""

    keys: NDArray[np.int64]  # [G] ascending
    counts: NDArray[np.int64]  # [G] occurrences
    prefix: NDArray[np.int32]  # [G] id (one order lower) of all words but the last
    suffix: NDArray[np.int32]  # [G] id (one order lower) of all words but the first
    word: NDArray[np.int32]  # [G] the last word


def count(ids: NDArray[np.int32], vocab_size: int, eos: int, order: int) -> list[Grams]:
    """Count the n-grams of orders 1 to `order`; element k - 1 holds the k-grams.

    The unigrams are all `vocab_size + 1` words, seen or not, so that their ids are those of the words; their prefix and
    suffix are 0.

    Args:
        ids: int32 [events], the words of each line, then `eos`.
        vocab_size: N_w.
        eos: id of the line end.
        order: 1 to 9.

    Raises:
        UserError: as `check`.
    """
    check(ids, vocab_size, order)
    words, depth = with_begin_markers(ids, vocab_size, eos)
    begin = vocab_size
    unigrams = np.bincount(words, minlength=begin + 1)
    unigrams[begin] = 0
    zeros = np.zeros(begin + 1, np.int32)
    every = np.arange(begin + 1)
    tables = [Grams(every, unigrams, zeros, zeros, every.astype(np.int32))]
    shorter = words  # shorter[i]: id of the (k-1)-gram that ends at position i
    for k in range(2, order + 1):
        at = np.flatnonzero(depth >= k)
        packed = shorter[at - 1].astype(np.int64) * (begin + 1) + words[at]
        keys, gram, counts = np.unique(packed, return_inverse=True, return_counts=True)
        example = np.empty(len(keys), np.int64)  # a position in the text where each k-gram ends
        example[gram] = at
        tables.append(Grams(keys, counts, shorter[example - 1], shorter[example], words[example]))
        shorter = np.full(len(words), -1, np.int32)
        shorter[at] = gram
    return tables


def with_begin_markers(
    ids: NDArray[np.int32], vocab_size: int, eos: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Insert `<s>` (id `vocab_size`) before each line; also return each position's depth in its line, 1 for `<s>`.

    A line starts at the beginning and after each `eos`; a k-gram can end at position i if `depth[i] >= k`. From ids
    int32 [events] with L lines, both results are int32 [events + L].
    """
    starts = np.concatenate([[0], np.flatnonzero(ids[:-1] == eos) + 1])
    words = np.insert(np.asarray(ids, np.int32), starts, vocab_size)
    marks = starts + np.arange(len(starts))
    lengths = np.diff(marks, append=len(words))
    depth = np.arange(1, len(words) + 1) - np.repeat(marks, lengths)
    return words, depth.astype(np.int32)


def continuation_counts(tables: list[Grams], vocab_size: int) -> list[NDArray[np.int64]]:
    """Return the counts that Kneser-Ney smoothing uses, one array [G] for each order.

    For the highest order these are the counts c(w_1..w_n); for lower orders the number of distinct words seen before
    the n-gram, N_1+(. w_1..w_k), except that n-grams that begin with `<s>`, which no word can precede, keep their own
    count (Chen and Goodman 1998, Section 4.1.6, as in SRILM and KenLM).
    """
    adjusted = []
    begins = np.arange(vocab_size + 1) == vocab_size
    for table, longer in pairwise(tables):
        before = np.bincount(longer.suffix, minlength=len(table.keys))
        adjusted.append(np.where(begins, table.counts, before))
        begins = begins[longer.prefix]
    return [*adjusted, tables[-1].counts]


def counts_of_counts(counts: NDArray[np.int64], highest: int) -> NDArray[np.int64]:
    """Return n_r, the number of n-grams that occur r times, for r = 0..`highest`: [highest + 1]."""
    return np.bincount(counts[counts <= highest], minlength=highest + 1)


def check(ids: NDArray[np.int32], vocab_size: int, order: int) -> None:
    """Check that an n-gram model can be estimated.

    Raises:
        UserError: the order is not 1 to 9, the text is empty, or the vocabulary has fewer than two words.
        ValueError: an id is not that of a word.
    """
    if not 1 <= order <= MAX_ORDER:
        raise UserError(f"invalid n-gram order {order}", "--order", f"choose an order from 1 to {MAX_ORDER}")
    if len(ids) == 0:
        raise UserError("no words to train on", "training text", "give a file with at least one line")
    if vocab_size < 2:
        what = f"a vocabulary of {vocab_size} word leaves nothing to predict"
        raise UserError(what, "training text", "give a text with at least one word besides the line ends")
    check_ids(ids, vocab_size)


def check_ids(ids: NDArray[np.int32], vocab_size: int) -> None:
    """Raise ValueError where an id is not that of a word."""
    if len(ids) and (np.min(ids) < 0 or np.max(ids) >= vocab_size):
        raise ValueError(f"ids must lie in 0..{vocab_size - 1}, not {np.min(ids)}..{np.max(ids)}")
