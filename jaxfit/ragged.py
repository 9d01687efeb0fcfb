"""Ragged lists laid flat: the lists of a minibatch end to end, and what is read of tables for their entries."""

import jax.numpy as jnp
from jax import Array, lax

from jaxfit.tables import Weights


def spread(start: Array, which: Array, room: int) -> tuple[Array, Array, Array]:
    """The ranges start[w] … start[w + 1] - 1 for each w of `which` [B], laid end to end in `room` places.

    Returns for each place: which of the ranges it belongs to (B for padding), the position, and whether it is
    real.
    """
    first, length = start[which], start[which + 1] - start[which]
    end = jnp.cumsum(length)
    owner = jnp.cumsum(jnp.zeros(room, jnp.int32).at[end].add(1, mode="drop"))
    place = jnp.arange(room, dtype=jnp.int32)
    at = jnp.minimum(owner, which.shape[0] - 1)
    real = place < end[-1]
    return owner, jnp.where(real, place + (first - end + length)[at], 0), real


def dots(table: Weights, ids: Array, vectors: Array, owner: Array) -> Array:
    """table[ids[j, k]] · vectors[owner[j]]: int32 [n, K], [B, D], int32[n] -> [n, K].

    A sum along rows is written as some additions and a product with ones, as XLA does not vectorise plain sums on a
    CPU; nothing as large as [n, K, D] is held.
    """
    lanes = next(n for n in (4, 5, 3, 2, 1) if vectors.shape[1] % n == 0)
    width = vectors.shape[1] // lanes
    value, vectors = table.value.reshape(-1, lanes, width), (table.scale * vectors).reshape(-1, lanes, width)
    row, column = ids.reshape(-1), jnp.repeat(owner, ids.shape[1])
    partial = value.at[row, 0].get(mode="clip") * vectors.at[column, 0].get(mode="clip")
    for j in range(1, lanes):
        partial += value.at[row, j].get(mode="clip") * vectors.at[column, j].get(mode="clip")
    partial = lax.optimization_barrier(partial)  # not to be fused into a product that could not be one
    return (partial @ jnp.ones((width, 1), partial.dtype)).reshape(ids.shape)
