"""The search for settings: what is drawn, tried, widened and chosen, for every program alike."""

import itertools
import math

import numpy as np
import pytest

from benchmarks.speed import search
from benchmarks.speed.search import Range, Tried

SPACE = {"rate": Range(0.01, 0.1), "batch": Range(100, 400, 2), "exact": (True, False)}


def program(error, seconds=0.01):
    """Return a made-up program whose error is a function of its setting and its passes; and what it was asked for."""
    asked = []

    def attempt(setting, passes):
        asked.append((setting, passes))
        return Tried(setting, passes, seconds * passes, error(setting, passes))

    return attempt, asked


def test_draws_are_uniform_in_the_logarithm():
    random = np.random.default_rng(0)
    drawn = [Range(0.01, 1.0).draw(random) for _ in range(2000)]
    assert min(drawn) >= 0.01
    assert max(drawn) <= 1.0
    assert np.mean(np.array(drawn) < 0.1) == pytest.approx(0.5, abs=0.05)
    assert {Range(100, 400, 2).draw(random) for _ in range(50)} == {100, 200, 400}


def test_a_range_widens_at_the_ends_that_values_are_near():
    assert Range(0.01, 1.0).widened([0.1]) == Range(0.01, 1.0)
    assert Range(0.01, 1.0).widened([0.1, 0.5]) == Range(0.01, 3.0)
    assert Range(0.03, 1.0).widened([0.031]) == Range(0.01, 1.0)
    assert Range(100, 400, 2).widened([400, 200]) == Range(100, 800, 2)
    assert Range(1, 4, 2).widened([1]) == Range(1, 4, 2), "whole numbers end at 1"


def test_every_program_gets_the_same_number_of_settings():
    errors = [lambda setting, passes: 1.0, lambda setting, passes: 0.1, lambda setting, passes: 1 / passes]
    for error in errors:
        attempt, asked = program(error)
        found = search.search(attempt, SPACE, (0.5,))
        assert len({str(setting) for setting, _ in asked}) == search.BATCHES * search.BATCH == found.settings
        assert len(found.tried) == len(asked)


def test_a_search_draws_the_same_settings_again():
    (one, first), (other, second) = program(lambda s, p: s["rate"]), program(lambda s, p: s["rate"])
    search.search(one, SPACE, (0.5,))
    search.search(other, SPACE, (0.5,))
    assert first == second


def test_a_space_is_widened_where_the_best_lies_at_its_edge():
    attempt, asked = program(lambda setting, passes: abs(math.log(setting["rate"] / 0.12)))
    found = search.search(attempt, SPACE, (0.01,))
    assert found.last["rate"] == Range(0.01, pytest.approx(0.3))
    assert max(setting["rate"] for setting, _ in asked) > 0.1
    assert "rate 0.01 to 0.1, widened to 0.01 to 0.3" in found.in_words()
    attempt, _ = program(lambda setting, passes: abs(math.log(setting["rate"] / 0.03)))
    assert search.search(attempt, SPACE, (0.01,)).last["rate"] == SPACE["rate"]


def test_the_better_half_is_trained_for_twice_as_many_passes():
    attempt, asked = program(lambda setting, passes: setting["rate"] + 1 / passes)
    search.search(attempt, SPACE, (0.01,))
    batch = asked[: sum(search.BATCH >> i for i in range(len(search.PASSES)))]
    trained = [{setting["rate"] for setting, n in batch if n == passes} for passes in search.PASSES]
    assert [len(rates) for rates in trained] == [8, 4, 2, 1]
    for more, fewer in itertools.pairwise(trained):
        assert fewer == set(sorted(more)[: len(fewer)])


def test_passes_grow_until_the_error_is_reached_or_takes_too_long():
    def passes(error, seconds=0.01):
        attempt, asked = program(lambda setting, passes: error(passes), seconds)
        search.search(attempt, {}, (0.1,))
        return sorted({passes for _, passes in asked})

    assert passes(lambda passes: 1 / passes) == [4, 8, 16]
    assert passes(lambda passes: math.inf) == [4], "it diverged"
    assert passes(lambda passes: 2 / passes, seconds=1.2) == [4, 8, 16]
    assert passes(lambda passes: 2 / passes) == [4, 8, 16, 32]
    assert passes(lambda passes: 9 / passes) == [4, 8, 16, 32, 64, 128], "more, as they help"
    assert passes(lambda passes: 9 / passes, seconds=0.2) == [4, 8, 16, 32, 64], "as long as they may take"
    assert passes(lambda passes: 1.0) == [4, 8, 16, 32], "more do not help"


def test_a_choice_near_the_edge_is_named():
    attempt, _ = program(lambda setting, passes: 1.0)
    found = search.search(attempt, SPACE, (0.01,))._replace(last=SPACE)
    inside, outside = ({"rate": r, "batch": b, "exact": True} for r, b in ((0.03, 200), (0.09, 100)))
    assert found.on_edge(Tried(inside, 8, 1.0, 0.1), 0.1) == []
    assert found.on_edge(Tried(outside, 8, 1.0, 0.1), 0.1) == ["rate", "batch"]
    more = found._replace(tried=[Tried(inside, passes, 1.0, 1 / passes) for passes in (4, 8)])
    assert more.on_edge(more.tried[1], 0.1) == ["passes"], "of the most passes, and the error is not reached"
    assert more.on_edge(more.tried[0], 0.1) == [], "more passes were tried"


def test_all_trainings_are_recorded():
    attempt, asked = program(lambda setting, passes: math.inf if setting["exact"] else 1 / 3)
    found = search.search(attempt, SPACE, (0.01,))
    recorded = found.record()
    assert recorded["columns"] == ["rate", "batch", "exact", "passes", "seconds", "validation RMSE"]
    assert [tuple(row[:4]) for row in recorded["trainings"]] == [
        (*setting.values(), passes) for setting, passes in asked
    ]
    assert {row[-1] for row in recorded["trainings"]} == {None, 0.33333}
    assert recorded["space"] == found.in_words()


def test_the_shortest_training_that_reached_an_error_is_chosen_with_the_fewest_passes():
    attempt, asked = program(lambda setting, passes: 1 / passes)
    tried = [Tried({"a": 1}, 6, 1.0, 0.2), Tried({"a": 2}, 12, 0.5, 0.2), Tried({"a": 2}, 3, 0.1, 0.6)]
    best = search.shortest(tried, 0.3)
    assert best == tried[1]
    assert search.shortest(tried, 0.1) is None
    assert search.fewest_passes(attempt, best, tried, 0.3).passes == 4
    assert all(3 < passes < 12 for _, passes in asked)
