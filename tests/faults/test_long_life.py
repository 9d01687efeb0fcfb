"""Trainings of different shapes in one process: memory and memory maps stop growing, and equal ones compile nothing."""

from pathlib import Path

import jax
import pytest

import long_life
from jaxfit.process import compiled

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux says what a process has mapped")


@pytest.mark.extended
def test_equal_trainings_compile_nothing_and_programs_of_a_few_different_ones_are_kept(tmp_path, monkeypatch):
    events = []

    def listen(event, seconds, **more):
        if event.endswith("backend_compile_duration"):
            events.append(event)

    def compilations(number):
        events.clear()
        long_life.train(number, tmp_path / str(len(list(tmp_path.iterdir()))))
        return len(events)

    monkeypatch.setattr(compiled, "MAX_TRAININGS", 2)
    monkeypatch.setattr(compiled, "_kept", set())
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        jax.clear_caches()
        maps = [long_life.memory_maps()]
        for first in (0, 30, 60):
            found = [compilations(number) for number in (first, first + 1)]  # an lbl and a pmf
            assert min(found) >= 5
            assert compilations(first + 1) == 0
            maps.append(long_life.memory_maps())
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    first = maps[1] - maps[0]
    assert first > 300
    assert max(maps) - maps[0] < 1.5 * first  # of six different trainings: without a bound, three times as many


@pytest.mark.slow
def test_300_trainings_of_different_shapes_reach_a_plateau():
    lines = list(long_life.series(300))
    for of in ("megabytes", "maps"):
        early, late = ([line[of] for line in lines[part]] for part in (slice(0, 50), slice(250, 300)))
        assert max(late) < 1.3 * max(early)
