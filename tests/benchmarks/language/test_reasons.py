"""Experiments on claims of chapters 3 and 4: verdicts of given perplexities, and what models they are of."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.core.verdict import Scores, verdicts
from benchmarks.language import reasons, scales
from benchmarks.language.store import LanguageStore

SCALE = scales.SCALES["tiny"]


def answers(name: str, perplexities: list[float]) -> list[str]:
    """Judge rows of these perplexities, each nearly the same with three seeds."""
    rows = reasons.TABLES[name].rows(SCALE, 3)
    assert len(rows) == len(perplexities)

    def measured(number: int):
        def measure(store, specs, part):
            noise = 1e-4 * np.random.default_rng(specs[0].seed).normal(size=20)
            return {"perplexity": Scores(np.log(perplexities[number]) + noise, np.ones(20), np.exp)}

        return measure

    rows = [replace(row, measure=measured(number)) for number, row in enumerate(rows)]
    store = SimpleNamespace(stepwise=lambda spec: True)
    claims = reasons.TABLES[name].claims
    return [v["answer"] for v in verdicts(claims(store, rows, "test"), claims(store, rows, "valid"))]


@pytest.mark.parametrize(
    ("perplexities", "expected"),
    [
        ([128, 126, 130, 125], ["yes", "yes", "no"]),  # HLBL by its schedule and by the other, then the LBL
        ([126, 128, 125, 130], ["no", "no", "yes"]),
    ],
)
def test_verdicts_follow_the_schedules(perplexities, expected):
    assert answers("why-hlbl", perplexities) == expected


def test_verdicts_follow_what_longer_contexts_gain():
    """Perplexities of five words, on half of the text and all of it, then of ten."""
    assert answers("why-lbl-context", [150, 125, 147, 118]) == ["yes"]
    assert answers("why-lbl-context", [150, 125, 140, 122]) == ["no"]


def test_models_of_one_schedule_differ_in_rates_and_decays_alone(tmp_path):
    rows = reasons.TABLES["why-hlbl"].rows(SCALE, 1)
    recipes = [spec.recipe for row in rows for spec in row.specs()]
    assert recipes[:2] == recipes[2:]
    store = LanguageStore(scales.text("planted", SCALE, None), SCALE, "tuned", tmp_path)
    own = [row.specs()[0] for row in (rows[0], rows[3])]  # which are the tuned recipes, but for what the scale shrinks
    for spec in own:
        changed = store.identity(spec)
        usual = store.identity(replace(spec, recipe=(), config=()))
        assert changed["recipe"]["rate"] == usual["recipe"]["rate"]
        assert changed["config"]["dropout"] == usual["config"]["dropout"]
