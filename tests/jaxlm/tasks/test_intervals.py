"""Intervals against closed forms: Wilson's formula, and the normal limit of the bootstrap of a mean."""

import math

import numpy as np
import pytest

from jaxlm.tasks.intervals import bootstrap, of_share


@pytest.mark.parametrize(("k", "n"), [(0, 5), (3, 10), (208, 1040), (7, 7)])
def test_interval_of_a_share_is_wilsons(k, n):
    z = 1.959963984540054
    centre = (k / n + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(k / n * (1 - k / n) / n + z**2 / (4 * n**2))
    assert of_share(k, n) == pytest.approx((centre - half, centre + half), abs=1e-12)


def test_bootstrap_of_a_mean_is_near_its_normal_interval():
    values = np.random.default_rng(0).normal(3, 2, 400)
    low, high = bootstrap(lambda drawn: values[drawn].mean(axis=1), len(values))
    error = values.std() / math.sqrt(len(values))
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error)


def test_bootstrap_draws_each_unit_equally_often():
    """Of the number of times that a unit is drawn, the variance is 1 - 1/n, and the mean 1."""
    counts = []
    bootstrap(lambda drawn: counts.append((drawn == 3).sum(axis=1)) or np.zeros(len(drawn)), 50)
    counts = np.concatenate(counts)
    assert counts.mean() == pytest.approx(1, abs=5 / math.sqrt(len(counts)))
    assert counts.var() == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("units", [3, 500, 3000])
def test_bootstrap_draws_as_many_samples_of_any_number_of_units(units):
    drawn = []
    bootstrap(lambda sample: drawn.append(sample.shape) or np.zeros(len(sample)), units)
    assert sum(samples for samples, _ in drawn) == 2000
    assert {number for _, number in drawn} == {units}


def test_bootstrap_depends_on_the_seed_alone():
    def mean(drawn):
        return values[drawn].mean(axis=1)

    values = np.arange(30.0)
    assert bootstrap(mean, 30, seed=1) == bootstrap(mean, 30, seed=1)
    assert bootstrap(mean, 30, seed=1) != bootstrap(mean, 30, seed=2)


def test_samples_without_a_value_are_left_out():
    assert bootstrap(lambda drawn: np.where(drawn[:, 0] == 0, np.nan, 7.0), 3) == (7.0, 7.0)


def test_of_nothing_intervals_are_undefined():
    for interval in (of_share(0, 0), bootstrap(len, 0), bootstrap(lambda drawn: np.full(len(drawn), np.nan), 2)):
        assert all(map(math.isnan, interval))
