"""Verdicts: intervals against closed forms, their coverage, and what is answered of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.core import markdown, verdict
from benchmarks.core.verdict import ABOVE, BELOW, Claim, Comparison, Scores, estimate, judge, spread, verdicts

UNITS = 400


def alike(figure, seeded=True):
    """Return scores that are the same on each unit: resampling does not change the figure."""
    return Scores(np.full(50, figure), np.ones(50), np.asarray, seeded)


def differing(*differences, claimed=BELOW, seeded=True):
    """Return a comparison of which each seed finds one of these differences."""
    return Comparison("", [(alike(2.0 + d, seeded), alike(2.0, seeded)) for d in differences], claimed)


def answer(*comparisons):
    return judge(Claim("1.1", "it is", comparisons))["answer"]


def test_the_figure_is_of_all_units_together():
    total, count = np.array([8.0, 0.0, 10.0]), np.array([2.0, 1.0, 5.0])
    assert Scores(total, count, np.sqrt).value == 1.5
    assert Scores(total, count, np.exp).value == np.exp(2.25)


@pytest.mark.parametrize("counts", [1, 30])
def test_standard_error_of_a_mean_is_that_of_its_closed_form(counts):
    """The variance over bootstrap samples is χ²-distributed around that of a ratio of sums: p > 0.001."""
    random = np.random.default_rng(0)
    count = random.integers(1, 1 + counts, 5000).astype(float)
    total = count * random.normal(2.0, 1.0, 5000)
    scores = Scores(total, count, np.asarray)
    expected = np.sum((total - scores.value * count) ** 2) / count.sum() ** 2  # by linearisation
    found = estimate(Comparison("", [(scores,)], quantity=np.asarray))
    samples = verdict.RESAMPLES - 1
    low, high = stats.chi2.ppf([5e-4, 1 - 5e-4], samples) / samples
    assert low < found.error**2 / expected < high
    assert found.value == scores.value
    assert np.mean(scores.resampled) == pytest.approx(scores.value, abs=4 * (expected / samples) ** 0.5)


def test_without_variance_over_seeds_the_interval_is_the_bootstrap_s():
    random = np.random.default_rng(0)
    one, other = (Scores(random.normal(mean, 1.0, UNITS), np.ones(UNITS), np.asarray) for mean in (2.0, 3.0))
    error = np.std(one.resampled - other.resampled, ddof=1) * (UNITS / (UNITS - 1)) ** 0.5
    for number in (1, 3):
        found = estimate(Comparison("", [(one, other)] * number))
        assert found.freedom == pytest.approx(UNITS - 1)
        assert found.error == pytest.approx(error)
        half = stats.t.ppf(0.975, UNITS - 1) * error
        np.testing.assert_allclose(found.interval(0.95), (found.value - half, found.value + half))


def test_without_variance_on_the_test_the_interval_is_student_s_of_seeds():
    values = [0.1, 0.4, -0.2, 0.3]
    found = estimate(differing(*values))
    expected = stats.t.interval(0.9, 3, np.mean(values), stats.sem(values))
    np.testing.assert_allclose(found.interval(0.9), expected)


def test_degrees_of_freedom_are_satterthwaite_s():
    random = np.random.default_rng(0)
    units = random.normal(0.0, 1.0, UNITS)
    draws = [(Scores(units + shift, np.ones(UNITS), np.asarray),) for shift in (-0.03, 0.0, 0.06)]
    found = estimate(Comparison("", draws, quantity=np.asarray))
    of_seeds = np.var([-0.03, 0.0, 0.06], ddof=1) / 3
    of_test = UNITS / (UNITS - 1) * np.var(draws[0][0].resampled, ddof=1)  # a shift of all units is one of every sample
    assert found.error == pytest.approx((of_seeds + of_test) ** 0.5)
    # (Σ variances)² / Σ (variance² / freedom)
    assert found.freedom == pytest.approx((of_seeds + of_test) ** 2 / (of_seeds**2 / 2 + of_test**2 / (UNITS - 1)))
    half = stats.t.ppf(0.975, found.freedom) * found.error
    np.testing.assert_allclose(found.interval(0.95), (found.value - half, found.value + half))


@pytest.mark.parametrize("of_seeds", [0.0, 1.0, *(pytest.param(x, marks=pytest.mark.slow) for x in (0.3, 4.0))])
def test_intervals_cover_the_truth(of_seeds):
    """Of the RMSE of one model less that of another, for three seeds, in 300 data sets: 95 %, binomial, p > 0.01.

    of_seeds: the standard deviation over seeds, in standard errors on the test.
    """
    random = np.random.default_rng(0)
    better, covered, sets, by_user = 0.02, 0, 300, 0.2
    truth = np.sqrt(1 - better) - 1
    for _ in range(sets):
        count = random.integers(1, 20, UNITS).astype(float)
        shared = 1 + 0.5 * random.normal(size=UNITS)
        own = by_user * random.normal(size=UNITS) - better
        draws = []
        for shift in of_seeds * by_user / UNITS**0.5 * random.normal(size=3):
            pair = (shared + own + shift, shared)
            draws.append([Scores(count * errors, count, np.sqrt) for errors in pair])
        low, high = estimate(Comparison("", draws)).interval(verdict.LEVEL)
        covered += low < truth < high
    low, high = stats.binom.interval(0.99, sets, verdict.LEVEL)
    assert low <= covered <= high
    assert 0.91 < covered / sets < 0.98


@pytest.mark.parametrize("units", [5, 9])
def test_intervals_of_few_units_cover_the_truth(units):
    """As of the days of the week among frequent words: of normal units in 1,000 data sets, 95 %, binomial, p > 0.01."""
    random, sets = np.random.default_rng(0), 1000
    covered = 0
    for _ in range(sets):
        scores = Scores(random.normal(size=units), np.ones(units), np.positive)
        low, high = estimate(Comparison("", [(scores,)], quantity=np.positive)).interval(verdict.LEVEL)
        covered += low < 0 < high
    low, high = stats.binom.interval(0.99, sets, verdict.LEVEL)
    assert low <= covered <= high


def test_units_are_paired():
    """What two models have in common on each unit is not in the interval of their difference."""
    random = np.random.default_rng(0)
    shared, count = random.gamma(2.0, 1.0, 3000), np.ones(3000)
    one, other = (Scores(shared + random.normal(mean, 0.01, 3000), count, np.sqrt) for mean in (0.0, 0.01))
    paired = estimate(Comparison("", [(one, other)] * 3))
    unpaired = np.hypot(*(estimate(Comparison("", [(s,)] * 3, quantity=np.asarray)).error for s in (one, other)))
    assert paired.error < unpaired / 20
    assert answer(Comparison("", [(one, other)] * 3)) == "yes"


@pytest.mark.parametrize(
    ("differences", "claimed", "expected"),
    [
        ((-1.0, -1.1, -1.2), BELOW, "yes"),
        ((1.0, 1.1, 1.2), BELOW, "no"),
        ((1.0, 1.1, 1.2), ABOVE, "yes"),
        ((-1.0, -2.0, -3.0), BELOW, "unresolved"),  # -2 ± 2.48
        ((0.10, 0.11, 0.12), (-0.2, 0.2), "yes"),
        ((0.10, 0.11, 0.12), (-0.12, 0.12), "unresolved"),
        ((0.30, 0.31, 0.32), (-0.2, 0.2), "no"),
        ((-0.30, -0.31, -0.32), (-0.2, 0.2), "no"),
    ],
)
def test_a_claim_is_answered_by_its_interval(differences, claimed, expected):
    found = judge(Claim("1.1", "it is", [differing(*differences, claimed=claimed)]))
    assert found["answer"] == expected
    assert found["seeds"] == 3
    (figures,) = found["comparisons"]
    assert figures["value"] == pytest.approx(np.mean(differences))
    expected = stats.t.interval(0.95, 2, np.mean(differences), stats.sem(differences))
    np.testing.assert_allclose(figures["interval"], expected)
    assert figures["claimed"] == [end if np.isfinite(end) else None for end in claimed]


def test_all_comparisons_must_hold_and_one_that_does_not_answers():
    yes, no = differing(-1.0, -1.1, -1.2), differing(1.0, 1.1, 1.2)
    assert answer(yes, yes) == "yes"
    assert answer(yes, differing(-1.0, 0.0, 1.0)) == "unresolved"
    assert answer(no, differing(-1.0, 0.0, 1.0)) == answer(yes, no) == "no"


def test_no_allows_for_the_number_of_comparisons():
    """Of two, a difference must be 6.2 standard errors from zero (level 0.975), of one, 4.3; here it is 5."""
    middle = 5 / 3**0.5
    apart = differing(middle - 1, middle, middle + 1)
    assert answer(apart) == "no"
    assert answer(apart, differing(-1.0, -1.1, -1.2)) == "unresolved"
    far = 7 / 3**0.5
    assert answer(differing(far - 1, far, far + 1), differing(-1.0, -1.1, -1.2)) == "no"
    # of "yes" nothing is taken off: all must hold at once
    near = replace(apart, claimed=ABOVE)
    assert answer(near, near, near) == "yes"


def test_a_verdict_takes_three_seeds_where_there_are_any():
    sure = [-1.0, -1.1, -1.2]
    assert answer(differing(*sure[:2])) == answer(differing(*sure[:1])) == "unresolved"
    assert answer(differing(*sure), differing(-5.0)) == "unresolved"
    assert answer(differing(-1.0, seeded=False)) == "yes"
    assert answer(differing(1.0, seeded=False)) == "no"
    found = judge(Claim("1.1", "it is", [differing(-1.0, seeded=False), differing(*sure)]))
    assert (found["answer"], found["seeds"]) == ("yes", 3)
    one_of_two = Comparison("", [(alike(1.0, seeded=False), alike(2.0))])
    assert one_of_two.seeds == 1
    assert answer(one_of_two) == "unresolved"


def test_the_answer_is_the_test_s_and_validation_s_stands_beside():
    text = ("section", "A is better than B")
    holds, fails = (Claim(*text, [differing(*d)]) for d in ((-1.0, -1.1, -1.2), (1.0, 1.1, 1.2)))
    (found,) = verdicts([fails], [holds])
    assert (found["answer"], found["test"]["answer"], found["validation"]["answer"]) == ("no", "no", "yes")
    (found,) = verdicts([holds], [fails])
    assert (found["answer"], found["test"]["answer"], found["validation"]["answer"]) == ("yes", "yes", "no")
    (found,) = verdicts([], [holds])
    assert (found["answer"], found["test"], found["validation"]["answer"]) == ("unresolved", None, "yes")
    assert (found["claim"], found["section"]) == (holds.text, holds.section)


def test_claims_of_which_there_is_nothing_to_compare_are_left_out():
    nothing, holds = Claim("1", "none", []), Claim("2", "one", [differing(-1.0, -1.1, -1.2)])
    assert [found["claim"] for found in verdicts([nothing, holds], [nothing, holds])] == ["one"]


def test_a_cell_has_the_spread_over_seeds_and_the_interval_of_their_mean():
    assert spread([3.0]) == {"mean": 3.0, "sd": None, "values": [3.0]}
    assert spread([0.1, 0.1, 0.1])["sd"] == 0, "not what rounding leaves"
    assert spread([1.0, 3.0]) == {"mean": 2.0, "sd": pytest.approx(2**0.5), "values": [1.0, 3.0]}
    found = spread([alike(value) for value in (1.0, 2.0, 4.0)])
    assert found["values"] == [1.0, 2.0, 4.0]
    np.testing.assert_allclose(found["interval"], stats.t.interval(0.95, 2, 7 / 3, stats.sem([1.0, 2.0, 4.0])))
    found = spread([(alike(value), alike(1.0)) for value in (1.0, 2.0, 4.0)])
    assert found["values"] == [0.0, 1.0, 3.0]
    np.testing.assert_allclose(found["interval"], stats.t.interval(0.95, 2, 4 / 3, stats.sem([0.0, 1.0, 3.0])))


def test_a_figure_that_is_not_a_number_is_shown() -> None:
    """A ratio of two differences is one where all models predict alike."""
    nan = float("nan")
    assert markdown.shown({"value": nan, "interval": [nan, nan], "percent": False}) == "nan [nan, nan]"
    found = {"value": -1e-9, "interval": [-2e-3, 3e-3], "percent": False}
    assert markdown.shown(found) == "0.0000 [-0.0020, 0.0030]"
    assert markdown.shown({"value": 0.158, "interval": [0.131, 0.185], "percent": True}) == "15.8 [13.1, 18.5] %"
