"""How long steps of training take: what dry runs, tables, `speed` and `profile` share.

A measurement repeats what it times until a window of time has passed, and is made ROUNDS times, in turn with all that
it is compared with. All that benchmarks ask of a trainer's inside is here.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np

from jaxfit.state import means
from jaxfit.trainer import Trainer

STEPS = 50  # of a program that are taken in one go
Name = TypeVar("Name", bound=Hashable)
WINDOW = 1.0  # seconds that a measurement takes at least
TRACED = 20  # steps
# Of everything that is measured in turn. The exact Mann-Whitney test of ten against ten samples comes down to p = 1e-5,
# which remains significant after the correction for 4,600 comparisons (`benchmarks.measurement.comparison`).
ROUNDS = 10


def windowed(step: Callable[[], object], window: float | None = None) -> list[float]:
    """Repeat a step until a window (seconds; None: WINDOW) has passed; returns the seconds of each."""
    window, seconds = WINDOW if window is None else window, list[float]()
    while sum(seconds) < window:
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return seconds


class EpochTimer:
    """Times an epoch of a training by some steps of each of its compiled programs, without validation.

    window: seconds for which each program's steps are repeated at least; None: WINDOW.
    """

    def __init__(self, trainer: Trainer, window: float | None = None):
        self.trainer, self.window = trainer, window
        self.plan, self._run = trainer.plan_epoch(), trainer.epoch_run()

    def seconds(self) -> float:
        """Measure an epoch in seconds, from some steps of each program, weighted by its number of steps."""
        total = 0.0
        for capacity in {stretch.capacity for stretch in self.plan.stretches}:
            mine = [stretch for stretch in self.plan.stretches if stretch.capacity == capacity]
            begin, last = mine[0].begin, mine[0].end
            if begin + 1 < last:  # the first step of a program may be slow
                self._run(begin, begin := begin + 1)
            pieces = cycle([(first, min(last, first + STEPS)) for first in range(begin, last, STEPS)])
            taken = 0

            def some(pieces: Iterator[tuple[int, int]] = pieces) -> None:
                nonlocal taken
                first, end = next(pieces)
                self._run(first, end)
                taken += end - first

            seconds = sum(windowed(some, self.window))
            total += seconds / taken * sum(stretch.end - stretch.begin for stretch in mine)
        return total

    def rate(self) -> float:
        """Measure events (words, ratings) of training per second."""
        return self.trainer.events / self.seconds()

    def padding(self) -> float:
        """Return the capacity of all minibatches over the entries in them; 1 where examples are of one size."""
        if self.trainer.costs is None:
            return 1.0
        stretches = self.plan.stretches
        capacity = sum((stretch.end - stretch.begin) * float(np.sum(stretch.capacity)) for stretch in stretches)
        return capacity / float(np.sum(self.trainer.costs, dtype=np.int64))


def pass_seconds(trainer: Trainer, number: int) -> tuple[float, float]:
    """Measure a whole epoch in seconds, and how many of them are drawing the order and laying out minibatches."""
    begin = time.perf_counter()
    trainer.progress = trainer.progress._replace(epoch=number)
    run = trainer.epoch_run()
    shuffled = time.perf_counter()
    run(0, trainer.steps)
    return time.perf_counter() - begin, shuffled - begin


def mean_score(trainer: Trainer) -> float:
    """The mean score of the examples that were trained on since the epoch began, each before its step."""
    (mean,) = means(trainer.state).values()
    return mean


def step_rate(trainer: Trainer, steps: int) -> Callable[[], float]:
    """Return a function that measures examples per second: of some steps after others in the engine's compiled loop."""
    assert steps < trainer.steps, "too few examples for so many steps"
    run = trainer.epoch_run()
    # not from 0: there, once in many steps, the engine rescales the tables
    pieces = cycle(range(1, trainer.steps - steps + 1, steps))

    def some() -> None:
        begin = next(pieces)
        run(begin, begin + steps)

    return lambda: steps * trainer.recipe.batch_size / float(np.mean(windowed(some)))


def interleaved(measures: Mapping[Name, Callable[[], float]]) -> dict[Name, list[float]]:
    """Measure each ROUNDS times, in turn, after a round to warm up: other load affects all of them alike."""
    rounds = [{name: measures[name]() for name in in_turn(measures, number)} for number in range(ROUNDS + 1)][1:]
    return {name: [found[name] for found in rounds] for name in measures}


def in_turn(names: Iterable[Name], number: int) -> list[Name]:
    """Return the order of a round, drawn anew for each: what one leaves behind does not always hit the same next."""
    known = list(names)
    return [known[place] for place in np.random.default_rng(number).permutation(len(known))]


def trace(trainer: Trainer, folder: Path) -> int:
    """Write a trace, for TensorBoard or Perfetto, of some steps of a training; returns how many."""
    run = trainer.epoch_run()
    first = min(1, trainer.steps - 1)  # the first step of a program may be slow
    last = min(first + TRACED, trainer.steps)
    run(0, first)
    with jax.profiler.trace(str(folder)):
        run(first, last)
    return last - first
