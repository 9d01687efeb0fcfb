"""Windows of time, and rounds that alternate."""

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
    """A training of two programs, whose steps take as long as a clock says."""

    events, costs = 1000, None

    def __init__(self):
        self.steps_taken = []

    def plan_epoch(self):
        class Stretch:
            def __init__(self, begin, end, capacity):
                self.begin, self.end, self.capacity = begin, end, capacity

        class Plan:
            stretches = (Stretch(0, 30, 1), Stretch(30, 34, 2))

        return Plan

    def epoch_run(self):
        return lambda begin, end: self.steps_taken.append((begin, end))


def test_short_epochs_are_repeated_until_the_window_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 0.1  # so that every time that is taken is 0.1 s
        return now[0]

    monkeypatch.setattr(timing.time, "perf_counter", clock)
    trainer = Trainer()
    timer = timing.EpochTimer(trainer)
    assert timer.seconds() == pytest.approx(0.1 / 29 * 30 + 0.1 / 3 * 4)
    assert trainer.steps_taken.count((1, 30)) >= 10
    assert trainer.steps_taken.count((31, 34)) >= 10
    assert timer.rate() == pytest.approx(1000 / timer.seconds())
