"""Back-off estimation by SRILM's rules, shared by Good-Turing and back-off Kneser-Ney smoothing.

With c the counts of one order (raw, or continuation counts), d the discounted counts (0 where a count
lies under the cut-off) and h' the history h without its oldest word (Katz 1987):

    P(w | h) = d(h w) / sum_v c(h v)                          if d(h w) > 0
             = a(h) P(w | h')                                 otherwise,
    a(h) = (1 - sum_{w: d(h w) > 0} P(w | h)) / (1 - sum_{w: d(h w) > 0} P(w | h')).

SRILM's further rules (Stolcke 2002; its `ngram-count`), all kept here:

- A history that would leave less than 3e-6 to the words not seen after it, though there are such
  words, has its total count raised by one until it leaves more.
- What the unigrams leave is divided equally among the words without probability (never seen, such as
  `<unk>` in an open vocabulary); among all words, added to what they have, if there are none of these.
- If every word that P(. | h') allows has its own n-gram after h, these are scaled to sum to one.
- An n-gram without a probability of its own that is the history of a longer one stays in the table,
  with the probability that it had anyhow.

Differs: SRILM omits the first rule for orders where discounting is switched off; unseen words would then
have probability zero, so here it holds for every order.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jaxlm.ngram.counts import Grams
from jaxlm.ngram.model import NGram, Table, log

SMALLEST_REST = 3e-6  # SRILM's Prob_Epsilon


def estimate(
    grams: Sequence[Grams],
    counts: Sequence[NDArray[np.int64]],
    discounted: Sequence[NDArray[np.float64]],
    vocab_size: int,
    eos: int,
) -> NGram:
    """Return the back-off model with the given counts and discounted counts, arrays [G] for each order."""
    prob = _unigrams(counts[0], discounted[0], vocab_size)
    probs, backoffs = [prob], []
    for table, c, d in zip(grams[1:], counts[1:], discounted[1:], strict=True):
        num_histories = len(prob)
        lower = prob[table.suffix]
        kept = d > 0
        history = table.prefix

        def per_history(weights: NDArray, at: NDArray = history, size: int = num_histories) -> NDArray:
            return np.bincount(at, weights, size)

        total = per_history(c)
        seen = np.bincount(history, minlength=num_histories)
        explicit = per_history(d)
        total = _leave_some(explicit, total, seen < vocab_size)
        used = np.divide(explicit, total, out=np.zeros(num_histories), where=total > 0)
        free = 1 - per_history(lower * kept)
        exhausted = free < 1e-12
        scale = np.where(exhausted & (used > 0), total * used, total)
        backoff = np.where(exhausted, 1.0, (1 - used) / np.where(exhausted, 1.0, free))
        prob = np.where(kept, d / scale[history], backoff[history] * lower)
        probs.append(prob)
        backoffs.append(backoff)
    backoffs.append(np.ones(len(prob)))
    needed = _needed(grams, discounted)
    return NGram(vocab_size, eos, _tables(grams, probs, backoffs, needed, vocab_size))


def _leave_some(explicit: NDArray, total: NDArray, unseen: NDArray) -> NDArray:
    """Raise totals by one until something is left for unseen words."""
    while np.any(short := unseen & (explicit > 0) & (explicit > total * (1 - SMALLEST_REST))):
        total = total + short
    return total


def _unigrams(counts: NDArray[np.int64], discounted: NDArray[np.float64], vocab_size: int) -> NDArray:
    """Return P(w) for all words, then 0 for `<s>`."""
    d = discounted[:vocab_size]
    unseen = np.array(np.any(counts[:vocab_size] == 0))
    prob = d / _leave_some(np.array(np.sum(d)), np.array(np.sum(counts)), unseen)
    rest, without = 1 - np.sum(prob), prob == 0
    prob = np.where(without, rest / np.sum(without), prob) if np.any(without) else prob + rest / vocab_size
    return np.append(prob, 0.0)


def _needed(grams: Sequence[Grams], discounted: Sequence[NDArray]) -> list[NDArray[np.bool_]]:
    """Say for each n-gram whether it has a probability of its own or is a history of one that stays."""
    needed = [d > 0 for d in discounted]
    needed[0][:] = True
    for shorter, longer, table in zip(needed[-2::-1], needed[:0:-1], grams[:0:-1], strict=True):
        shorter[table.prefix[longer]] = True
    return needed


def _tables(
    grams: Sequence[Grams],
    probs: Sequence[NDArray],
    backoffs: Sequence[NDArray],
    needed: Sequence[NDArray[np.bool_]],
    vocab_size: int,
) -> tuple[Table, ...]:
    """Drop what is not needed, number what stays anew, and take logarithms."""
    tables = []
    new_prefix = np.zeros(1, np.int64)
    for k, (table, prob, backoff, stays) in enumerate(zip(grams, probs, backoffs, needed, strict=True)):
        keys = table.word[stays].astype(np.int64)
        if k > 0:
            keys += new_prefix[table.prefix[stays]] * (vocab_size + 1)
        new_prefix = np.cumsum(stays) - 1
        tables.append(Table(keys, log(prob[stays]), log(backoff[stays])))
    return tuple(tables)
