"""Counts of word sequences of orders 1 to 9, by sorting packed ids.

An n-gram is stored as one 64-bit key: `id of its first n-1 words * (N_w + 1) + last word`, where the
id of an n-gram is its rank among the sorted keys of its order. Chained this way a key fits 64 bits
for every order and vocabulary that fits memory, the n-grams of one history lie side by side, and one
`searchsorted` finds any number of them.

Each line is a sentence of its own: histories begin with `<s>` (the id `N_w`, which is never
predicted), and `<eos>` is predicted like a word.

This is NumPy and not JAX: sorting and searching 64-bit keys of data-dependent number is work for the
host, and JAX has no 64-bit integers by default.
"""

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
    """Return the n-grams of orders 1 to `order`, item k - 1 holding the k-grams.

    `ids` holds events: the words of each line, then `eos`. The unigrams are all `vocab_size + 1`
    words, seen or not, so that their ids are the words themselves; prefix and suffix are 0 there.

    Raises `UserError` for an order outside 1..9, a vocabulary of fewer than two words, or no text.
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
        keys = shorter[at - 1].astype(np.int64) * (begin + 1) + words[at]
        by_key = np.argsort(keys)
        keys = keys[by_key]
        first = np.empty(len(keys), bool)
        first[:1] = True
        np.not_equal(keys[1:], keys[:-1], out=first[1:])
        starts = np.flatnonzero(first)
        example = at[by_key[starts]]  # one place in the text where each k-gram ends
        tables.append(
            Grams(
                keys=keys[starts],
                counts=np.diff(starts, append=len(keys)),
                prefix=shorter[example - 1],
                suffix=shorter[example],
                word=words[example],
            )
        )
        longer = np.full(len(words), -1, np.int32)
        longer[at[by_key]] = np.cumsum(first, dtype=np.int32) - 1
        shorter = longer
    return tables


def with_begin_markers(
    ids: NDArray[np.int32], vocab_size: int, eos: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Put `<s>` (id `vocab_size`) before each line; also return each position's distance from it, from 1.

    A line starts at the beginning and after each `eos`; `depth[i] >= k` says that a k-gram may end at i.
    """
    starts = np.concatenate([[0], np.flatnonzero(ids[:-1] == eos) + 1])
    words = np.insert(np.asarray(ids, np.int32), starts, vocab_size)
    marks = starts + np.arange(len(starts))
    lengths = np.diff(marks, append=len(words))
    depth = np.arange(1, len(words) + 1) - np.repeat(marks, lengths)
    return words, depth.astype(np.int32)


def continuation_counts(tables: list[Grams], vocab_size: int) -> list[NDArray[np.int64]]:
    """Return the counts that Kneser-Ney smoothing uses, one array for each order.

    The highest order keeps its counts c(w_1..w_n). Lower orders count the different words seen before
    the n-gram, N_1+(. w_1..w_k), except that an n-gram which begins with `<s>`, before which nothing
    can stand, keeps its count (Chen and Goodman 1998, Section 4.1.6, as in SRILM and KenLM).
    """
    adjusted = []
    begins = np.arange(vocab_size + 1) == vocab_size
    for k, table in enumerate(tables):
        if k > 0:
            begins = begins[table.prefix]
        if k + 1 == len(tables):
            adjusted.append(table.counts)
        else:
            before = np.bincount(tables[k + 1].suffix, minlength=len(table.keys))
            adjusted.append(np.where(begins, table.counts, before))
    return adjusted


def counts_of_counts(counts: NDArray[np.int64], highest: int) -> NDArray[np.int64]:
    """Return n_r, how many n-grams occur r times, for r = 0..`highest`."""
    return np.bincount(counts[counts <= highest], minlength=highest + 1)


def check(ids: NDArray[np.int32], vocab_size: int, order: int) -> None:
    """Raise `UserError` where no n-gram model can be estimated, `ValueError` for ids that are no words."""
    if not 1 <= order <= MAX_ORDER:
        raise UserError(f"no {order}-gram model", "--order", f"choose an order from 1 to {MAX_ORDER}")
    if len(ids) == 0:
        raise UserError("no words to train on", "training text", "give a file with at least one line")
    if vocab_size < 2:
        raise UserError(
            f"a vocabulary of {vocab_size} word leaves nothing to predict",
            "training text",
            "give text with at least one word beside the line ends",
        )
    if np.min(ids) < 0 or np.max(ids) >= vocab_size:
        raise ValueError(f"ids must lie in 0..{vocab_size - 1}, not {np.min(ids)}..{np.max(ids)}")
