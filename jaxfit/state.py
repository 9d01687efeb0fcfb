"""The arrays that change in training, and its metrics."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxfit import tables
from jaxfit.optimizer import Transform
from jaxfit.program import Mean, Metrics, Program


class Sum(NamedTuple):
    """A float32 sum and its rounding error so far, exact to about 48 bits (compensated summation, Neumaier 1974)."""

    value: Array
    error: Array

    def add(self, x: Array) -> "Sum":
        """Return the sum after adding x."""
        total = self.value + x
        larger = jnp.abs(self.value) >= jnp.abs(x)
        lost = jnp.where(larger, (self.value - total) + x, (x - total) + self.value)
        return Sum(total, self.error + lost)

    def __float__(self) -> float:
        return float(self.value) + float(self.error)


class State(NamedTuple):
    """What the next step needs.

    Attributes:
        weights: like params, a `tables.Weights` for each array.
        step: int32, the number of steps taken.
        metrics: of the epoch so far, a Mean of `Sum`s for each of the program's `loss_metrics`.
        bad_step: int32, the first step whose loss was not finite; -1 if there is none.
        carry: of each stream of a sequential program, [B, …]; None for other programs.
    """

    weights: Any
    step: Array
    metrics: dict[str, Mean]
    bad_step: Array
    carry: Any


class Rates(NamedTuple):
    """Learning rates and decays, as traced values: each like params, with a scalar for each array.

    With `anneal` (bool) rates fall to zero as half a cosine over `total` steps (float32).
    """

    rate: Any
    decay: Any
    anneal: Any
    total: Any


def by_rows(params: Any, program: Program, data: Any, lists: int | None = None) -> tuple[bool, ...]:
    """Return, for each parameter, whether it is a table that is updated by rows, as the program's `touched` says.

    Args:
        params: pytree of arrays, or of their shapes.
        program: the model.
        data: training data.
        lists: number of columns of `Ragged.costs`; None where costs have no columns.
    """
    leaves, tree = tables.flatten(params)
    ids: list[Any] = [None] * len(leaves)
    sparse = program.sparse
    if sparse is not None:
        capacity = 128 if lists is None else (128,) * lists

        def touched(data: Any) -> list[Any]:
            batch = program.batch(data, jnp.zeros(1, jnp.int32), capacity, program.config)
            if program.at_step is not None:
                zero = jnp.zeros((), jnp.float32)
                batch = program.at_step(batch, jax.random.key(0), zero, program.config)
            return tree.flatten_up_to(sparse.touched(batch, program.config))

        ids = jax.eval_shape(touched, data)
    return tuple(k is not None for k in ids)


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def start(params: Any, program: Program, transform: Transform, by_rows: tuple[bool, ...], batch_size: int = 1) -> State:
    """Return the state before the first step.

    Args:
        batch_size: the number of streams of a sequential program.
    """
    leaves, tree = tables.flatten(params)
    weights = [tables.create(x, transform, rows) for x, rows in zip(leaves, by_rows, strict=True)]
    carry = None if program.sequential is None else streams(program, batch_size)
    zero = Sum(jnp.float32(0), jnp.float32(0))
    metrics = {metric.name: Mean(zero, zero) for metric in program.loss_metrics}
    return State(tree.unflatten(weights), jnp.int32(0), metrics, jnp.int32(-1), carry)


def streams(program: Program, number: int) -> Any:
    """Return the initial carry of a number of streams: [number, …]."""
    assert program.sequential is not None
    one = program.sequential.start(program.config)
    return jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x), (number, *jnp.shape(x))), one)


def add_metrics(sums: dict[str, Mean], step: Metrics, factor: Array | float) -> dict[str, Mean]:
    """Add a step's metrics, times a factor, to the epoch's; raises ValueError if their names differ."""
    if set(sums) != set(step):
        raise ValueError(f"the loss returns metrics {sorted(step)}, the program reads {sorted(sums)}")

    def added(sum_: Sum, x: Array) -> Sum:
        return sum_.add(jnp.asarray(x * factor, jnp.float32))

    return {
        name: Mean(*[added(sum_, x) for sum_, x in zip(mean, step[name], strict=True)]) for name, mean in sums.items()
    }


def means(metrics: dict[str, Mean]) -> dict[str, float]:
    """Return the means of `State.metrics`, by metric."""
    values = jax.device_get(metrics)
    return {name: float(m.total) / max(float(m.count), 1e-30) for name, m in values.items()}


@jax.jit
def current(state: State) -> Any:
    """Return the parameters, with scales applied."""
    return jax.tree.map(tables.whole, state.weights, is_leaf=tables.is_weights)


def rescaled(state: State) -> State:
    """Return the same state with all scales 1."""
    return state._replace(weights=jax.tree.map(tables.rescale, state.weights, is_leaf=tables.is_weights))


@partial(jax.jit, donate_argnums=0)
def between_epochs(state: State) -> tuple[State, Any]:
    """Return the state at an epoch's end, scales applied and metrics set to zero, and its parameters.

    The parameters are arrays of their own: they stay when the state is donated to the next step.
    """
    state = rescaled(state)._replace(metrics=jax.tree.map(jnp.zeros_like, state.metrics))
    return state, jax.tree.map(tables.whole, state.weights, is_leaf=tables.is_weights)
