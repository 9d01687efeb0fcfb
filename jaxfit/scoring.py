"""The compiled loops that score a data set: each example, or their sums for validation."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding

from jaxfit.devices import sharding
from jaxfit.devices.split_tables import Layout
from jaxfit.program import Carried, Program
from jaxfit.state import Sum, streams


@lru_cache(maxsize=32)
def make_scores(
    program: Program, most: int, batch_size: int, capacity: int | tuple[int, ...]
) -> Callable[[Any, Any, Any], Array]:
    """Compile `scores(params, data, size) -> float32[>= most]`: the scores of `size <= most` examples, in order.

    The examples of a sequential program are scored as `batch_size` streams, each after its burn-in.
    """

    def scores(params: Any, data: Any, size: Array) -> Array:
        def step(i: Array, carried: tuple[Array, Any]) -> tuple[Array, Any]:
            out, carry = carried
            index, real = _scored(program, i, jnp.arange(batch_size, dtype=jnp.int32), batch_size, size)
            values, carry = _score(program, params, data, index, size, capacity, carry)
            if program.sequential is not None:
                index = jnp.where(real, index, jnp.iinfo(jnp.int32).max)
                return out.at[index].set(values, mode="drop"), carry
            return lax.dynamic_update_slice(out, values, (i * batch_size,)), carry

        out = jnp.zeros((-(-most // batch_size) * batch_size,), jnp.float32)
        carry = _streams(program, batch_size)
        first = minibatches(program, most, batch_size).start
        return lax.fori_loop(first, -(-size // batch_size), step, (out, carry))[0]

    return jax.jit(scores)


class Scored(NamedTuple):
    """What some minibatches of a data set have scored.

    Attributes:
        total: the sum at each place in a minibatch, or of each stream of a sequential program, a `Sum` of [batch_size].
        carry: of each stream, [batch_size, …]; None for other programs.
    """

    total: Sum
    carry: Any


def nothing_scored(program: Program, batch_size: int) -> Scored:
    """Return the sums before the first minibatch."""
    zero: Any = np.zeros(batch_size, np.float32)
    return Scored(Sum(zero, zero), _streams(program, batch_size))


def _streams(program: Program, number: int) -> Any:
    return None if program.sequential is None else streams(program, number)


def minibatches(program: Program, size: int, batch_size: int) -> range:
    """Return the numbers of the minibatches that score a data set; streams begin with examples before their own."""
    burn_in = 0 if program.sequential is None else program.sequential.burn_in
    return range(-burn_in, -(-size // batch_size))


@lru_cache(maxsize=32)
def make_sums(
    program: Program, batch_size: int, capacity: int | tuple[int, ...], mesh: Mesh | None, layout: Layout | None = None
) -> Callable[..., Scored]:
    """Compile `sums(params, data, size, scored, begin, end) -> Scored`: the minibatches begin <= i < end are added.

    Each place in a minibatch (each stream of a sequential program) has a sum of its own, and sums are compensated, so
    that nothing is lost by rounding, and any division into calls gives the same bits. Minibatches are split over the
    devices. Where tables are split in their place, `params` are as in training: every device scores whole minibatches,
    and the compiler fetches the rows.
    """
    if layout is not None:
        assert mesh is not None
        of_whole = make_sums(program, batch_size, capacity, None)
        everywhere = NamedSharding(mesh, sharding.WHOLE)
        return jax.jit(lambda params, *given: of_whole(layout.in_order(params, mesh), *given), out_shardings=everywhere)
    local = batch_size // sharding.shards(mesh)

    def sums(params: Any, data: Any, size: Array, scored: Scored, begin: Array, end: Array) -> Scored:
        place = sharding.shard(mesh) * local + jnp.arange(local, dtype=jnp.int32)

        def step(i: Array, scored: Scored) -> Scored:
            index, real = _scored(program, i, place, batch_size, size)
            values, carry = _score(program, params, data, index, size, capacity, scored.carry)
            return Scored(scored.total.add(jnp.where(real, values, 0.0)), carry)

        return lax.fori_loop(begin, end, step, scored)

    whole, parts = sharding.WHOLE, sharding.SHARDED
    return jax.jit(sharding.everywhere(sums, mesh, (whole, whole, whole, parts, whole, whole), parts))


def _scored(program: Program, i: Array, place: Array, batch_size: int, size: Array) -> tuple[Array, Array]:
    """The examples that step i scores at these places of a minibatch, and which of them count."""
    if program.sequential is None:
        index = i * batch_size + place
        return index, index < size
    index = place * -(-size // batch_size) + i
    return index, (index < size) & (i >= 0)


def _score(
    program: Program, params: Any, data: Any, index: Array, size: Array, capacity: Any, carry: Any
) -> tuple[Array, Any]:
    """Score examples, their indices clipped to the data; before its first example a stream keeps its initial carry."""
    batch = program.batch(data, jnp.clip(index, 0, size - 1), capacity, program.config)
    if program.sequential is None:
        return program.score(params, batch, program.config), None
    values, after = program.score(params, Carried(batch, carry), program.config)

    def kept(after: Array, start: Array) -> Array:
        return jnp.where((index < 0).reshape(-1, *[1] * (after.ndim - 1)), start, after)

    return values, jax.tree.map(kept, after, streams(program, len(index)))
