"""One training: its program, data and compiled loops, and its state, progress and best parameters so far."""

import itertools
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxfit import loop, scoring, state, tables
from jaxfit.checks import check, check_size
from jaxfit.devices import distributed as processes
from jaxfit.devices import sharding
from jaxfit.devices.platform import host, platform
from jaxfit.devices.split_tables import Layout
from jaxfit.minibatches.bucketing import Buckets, Capacity, EpochPlan, Stretch, buckets, capacity, capacity_step
from jaxfit.minibatches.division import Division, Order
from jaxfit.minibatches.epochs import Epochs
from jaxfit.minibatches.streaming import Stream
from jaxfit.program import Program
from jaxfit.recipe import Recipe, named_arrays, per_parameter, transform
from jaxfit.state import Rates, State
from jaxfit.stopping import Progress

SCORED, SCORED_MOST = 1000, 16_384  # examples that are scored at a time: on a CPU, and at most elsewhere
SCORED_ENTRIES = 1 << 19  # maximum ragged entries on a device in batches above SCORED
VALIDATION_CHUNK_SECONDS = 2.0  # between which signals are obeyed


def schedule(program: Program, recipe: Recipe) -> str | None:
    """What of a training depends on the number of all epochs, in words; None where nothing does."""
    if recipe.anneal:
        return "its rate falls as a cosine"
    return None if program.at_step is None else "what its steps do is scheduled"


def scored_at_once(program: Program, data: Any, most: int, shards: int = 1) -> tuple[int, Capacity]:
    """Return how many examples to score at a time, on all devices, and the capacity of their ragged entries.

    most: streams of a sequential program. Of others, SCORED examples on a CPU, and up to SCORED_MOST elsewhere, with at
    most SCORED_ENTRIES ragged entries on a device.
    """
    size = program.size(data)
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

    def __init__(self, program: Program, data: Any, mesh: Mesh | None, layout: Layout | None = None):
        self.size = program.size(data)
        number = program.sequential.streams if program.sequential else 0
        # where tables are split, every device scores the whole minibatch
        batch_size, entries = scored_at_once(program, data, number, sharding.shards(mesh) if layout is None else 1)
        self.run = scoring.make_sums(program, batch_size, entries, mesh, layout)
        self.data, self.events = sharding.replicate(data, mesh), program.num_events(data)
        self.minibatches, self.mesh, self.chunk = scoring.minibatches(program, self.size, batch_size), mesh, 1
        place = sharding.split if layout is None else sharding.replicate
        self.begun = place(scoring.nothing_scored(program, batch_size), mesh)

    def mean(self, params: Any, stopped: Callable[[], Any] = lambda: False) -> float | None:
        """The mean score of an event under parameters that are on all devices, or split as in training.

        None if `stopped`, which is asked after each chunk but the last, returns a true value.
        """
        scored, at, last = self.begun, self.minibatches.start, self.minibatches.stop
        while at < last:
            end, before = processes.agreed(min(at + self.chunk, last)), time.perf_counter()
            scored = self.run(params, self.data, np.int32(self.size), scored, np.int32(at), np.int32(end))
            jax.block_until_ready(scored.total)
            next_chunk = next_steps(end - at, time.perf_counter() - before, VALIDATION_CHUNK_SECONDS)
            if end - at == self.chunk or next_chunk > self.chunk:  # the last chunk may be short
                self.chunk = next_chunk
            at = end
            if at < last and stopped():
                return None
        total = sharding.one_copy(sharding.whole(scored.total, self.mesh))
        return float(np.sum(np.asarray(total, np.float64)) / self.events)


def next_steps(steps: int, seconds: float, wanted: float) -> int:
    """Return how many steps to take next, in about the wanted seconds, if `steps` took `seconds`."""
    # at most 8 times as many, as the first steps may include compilation
    return max(1, int(steps * min(8.0, wanted / max(seconds, 1e-6))))


def visits_in_order(size: int, batch_size: int) -> np.ndarray:
    """The examples in order, padded with the last one to whole minibatches."""
    return np.minimum(np.arange(-(-size // batch_size) * batch_size), size - 1)


class Trainer:
    """A training at some step of some epoch, which `jaxfit.fit.fit` advances."""

    def __init__(
        self, program: Program, params: Any, data: Any, recipe: Recipe, key: jax.Array, mesh: Mesh | None,
        stream: bool = False,
    ):  # fmt: skip
        check(program, recipe, mesh, stream)
        check_size(program, recipe, params, program.size(data))
        self.program, self.recipe, self.mesh = program, recipe, mesh
        self.order_key, self.step_key = _keys(key)
        self.original, self.streamed = data, stream
        _, self.tree = tables.flatten(params)
        self.transform = transform(recipe.optimizer)
        names = named_arrays(params)
        self.rate = per_parameter(names, recipe.rate, "--rate")
        self.decay = per_parameter(names, recipe.decay, "--decay")
        self.progress, self.planner = Progress(), ThreadPoolExecutor(1)
        costs = _costs(program, data)
        by_rows = state.by_rows(params, program, data, None if costs is None or costs.ndim == 1 else costs.shape[1])
        self.layout = layout(params, by_rows, mesh)
        if self.layout is not None:
            params = self.layout.on_host(params)
        self.costs: Any = None
        self.bucketed: Buckets | None = None
        self._take(data, costs)
        self.state = self._start(params, by_rows)
        self.best = params
        self.compile_seconds = 0.0

    def _start(self, params: Any, by_rows: tuple[bool, ...]) -> State:
        """The state before the first step, on the devices."""
        start = partial(
            state.start, program=self.program, transform=self.transform, by_rows=by_rows,
            batch_size=self.recipe.batch_size,
        )  # fmt: skip
        if self.layout is None:
            return self._placed(start(params))
        assert self.mesh is not None
        begun = start(self.layout.one_row(params))
        weights = self.layout.start(params, begun.weights, self.transform, self.mesh)
        return self._placed_beside(begun, weights)

    def _take(self, data: Any, costs: np.ndarray | None) -> None:
        """Train on these data from now on: the original ones, or those drawn for an epoch; costs: of their examples."""
        program, batch_size = self.program, self.recipe.batch_size
        shards = batch_shards(self.layout, self.mesh)
        # visits need no capacity; data that are drawn anew often cost the same
        if not (costs is None or program.visits or np.array_equal(costs, self.costs)):
            self.bucketed = buckets(costs, batch_size, shards)
        self.size, self.events, self.costs = program.size(data), program.num_events(data), costs
        key = self.order_key
        place: Callable[[Any], Any] = partial(sharding.replicate, mesh=self.mesh)
        if self.streamed:
            place = partial(jax.device_put, device=host())
            key = place(key)
        self.epochs = Epochs(program, self.size, batch_size, shards, self.bucketed, key, place, self.planner)
        self.steps, self.data = self.epochs.steps, place(data)
        self.stream: Stream | None = None
        if self.streamed:
            division = Division(batch_size, shards, self.epochs.group_size, program.sequential is not None)
            self.stream = Stream(program, self.data, self.size, division, self.mesh)
            if self.bucketed is None:
                self.epochs.window = self.stream.steps(0)

    def rates(self) -> Rates:
        """The rates since the last drop, as traced values."""
        factor = (1.0, *self.recipe.drops)[self.progress.phase]
        like = self.tree.unflatten
        return Rates(
            rate=like([np.float32(factor * r) for r in self.rate]),
            decay=like([np.float32(d) for d in self.decay]),
            anneal=np.bool_(self.recipe.anneal),
            total=np.float32(self.steps * self.recipe.epochs),
        )

    def last_rate(self) -> float:
        """The rate of the first array of the parameters, in the last step."""
        rate = (1.0, *self.recipe.drops)[self.progress.phase] * self.rate[0]
        done = (int(self.state.step) - 1) / (self.steps * self.recipe.epochs)
        return rate * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))) if self.recipe.anneal else rate

    def epoch_run(self) -> Callable[[int, int], None]:
        """Return the current epoch's compiled loop: run(begin, end) takes the steps begin <= i < end."""
        if self.program.redraw is not None:
            key = jax.random.fold_in(jax.random.fold_in(self.order_key, self.progress.epoch), 2)
            with jax.default_device(host()) if self.streamed else nullcontext():
                drawn = self.program.redraw(self.original, key, self.program.config)
            self._take(drawn, _costs(self.program, drawn))
        epoch = self.plan_epoch()
        runs = {entries: self.compiled_run(entries) for _, _, entries in epoch.stretches}
        order, fixed = self.epochs.orders(self.progress.epoch, epoch), self.fixed()

        @lru_cache(maxsize=2)
        def given(stretch: Stretch) -> tuple[Any, Order]:
            found = order(stretch)
            return (self.data, found) if self.stream is None else self.stream.minibatches(stretch, found)

        def take(stretch: Stretch, begin: int, end: int) -> None:
            bounds = np.int32(begin), np.int32(end)
            self.state = runs[stretch.capacity](self.state, *given(stretch), *fixed, *bounds)

        def run(begin: int, end: int) -> None:
            for stretch, following in itertools.zip_longest(epoch.stretches, epoch.stretches[1:]):
                first, last = max(begin, stretch.begin), min(end, stretch.end)
                if first < last:
                    take(stretch, first, last)
                    if self.stream is not None and following is not None:
                        given(following)  # while devices train
            jax.block_until_ready(self.state.step)

        jax.block_until_ready(given(epoch.stretches[0]))
        before = time.perf_counter()
        for entries in runs:  # compile every program, without taking a step
            take(next(stretch for stretch in epoch.stretches if stretch.capacity == entries), 0, 0)
        jax.block_until_ready(self.state.step)
        self.compile_seconds += time.perf_counter() - before
        return run

    def compiled_run(self, entries: Capacity) -> Callable[..., State]:
        """Return the loop of steps of minibatches of this capacity: run(state, data, order, *fixed, begin, end)."""
        recipe = self.recipe
        return loop.make_run(
            self.program, self.transform, recipe.batch_size, entries, recipe.reduction == "mean", self.mesh,
            self.epochs.group_size, self.layout, self.streamed,
        )  # fmt: skip

    def fixed(self) -> tuple[Any, ...]:
        """Put what all steps of an epoch read on the devices: rates, key, number of examples."""
        return sharding.replicate((self.rates(), self.step_key, np.int32(self.size)), self.mesh)

    def plan_epoch(self) -> EpochPlan:
        """Cut the current epoch into stretches."""
        epoch = self.epochs.plan(self.progress.epoch)
        return epoch if self.stream is None else epoch._replace(stretches=self.stream.cut(epoch.stretches))

    def plan_ahead(self) -> None:
        """Lay out the next epoch in a background thread, while an accelerator trains."""
        if not self.program.redraw and self.progress.epoch + 1 < self.recipe.epochs:
            self.epochs.plan_ahead(self.progress.epoch + 1)

    def read_means(self) -> str:
        """The training metrics of the epoch so far, for the progress bar."""
        means = state.means(self.state)
        return ", ".join(metric.show(means[metric.name]) for metric in self.program.loss_metrics)

    def one_copy(self) -> State:
        """The state on this process' first device, including the carry of all streams, and its split tables whole.

        Working memory is left out, as its values do not matter.
        """
        carry, weights = sharding.whole(self.state.carry, self.mesh), self.state.weights
        rest = sharding.one_copy(self.state._replace(carry=carry, weights=None))
        if self.layout is not None:
            return rest._replace(weights=self.layout.whole_weights(weights, self.transform))
        return rest._replace(weights=_with_scratch(sharding.one_copy(weights), itertools.repeat(None)))

    def whole(self, params: Any) -> Any:
        """The parameters on this process' first device, those of split tables in the host's memory."""
        return sharding.one_copy(params) if self.layout is None else self.layout.whole_params(params)

    def arrays(self) -> dict[str, Any]:
        """All arrays that a checkpoint holds."""
        return {"state": self.one_copy(), "best": self.best}

    def like(self) -> dict[str, Any]:
        """Arrays of the shapes and types of `arrays`."""
        if self.layout is None:
            return self.arrays()
        weights = self.layout.like_whole(self.state.weights, self.transform)
        return {"state": self.state._replace(weights=weights), "best": self.layout.like_params(self.best)}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Set state and best parameters to the arrays of a checkpoint."""
        scratch = iter([w.scratch for w in tables.flatten(self.state.weights)[0]])
        stored = arrays["state"]
        self.state = self._placed(stored._replace(weights=_with_scratch(stored.weights, scratch)))
        self.best = arrays["best"]

    def _placed(self, whole: State) -> State:
        """Put the state on the devices: the carry and some tables are split over them, all else replicated."""
        if self.layout is None:
            return self._placed_beside(whole, sharding.replicate(whole.weights, self.mesh))
        assert self.mesh is not None
        return self._placed_beside(whole, self.layout.place(whole.weights, self.transform, self.mesh))

    def _placed_beside(self, whole: State, weights: Any) -> State:
        """Put what else belongs to a state beside its weights, which are on the devices."""
        carry = sharding.split(whole.carry, self.mesh)
        rest = sharding.replicate(whole._replace(carry=None, weights=None), self.mesh)
        return rest._replace(carry=carry, weights=weights)


def _costs(program: Program, data: Any) -> np.ndarray | None:
    return program.ragged.costs(data) if program.ragged else None


@jax.jit
def _keys(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    order, step = jax.random.split(key)
    return order, step


def layout(params: Any, by_rows: tuple[bool, ...], mesh: Mesh | None) -> Layout | None:
    """Return which parameters are split over the devices that share the rows of tables; None where none is.

    These are the tables that are read by rows, or, of a model that has none, all arrays of as many rows as the longest:
    those of words or, if there are more of them, of hidden units.

    by_rows: of `state.by_rows`.
    """
    if sharding.row_shards(mesh) == 1:
        return None
    leaves, tree = tables.flatten(params)
    if any(by_rows):
        return Layout(tree, tuple(len(x) if rows else None for x, rows in zip(leaves, by_rows, strict=True)))
    lengths = [x.shape[0] if x.ndim else 0 for x in leaves]
    return Layout(tree, tuple(n if n and n == max(lengths) else None for n in lengths), read_whole=True)


def batch_shards(layout: Layout | None, mesh: Mesh | None) -> int:
    """Return the number of shards that a minibatch is laid out in: one where the compiler splits it."""
    return 1 if layout is not None and layout.read_whole else sharding.shards(mesh)


def _with_scratch(whole: Any, scratch: Any) -> Any:
    weights, tree = tables.flatten(whole)
    return tree.unflatten([w._replace(scratch=next(scratch)) for w in weights])
