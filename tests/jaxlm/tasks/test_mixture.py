"""Mixtures against closed forms, brute-force grids and the derivation of Eq. 4.8 written out."""

import math

import numpy as np
import pytest

from jaxlm.tasks import mixture


def two_models(seed, events=500, shift=0.0):
    rng = np.random.default_rng(seed)
    return np.log(rng.beta(1, 9, events)), np.log(rng.beta(1, 9, events)) - shift


def test_mix_is_equation_3_26():
    x, y = two_models(0)
    for weight in (0.0, 0.3, 0.5, 1.0):
        expected = np.log(weight * np.exp(x) + (1 - weight) * np.exp(y))
        np.testing.assert_allclose(mixture.mix(x, y, weight), expected, rtol=1e-12)


def test_mix_survives_probabilities_that_underflow():
    assert mixture.mix([-2000.0], [-2001.0]) == pytest.approx(-2000 + math.log((1 + math.exp(-1)) / 2))
    assert mixture.mix([-math.inf], [math.log(0.5)], 0.25) == pytest.approx(math.log(0.375))


@pytest.mark.parametrize("shift", [-0.5, 0.0, 0.3, 1.0])
def test_fitted_weight_is_the_best_of_a_fine_grid(shift):
    x, y = two_models(1, shift=shift)
    fitted = mixture.fit_weight(x, y)
    grid = np.linspace(0, 1, 2001)
    best = grid[np.argmax([mixture.mix(x, y, a).sum() for a in grid])]
    assert abs(fitted - best) <= 1 / 2000
    assert mixture.mix(x, y, fitted).sum() >= max(mixture.mix(x, y, a).sum() for a in grid) - 1e-9


def test_fitted_weight_in_closed_form():
    # n events where only the first model has probability p, m where only the second has: α = n / (n + m)
    x = np.log([0.2] * 30 + [1e-300] * 10)
    y = np.log([1e-300] * 30 + [0.4] * 10)
    assert mixture.fit_weight(x, y) == pytest.approx(0.75, abs=1e-12)
    assert mixture.slope(x, y, 0.75) == pytest.approx(0, abs=1e-9)


def test_fitted_weight_at_the_bounds_and_of_equal_models():
    x, _ = two_models(2)
    assert mixture.fit_weight(x, x - 0.1) == 1.0
    assert mixture.fit_weight(x - 0.1, x) == 0.0
    assert mixture.fit_weight(x, x) == 0.5


def test_fitted_weight_survives_zero_probabilities():
    x = np.array([-math.inf, -1.0, -math.inf, -1.0])
    y = np.array([-1.0, -math.inf, -math.inf, -1.0])
    assert mixture.fit_weight(x, y) == pytest.approx(0.5, abs=1e-12)


def test_slope_is_the_derivative():
    x, y = two_models(3)
    h = 1e-6
    for weight in (0.2, 0.7):
        difference = mixture.mix(x, y, weight + h).sum() - mixture.mix(x, y, weight - h).sum()
        assert mixture.slope(x, y, weight) == pytest.approx(difference / (2 * h), rel=1e-6)


def test_a_mixture_of_many_is_the_weighted_sum_of_probabilities():
    values, weights = np.stack([*two_models(8), two_models(9)[0]]), [0.5, 0.0, 0.5]
    np.testing.assert_allclose(np.exp(mixture.mix_all(values, weights)), weights @ np.exp(values), rtol=1e-12)
    np.testing.assert_allclose(mixture.mix_all(values[:2], [0.3, 0.7]), mixture.mix(*values[:2], 0.3), rtol=1e-12)


def test_fitted_weights_in_closed_form():
    """Where each event has a probability under one model alone, a weight is that model's share of the events."""
    owner = np.repeat([0, 1, 2], [50, 30, 20])
    values = np.where(owner == np.arange(3)[:, None], np.log([[0.2], [0.6], [0.01]]), -np.inf)
    np.testing.assert_allclose(mixture.fit_weights(values), [0.5, 0.3, 0.2], atol=1e-8)


def test_models_that_cannot_explain_any_event_have_equal_weights():
    np.testing.assert_allclose(mixture.fit_weights([[-math.inf], [-math.inf], [-math.inf]]), 1 / 3)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        mixture.mix([0.0], [0.0], 1.5)
    with pytest.raises(ValueError, match="different events"):
        mixture.mix([0.0], [0.0, 0.0])


def test_bias_and_variance_are_equations_4_8_to_4_10():
    p = np.random.default_rng(4).beta(1, 5, (8, 300))
    bias, variance = mixture.bias_variance(np.log(p))
    arithmetic, geometric = p.mean(axis=0), np.prod(p, axis=0) ** (1 / 8)
    assert bias == pytest.approx(-np.log(arithmetic).mean(), rel=1e-12)
    assert variance == pytest.approx(np.log(arithmetic / geometric).mean(), rel=1e-10)
    assert bias + variance == pytest.approx(-np.log(p).mean(), rel=1e-12)  # Eq. 4.8
    assert variance > 0


def test_equal_models_have_no_variance():
    log_p, _ = two_models(5)
    bias, variance = mixture.bias_variance([log_p] * 8)
    assert variance == pytest.approx(0, abs=1e-12)
    assert bias == pytest.approx(-log_p.mean())


def test_two_equal_weights_are_an_average():
    x, y = two_models(6)
    np.testing.assert_allclose(mixture.average([x, y]), mixture.mix(x, y, 0.5), rtol=1e-12)


def test_weights_of_two_models_are_those_of_bisection():
    x, y = np.log(np.random.default_rng(0).uniform(0.01, 1, (2, 500)))
    weights = mixture.fit_weights([x, y])
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert weights[0] == pytest.approx(mixture.fit_weight(x, y), abs=1e-2)  # flat near the maximum
    np.testing.assert_allclose(mixture.mix_all([x, y], weights), mixture.mix(x, y, weights[0]), rtol=1e-12)


def test_weights_of_three_models_are_the_best_of_a_grid():
    log_probs = np.log(np.random.default_rng(1).uniform(0.01, 1, (3, 300)) ** np.array([[1.0], [1.3], [3.0]]))
    steps = np.linspace(0, 1, 41)
    grid = [(a, b, max(0.0, 1 - a - b)) for a in steps for b in steps if a + b <= 1]
    best = max(mixture.mix_all(log_probs, weights).mean() for weights in grid)
    assert mixture.mix_all(log_probs, mixture.fit_weights(log_probs)).mean() >= best - 1e-7


def test_a_model_that_never_explains_anything_better_has_no_weight():
    log_probs = np.log(np.random.default_rng(2).uniform(0.1, 1, (2, 200)))
    weights = mixture.fit_weights([*log_probs, np.minimum(*log_probs) - 3])
    assert weights[2] < 1e-3
    with_nothing = mixture.fit_weights([log_probs[0], np.full(200, -np.inf)])
    np.testing.assert_array_equal(with_nothing, [1, 0])
