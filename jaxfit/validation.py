"""Validation: the mean score of parameters on a data set, computed in chunks on all devices."""

import time
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxfit import scoring
from jaxfit.checks import check_validation
from jaxfit.devices import distributed as processes
from jaxfit.devices import sharding
from jaxfit.devices.platform import host, platform
from jaxfit.devices.split_tables import Layout
from jaxfit.minibatches.bucketing import Capacity, Stretch, capacity, capacity_step
from jaxfit.minibatches.division import Division
from jaxfit.minibatches.streaming import HostData
from jaxfit.program import Program

SCORED, SCORED_MOST = 1000, 16_384  # examples that are scored at a time: on a CPU, and at most elsewhere
SCORED_ENTRIES = 1 << 19  # maximum ragged entries on a device in batches above SCORED
VALIDATION_CHUNK_SECONDS = 2.0  # between which signals are obeyed


def scored_at_once(program: Program, data: Any, streams: int, shards: int = 1) -> tuple[int, Capacity]:
    """Return how many examples to score at a time, on all devices, and the capacity for their ragged entries.

    Of a sequential program, these are one example of each of the `streams`, and fillers up to a multiple of the shards.
    Of other programs they are SCORED on a CPU, and elsewhere up to SCORED_MOST, with at most SCORED_ENTRIES ragged
    entries on a device.
    """
    size, most = program.size(data), streams
    if not program.sequential:
        most = min(SCORED if platform() == "cpu" else SCORED_MOST, capacity_step(size))
    costs = program.ragged.costs(data) if program.ragged else None
    while True:
        batch_size = -(-most // shards) * shards
        entries = capacity(costs, visits_in_order(size, batch_size), batch_size // shards)
        if most <= SCORED or np.sum(entries) <= SCORED_ENTRIES:
            return batch_size, entries
        most = max(SCORED, most // 2)


class Validation:
    """The mean score of parameters on a data set, computed on all devices."""

    def __init__(
        self, program: Program, data: Any, mesh: Mesh | None, layout: Layout | None = None, stream: bool = False
    ):
        check_validation(program, data)
        self.size, self.events = program.size(data), program.num_events(data)
        number = program.sequential.streams if program.sequential else 0
        # where tables are split, the compiler divides minibatches
        shards = sharding.shards(mesh) if layout is None else 1
        batch_size, self.entries = scored_at_once(program, data, number, shards)
        # streams are the same on any number of devices, and so is the score
        division = Division(batch_size, shards, sequential=program.sequential is not None, streams=number)
        self.run = scoring.make_sums(program, division, self.entries, mesh, layout, stream)
        self.minibatches, self.mesh, self.chunk = scoring.minibatches(program, self.size, division), mesh, 1
        stretches = [Stretch(self.minibatches.start, self.minibatches.stop, self.entries)]
        self.data: Any = None
        self.host_data: HostData | None = None
        if stream:
            self.host_data = HostData(program, jax.device_put(data, host()), self.size, division, mesh)
            stretches = self.host_data.cut(stretches)
        else:
            self.data = sharding.replicate(data, mesh)
        self.stretches = stretches
        place = sharding.split if layout is None else sharding.replicate
        self.begun = place(scoring.nothing_scored(program, batch_size), mesh)

    def mean(self, params: Any, stopped: Callable[[], Any] = lambda: False) -> float | None:
        """Return the mean score over events, or None if `stopped` returns a true value.

        Args:
            params: on all devices, or split as in training.
            stopped: called after each chunk but the last.
        """
        scored, at, last = self.begun, self.minibatches.start, self.minibatches.stop
        while at < last:
            end, before = processes.agreed(min(at + self.chunk, last)), time.perf_counter()
            for stretch, following in zip_longest(self.stretches, self.stretches[1:]):
                first, behind = max(at, stretch.begin), min(end, stretch.end)
                if first < behind:
                    data = self.data
                    if self.host_data is not None:
                        data = self.host_data.block(stretch)
                        if following is not None:
                            self.host_data.prepare(following)
                    scored = self.run(params, data, np.int32(self.size), scored, np.int32(first), np.int32(behind))
                    jax.block_until_ready(scored.total)
            self.chunk = next_chunk(self.chunk, end - at, time.perf_counter() - before, VALIDATION_CHUNK_SECONDS)
            at = end
            if at < last and stopped():
                return None
        if self.host_data is not None:
            self.host_data.forget()
        total = sharding.one_copy(sharding.whole(scored.total, self.mesh))
        return float(np.sum(np.stack([total.value, total.error]).astype(np.float64)) / self.events)


def next_chunk(chunk: int, steps: int, seconds: float, wanted: float) -> int:
    """Return the number of steps of the next chunk, so that it takes about `wanted` seconds.

    Args:
        chunk: number of steps that the last chunk was to have.
        steps: number of steps that it had: fewer where the data ended, which does not make the next chunk shorter.
        seconds: time that these steps took.
        wanted: seconds.
    """
    # at most 8 times as many, as the first steps may include compilation
    found = max(1, int(steps * min(8.0, wanted / max(seconds, 1e-6))))
    return found if steps == chunk else max(chunk, found)


def visits_in_order(size: int, batch_size: int) -> np.ndarray:
    """Return the examples in order, int [n], padded with the last one to whole minibatches."""
    return np.minimum(np.arange(-(-size // batch_size) * batch_size), size - 1)
