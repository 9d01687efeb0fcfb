"""The compiled loop of training: the steps of an epoch.

An epoch is one compiled `fori_loop` with traced bounds, called in chunks: it compiles once, and any division into
chunks gives the same bits on a CPU. The order of examples is a function of (seed, epoch), the keys of a step are a
function of (seed, step), so that resuming needs no more than the number of the step.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxfit import tables
from jaxfit.devices import row_exchange, sharding
from jaxfit.devices.platform import platform, tracing_over
from jaxfit.devices.split_tables import Layout
from jaxfit.minibatches.division import Division, Order
from jaxfit.minibatches.streaming import SPECS
from jaxfit.optimizer import Transform
from jaxfit.program import Carried, Program
from jaxfit.state import Rates, State, add_metrics, rescaled, streams
from jaxfit.tables import Gathered, Rows

RESCALE_STEPS = 4096  # after so many steps, scales are applied before they could underflow:
LARGEST_DECAY = 0.02  # (1 - LARGEST_DECAY) ** RESCALE_STEPS is 1e-36
LAUNCHED = 16  # steps in a loop that a GPU starts as a whole


def differentiate(
    program: Program, weights: Any, batch: Any, weight: Array, keys: Array, decay: Any, carry: Any = None,
    layout: Layout | None = None,
) -> tuple[Array, Any, Any, Any]:  # fmt: skip
    """Differentiate the loss; return the loss, its Metrics, the gradients and the new carry.

    A gradient is an array for a dense parameter, a tuple of parts for a table that is read by rows, and a `Routed` for
    a table that is split.
    """
    leaves, tree = tables.flatten(weights)
    config, sparse, penalty = program.config, program.sparse, program.decay.penalty
    ids = [None] * len(leaves) if sparse is None else tree.flatten_up_to(sparse.touched(batch, config))
    read = tables.read if program.decay.when == "when-touched" else tables.gather
    routes = _routes(ids, layout)
    values = [
        w.value if k is None else read(w, k) if route is None else w.scale * row_exchange.fetch(w.value, route)
        for w, k, route in zip(leaves, ids, routes, strict=True)
    ]
    rows = tree.unflatten(values)
    seen = batch if program.sequential is None else Carried(batch, carry)

    def penalized(params: Any) -> tuple[Array, tuple[Any, ...]]:
        result = program.loss(params, seen, weight, keys, config)
        loss = result[0]
        if penalty is None:
            return loss, result
        penalties = tree.flatten_up_to(penalty(params, batch, weight, config))
        strengths = tree.flatten_up_to(decay)
        return loss + sum(d * p for d, p in zip(strengths, penalties, strict=True)), result

    params = rows if sparse is None else Gathered(rows)
    grads, (loss, metrics, *after) = jax.grad(penalized, has_aux=True)(params)
    grads = tree.flatten_up_to(grads if sparse is None else grads.rows)
    parts = [
        g if k is None else (Rows(k, g),) if route is None else Routed(route, g)
        for k, route, g in zip(ids, routes, grads, strict=True)
    ]
    return loss, metrics, tree.unflatten(parts), after[0] if after else None


class Routed(NamedTuple):
    """The gradient of a table that is split: of the rows that this device has read, [k, …], and their route."""

    route: row_exchange.Route
    grad: Array


def _routes(ids: list[Any], layout: Layout | None) -> list[row_exchange.Route | None]:
    """Make the route of the rows that are read, for each parameter that is split; one route for the same ids."""
    if layout is None:
        return [None] * len(ids)
    made: dict[tuple[int, int], row_exchange.Route] = {}
    for k, rows in zip(ids, layout.rows, strict=True):
        if rows is not None and (id(k), rows) not in made:
            made[id(k), rows] = row_exchange.route(k, rows)
    return [None if rows is None else made[id(k), rows] for k, rows in zip(ids, layout.rows, strict=True)]


def visit_examples(
    program: Program,
    state: State,
    data: Any,
    index: Array,
    used: Array,
    rates: Rates,
    factor: Array,
    every: Any,
) -> State:
    """Return the state after visiting the first `used` examples of `index`, one after another."""
    assert program.visits is not None
    visit, touched = program.visits.visit, program.decay.when == "when-touched"
    leaves, tree = tables.flatten(state.weights)
    rate = [factor * r for r in jax.tree.leaves(rates.rate)]
    decay = jax.tree.leaves(rates.decay)
    shrunk = [w._replace(scale=w.scale * (1 - r * every * d)) for w, r, d in zip(leaves, rate, decay, strict=True)]
    of_rate = tree.unflatten(rate)
    of_decay = tree.unflatten([d if touched else jnp.zeros_like(d) for d in decay])

    def one(k: Array, state: State) -> State:
        loss, metrics, weights = visit(state.weights, data, index[k], of_rate, of_decay, program.config)
        bad = jnp.where((state.bad_step < 0) & ~jnp.isfinite(loss), state.step, state.bad_step)
        return state._replace(weights=weights, metrics=add_metrics(state.metrics, metrics, 1.0), bad_step=bad)

    state = lax.fori_loop(0, used, one, state._replace(weights=tree.unflatten(shrunk)))
    return state._replace(step=state.step + 1)


@jax.named_scope("update")
def updated(
    program: Program,
    weights: Any,
    grads: Any,
    rates: Rates,
    factor: Array,
    every: Any,
    transform: Transform,
    mesh: Mesh | None,
) -> Any:
    """Return the weights after a step.

    Args:
        program: what is trained.
        weights: before the step.
        grads: like weights; a tuple of parts for each table.
        rates: of the recipe.
        factor: of the rate, by annealing.
        every: decay of all rows in this step, in units of the recipe's.
        transform: the optimizer.
        mesh: devices; None for one.
    """
    leaves, tree = tables.flatten(weights)
    new = []
    of_rate, of_decay = jax.tree.leaves(rates.rate), jax.tree.leaves(rates.decay)
    for w, g, rate, strength in zip(leaves, tree.flatten_up_to(grads), of_rate, of_decay, strict=True):
        decay = every * strength
        rows_decay = None if program.decay.when == "when-touched" else decay  # the gradient of rows includes it
        if isinstance(g, Routed):
            new.append(row_exchange.update(w, g.route, g.grad, factor * rate, rows_decay, transform))
        elif isinstance(g, tuple):
            parts = sharding.gather_parts(g, mesh)
            new.append(tables.update_rows(w, parts, factor * rate, rows_decay, transform))
        else:
            g = sharding.total(g, mesh)
            new.append(tables.update_whole(w, g, factor * rate, decay, transform))
    return tree.unflatten(new)


def repeated(first: Array, last: Array, step: Callable[[Array, State], State], state: State) -> State:
    """Return the state after the steps first <= i < last.

    On a GPU, most steps are taken LAUNCHED at a time: a loop of a static number of steps is launched as a whole,
    whereas a loop of a traced number waits for its condition before each step.
    """
    begin = first
    if platform() == "gpu":
        runs = jnp.maximum(last - first, 0) // LAUNCHED

        def run(j: Array, state: State) -> State:
            return lax.fori_loop(0, LAUNCHED, lambda k, s: step(first + j * LAUNCHED + k, s), state)

        state = lax.fori_loop(0, runs, run, state)
        begin = first + runs * LAUNCHED
    return lax.fori_loop(begin, last, step, state)


@lru_cache(maxsize=64)
def make_run(
    program: Program,
    transform: Transform,
    batch_size: int,
    capacity: int | tuple[int, ...],
    mean: bool,
    mesh: Mesh | None = None,
    group_size: int = 1,
    layout: Layout | None = None,
    streamed: bool = False,
) -> Callable[..., State]:
    """Compile `run(state, data, order, rates, key, size, begin, end)`: the steps begin <= i < end of one epoch.

    Args:
        program: what is trained; equal programs share what is compiled.
        transform: the optimizer.
        batch_size: examples of a minibatch, on all devices.
        capacity: of ragged entries, for each shard of a minibatch.
        mean: whether a step follows the gradient of the minibatch's mean, or of its sum.
        mesh: devices; None for one.
        group_size: the number of neighbouring examples that are visited at once.
        layout: which tables are split over the mesh; None where none is.
        streamed: whether `data` are a `Block` that has these steps, in place of all examples.

    Returns:
        The loop, which donates the state. Its `order` is an `Order` that has the steps from `begin` to `end`; `size` is
        the number of examples, int32.
    """
    # a program that the compiler splits is written as for one device
    by_compiler = layout is not None and layout.read_whole
    devices, split = (None, None) if by_compiler else (mesh, layout)
    sequential, config = program.sequential is not None, program.config
    division = Division(batch_size, sharding.shards(devices), group_size, sequential)

    def along_data(x: Array) -> Array:
        return sharding.along_data(x, mesh) if by_compiler and mesh is not None else x

    def minibatch(i: Array, data: Any, order: Order, size: Array) -> Any:
        """Return this shard of the minibatch of a step."""
        if streamed:
            return jax.tree.map(lambda x: along_data(x) if x.shape[:1] == (batch_size,) else x, data.at(i))
        index = along_data(division.examples(i, sharding.shard(devices), order, size))
        return program.batch(data, index, capacity, config)

    def step(i: Array, state: State, data: Any, order: Order, rates: Rates, key: Array, size: Array) -> State:
        places, used = division.places(sharding.shard(devices)), division.used(i, size)
        step_key = jax.random.fold_in(key, state.step)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(step_key, places)
        count = used.astype(jnp.float32) if mean else 1.0
        fraction = state.step.astype(jnp.float32) / rates.total
        factor = jnp.where(rates.anneal, 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(fraction, 1.0))), 1.0)
        per_row = program.decay.share * (used / count / size)
        every: Any = {"every-step": 1.0, "per-row": per_row, "when-touched": 0.0}[program.decay.when]
        if program.visits is not None:
            index = division.examples(i, 0, order, size)
            return visit_examples(program, state, data, index, used, rates, factor, every)

        batch, weight = minibatch(i, data, order, size), division.weights(i, places, size) / count
        if program.at_step is not None:
            shared = jax.random.fold_in(step_key, batch_size)  # differs from every example's
            batch = program.at_step(batch, shared, fraction, config)
        carry = None
        if program.sparse is not None and program.sparse.gradient is not None and split is None:
            loss, metrics, grads = program.sparse.gradient(state.weights, batch, weight, keys, config)
        else:
            loss, metrics, grads, carry = differentiate(
                program, state.weights, batch, weight, keys, rates.decay, state.carry, split
            )
        weights = updated(program, state.weights, grads, rates, factor, every, transform, devices)
        loss, metrics = sharding.total((loss, dict(metrics)), devices)
        finite = [jnp.isfinite(x) for x in jax.tree.leaves((loss, metrics))]
        bad = (state.bad_step < 0) & ~jnp.stack(finite).all()
        return State(
            weights=weights,
            step=state.step + 1,
            metrics=add_metrics(state.metrics, metrics, count),
            bad_step=jnp.where(bad, state.step, state.bad_step),
            carry=carry,
        )

    def run(
        state: State, data: Any, order: Order, rates: Rates, key: Array, size: Array, begin: Array, end: Array
    ) -> State:
        if sequential:
            reset = (begin == 0) & (end > 0)
            carry = jax.tree.map(
                lambda c, s: jnp.where(reset, s, c), state.carry, streams(program, division.shard_size)
            )
            state = state._replace(carry=carry)

        def stretch(j: Array, state: State) -> State:
            first = jnp.maximum(begin, j * RESCALE_STEPS)
            if program.decay.when != "when-touched":  # whose scales are always 1
                # scales are applied at the same steps however the epoch is divided into chunks
                begins = (first == j * RESCALE_STEPS).astype(jnp.int32)
                state = lax.fori_loop(0, begins, lambda _, s: rescaled(s), state)
            last = jnp.minimum(end, (j + 1) * RESCALE_STEPS)
            return repeated(first, last, lambda i, s: step(i, s, data, order, rates, key, size), state)

        return lax.fori_loop(begin // RESCALE_STEPS, (end + RESCALE_STEPS - 1) // RESCALE_STEPS, stretch, state)

    of_weights = sharding.WHOLE if layout is None else layout.specs(transform)
    of_state = State._make([of_weights, *[sharding.WHOLE] * 3, sharding.SHARDED])
    if by_compiler:
        assert layout is not None
        assert mesh is not None
        return _split_by_compiler(run, layout, transform, mesh, of_state)
    of_data = SPECS if streamed else sharding.WHOLE
    of_all = of_state, of_data, *[sharding.WHOLE] * 6
    return jax.jit(sharding.everywhere(run, mesh, of_all, of_state), donate_argnums=0)


def _split_by_compiler(
    steps: Callable[..., State], layout: Layout, transform: Transform, mesh: Mesh, of_state: Any
) -> Callable[..., State]:
    """Compile a loop that is written for one device, of a state whose tables are split over several."""

    def run(state: State, *given: Any) -> State:
        blocks = layout.blocks(state.weights, transform, mesh)
        with tracing_over(sharding.row_shards(mesh)):
            state = steps(state._replace(weights=blocks), *given)
        return state._replace(weights=layout.parts(state.weights, transform, mesh))

    places = jax.tree.map(
        lambda spec: NamedSharding(mesh, spec), of_state, is_leaf=lambda node: isinstance(node, PartitionSpec)
    )
    return jax.jit(run, out_shardings=places, donate_argnums=0)
