"""Windows of time, and rounds that alternate."""

import numpy as np
import pytest

from benchmarks.core import timing


def test_a_step_is_repeated_until_the_window_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: 0.25 * next(now))
    done = []
    assert timing.windowed(lambda: done.append(1)) == [0.25] * 4  # of a second, by default
    assert len(done) == 4
    assert len(timing.windowed(lambda: None, window=0.5)) == 2


def test_a_window_has_one_step_at_least() -> None:
    assert len(timing.windowed(lambda: None, window=1e-12)) == 1


def test_contenders_take_turns_after_a_round_to_warm_up() -> None:
    order = []

    def measure(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = timing.interleaved({name: lambda name=name: measure(name) for name in "abcd"})
    rounds = ["".join(order[i : i + 4]) for i in range(0, len(order), 4)]
    assert len(rounds) == timing.ROUNDS + 1 >= 6
    assert {"".join(sorted(each)) for each in rounds} == {"abcd"}
    places = [place for place, name in enumerate(order, 1) if name == "a"][1:]
    assert found["a"] == places, "of each round after the first"
    for name in "abcd":
        assert len({each[each.index(name) - 1] for each in rounds if each[0] != name}) == 3, "none follows one alone"
    assert order == [name for number in range(len(rounds)) for name in timing.in_turn("abcd", number)]


class Trainer:
    """A training of two programs, of 30 and 10 and of 4 steps, each of which takes so many seconds of its clock."""

    events, costs = 1000, None

    def __init__(self, step: float):
        self.step, self.now, self.steps_taken = step, 0.0, []

    def clock(self) -> float:
        return self.now

    def plan_epoch(self):
        class Stretch:
            def __init__(self, begin, end, capacity):
                self.begin, self.end, self.capacity = begin, end, capacity

        class Plan:
            stretches = (Stretch(0, 30, 1), Stretch(30, 34, 2), Stretch(34, 44, 1))

        return Plan

    def epoch_run(self):
        def run(begin: int, end: int) -> None:
            self.steps_taken.append((begin, end))
            self.now += (end - begin) * self.step

        return run


def test_padding_is_capacity_over_entries() -> None:
    trainer = Trainer(step=1 / 1024)
    assert timing.EpochTimer(trainer).padding() == 1.0, "of one size"
    trainer.costs = np.full(20, 2)
    assert timing.EpochTimer(trainer).padding() == (40 * 1 + 4 * 2) / 40
    plan = trainer.plan_epoch()
    for stretch in plan.stretches:
        stretch.capacity = 0  # of examples that are visited one after another
    trainer.plan_epoch = lambda: plan
    assert timing.EpochTimer(trainer).padding() == 1.0


def test_short_epochs_are_repeated_until_the_window_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(step=1 / 1024)
    monkeypatch.setattr(timing.time, "perf_counter", trainer.clock)
    timer = timing.EpochTimer(trainer, window=2.0)
    assert timer.seconds() == pytest.approx(44 / 1024)
    assert trainer.steps_taken.count((1, 30)) == 36, "29 steps at a time, until each program has taken half the window"
    assert trainer.steps_taken.count((31, 34)) == 342
    assert timer.rate() == pytest.approx(1000 / timer.seconds())


def test_long_steps_are_not_taken_many_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(step=4.0)
    monkeypatch.setattr(timing.time, "perf_counter", trainer.clock)
    assert timing.EpochTimer(trainer, window=10.0).seconds() == pytest.approx(44 * 4.0)
    assert trainer.steps_taken == [(0, 1), (1, 2), (2, 3), (30, 31), (31, 32), (32, 33)], "the first, and 5 s of others"
