"""The cache model: words that have occurred lately are likely to occur again.

    P(w | history) = λ P_cache(w) + (1 - λ) P_unigram(w),
    P_cache(w) = Σ_{d: w_{i-d} = w} e^{-αd} / Σ_d e^{-αd},   d = 1..N

The cache has the last N words and line ends before w_i, or fewer at the beginning of the text, or of a line if each
line is scored without history; while it is empty, P is P_unigram. With α = 0 all of them count alike (Kuhn and De Mori
1990), with α > 0 the later ones count more (Clarkson and Robinson 1997). The model is made to be mixed with others.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxfit.recipe import option
from jaxlm.capabilities import PredictsWords
from jaxlm.contract import LanguageModel
from jaxlm.ngram import unigram
from jaxlm.ngram.model import by_counting

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Config:
    """What shapes the model; the defaults of α and λ are for mixtures with n-grams."""

    window: int = option(2000, "N, length of the cache", "words and line ends", first=True)
    decay: float = option(
        0.005, "α: a word's weight falls by the factor exp(-α) with each later one; 0: all alike", high=1, first=True
    )
    cache_weight: float = option(0.9, "λ, share of the cache", below=1, first=True)


def cache_probs(ids: NDArray[np.int32], fresh: NDArray[np.bool_], config: Config) -> tuple[Floats, NDArray[np.bool_]]:
    """Return P_cache of each event given those before it (0 if the cache is empty), and if it is empty: both [events].

    Args:
        ids: int32 [events], at least one.
        fresh: bool [events], true where a new cache begins; true for the first event.
    """
    time = np.arange(len(ids))
    length = np.minimum(time - np.maximum.accumulate(np.where(fresh, time, 0)), config.window)
    total = np.cumsum(_weights(np.arange(1, np.max(length) + 1), config))

    # Sorted by word, and then by time. A run: the occurrences of a word in one cache, if it had no end.
    order = np.argsort(ids, kind="stable")
    word, cache = ids[order], np.cumsum(fresh)[order]
    new_run = np.append(True, (word[1:] != word[:-1]) | (cache[1:] != cache[:-1]))
    run, t = np.cumsum(new_run), order
    # W_k = Σ_{j<k} e^{-α (t_k - t_j)} = e^{-α (t_k - t_{k-1})} (W_{k-1} + 1), over the earlier occurrences in the run
    factor = np.where(new_run, 0.0, _weights(np.maximum(np.diff(t, prepend=0), 0), config))
    weight = np.fromiter(accumulate(factor.tolist(), lambda w, a: a * (w + 1)), np.float64, len(ids))
    # those up to l, the last one that has left the cache, have e^{-α (t_k - t_l)} (W_l + 1) of it
    keys = run * len(ids) + t
    last = np.searchsorted(keys, keys - np.minimum(config.window, t)) - 1
    left = np.flatnonzero((last >= 0) & (run[last] == run))
    last = last[left]
    within = weight.copy()
    within[left] -= _weights(t[left] - t[last], config) * (weight[last] + 1)

    probs = np.zeros(len(ids))
    probs[order] = np.maximum(within, 0)  # rounding may have left less than nothing
    filled = length > 0
    probs[filled] /= total[length[filled] - 1]
    return probs, ~filled


def _weights(distances: NDArray[np.int64], config: Config) -> Floats:
    return np.exp(-config.decay * distances)


def _mixed(share: Any, cache: Floats, unigrams: Floats) -> Floats:
    """Return the logarithm of the mixture, where `share` is the weight of the cache."""
    return np.log(share * cache + (1 - share) * np.exp(unigrams))


def _log_prob(trained: Any, history: np.ndarray) -> np.ndarray:
    config, unigrams = trained.config, trained.params.log_prob([])
    latest = history[::-1][: config.window]
    if len(latest) == 0:
        return unigrams
    weights = _weights(np.arange(1, len(latest) + 1), config)
    cache = np.bincount(latest, weights, len(unigrams)) / np.sum(weights)
    return _mixed(config.cache_weight, cache, unigrams)


def _event_log_probs(trained: Any, ids: np.ndarray, fresh_lines: bool) -> np.ndarray:
    unigrams = trained.params.event_log_probs(ids)
    if len(ids) == 0:
        return unigrams
    fresh = np.append(True, fresh_lines & (ids[:-1] == trained.params.eos))
    cache, empty = cache_probs(ids, fresh, trained.config)
    return _mixed(np.where(empty, 0.0, trained.config.cache_weight), cache, unigrams)


MODEL = LanguageModel(
    name="cache",
    about="a cache of the last words, with unigrams, for mixtures",
    source="Kuhn and De Mori 1990; Clarkson and Robinson 1997",
    config=Config,
    fitting=by_counting(lambda ids, num_words, eos, config: unigram.train(ids, num_words, eos)),
    capabilities=(PredictsWords(_log_prob, _event_log_probs),),
)
