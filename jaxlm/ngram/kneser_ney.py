"""Modified Kneser-Ney smoothing, interpolated (as in KenLM) or with back-off (as in SRILM)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jaxfit.caller import warn
from jaxfit.recipe import option
from jaxlm.contract import LanguageModel
from jaxlm.ngram import back_off
from jaxlm.ngram.counts import Grams, continuation_counts, count, counts_of_counts
from jaxlm.ngram.model import CAPABILITIES, NGram, OrderConfig, Table, by_counting, log

FALLBACK = (0.5, 1.0, 1.5)  # discounts of KenLM's `lmplz --discount_fallback`


def train(
    ids: NDArray[np.int32],
    vocab_size: int,
    eos: int,
    order: int,
    interpolated: bool = True,
    expected: Collection[int] = (),
) -> NGram:
    """Estimate a modified Kneser-Ney model (Chen and Goodman 1998, Section 4.1.6, Eq. 26).

    With the counts a of `counts.continuation_counts`, the discounts D of `discounts`, and h' the history h without
    its oldest word, the interpolated model is that of KenLM's `lmplz`:

        P(w | h) = (a(h w) - D(a(h w))) / sum_v a(h v) + gamma(h) P(w | h')
        gamma(h) = sum_{v: a(h v) > 0} D(a(h v)) / sum_v a(h v)

    where unigrams are interpolated with 1 / N_w. The other is that of SRILM's `ngram-count -kndiscount`: the second
    term is used only for words not seen after h, with weights by which probabilities sum to one, and n-grams of
    order 3 or more with a(h w) = 1 are left out. A word without counts, such as `<unk>` in an open vocabulary, has a
    share of what the unigrams leave. Errors are those of `counts.count`, and so are arguments without a description.

    If the discounts of an order are undefined, as on small or truncated data, they are 0.5, 1 and 1.5.

    Differs: KenLM always adds `<unk>` to the vocabulary; here the vocabulary has it only if it is given.

    Args:
        interpolated: whether it is the first model.
        expected: orders whose discounts may be undefined without a warning.

    Warns:
        UserWarning: if discounts are undefined; it says what is used instead.
    """
    grams = count(ids, vocab_size, eos, order)
    counts = continuation_counts(grams, vocab_size)
    found = [discounts(a) for a in counts]
    undefined = [k for k, d in enumerate(found, start=1) if d is None and k not in expected]
    if undefined:
        warn(
            f"Kneser-Ney: the numbers of {'-, '.join(map(str, undefined))}-grams that occur one to four times give no "
            f"discounts: {', '.join(map(str, FALLBACK))} are used, as is usual for small texts"
        )
    amounts: list[NDArray[np.float64]] = []
    for a, d in zip(counts, found, strict=True):
        amounts.append((np.array([0.0, *FALLBACK]) if d is None else d)[np.minimum(a, 3)])
    if interpolated:
        return _interpolate(grams, counts, amounts, vocab_size, eos)
    discounted = [a - amount for a, amount in zip(counts, amounts, strict=True)]
    return back_off.estimate(grams, counts, discounted, vocab_size, eos)


def discounts(counts: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Return D(0) = 0, D_1, D_2 and D_3+, the discounts of counts of 0, 1, 2, and 3 or more.

        Y = n_1 / (n_1 + 2 n_2),   D_r = r - (r + 1) Y n_{r+1} / n_r    (Chen and Goodman 1998, Eq. 26)

    None if one of n_1..n_4 is zero or a discount is not positive.
    """
    n = counts_of_counts(counts, 4)
    if np.all(n[1:] > 0):
        r = np.arange(1, 4)
        d = r - (r + 1) * n[1] / (n[1] + 2 * n[2]) * n[r + 1] / n[r]
        if np.all(d > 0):
            return np.concatenate([[0.0], d])
    return None


def _interpolate(
    grams: Sequence[Grams],
    counts: Sequence[NDArray[np.int64]],
    amounts: Sequence[NDArray[np.float64]],
    vocab_size: int,
    eos: int,
) -> NGram:
    a, amount = counts[0], amounts[0]
    prob = (a - amount + np.sum(amount) / vocab_size) / np.sum(a)
    prob[vocab_size] = 0  # <s> is not a word
    tables = []
    for shorter, table, a, amount in zip(grams, grams[1:], counts[1:], amounts[1:], strict=False):
        num_histories = len(prob)
        total = np.bincount(table.prefix, a, num_histories)
        taken = np.bincount(table.prefix, amount, num_histories)
        gamma = np.divide(taken, total, out=np.ones(num_histories), where=total > 0)
        tables.append(Table(shorter.keys, log(prob), np.log(gamma)))
        prob = (a - amount) / total[table.prefix] + gamma[table.prefix] * prob[table.suffix]
    tables.append(Table(grams[-1].keys, log(prob), np.zeros(len(prob))))
    return NGram(vocab_size, eos, tuple(tables))


@dataclass(frozen=True)
class Config(OrderConfig):
    """What shapes the model."""

    interpolated: bool = option(
        True,
        "mix all orders",
        opposite="backoff",
        opposite_help="use lower orders for unseen n-grams only",
    )


MODEL = LanguageModel(
    name="kn",
    about="modified Kneser-Ney n-grams",
    source="Chen and Goodman 1998; Mnih 2010, §3.4.1",
    config=Config,
    fitting=by_counting(
        lambda ids, num_words, eos, config: train(ids, num_words, eos, config.order, config.interpolated)
    ),
    capabilities=CAPABILITIES,
)
