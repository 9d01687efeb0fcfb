"""Katz back-off with Good-Turing discounting, by SRILM's rules."""

import numpy as np
from numpy.typing import NDArray

from jaxfit.caller import warn
from jaxlm.contract import LanguageModel
from jaxlm.ngram import back_off
from jaxlm.ngram.counts import count, counts_of_counts
from jaxlm.ngram.model import CAPABILITIES, NGram, OrderConfig, by_counting

GT_MAX = 7  # highest discounted count


def train(ids: NDArray[np.int32], vocab_size: int, eos: int, order: int) -> NGram:
    """Estimate a Good-Turing back-off model: SRILM's `ngram-count -order n` without further options.

    An n-gram seen r times counts as d_r r times, with d_r of `discounts` for r up to 7 and d_r = 1 above; unigrams
    are not discounted. Trigrams and longer n-grams seen once are left out, and their counts go to the back-off
    (`back_off.estimate`). A word without counts, such as `<unk>` in an open vocabulary, has a share of what the
    unigrams leave.

    Arguments and errors are those of `counts.count`.

    Source: Katz 1987; SRILM (Stolcke 2002), as used in Mnih 2010, Section 3.4.1.

    Warns:
        UserWarning: if a discount is undefined; it says what is used instead.
    """
    grams = count(ids, vocab_size, eos, order)
    counts = [table.counts for table in grams]
    discounted = [counts[0].astype(np.float64)]
    for k, c in enumerate(counts[1:], start=2):
        d = discounts(c, f"{k}-grams")
        discounted.append(np.append(d, 1.0)[np.minimum(c, len(d))] * c)
    return back_off.estimate(grams, counts, discounted, vocab_size, eos)


def discounts(counts: NDArray[np.int64], name: str) -> NDArray[np.float64]:
    """Return the discounts d_r for r = 0..K, where K is the highest count that is discounted.

        d_r = ((r + 1) n_{r+1} / (r n_r) - A) / (1 - A),   A = (K + 1) n_{K+1} / n_1

    The fallbacks are SRILM's, each with a warning: K decreases from 7 while n_{K+1} = 0; without singletons nothing
    is discounted (K = 0); d_r = 1 if n_r = 0, if the formula gives less than 3e-6, or if
    (r + 1) n_{r+1} / (r n_r) > 1.

    Differs: d_r = 1 also if the formula gives more than 1, as where A > 1 (few singletons). SRILM keeps such values,
    which raise counts, and the sum of a history's probabilities above one.
    """
    n = counts_of_counts(counts, GT_MAX + 1)
    if n[1] == 0:
        _warn(f"none of the {name} occurs exactly once: they are not discounted")
        return np.ones(1)
    highest = max((k for k in range(1, GT_MAX + 1) if n[k + 1] > 0), default=0)
    if highest == 0:
        _warn(f"none of the {name} occurs exactly twice: they are not discounted")
        return np.ones(1)
    if highest < GT_MAX:
        _warn(f"none of the {name} occurs {highest + 2} times: counts up to {highest} are discounted")
    r = np.arange(1, highest + 1)
    r_n = r * n[r]
    ratio = np.divide((r + 1) * n[r + 1], r_n, out=np.full(highest, np.inf), where=r_n > 0)
    common = (highest + 1) * n[highest + 1] / n[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        d = (ratio - common) / (1 - common)
    defined = np.isfinite(d) & (d > back_off.MIN_REST) & (d <= 1) & (ratio <= 1)
    if not np.all(defined):
        which = ", ".join(map(str, r[~defined]))
        _warn(f"the discount of {name} that occur {which} times is undefined: these are not discounted")
    return np.concatenate([[1.0], np.where(defined, d, 1.0)])


def _warn(message: str) -> None:
    warn(f"Good-Turing: {message}")


MODEL = LanguageModel(
    name="gt",
    about="Good-Turing (Katz) back-off n-grams",
    source="Katz 1987; Mnih 2010, §3.4.1",
    config=OrderConfig,
    fitting=by_counting(lambda ids, num_words, eos, config: train(ids, num_words, eos, config.order)),
    capabilities=CAPABILITIES,
)
