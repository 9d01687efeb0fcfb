"""Mixtures of models, made from the log-probabilities that each gives to the same events.

Source: Mnih 2010, §3.4.2 (Eq. 3.26: two models and their weight; here also of more), §4.6.6 (Eq. 4.8-4.10: bias and
variance).
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
STEPS = 60  # halvings of [0, 1]: to the last bit of a float64
UPDATES, TOLERANCE = 10_000, 1e-9  # of EM, which stops when no weights are better by more nats an event


def mix(first: ArrayLike, second: ArrayLike, weight: float = 0.5) -> Floats:
    """Compute log P_mix = log(α P_first + (1 - α) P_second) (Eq. 3.26), in nats, event by event.

    Args:
        weight: α.

    Raises:
        ValueError: the weight is outside [0, 1], or the numbers of events differ.
    """
    x, y = _pair(first, second)
    if not 0 <= weight <= 1:
        raise ValueError(f"a mixing weight lies between 0 and 1, not {weight}")
    if weight in (0, 1):
        return x.copy() if weight else y.copy()
    return np.logaddexp(math.log(weight) + x, math.log1p(-weight) + y)


def slope(first: ArrayLike, second: ArrayLike, weight: float) -> float:
    """Compute d/dα Σ log(α P + (1 - α) Q) = Σ (P - Q) / (α P + (1 - α) Q), without events where P = Q = 0.

    It does not increase with α, since the log-likelihood is concave.

    Args:
        first: log P of each event, [events], nats.
        second: log Q, likewise.
        weight: α.
    """
    x, y = _pair(first, second)
    with np.errstate(invalid="ignore"):
        ratio = x - y  # of two zero probabilities: nan
    ratio = ratio[~np.isnan(ratio)]
    small = np.exp(-np.abs(ratio))  # the smaller probability as a share of the larger
    above, below = small[ratio > 0], small[ratio <= 0]
    with np.errstate(divide="ignore"):
        gains = (1 - above) / (weight + (1 - weight) * above)
        losses = (1 - below) / (weight * below + 1 - weight)
    losses[below == 1] = 0.0  # equal probabilities, also at the weight 1
    return float(gains.sum() - losses.sum())


def fit_weight(first: ArrayLike, second: ArrayLike) -> float:
    """Return the weight α in [0, 1] of the first model that maximises the mixture's likelihood, by bisection (§3.4.2).

    It is 0.5 if the two models agree on every event.

    Args:
        first: log-probability of each event under the first model, [events], nats.
        second: the same under the second model.
    """
    x, y = _pair(first, second)
    if np.array_equal(x, y):
        return 0.5
    if slope(x, y, 0.0) <= 0:
        return 0.0
    if slope(x, y, 1.0) >= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(x, y, middle) > 0 else (low, middle)
    return (low + high) / 2


def mix_all(log_probs: ArrayLike, weights: ArrayLike) -> Floats:
    """Compute log Σ_i α_i P_i of N models: [events], in nats.

    Args:
        log_probs: [N, events], the models' log-probabilities.
        weights: α, [N].
    """
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(weights, np.float64))[:, None]
    return np.logaddexp.reduce(logs + np.asarray(log_probs, np.float64), axis=0)


def fit_weights(log_probs: ArrayLike) -> Floats:
    """Return the weights [N] of N models' mixture that maximise its likelihood.

    Expectation maximisation begins with equal weights; in each step a weight becomes its model's mean share of the
    events' mixture probabilities. As the log-likelihood is concave, no weights are better by more than
    max_i mean_t P_i / P_mix - 1 nats per event; it ends when this is small. Events to which all models give probability
    0 are left out. Source: Jelinek and Mercer 1980.

    Args:
        log_probs: [N, events], in nats.
    """
    values = np.asarray(log_probs, np.float64)
    weights = np.full(len(values), 1 / len(values))
    best = values.max(axis=0)
    likelihoods = np.exp(values[:, np.isfinite(best)] - best[np.isfinite(best)])
    for _ in range(UPDATES if likelihoods.size else 0):
        gains = (likelihoods / (weights @ likelihoods)).mean(axis=1)  # of P_i over that of the mixture
        if gains.max() - 1 < TOLERANCE:
            break
        weights = weights * gains
    return weights / weights.sum()


def average(log_probs: ArrayLike) -> Floats:
    """Compute log(1/N Σ_i P_i) of N models' log-probabilities [N, events]: [events], in nats."""
    values = np.asarray(log_probs, np.float64)
    return mix_all(values, np.full(len(values), 1 / len(values)))


def bias_variance(log_probs: ArrayLike) -> tuple[float, float]:
    """Return bias and variance (Eq. 4.9, 4.10) of N models' log-probabilities of the same text, [N, events].

    They are parts of the expected -log P, in nats per event: bias + variance = E[-log P_i] (Eq. 4.8). exp(bias) is the
    perplexity of the average of the models' predictions.
    """
    values = np.asarray(log_probs, np.float64)
    combined = average(values)
    return float(-combined.mean()), float((combined - values.mean(axis=0)).mean())


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"the models score different events: {x.shape} and {y.shape}")
    return x, y
