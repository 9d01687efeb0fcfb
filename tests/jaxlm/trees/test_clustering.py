"""Mixtures of two Gaussians against textbook EM on each set of words separately."""

import itertools

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from jaxlm.trees import clustering


def sets_and_members(seed: int, sizes: list[int], dimension: int):
    key_x, key_order = jax.random.split(jax.random.key(seed))
    x = np.asarray(jax.random.normal(key_x, (sum(sizes), dimension)), np.float64)
    sets = np.split(x, np.cumsum(sizes)[:-1])
    for members in sets:
        members[: len(members) // 2] += 1.5
        members -= members.mean(axis=0)
    order = np.concatenate(
        [np.asarray(jax.random.permutation(jax.random.fold_in(key_order, i), n)) for i, n in enumerate(sizes)]
    )
    return np.concatenate(sets), np.array(sizes), order


def textbook_densities(x, weight, mean, variance):
    return np.stack(
        [
            weight[k] * multivariate_normal(mean[k], variance[k] * np.eye(x.shape[1])).pdf(x).reshape(len(x))
            for k in (0, 1)
        ],
        axis=1,
    )


def textbook_step(x, weight, mean, variance, shared):
    """Return the mixture after one EM step, with the same floor on variances."""
    p = textbook_densities(x, weight, mean, variance)
    p /= p.sum(axis=1, keepdims=True)
    number = p.sum(axis=0)
    mean = (p.T @ x) / number[:, None]
    distance = np.sum((x[:, None] - mean[None]) ** 2, axis=2)
    variance = np.sum(p * distance, axis=0) / (number * x.shape[1])
    if shared:
        variance = np.full(2, np.sum(p * distance) / x.size)
    return number / len(x), mean, np.maximum(variance, clustering.RELATIVE_FLOOR * np.mean(x**2))


@pytest.mark.parametrize("shared", [False, True])
def test_em_equals_textbook_em_on_each_set(shared):
    x, sizes, order = sets_and_members(0, [5, 40, 9, 23], 3)
    square = np.sum(x**2, axis=1)
    ours = clustering.initial(x, square, sizes, order)
    bounds = list(itertools.pairwise([0, *np.cumsum(sizes)]))
    expected = []
    for a, b in bounds:
        first = order[a:b] < (b - a) // 2
        mean = np.stack([x[a:b][first].mean(axis=0), x[a:b][~first].mean(axis=0)])
        expected.append((np.array([0.5, 0.5]), mean, np.full(2, np.mean(x[a:b] ** 2))))
    for _ in range(4):
        for s, mixture in enumerate(expected):
            for found, value in zip(ours, mixture, strict=True):
                np.testing.assert_allclose(found[s], value, rtol=1e-9, atol=1e-12)
        odds = clustering.expectation(x, square, sizes, ours)
        for (a, b), mixture in zip(bounds, expected, strict=True):
            dense = textbook_densities(x[a:b], *mixture)
            np.testing.assert_allclose(odds[a:b], np.log(dense[:, 0] / dense[:, 1]), rtol=1e-8, atol=1e-8)
        ours = clustering.maximisation(x, square, sizes, odds, shared)
        expected = [textbook_step(x[a:b], *mixture, shared) for (a, b), mixture in zip(bounds, expected, strict=True)]
    steps = clustering.log_odds(x, np.arange(len(x)), sizes, order, steps=4, shared=shared)
    np.testing.assert_allclose(steps, clustering.expectation(x, square, sizes, ours), rtol=1e-9, atol=1e-9)


def test_em_never_decreases_the_likelihood():
    x, sizes, order = sets_and_members(3, [80], 2)
    square = np.sum(x**2, axis=1)
    now, likelihood = clustering.initial(x, square, sizes, order), []
    for _ in range(30):
        likelihood.append(np.log(textbook_densities(x, *(part[0] for part in now)).sum(axis=1)).sum())
        now = clustering.maximisation(x, square, sizes, clustering.expectation(x, square, sizes, now))
    assert (np.diff(likelihood) > -1e-9).all()
    assert likelihood[-1] > likelihood[0] + 5


def test_log_odds_do_not_depend_on_other_sets_or_on_blocks(monkeypatch):
    x, sizes, order = sets_and_members(5, [30, 2, 55, 3, 17], 6)
    whole = clustering.log_odds(x, np.arange(len(x)), sizes, order)
    monkeypatch.setattr(clustering, "BLOCK", 20)
    np.testing.assert_allclose(clustering.log_odds(x, np.arange(len(x)), sizes, order), whole, rtol=1e-9)
    for a, b in itertools.pairwise([0, *np.cumsum(sizes)]):
        alone = clustering.log_odds(x, np.arange(a, b), np.array([b - a]), order[a:b])
        np.testing.assert_allclose(alone, whole[a:b], rtol=1e-9)


def test_degenerate_components_stay_finite():
    x = np.concatenate([np.zeros((9, 3)), np.full((1, 3), 1e3)])
    for shift in range(10):
        order = np.roll(np.arange(10), shift)
        assert np.isfinite(clustering.log_odds(x, np.arange(10), np.array([10]), order)).all()


def test_average_features_of_unseen_words_are_the_overall_average():
    sums = np.array([[2.0, 4.0], [0.0, 0.0], [3.0, 0.0]])
    found = clustering.average_features(sums, np.array([2, 0, 3]))
    np.testing.assert_allclose(found, [[1, 2], [1, 0.8], [1, 0]])  # the second word is unseen
