"""Back-off estimation by SRILM's rules, shared by Good-Turing and back-off Kneser-Ney smoothing.

With c the counts of one order (raw, or continuation counts), d the discounted counts (0 for counts below the
cut-off) and h' the history h without its oldest word (Katz 1987):

    P(w | h) = d(h w) / sum_v c(h v)                          if d(h w) > 0
             = a(h) P(w | h')                                 otherwise,
    a(h) = (1 - sum_{w: d(h w) > 0} P(w | h)) / (1 - sum_{w: d(h w) > 0} P(w | h')).

Further rules of SRILM (Stolcke 2002; its `ngram-count`), which all apply here:

- If a history leaves less than 3e-6 of probability to the words not seen after it, although there are such words,
  its total count is increased by one until it leaves more.
- The probability that the unigrams leave is divided equally among the words that have none (never seen, such as
  `<unk>` in an open vocabulary); if there are no such words, it is divided equally among all words.
- If every word with P(. | h') > 0 has an n-gram of its own after h, the n-grams' probabilities are scaled to sum to
  one.
- An n-gram with d = 0 that is the history of a longer n-gram stays in the table, with its backed-off probability.

Differs: SRILM omits the first rule for orders without discounting, where unseen words would then have probability
zero; here it applies to all orders.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from jaxlm.ngram.counts import Grams
from jaxlm.ngram.model import NGram, Table, log

CUT_OFF = 2  # SRILM's gtmin of trigrams and longer n-grams: those with lower counts are left out
MIN_REST = 3e-6  # SRILM's Prob_Epsilon


def estimate(
    grams: Sequence[Grams],
    counts: Sequence[NDArray[np.int64]],
    discounted: Sequence[NDArray[np.float64]],
    vocab_size: int,
    eos: int,
) -> NGram:
    """Estimate the back-off model with the given counts and discounted counts, one array [G] for each order."""
    frequent = (np.where(c < CUT_OFF, 0.0, d) for c, d in zip(counts[2:], discounted[2:], strict=True))
    discounted = [*discounted[:2], *frequent]
    prob = _unigrams(counts[0], discounted[0], vocab_size)
    probs, backoffs = [prob], []
    for table, c, d in zip(grams[1:], counts[1:], discounted[1:], strict=True):
        history, lower, explicit = table.prefix, prob[table.suffix], d > 0
        per_history = partial(np.bincount, history, minlength=len(prob))
        discounted_total = per_history(d)
        total = _leave_rest(discounted_total, per_history(c), per_history() < vocab_size)
        used = np.divide(discounted_total, total, out=np.zeros(len(prob)), where=total > 0)
        free = 1 - per_history(lower * explicit)
        exhausted = free < 1e-12
        scale = np.where(exhausted & (used > 0), total * used, total)
        backoff = np.where(exhausted, 1.0, (1 - used) / np.where(exhausted, 1.0, free))
        prob = np.where(explicit, d / scale[history], backoff[history] * lower)
        probs.append(prob)
        backoffs.append(backoff)
    backoffs.append(np.ones(len(prob)))
    return NGram(vocab_size, eos, _tables(grams, probs, backoffs, discounted, vocab_size))


def _leave_rest(discounted: NDArray, total: NDArray, unseen: NDArray) -> NDArray:
    """Increase total counts by one until `MIN_REST` of probability is left for unseen words."""
    while np.any(short := unseen & (discounted > 0) & (discounted > total * (1 - MIN_REST))):
        total = total + short
    return total


def _unigrams(counts: NDArray[np.int64], discounted: NDArray[np.float64], vocab_size: int) -> NDArray:
    """Return P(w) for all words, and 0 for `<s>`."""
    d = discounted[:vocab_size]
    unseen = np.array(np.any(counts[:vocab_size] == 0))
    prob = d / _leave_rest(np.array(np.sum(d)), np.array(np.sum(counts)), unseen)
    rest, without = 1 - np.sum(prob), prob == 0
    prob = np.where(without, rest / np.sum(without), prob) if np.any(without) else prob + rest / vocab_size
    return np.append(prob, 0.0)


def _tables(
    grams: Sequence[Grams],
    probs: Sequence[NDArray],
    backoffs: Sequence[NDArray],
    discounted: Sequence[NDArray[np.float64]],
    vocab_size: int,
) -> tuple[Table, ...]:
    """Keep n-grams with a probability of their own and histories of kept ones; renumber them, take logarithms."""
    kept = [d > 0 for d in discounted]
    kept[0][:] = True
    for shorter, longer, table in zip(kept[-2::-1], kept[:0:-1], grams[:0:-1], strict=True):
        shorter[table.prefix[longer]] = True
    tables = []
    new_id = np.zeros(1, np.int64)
    for table, prob, backoff, keep in zip(grams, probs, backoffs, kept, strict=True):
        keys = new_id[table.prefix[keep]] * (vocab_size + 1) + table.word[keep]
        new_id = np.cumsum(keep) - 1
        tables.append(Table(keys, log(prob[keep]), log(backoff[keep])))
    return tuple(tables)
