"""One training: its program, data and compiled loops, and its state, progress and best parameters so far."""

import itertools
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxfit import loop, state, tables
from jaxfit.checks import check, check_size, check_types
from jaxfit.devices import sharding
from jaxfit.devices.platform import host, on_host
from jaxfit.devices.split_tables import Layout
from jaxfit.minibatches.bucketing import RUNS, Buckets, Capacity, EpochPlan, Stretch, buckets
from jaxfit.minibatches.division import Division
from jaxfit.minibatches.epochs import Epochs, group_size
from jaxfit.minibatches.streaming import NO_ORDER, HostData
from jaxfit.optimizer import transform
from jaxfit.program import Program
from jaxfit.recipe import Recipe, named_arrays, per_parameter
from jaxfit.state import Rates, State
from jaxfit.stopping import Progress


def why_epochs_are_fixed(program: Program, recipe: Recipe) -> str | None:
    """Return why a training cannot go on for another number of epochs; None if it can."""
    if recipe.anneal:
        return "its rate falls as a cosine"
    return "what its steps do is scheduled" if program.scheduled else None


class Trainer:
    """A training at some step of some epoch, which `jaxfit.fit.fit` advances."""

    def __init__(
        self, program: Program, params: Any, data: Any, recipe: Recipe, key: jax.Array, mesh: Mesh | None,
        stream: bool = False,
    ):  # fmt: skip
        check(program, recipe, mesh, stream)
        check_types(params)
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
        self.host_data: HostData | None = None
        self.no_order = sharding.replicate(NO_ORDER, mesh) if stream else None  # of blocks, which are in order
        self.compiled = set[Callable[..., State]]()
        self.costs: Any = None
        self.bucketed: Buckets | None = None
        self._take(data, costs)
        self.state = self._start(params, by_rows)
        self.best = params
        self.compile_seconds = 0.0

    def _start(self, params: Any, by_rows: tuple[bool, ...]) -> State:
        """Return the state before the first step, on the devices."""
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
        """Train on these data from now on: the original ones, or those drawn for an epoch.

        Args:
            data: for the program.
            costs: entries of the examples, for ragged data.
        """
        program, batch_size = self.program, self.recipe.batch_size
        shards = batch_shards(self.layout, self.mesh)
        # visits need no capacity; data that are drawn anew often cost the same
        if not (costs is None or program.visits or np.array_equal(costs, self.costs)):
            self.bucketed = buckets(costs, batch_size, shards)
        self.size, self.events, self.costs = program.size(data), program.num_events(data), costs
        group = group_size(program, self.size, batch_size)
        division = Division(batch_size, shards, group, program.sequential is not None)
        key, window = self.order_key, None
        place: Callable[[Any], Any] = partial(sharding.replicate, mesh=self.mesh)
        if self.streamed:
            place = partial(jax.device_put, device=host())
        self.data = place(data)
        if self.streamed:
            several = self.bucketed is not None and self.bucketed.bounds is not None
            self.host_data = HostData(
                program, self.data, self.size, division, self.mesh, blocks=RUNS if several else None
            )
            key = place(key)
            window = self.host_data.steps(0) if self.bucketed is None else None
        self.epochs = Epochs(program, self.size, division, self.bucketed, key, place, self.planner, window)
        self.steps = self.epochs.steps

    def rates(self) -> Rates:
        """Return the rates since the last drop, as traced values."""
        factor = (1.0, *self.recipe.drops)[self.progress.phase]
        like = self.tree.unflatten
        return Rates(
            rate=like([np.float32(factor * r) for r in self.rate]),
            decay=like([np.float32(d) for d in self.decay]),
            anneal=np.bool_(self.recipe.anneal),
            total=np.float32(self.steps * self.recipe.epochs),
        )

    def last_rate(self) -> float:
        """Return the rate of the first array of the parameters, in the last step."""
        rate = (1.0, *self.recipe.drops)[self.progress.phase] * self.rate[0]
        done = (int(self.state.step) - 1) / (self.steps * self.recipe.epochs)
        return rate * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))) if self.recipe.anneal else rate

    def epoch_run(self) -> Callable[[int, int], None]:
        """Return the current epoch's compiled loop: run(begin, end) takes the steps begin <= i < end."""
        if self.program.redraw is not None:
            key = jax.random.fold_in(jax.random.fold_in(self.order_key, self.progress.epoch), 2)
            with on_host(self.streamed):
                drawn = self.program.redraw(self.original, key, self.program.config)
            self._take(drawn, _costs(self.program, drawn))
        epoch = self.plan_epoch()
        runs = {entries: self.compiled_run(entries) for _, _, entries in epoch.stretches}
        order, fixed = self.epochs.orders(self.progress.epoch, epoch), self.fixed()
        blocks = self.host_data
        if blocks is not None:
            blocks.forget()  # those of an epoch that a resumed training found finished

        def take(stretch: Stretch, begin: int, end: int) -> None:
            given = (self.data, order(stretch)) if blocks is None else (blocks.block(stretch, order), self.no_order)
            self.state = runs[stretch.capacity](self.state, *given, *fixed, np.int32(begin), np.int32(end))

        def run(begin: int, end: int) -> None:
            for stretch, following in itertools.zip_longest(epoch.stretches, epoch.stretches[1:]):
                first, last = max(begin, stretch.begin), min(end, stretch.end)
                if first < last:
                    if blocks is not None:
                        blocks.block(stretch, order)
                        if following is not None:
                            blocks.prepare(following, order)  # while devices train
                    take(stretch, first, last)
                    if blocks is not None:
                        jax.block_until_ready(self.state.step)  # so that there are no more than two
            jax.block_until_ready(self.state.step)
            if blocks is not None and end == self.steps:
                blocks.forget()

        if blocks is None:
            jax.block_until_ready(order(epoch.stretches[0]))
        before = time.perf_counter()
        for entries, compiled in runs.items():  # compile every program, without taking a step
            if compiled not in self.compiled:
                take(next(stretch for stretch in epoch.stretches if stretch.capacity == entries), 0, 0)
                self.compiled.add(compiled)
        jax.block_until_ready(self.state.step)
        self.compile_seconds += time.perf_counter() - before
        return run

    def compiled_run(self, entries: Capacity) -> Callable[..., State]:
        """Return the loop of steps of minibatches of this capacity: run(state, data, order, *fixed, begin, end)."""
        recipe = self.recipe
        return loop.make_run(
            self.program, self.transform, recipe.batch_size, entries, recipe.reduction == "mean", self.mesh,
            self.epochs.division.group_size, self.layout, self.streamed,
        )  # fmt: skip

    def fixed(self) -> tuple[Any, ...]:
        """Put what all steps of an epoch read on the devices: rates, key, number of examples."""
        return sharding.replicate((self.rates(), self.step_key, np.int32(self.size)), self.mesh)

    def plan_epoch(self) -> EpochPlan:
        """Cut the current epoch into stretches."""
        epoch = self.epochs.plan(self.progress.epoch)
        return epoch if self.host_data is None else epoch._replace(stretches=self.host_data.cut(epoch.stretches))

    def plan_ahead(self) -> None:
        """Lay out the next epoch in a background thread, while an accelerator trains."""
        if not self.program.redraw and self.progress.epoch + 1 < self.recipe.epochs:
            self.epochs.plan_ahead(self.progress.epoch + 1)

    def read_means(self) -> str:
        """Return the training metrics of the epoch so far, for the progress bar."""
        means = state.means(self.state.metrics)
        return ", ".join(metric.show(means[metric.name]) for metric in self.program.loss_metrics)

    def one_copy(self) -> State:
        """Return the state on this process' first device, with the carry of all streams, and its split tables whole.

        Working memory is left out, as its values do not matter.
        """
        carry, weights = sharding.whole(self.state.carry, self.mesh), self.state.weights
        rest = sharding.one_copy(self.state._replace(carry=carry, weights=None))
        if self.layout is not None:
            return rest._replace(weights=self.layout.whole_weights(weights, self.transform))
        return rest._replace(weights=_with_scratch(sharding.one_copy(weights), itertools.repeat(None)))

    def whole(self, params: Any) -> Any:
        """Return the parameters on this process' first device, those of split tables in the host's memory."""
        return sharding.one_copy(params) if self.layout is None else self.layout.whole_params(params)

    def arrays(self) -> dict[str, Any]:
        """Return all arrays that a checkpoint holds."""
        return {"state": self.one_copy(), "best": self.best}

    def like(self) -> dict[str, Any]:
        """Return arrays of the shapes and types of `arrays`."""
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
        """Put all of a state but its weights on the devices, beside weights that are there already."""
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

    These are the tables that are read by rows, or, of a model that has none, all arrays of as many rows as the longest.

    Args:
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
