"""The compiled part of training: what a model brings, one step, and the loop that runs an epoch's steps.

An epoch is one compiled `fori_loop` with traced bounds, called in chunks: any cut gives the same bits and it
compiles once. The order of examples is a function of (seed, epoch), the keys of a step are a function of (seed,
step), so that a step number is all that resuming needs.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh

from jaxfit import sharding as devices
from jaxfit import tables as rows
from jaxfit.row_gradients import Rows

# Scales are folded in every so many steps of an epoch, too, before a table's scalar could underflow:
# (1 - LARGEST_DECAY) ** FOLD_STEPS is 1e-36.
FOLD_STEPS = 4096
LARGEST_DECAY = 0.02


class Program(NamedTuple):
    """What a model gives the engine: pure functions of arrays.

    size(data) -> int: the number of examples.
    batch(data, index: int32[B], capacity) -> batch: gathers a minibatch; `capacity` is the static room for ragged
        entries: as many numbers as `costs` has columns (0 for models without).
    loss(params, batch, weight: float32[B], keys: key[B]) -> scalar: the SUM of weight * loss over the examples
        (nats, or squared stars); weight 0 is padding; one key an example. For a parameter that is touched by
        rows it receives the gathered rows [k, …] in place of the table.
    touched(batch) -> like params: int32[k] row ids for each table without a dense use, None for the
        others. Ids past the end are padding. The field itself is None where every parameter has a dense use.
    score(params, batch) -> float32[B]: what validation averages, per example, without dropout: the sum over the
        example's events.
    costs(data) -> int[N] or int[N, kinds]: ragged entries per example (host), None for models without.
    metric: the name and the transform of the mean score that people read: perplexity is exp of nats.
    gradient(weights, batch, weight, keys) -> (loss, gradients): where a model knows a faster way to the gradient of
        `loss` than differentiating gathered rows. It reads the `rows.Weights` of each parameter; a gradient is
        an array for a parameter without touched rows, and a tuple of `parts` of one with. Not for a decay that is
        "when-touched", whose penalty is differentiated with the loss.
    events(data) -> int: how many events (words, ratings) losses and scores are averaged over; None: one an example.
    halved: whether losses are half of what scores are, as ½ squared errors are of squared ones.
    decay: what the recipe's decay λ means. "every-step": w <- w (1 - ηλ). "per-row": ½λ|row|² is added once to the
        loss of the whole training set, so that a step shrinks rows by its share of the examples.
        "when-touched": it is added each time that a row is used, as `penalty` says.
    schedule(batch, fraction) -> batch: the minibatch with what depends on how much of the training is done
        (float32 scalar, of all epochs of the recipe), as the T of CD-T.
    penalty(params, batch, weight) -> like params, scalars: the SUM of weight * ½|row|² over the uses of each
        parameter's rows, where decay is "when-touched"; it receives what `loss` does.
    visit(weights, data, example: int32 scalar, rate, decay) -> (loss, weights): for a model that makes several steps
        of SGD within an example; it takes the place of `loss` and its gradient in training. rate and decay are like
        params, scalars; decay is 0 but where it is "when-touched". A minibatch's examples are visited one after
        another, on one device.
    together: for data that lie in random order already, and cost alike: up to so many examples side by side are
        visited together, and only the order of such groups is drawn anew in each epoch, so that memory is read in
        stretches. Minibatches hold whole groups, two at least: a group's size is the largest number up to this that
        divides the minibatch's. `batch` is then asked for examples past the last one, too, whose weight is 0.
    """

    size: Callable[[Any], int]
    batch: Callable[[Any, jax.Array, Any], Any]
    loss: Callable[[Any, Any, jax.Array, jax.Array], jax.Array]
    touched: Callable[[Any], Any] | None
    score: Callable[[Any, Any], jax.Array]
    costs: Callable[[Any], np.ndarray] | None
    metric: tuple[str, Callable[[float], float]]
    gradient: Callable[[Any, Any, jax.Array, jax.Array], tuple[jax.Array, Any]] | None = None
    events: Callable[[Any], int] | None = None
    halved: bool = False
    decay: Literal["every-step", "per-row", "when-touched"] = "every-step"
    penalty: Callable[[Any, Any, jax.Array], Any] | None = None
    schedule: Callable[[Any, jax.Array], Any] | None = None
    visit: Callable[[Any, Any, jax.Array, Any, Any], tuple[jax.Array, Any]] | None = None
    together: int = 1


class State(NamedTuple):
    """What the next step needs: weights (params of `rows.Weights`), and three scalars.

    step: int32, steps since the start; loss: float32, the epoch's sum so far; bad_step: int32, the first step
    whose loss was not finite, -1 while there is none.
    """

    weights: Any
    step: jax.Array
    loss: jax.Array
    bad_step: jax.Array


class Rates(NamedTuple):
    """Traced: learning rates and decays, each like params with a scalar per parameter.

    With `anneal` (bool) rates fall to zero as half a cosine over `total` steps (float32).
    """

    rate: Any
    decay: Any
    anneal: jax.Array
    total: jax.Array


def is_weights(node: Any) -> bool:
    """True for one parameter's training state, where a tree of them is mapped over."""
    return isinstance(node, rows.Weights)


def start(params: Any, program: Program, transform: optax.GradientTransformation, data: Any) -> State:
    """The state before the first step: `program.touched` tells which tables go by rows."""
    one = jnp.zeros(1, jnp.int32)
    kinds = () if program.costs is None else np.shape(program.costs(data))[1:]
    room = (128,) * kinds[0] if kinds else 128
    touched = jax.eval_shape(lambda: row_ids(program, params, program.batch(data, one, room)))
    weights = [
        rows.create(value, transform, by_rows=ids is not None)
        for value, ids in zip(params, touched, strict=True)
    ]
    zero = jnp.zeros((), jnp.int32)
    return State(type(params)._make(weights), zero, jnp.zeros((), jnp.float32), zero - 1)


def row_ids(program: Program, params: Any, batch: Any) -> Any:
    """The touched rows of each parameter (only names are read of `params`); None: updated whole."""
    if program.touched is None:
        return type(params)._make([None] * len(params))
    return program.touched(batch)


def by_differentiation(program: Program, decay: Any) -> Callable[..., tuple[jax.Array, Any]]:
    """A program's `gradient` by automatic differentiation with respect to whole parameters and gathered rows."""

    def penalized(params: Any, batch: Any, weight: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss = program.loss(params, batch, weight, keys)
        if program.penalty is None:
            return loss, loss
        penalties = program.penalty(params, batch, weight)
        return loss + sum(d * p for d, p in zip(decay, penalties, strict=True)), loss

    def gradient(weights: Any, batch: Any, weight: jax.Array, keys: jax.Array) -> tuple[jax.Array, Any]:
        ids = row_ids(program, weights, batch)
        read = rows.read if program.decay == "when-touched" else rows.gather
        view = [w.value if k is None else read(w, k) for w, k in zip(weights, ids, strict=True)]
        params = type(weights)._make(view)
        grads, loss = jax.grad(penalized, has_aux=True)(params, batch, weight, keys)
        of_tables = [g if k is None else (Rows(k, g),) for k, g in zip(ids, grads, strict=True)]
        return loss, type(weights)._make(of_tables)

    return gradient


def current(state: State) -> Any:
    """The parameters themselves, scales applied."""
    return jax.tree.map(rows.whole, state.weights, is_leaf=is_weights)


def folded(state: State) -> State:
    """The same state with all scales 1."""
    return state._replace(weights=jax.tree.map(rows.fold, state.weights, is_leaf=is_weights))


@partial(jax.jit, donate_argnums=0)
def fold(state: State) -> State:
    """The state between epochs: scales folded in, the epoch's loss sum back at zero."""
    return folded(state)._replace(loss=jnp.zeros_like(state.loss))


def visits(
    program: Program,
    weights: Any,
    data: Any,
    index: jax.Array,
    used: jax.Array,
    rates: Rates,
    factor: jax.Array,
    every: Any,
) -> tuple[Any, jax.Array]:
    """The weights after visiting the first `used` examples of `index`, and the sum of their losses."""
    make = type(weights)._make
    rate = make([factor * r for r in rates.rate])
    shrunk = [w.scale * (1 - r * every * d) for w, r, d in zip(weights, rate, rates.decay, strict=True)]
    weights = make([w._replace(scale=s) for w, s in zip(weights, shrunk, strict=True)])
    decay = make([d if program.decay == "when-touched" else jnp.zeros_like(d) for d in rates.decay])

    def one(k: jax.Array, carry: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        assert program.visit is not None
        loss, weights = program.visit(carry[0], data, index[k], rate, decay)
        return weights, carry[1] + loss

    return lax.fori_loop(0, used, one, (weights, jnp.zeros((), jnp.float32)))


def advance(state: State, weights: Any, loss: jax.Array) -> State:
    """The state after a step."""
    first_bad = (state.bad_step < 0) & ~jnp.isfinite(loss)
    return State(
        weights=weights,
        step=state.step + 1,
        loss=state.loss + loss,
        bad_step=jnp.where(first_bad, state.step, state.bad_step),
    )


@lru_cache(maxsize=64)
def make_run(
    program: Program,
    transform: optax.GradientTransformation,
    batch_size: int,
    capacity: int | tuple[int, ...],
    mean: bool,
    mesh: Mesh | None = None,
    together: int = 1,
) -> Callable[..., State]:
    """Compile `run(state, data, order, rates, key, size, start, stop)`: the steps start <= i < stop of one epoch.

    order: int32 of at least batch_size / together * steps, from `order.permutation`: group g holds the examples
    from g * together on, and one that is not whole comes last; size: int32, the number of examples; the state is
    donated. With `mean` a step's gradient is that of the mean over the minibatch, else of the sum. What is compiled
    is kept, for trainings to come of an equal program.
    """
    local, groups = batch_size // devices.lanes(mesh), batch_size // together

    def step(
        i: jax.Array,
        state: State,
        data: Any,
        order: jax.Array,
        rates: Rates,
        key: jax.Array,
        size: jax.Array,
    ) -> State:
        first = i * batch_size + devices.lane(mesh) * local
        place = first + jnp.arange(local, dtype=jnp.int32)
        visited = lax.dynamic_slice(order, (i * groups,), (groups,))
        if together > 1:
            visited = visited[:, None] * together + jnp.arange(together, dtype=jnp.int32)[None]
            visited = visited.reshape(-1)
        index = visited
        if local < batch_size:
            index = lax.dynamic_slice(visited, (first - i * batch_size,), (local,))
        weight = (place < size).astype(jnp.float32)
        in_batch = place - i * batch_size
        keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.fold_in(key, state.step), in_batch)
        used = jnp.minimum(batch_size, size - i * batch_size)
        count = used.astype(jnp.float32) if mean else 1.0
        fraction = state.step.astype(jnp.float32) / rates.total
        factor = jnp.where(rates.anneal, 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(fraction, 1.0))), 1.0)
        per_row = used / count / size
        every: Any = {"every-step": 1.0, "per-row": per_row, "when-touched": 0.0}[program.decay]
        if program.visit is not None:
            weights, loss = visits(program, state.weights, data, visited, used, rates, factor, every)
            return advance(state, weights, loss)

        batch = program.batch(data, index, capacity)
        if program.schedule is not None:
            batch = program.schedule(batch, fraction)
        compute = program.gradient or by_differentiation(program, rates.decay)
        loss, grads = compute(state.weights, batch, weight / count, keys)
        updated = []
        for w, g, rate, strength in zip(state.weights, grads, rates.rate, rates.decay, strict=True):
            decay = every * strength
            if isinstance(g, tuple):
                parts = devices.gather_parts(g, local, mesh)
                in_gradient = program.decay == "when-touched"
                updated.append(
                    rows.update_rows(w, parts, factor * rate, None if in_gradient else decay, transform)
                )
            else:
                g = devices.total(g, mesh)
                updated.append(rows.update_whole(w, g, factor * rate, decay, transform))
        return advance(state, type(state.weights)._make(updated), devices.total(loss, mesh) * count)

    def run(
        state: State,
        data: Any,
        order: jax.Array,
        rates: Rates,
        key: jax.Array,
        size: jax.Array,
        begin: jax.Array,
        end: jax.Array,
    ) -> State:
        def stretch(j: jax.Array, state: State) -> State:
            # a stretch begins with scales folded in, whether or not it is cut
            first = jnp.maximum(begin, j * FOLD_STEPS)
            state = lax.fori_loop(
                0, (first == j * FOLD_STEPS).astype(jnp.int32), lambda _, s: folded(s), state
            )
            last = jnp.minimum(end, (j + 1) * FOLD_STEPS)
            return lax.fori_loop(first, last, lambda i, s: step(i, s, data, order, rates, key, size), state)

        return lax.fori_loop(begin // FOLD_STEPS, (end + FOLD_STEPS - 1) // FOLD_STEPS, stretch, state)

    return jax.jit(devices.everywhere(run, mesh), donate_argnums=0)


@lru_cache(maxsize=16)
def make_scores(
    program: Program, room: int, batch_size: int, capacity: int | tuple[int, ...]
) -> Callable[[Any, Any, jax.Array], jax.Array]:
    """Compile `scores(params, data, size) -> float32[>= room]`: the scores of `size` examples, in their order."""

    def scores(params: Any, data: Any, size: jax.Array) -> jax.Array:
        def step(i: jax.Array, out: jax.Array) -> jax.Array:
            first = i * batch_size
            index = jnp.minimum(first + jnp.arange(batch_size, dtype=jnp.int32), size - 1)
            values = program.score(params, program.batch(data, index, capacity))
            return lax.dynamic_update_slice(out, values, (first,))

        out = jnp.zeros((-(-room // batch_size) * batch_size,), jnp.float32)
        return lax.fori_loop(0, -(-size // batch_size), step, out)

    return jax.jit(scores)
