"""Mixtures of two Gaussians, fitted by EM to many sets of word feature vectors at once (Mnih 2010, §4.4).

All sets of one level of the tree are concatenated: rows `x[start_s : start_s + size_s]` are set s, and sums over sets
are segment sums. NumPy in float64 is used rather than JAX: clustering runs once per model, each level has other shapes
and would be compiled again, and in single precision close decisions would depend on rounding.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

STEPS = 10  # as in the thesis
RELATIVE_FLOOR = 1e-2  # minimum variance of a component, relative to that of its set
ABSOLUTE_FLOOR = 1e-12  # minimum variance, for sets of equal vectors; the variance over all words is 1
BLOCK = 4096  # rows that are fitted at a time, few enough for a processor's cache


class Mixture(NamedTuple):
    """The two components π_k N(μ_k, σ²_k I) of each of S sets."""

    weight: Floats  # π: [S, 2]
    mean: Floats  # μ: [S, 2, D]
    variance: Floats  # σ²: [S, 2]


def average_features(sums: NDArray[np.floating], counts: Ints) -> Floats:
    """Return each word's average predicted feature vector, E[r̂ | next word = w] (Mnih 2010, §4.4).

    A word that is never a target gets the average over all contexts (the thesis is silent).

    Args:
        sums: [N_w, D], for each word the sum of r̂ (Eq. 4.1) over the training contexts that it follows.
        counts: [N_w], the number of these contexts.
    """
    seen = np.asarray(counts)[:, None]
    overall = np.sum(sums, axis=0, dtype=np.float64) / max(int(seen.sum()), 1)
    return np.where(seen > 0, sums / np.maximum(seen, 1), overall)


def log_odds(
    features: NDArray[np.floating], words: Ints, sizes: Ints, order: Ints, steps: int = STEPS, shared: bool = False
) -> Floats:
    """Return log(p_1 / p_2) of each member of each set, where p_k is component k's responsibility after EM.

    Log-odds are returned since responsibilities round to 0 and 1 with 100 features.

    Source: Mnih 2010, §4.4. Where the thesis is silent: the initial variances are the set's own, the initial mixing
    weights are one half, and no variance falls below a hundredth of the set's own.

    Args:
        features: [N_w, D].
        words: [M], the members of all sets, concatenated.
        sizes: [S], the sizes of the sets.
        order: [M], a random permutation of each set, as ranks from 0: the initial mean of component 1 is that of the
            first half, of component 2 that of the rest.
        steps: of EM.
        shared: whether the components have one variance, so that the boundary between them is linear.
    """
    result = np.empty(len(words))
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        begin = ends[first] - sizes[first]
        last = max(first + 1, int(np.searchsorted(ends, begin + BLOCK, side="right")))
        rows = slice(begin, ends[last - 1])
        result[rows] = _fit(features[words[rows]].astype(np.float64), sizes[first:last], order[rows], steps, shared)
        first = last
    return result


def _fit(x: Floats, sizes: Ints, order: Ints, steps: int, shared: bool) -> Floats:
    x -= spread(segment_sum(x, sizes) / sizes[:, None], sizes)
    square = np.einsum("md,md->m", x, x)
    mixture = initial(x, square, sizes, order)
    for _ in range(steps):
        mixture = maximisation(x, square, sizes, expectation(x, square, sizes, mixture), shared)
    return expectation(x, square, sizes, mixture)


def initial(x: Floats, square: Floats, sizes: Ints, order: Ints) -> Mixture:
    """Return components with the means of the halves of a random partition, and equal weights and variances."""
    in_first = np.where(order < spread(sizes // 2, sizes), np.inf, -np.inf)
    halves = maximisation(x, square, sizes, in_first)
    variance = np.maximum(segment_sum(square, sizes) / (sizes * x.shape[1]), ABSOLUTE_FLOOR)
    return Mixture(np.full_like(halves.weight, 0.5), halves.mean, np.stack([variance, variance], axis=1))


def expectation(x: Floats, square: Floats, sizes: Ints, mixture: Mixture) -> Floats:
    """Return log(p_1 / p_2) [M] under the mixture of each member's set.

    log(p_1 / p_2) = Σ_k ±(log π_k - D/2 log σ²_k - |x - μ_k|² / 2σ²_k), which is linear in x and |x|²: one product
    with one vector per set suffices for both components.

    Args:
        square: [M], |x|².
    """
    weight, mean, variance = mixture
    constant = np.log(weight) - x.shape[1] / 2 * np.log(variance) - np.sum(mean**2, axis=2) / (2 * variance)
    slope = mean / variance[:, :, None]
    along = np.einsum("md,md->m", x, spread(slope[:, 0] - slope[:, 1], sizes))
    curvature = (1 / variance[:, 1] - 1 / variance[:, 0]) / 2
    return along + spread(constant[:, 0] - constant[:, 1], sizes) + spread(curvature, sizes) * square


def maximisation(x: Floats, square: Floats, sizes: Ints, odds: Floats, shared: bool = False) -> Mixture:
    """Return the mixture that maximises the expected log-likelihood.

    Each set of x must have mean zero: the sum of component 2 is then minus that of component 1, and variances are
    E|x|² - |μ|² without cancellation. A component without members keeps a tiny positive weight.

    Args:
        odds: responsibilities as log-odds, [M].
        shared: of the mixtures whose components have one variance.
    """
    half = np.tanh(odds / 2) / 2
    p = np.stack([0.5 + half, 0.5 - half], axis=1)
    number = np.maximum(segment_sum(p, sizes), 1e-10)
    total = _weighted_sum(p[:, 0], x, sizes)
    mean = np.stack([total, -total], axis=1) / number[:, :, None]
    about_zero = segment_sum(p * square[:, None], sizes)
    variance = (about_zero / number - np.sum(mean**2, axis=2)) / x.shape[1]
    if shared:
        variance[:] = (np.sum(number * variance, axis=1) / np.sum(number, axis=1))[:, None]
    whole = about_zero.sum(axis=1, keepdims=True) / (sizes[:, None] * x.shape[1])
    floor = np.maximum(RELATIVE_FLOOR * whole, ABSOLUTE_FLOOR)
    return Mixture(number / sizes[:, None], mean, np.maximum(variance, floor))


def _weighted_sum(p: Floats, x: Floats, sizes: Ints) -> Floats:
    if len(sizes) == 1:  # the root of a large vocabulary, without a second array of its size
        return np.einsum("m,md->d", p, x)[None]
    return segment_sum(p[:, None] * x, sizes)


def segment_sum(values: Floats, sizes: Ints) -> Floats:
    """Sum over the members of each set, none of which is empty: [M, …] -> [S, …]."""
    return np.add.reduceat(values, np.cumsum(sizes) - sizes, axis=0)


def spread(values: NDArray, sizes: Ints) -> NDArray:
    """Repeat the value of each set for each of its members: [S, …] -> [M, …]."""
    if len(sizes) == 1:  # avoids a copy for every word of a large vocabulary
        return np.broadcast_to(values, (sizes[0], *values.shape[1:]))
    return np.repeat(values, sizes, axis=0)
