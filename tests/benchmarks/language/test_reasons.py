"""Experiments on claims of chapters 3 and 4: verdicts of given perplexities, and the models that they compare."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.core.verdict import Scores, verdicts
from benchmarks.language import reasons, scales
from jaxlm import models

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
        # HLBL by its schedule and by the other, the LBL likewise, HLBL with a variance each
        ([128, 126, 130, 125, 132], ["yes", "no", "yes", "yes", "no"]),
        ([126, 128, 125, 130, 124], ["no", "yes", "no", "no", "yes"]),
    ],
)
def test_verdicts_follow_the_schedules(perplexities, expected):
    assert answers("why-hlbl", perplexities) == expected


def test_verdicts_follow_what_longer_contexts_gain():
    """Perplexities of five words, on half of the text and all of it, then of ten."""
    assert answers("why-lbl-context", [150, 125, 147, 118]) == ["yes"]
    assert answers("why-lbl-context", [150, 125, 140, 122]) == ["no"]


def test_each_model_is_trained_by_its_own_recipe_and_by_the_schedule_of_the_other():
    own, other, *of_lbl, apart = [row.specs()[0] for row in reasons.TABLES["why-hlbl"].rows(scales.SCALES["cpu"], 1)]
    hlbl, lbl = (models.get(name).recipes["tuned"] for name in ("hlbl", "lbl"))
    assert (own.recipe, own.config) == ((), ())
    assert dict(other.recipe) == {"epochs": lbl[0].epochs, "batch_size": lbl[0].batch_size}
    assert other.config == ()
    assert (apart.recipe, dict(apart.config)) == ((), {"shared_variance": False})
    assert hlbl[1]["shared_variance"]
    other, own = of_lbl
    assert (own.recipe, own.config) == ((), ())
    assert dict(other.recipe) == {"epochs": hlbl[0].epochs, "batch_size": hlbl[0].batch_size}
    assert other.config == ()
    assert hlbl[1]["dropout"] == lbl[1]["dropout"]
    # recipes differ in nothing else but rates and decays
    assert replace(hlbl[0], epochs=1, batch_size=1, rate={}, decay={}) == replace(
        lbl[0], epochs=1, batch_size=1, rate={}, decay={}
    )
