"""What tables of chapters 3 and 4 claim: of the thesis' own figures, and of models that are better by construction."""

import dataclasses
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.core.table import Row
from benchmarks.core.verdict import Scores, verdicts
from benchmarks.language import claims, scales
from benchmarks.language.store import LanguageStore, Spec
from benchmarks.language.tables import TABLES, TREES

TINY = scales.SCALES["tiny"]
FALLS = "perplexity falls from each tree to the next, T1 to T7"
OF_THE_DRAWN = "the best and the worst model of a type of tree differ by under 1.7 points of perplexity"


@pytest.mark.parametrize("name", [f"table-{number}" for number in (3.2, 4.1, 4.2, 4.4, 4.6, 4.7, 4.8, 4.9)])
def test_claims_hold_of_the_thesis_own_figures(name: str) -> None:
    def published(row):
        """The row, with the thesis' figures as what is measured, without noise."""
        seeded = row.draws[0][0].model != "kn"
        scores = {
            column: Scores(np.full(50, figure), np.ones(50), np.positive, seeded)
            for column, figure in row.thesis.items()
        }
        return dataclasses.replace(row, measure=lambda store, specs, part: scores)

    store = SimpleNamespace(stepwise=lambda spec: spec.model != "kn")
    table = TABLES[name]
    found = table.claims(store, [published(row) for row in table.rows(scales.SCALES["cpu"], None)], "test")
    assert found
    assert len({claim.text for claim in found}) == len(found)
    for verdict in verdicts(found, found):
        assert verdict["answer"] == "yes", verdict


def _planted(level: Callable[[Spec], float], noise: float = 0.0) -> LanguageStore:
    """A store whose models give events the same random log-probabilities but for their level and own noise."""
    store = LanguageStore(scales.text("planted", TINY), TINY, "tuned", Path("never-written"))

    def predictions(spec: Spec, part: str) -> np.ndarray:
        events = len(getattr(store.corpus, part))
        own = np.random.default_rng(zlib.crc32(spec.label().encode())).normal(0, noise, events)
        return level(spec) - np.random.default_rng(0).exponential(1.0, events) + own

    store.get = lambda spec: SimpleNamespace(predictions=lambda part: predictions(spec, part))
    return store


def _answers(name: str, store: LanguageStore, seeds: int = 3) -> dict[str, str]:
    table = TABLES[name]
    rows = table.rows(TINY, seeds)
    on_test, on_valid = (table.claims(store, rows, part) for part in ("test", "valid"))
    return {verdict["claim"]: verdict["answer"] for verdict in verdicts(on_test, on_valid)}


def _place(spec: Spec) -> float:
    """The number of a model's tree, from 0."""
    return float([tree for _, _, tree in TREES].index(spec.tree)) if spec.tree else 0.0


def test_trees_that_are_better_by_construction() -> None:
    better, worse = _planted(lambda spec: _place(spec) / 10), _planted(lambda spec: -_place(spec) / 10)
    alike = _planted(lambda spec: 0.0, noise=0.3)
    assert [_answers("table-4.4", store)[FALLS] for store in (better, worse, alike)] == ["yes", "no", "unresolved"]
    assert _answers("table-4.4", better, seeds=2)[FALLS] == "unresolved", "two seeds are too few"


def test_a_mixture_of_models_that_err_on_different_events_is_better_than_both() -> None:
    claim = "each mixture with KN6 is better than both of its models by more than 5 %"
    assert _answers("table-4.4", _planted(lambda spec: -3.0, noise=1.0))[claim] == "yes"
    assert _answers("table-4.4", _planted(lambda spec: -3.0))[claim] == "no", "of equal models"


@pytest.mark.parametrize(("apart", "answer"), [(0.01, "yes"), (1.0, "no")])
def test_the_spread_of_trees_is_of_those_that_were_drawn(apart: float, answer: str) -> None:
    store = _planted(lambda spec: apart * spec.seed - 2)
    assert _answers("table-4.1", store)[OF_THE_DRAWN] == answer
    assert OF_THE_DRAWN not in _answers("table-4.1", store, seeds=2)


def test_seeds_are_as_many_as_all_rows_have() -> None:
    store = _planted(lambda spec: 0.0)
    rows = TABLES["table-4.1"].rows(TINY, None)  # two random trees, one LBL, and n-grams
    models = claims.TextModels(store, rows, "test")
    seeds = [models.pair("HLBL RANDOM", other).seeds for other in ("HLBL RANDOM ×2", "LBL", "Int. KN2")]
    assert seeds == [2, 1, 2]
    assert models.pair("Int. KN2", "Int. KN3").seeds is None


@pytest.mark.parametrize(("minutes", "answer"), [(250.0, "yes"), (200.0, "unresolved"), (150.0, "no")])
def test_speeds_are_compared_round_by_round(minutes: float, answer: str) -> None:
    slow = 1 + np.random.default_rng(0).exponential(1.0, 10)  # whatever else the machine did in a round
    noise = np.random.default_rng(1).uniform(0.99, 1.01, 10)
    hlbl, lbl = (
        Row((name,), ((Spec(name),),), {}, lambda store, specs, times=times: {"minutes": list(times)})
        for name, times in (("hlbl", slow), ("lbl", minutes * slow * noise))
    )
    on_test, on_validation = (claims.of_speed(None, [hlbl, lbl], part) for part in ("test", "valid"))
    (verdict,) = verdicts(on_test, on_validation)
    assert verdict["answer"] == answer
