"""How long steps of training take, and how much memory: what dry runs, tables, `speed` and `profile` share.

All that benchmarks ask of a trainer's inside is here.
"""

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np

from jaxfit.cli import compilation_cache
from jaxfit.state import means
from jaxfit.trainer import Trainer

STEPS = 50  # at least, and more where they take less than …
SECONDS = 0.3  # … in which short steps of a few ratings stand out from noise
TRACED = 20  # steps
ROUNDS = 5  # of everything that is measured in turn
COPIED, COPIES = 1 << 28, 3  # bytes, times


class EpochTimer:
    """Times an epoch of a training by some steps of each of its compiled programs, without validation."""

    def __init__(self, trainer: Trainer):
        self.trainer, self.plan, self._run = trainer, trainer.plan_epoch(), trainer.epoch_run()

    def seconds(self) -> float:
        """Measure an epoch in seconds, from some steps of each program, weighted by its number of steps."""
        total = 0.0
        for capacity in {stretch.capacity for stretch in self.plan.stretches}:
            mine = [stretch for stretch in self.plan.stretches if stretch.capacity == capacity]
            begin, last = mine[0].begin, mine[0].end
            if begin + 1 < last:  # the first step of a program may be slow
                self._run(begin, begin := begin + 1)
            end, before, took = begin, time.perf_counter(), 0.0
            while took < SECONDS and end < last:
                self._run(end, end := min(last, end + STEPS))
                took = time.perf_counter() - before
            steps = sum(stretch.end - stretch.begin for stretch in mine)
            total += took / (end - begin) * steps
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


def pass_seconds(trainer: Trainer, number: int) -> float:
    """Measure a whole epoch in seconds: drawing the order, laying out minibatches, all steps."""
    begin = time.perf_counter()
    trainer.progress = trainer.progress._replace(epoch=number)
    trainer.epoch_run()(0, trainer.steps)
    return time.perf_counter() - begin


def mean_score(trainer: Trainer) -> float:
    """The mean score of the examples that were trained on since the epoch began, each before its step."""
    (mean,) = means(trainer.state).values()
    return mean


def step_rate(trainer: Trainer, steps: int) -> Callable[[], float]:
    """Return a function that takes some steps in the engine's compiled loop and returns examples per second."""
    run = trainer.epoch_run()

    def measure() -> float:
        start = time.perf_counter()
        run(1, 1 + steps)  # not from 0: there, once in many steps, the engine rescales the tables
        return steps * trainer.recipe.batch_size / (time.perf_counter() - start)

    return measure


def interleaved(measures: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Measure each ROUNDS times, in turn, after a round to warm up: what else the machine does hits all alike."""
    rounds = [{name: measure() for name, measure in measures.items()} for _ in range(ROUNDS + 1)][1:]
    return {name: [found[name] for found in rounds] for name in measures}


def medians(measures: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Measure likewise, and return medians."""
    return {name: float(np.median(found)) for name, found in interleaved(measures).items()}


def copy_bandwidth() -> float:
    """Measure the bytes per second that all cores read and write when they copy memory."""
    cores, size = os.cpu_count() or 1, COPIED
    pairs = [(np.ones(size // cores, np.uint8), np.zeros(size // cores, np.uint8)) for _ in range(cores)]
    seconds = []
    with ThreadPoolExecutor(cores) as pool:
        for _ in range(1 + COPIES):
            begin = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), pairs))
            seconds.append(time.perf_counter() - begin)
    return 2 * size / float(np.median(seconds[1:]))


def peak_memory() -> int:
    """Return the most bytes in use so far, on the accelerator, or of this process where the CPU is the device."""
    stats = jax.devices()[0].memory_stats()
    if stats and "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def trace(trainer: Trainer, folder: Path) -> int:
    """Write a trace, for TensorBoard or Perfetto, of some steps of a training; returns how many."""
    run = trainer.epoch_run()
    first = min(1, trainer.steps - 1)  # the first step of a program may be slow
    last = min(first + TRACED, trainer.steps)
    run(0, first)
    with jax.profiler.trace(str(folder)):
        run(first, last)
    return last - first


@contextmanager
def cold_compilation() -> Iterator[None]:
    """Compile anew all that is compiled here, whatever was compiled before in this or in another process."""
    jax.clear_caches()
    with compilation_cache.disabled():
        yield
