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
from jaxfit.devices.platform import tracing_over
from jaxfit.devices.split_tables import Layout
from jaxfit.minibatches.division import Division
from jaxfit.minibatches.streaming import SPECS
from jaxfit.program import Carried, Program
from jaxfit.state import Sum, streams


@lru_cache(maxsize=32)
def make_scores(
    program: Program, most: int, batch_size: int, capacity: int | tuple[int, ...]
) -> Callable[[Any, Any, Any], Array]:
    """Compile `scores(params, data, size) -> float32[>= most]`: the scores of `size <= most` examples, in order.

    The examples of a sequential program are scored as `batch_size` streams, each after its burn-in.
    """
    division = Division(batch_size, sequential=program.sequential is not None)

    def scores(params: Any, data: Any, size: Array) -> Array:
        def step(i: Array, carried: tuple[Array, Any]) -> tuple[Array, Any]:
            out, carry = carried
            index = division.positions(i, division.places(0), size)
            batch = program.batch(data, division.examples(i, 0, None, size), capacity, program.config)
            values, carry = _score(program, params, batch, index, carry)
            if program.sequential is not None:
                index = jnp.where((index < size) & (i >= 0), index, jnp.iinfo(jnp.int32).max)
                return out.at[index].set(values, mode="drop"), carry
            return lax.dynamic_update_slice(out, values, (i * batch_size,)), carry

        out = jnp.zeros((-(-most // batch_size) * batch_size,), jnp.float32)
        carry = _streams(program, batch_size)
        first = minibatches(program, most, division).start
        return lax.fori_loop(first, division.steps(size), step, (out, carry))[0]

    return jax.jit(scores)


class Scored(NamedTuple):
    """The sums of the scores of some minibatches.

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


def minibatches(program: Program, size: int, division: Division) -> range:
    """Return the numbers of the minibatches that score a data set; streams begin with examples before their own."""
    burn_in = 0 if program.sequential is None else program.sequential.burn_in
    return range(-burn_in, division.steps(size))


@lru_cache(maxsize=32)
def make_sums(
    program: Program, division: Division, capacity: int | tuple[int, ...], mesh: Mesh | None,
    layout: Layout | None = None, streamed: bool = False,
) -> Callable[..., Scored]:  # fmt: skip
    """Compile `sums(params, data, size, scored, begin, end) -> Scored`: the minibatches begin <= i < end are added.

    Each place in a minibatch (each stream of a sequential program) has a sum of its own, and sums are compensated, so
    that nothing is lost by rounding, and any division into calls gives the same bits. Minibatches are split over the
    devices. Where tables are split in their place, `params` are as in training, and the program is written as for one
    device: the compiler splits minibatches over devices that do not share tables, and fetches the rows. If `streamed`,
    `data` are a `Block` that has these minibatches.
    """
    own = mesh if layout is None else None

    def along_data(x: Array) -> Array:
        if layout is None or mesh is None or x.shape[:1] != (division.batch_size,):
            return x
        return sharding.along_data(x, mesh)

    def sums(params: Any, data: Any, size: Array, scored: Scored, begin: Array, end: Array) -> Scored:
        shard = sharding.shard(own)

        def step(i: Array, scored: Scored) -> Scored:
            index = division.positions(i, division.places(shard), size)
            if streamed:
                batch = jax.tree.map(along_data, data.at(i))
            else:
                examples = along_data(division.examples(i, shard, None, size))
                batch = program.batch(data, examples, capacity, program.config)
            values, carry = _score(program, params, batch, index, scored.carry)
            real = (index < size) & (i >= 0)  # before its own examples a stream is not counted
            return Scored(scored.total.add(jnp.where(real, values, 0.0)), carry)

        return lax.fori_loop(begin, end, step, scored)

    whole, parts = sharding.WHOLE, sharding.SHARDED
    if layout is not None:
        assert mesh is not None

        def of_split(params: Any, *given: Any) -> Scored:
            with tracing_over(sharding.row_shards(mesh) if layout.read_whole else 1):
                return sums(layout.in_order(params, mesh), *given)

        return jax.jit(of_split, out_shardings=NamedSharding(mesh, whole))
    of_data = SPECS if streamed else whole
    return jax.jit(sharding.everywhere(sums, mesh, (whole, of_data, whole, parts, whole, whole), parts))


def _score(program: Program, params: Any, batch: Any, index: Array, carry: Any) -> tuple[Array, Any]:
    """Score examples, float32; at negative indices, before the data, a stream keeps its initial carry."""
    if program.sequential is None:
        return jnp.asarray(program.score(params, batch, program.config), jnp.float32), None
    values, after = program.score(params, Carried(batch, carry), program.config)

    def kept(after: Array, start: Array) -> Array:
        return jnp.where((index < 0).reshape(-1, *[1] * (after.ndim - 1)), start, after)

    return jnp.asarray(values, jnp.float32), jax.tree.map(kept, after, streams(program, len(index)))
