"""The statistics of `compare`: the test, intervals of ratios, and what a change of the machine explains."""

import numpy as np
import pytest

from benchmarks.measurement import comparison


def test_the_test_is_exact_for_few_samples() -> None:
    a, b = np.arange(10.0), np.arange(10.0) + 20
    assert comparison._p(a, b) == pytest.approx(2 / 184756)
    assert comparison._p(a, a) > 0.99
    assert comparison._p(np.ones(10), np.ones(10)) == 1.0
    never = np.full(8, np.inf)
    assert comparison._p(np.arange(8.0), never) == pytest.approx(2 / 12870)
    ranks = [1.0, 3.0, 3.0], [3.0, 5.0, 6.0]  # 3 of 20 divisions have so low a sum
    assert comparison._p(*map(np.array, ranks)) == pytest.approx(2 * 3 / 20)


def test_an_interval_holds_the_true_ratio_as_often_as_it_says() -> None:
    draws = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        a, b = draws.normal(1, 0.02, 10), draws.normal(1.1, 0.02, 10)
        low, high = comparison._interval(comparison._ratios(a, b))
        held += low <= 1.1 <= high
    assert held >= 0.88 * 200, "ten samples are few: the bootstrap of medians holds a little less than 95 %"
    assert comparison._interval(np.linspace(0, 1, 2001)) == pytest.approx([0.025, 0.975])


def test_a_target_that_both_missed_has_an_interval() -> None:
    never = np.full(10, np.inf)
    assert comparison._interval(comparison._ratios(never, never)) == [1.0, 1.0]


def test_a_limit_that_varies_explains_more_than_one_that_does_not() -> None:
    steady, unsteady = np.full(10, 1.5), np.array([1.0, 2.0] * 5)  # of one median
    for samples, most in ((steady, comparison.LEAST), (unsteady, 2 * comparison.LEAST)):
        limit = comparison.Measurement(("lbl", "limits of the device", "copy", "10⁹/s"), samples, True)
        low, high = comparison.explained([(limit, limit)], together=False)
        assert 1 / most <= low
        assert high <= most
        assert (high > 1.2) == (samples is unsteady)


def test_what_explains_a_speed_is_the_change_of_its_limit_and_of_a_time_the_inverse() -> None:
    shares, made = np.linspace(0.4, 0.6, 9), []
    for limit in (1.0, 1.5):
        rate = comparison.Measurement(("lbl", "words/s"), limit * shares, True, {}, "", ("copy",), shares)
        made.append([rate, rate._replace(place=("lbl", "s"), samples=1 / rate.samples, rate=False)])
    of_rate, of_time = comparison.judged(list(zip(*made, strict=True)), [])
    assert of_rate["explained"] == pytest.approx([1 / comparison.BOUND, 1.5 * comparison.BOUND])
    assert of_time["explained"] == pytest.approx([1 / end for end in of_rate["explained"][::-1]])
    assert of_rate["verdict"] == of_time["verdict"] == comparison.SAME
