"""Times of training steps, for dry runs, tables, `speed` and `profile`.

A measurement repeats what it times until a window of time has passed, and is made ROUNDS times, in turn with everything
that it is compared with. All that benchmarks use of a trainer's internals is here.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from jaxfit.minibatches.bucketing import Capacity
from jaxfit.state import means
from jaxfit.trainer import Trainer

STEPS = 50  # at most, that a program takes in one call
Name = TypeVar("Name", bound=Hashable)
WINDOW, QUICK_WINDOW = 1.0, 0.2  # minimum seconds of a measurement
TRACED = 20  # steps
# Rounds of all that is measured in turn. The exact Mann-Whitney test of ten against ten samples comes down to p = 1e-5,
# which remains significant after the correction for 4,600 comparisons (`benchmarks.measurement.comparison`).
ROUNDS = 10
QUICK_ROUNDS = 5  # with which p is at least 0.008


@contextmanager
def quick() -> Iterator[None]:
    """Measure fewer rounds of shorter windows within, where time on a device is short."""
    global ROUNDS, WINDOW
    usual = ROUNDS, WINDOW
    ROUNDS, WINDOW = min(ROUNDS, QUICK_ROUNDS), min(WINDOW, QUICK_WINDOW)
    try:
        yield
    finally:
        ROUNDS, WINDOW = usual


def windowed(step: Callable[[], object], window: float | None = None) -> list[float]:
    """Repeat a step until a window has passed; return the seconds of each.

    Args:
        window: seconds; None: WINDOW.
    """
    window, seconds = WINDOW if window is None else window, list[float]()
    while sum(seconds) < window:
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return seconds


class EpochTimer:
    """Timer of an epoch of training, from some steps of each compiled program, without validation.

    Args:
        window: minimum seconds for which steps are repeated, of all programs together; None: WINDOW.
    """

    def __init__(self, trainer: Trainer, window: float | None = None):
        self.trainer, self.window = trainer, window
        self.plan, self._run = trainer.plan_epoch(), trainer.epoch_run()

    def seconds(self) -> float:
        """Measure an epoch in seconds, from some steps of each program, weighted by its number of steps."""
        capacities = {stretch.capacity for stretch in self.plan.stretches}
        total, window = 0.0, (WINDOW if self.window is None else self.window) / len(capacities)
        for capacity in capacities:
            mine = [stretch for stretch in self.plan.stretches if stretch.capacity == capacity]
            begin, last, steps = mine[0].begin, mine[0].end, STEPS
            if begin + 1 < last:  # the first step of a program may be slow
                started = time.perf_counter()
                self._run(begin, begin := begin + 1)
                steps = int(min(STEPS, max(1, window // (time.perf_counter() - started))))
            pieces = cycle([(first, min(last, first + steps)) for first in range(begin, last, steps)])
            taken = 0

            def some(pieces: Iterator[tuple[int, int]] = pieces) -> None:
                nonlocal taken
                first, end = next(pieces)
                self._run(first, end)
                taken += end - first

            seconds = sum(windowed(some, window))
            total += seconds / taken * sum(stretch.end - stretch.begin for stretch in mine)
        return total

    def rate(self) -> float:
        """Measure events (words, ratings) of training per second."""
        return self.trainer.events / self.seconds()

    def padding(self) -> float:
        """Return the ratio of the capacity of all minibatches to the number of entries in them.

        It is 1 where examples are of one size, or are visited one after another, without a capacity.
        """
        if self.trainer.costs is None:
            return 1.0
        stretches = self.plan.stretches
        capacity = sum((stretch.end - stretch.begin) * float(np.sum(stretch.capacity)) for stretch in stretches)
        return capacity / float(np.sum(self.trainer.costs, dtype=np.int64)) if capacity else 1.0


def pass_seconds(trainer: Trainer, number: int) -> tuple[float, float]:
    """Measure the seconds of the whole epoch `number`, and of its part before the first step.

    In that part, minibatches are laid out, or the first window of the order is drawn.
    """
    begin = time.perf_counter()
    trainer.progress = trainer.progress._replace(epoch=number)
    run = trainer.epoch_run()
    shuffled = time.perf_counter()
    run(0, trainer.steps)
    return time.perf_counter() - begin, shuffled - begin


def mean_score(trainer: Trainer) -> float:
    """Return the mean score of the examples that were trained on since the epoch began, each before its step."""
    (mean,) = means(trainer.state.metrics).values()
    return mean


def step_rate(trainer: Trainer, steps: int) -> Callable[[], float]:
    """Return a function that measures examples per second in the engine's compiled loop, `steps` steps at a time."""
    assert steps < trainer.steps, "too few examples for so many steps"
    run = trainer.epoch_run()
    # not from 0: there, once in many steps, the engine rescales the tables
    pieces = cycle(range(1, trainer.steps - steps + 1, steps))

    def some() -> None:
        begin = next(pieces)
        run(begin, begin + steps)

    return lambda: steps * trainer.recipe.batch_size / float(np.mean(windowed(some)))


def interleaved(measures: Mapping[Name, Callable[[], float]]) -> dict[Name, list[float]]:
    """Measure each ROUNDS times, in turn, after a round to warm up, so that other load affects all of them alike."""
    rounds = [{name: measures[name]() for name in in_turn(measures, number)} for number in range(ROUNDS + 1)][1:]
    return {name: [found[name] for found in rounds] for name in measures}


def in_turn(names: Iterable[Name], number: int) -> list[Name]:
    """Return a random order for a round, so that no measurement always follows the same other one."""
    known = list(names)
    return [known[place] for place in np.random.default_rng(number).permutation(len(known))]


class Traced(NamedTuple):
    """Steps that were traced.

    Attributes:
        steps: number of steps.
        seconds: seconds that they took while traced.
        untraced: median of the seconds that the same steps took without a trace.
        program: text of the compiled program that they ran.
    """

    steps: int
    seconds: float
    untraced: float
    program: str


def trace(trainer: Trainer, folder: Path) -> Traced:
    """Write a trace of up to TRACED steps of one program, from the longest stretch of an epoch."""
    run = trainer.epoch_run()
    most = max(trainer.plan_epoch().stretches, key=lambda stretch: stretch.end - stretch.begin)
    first = min(most.begin + 1, most.end - 1)  # the first step of a program may be slow
    last = min(first + TRACED, most.end)
    run(most.begin, first)
    untraced = float(np.median(windowed(lambda: run(first, last))))
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level = 2  # operations of a CPU are events of the host
    options.device_tracer_level = 1
    options.python_tracer_level = 0  # Python's calls would fill the trace
    with jax.profiler.trace(str(folder), create_perfetto_trace=True, profiler_options=options):
        begin = time.perf_counter()
        run(first, last)
        seconds = time.perf_counter() - begin
    return Traced(last - first, seconds, untraced, program(trainer, most.capacity))


def program(trainer: Trainer, entries: Capacity) -> str:
    """Return the text of the compiled loop of steps whose minibatches have this capacity, as `Trainer` runs it."""
    run: Any = trainer.compiled_run(entries)
    epoch = trainer.plan_epoch()
    order = trainer.epochs.orders(trainer.progress.epoch, epoch)(epoch.stretches[0])
    given = trainer.state, trainer.data, order, *trainer.fixed(), np.int32(0), np.int32(0)
    return run.lower(*given).compile().as_text()
