"""What a training prepares: epochs planned ahead in a thread, and how many examples are scored at a time."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import toy
from jaxfit.devices.platform import tracing_for
from jaxfit.program import Ragged
from jaxfit.recipe import Recipe
from jaxfit.trainer import SCORED, SCORED_ENTRIES, SCORED_MOST, Trainer, scored_at_once

RECIPE = Recipe(optimizer="sgd", batch_size=16, epochs=3, rate={"*": 0.02}, decay={"*": 0.0})


def trainer() -> Trainer:
    key = jax.random.key(0)
    return Trainer(toy.program(True), toy.init(key), toy.data(key), RECIPE, key, None)


def test_epochs_planned_ahead_are_those_planned_in_turn() -> None:
    ahead, in_turn = trainer(), trainer()
    with tracing_for("gpu"), ahead.planner:
        for epoch in range(RECIPE.epochs):
            ahead.progress = ahead.progress._replace(epoch=epoch)
            in_turn.progress = in_turn.progress._replace(epoch=epoch)
            for _ in range(2):  # an epoch may be asked for again
                found, expected = ahead.plan_epoch(), in_turn.plan_epoch()
                np.testing.assert_array_equal(found.visits, expected.visits)
                assert found.stretches == expected.stretches
                ahead.plan_ahead()
            assert list(ahead.ahead) == ([epoch + 1] if epoch + 1 < RECIPE.epochs else [])
    assert not in_turn.ahead


def test_on_a_cpu_no_thread_competes_with_training() -> None:
    it = trainer()
    it.plan_ahead()
    assert not it.ahead


@pytest.mark.parametrize(
    ("platform", "entries", "expected"),
    [
        ("cpu", 1, SCORED), ("gpu", 1, SCORED_MOST), ("gpu", 100, SCORED_MOST // 4),
        ("gpu", 10 * SCORED_ENTRIES // SCORED, SCORED),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shards", [1, 8])
def test_an_accelerator_scores_as_many_as_entries_allow(
    platform: str, entries: int, expected: int, shards: int
) -> None:
    size = 40_000
    program = replace(
        toy.program(False), size=lambda data: size, ragged=Ragged(lambda data: np.full(size, entries, np.int32))
    )
    with tracing_for(platform):
        found, capacity = scored_at_once(program, None, 8, shards)
    if shards == 1:
        assert found == expected
    assert found % shards == 0
    assert capacity >= found // shards * entries
    assert found <= SCORED + shards or capacity <= SCORED_ENTRIES
