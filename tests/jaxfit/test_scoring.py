"""How many examples are scored at a time."""

from dataclasses import replace

import numpy as np
import pytest

import toy
from jaxfit.devices.platform import tracing_for
from jaxfit.program import Ragged
from jaxfit.validation import SCORED, SCORED_ENTRIES, SCORED_MOST, scored_at_once


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
