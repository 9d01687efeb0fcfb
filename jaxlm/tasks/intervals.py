"""Confidence intervals of 95 % for what is measured on a sample: of a share, and of any statistic by the bootstrap."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
BLOCK = 1 << 20  # drawn units at a time

Interval = tuple[float, float]
UNDEFINED = (math.nan, math.nan)


def of_share(successes: int, trials: int) -> Interval:
    """Return Wilson's interval of a probability, from independent trials; NaN without trials."""
    if trials == 0:
        return UNDEFINED
    from scipy.stats import binomtest  # here, as it takes a while, and most commands do without it

    found = binomtest(successes, trials).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def bootstrap(statistic: Callable[[NDArray[np.int64]], NDArray[np.float64]], units: int, seed: int = 0) -> Interval:
    """Return the percentile interval of a statistic over units that are drawn with replacement (the bootstrap).

    Args:
        statistic: (drawn units: int64 [n, units], 0 to units - 1) -> its value for each of n samples, float64 [n]; NaN
            where it is undefined; these samples are left out.
        units: their number; if it is 0, the interval is NaN.
        seed: of the draws.
    """
    if units == 0:
        return UNDEFINED
    draws, values = np.random.default_rng(seed), []
    size = max(1, BLOCK // units)
    for first in range(0, RESAMPLES, size):
        values.append(statistic(draws.integers(units, size=(min(size, RESAMPLES - first), units))))
    found = np.concatenate(values)
    found = found[~np.isnan(found)]
    if len(found) == 0:
        return UNDEFINED
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)
