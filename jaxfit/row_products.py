"""Products of a table's rows with vectors: many for each vector, sums along rows, products of many small matrices."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxfit.devices.platform import block, platform


def dots(table: Array, ids: Array, vectors: Array, owner: Array) -> Array:
    """Compute table[ids[j, k]] · vectors[owner[j]]: [n, K].

    On a CPU, the sum over D is written as some additions and a product with ones, as XLA does not vectorise plain sums
    there; no array of [n, K, D] is needed. Elsewhere such arrays are made, in blocks that memory allows.

    Args:
        table: [rows, D].
        ids: int32 [n, K].
        vectors: [B, D].
        owner: int32 [n], the row of `vectors` for each j.
    """
    if platform() != "cpu":
        return _dots_in_blocks(table, ids, vectors, owner)
    pieces = next(n for n in (4, 5, 3, 2, 1) if vectors.shape[1] % n == 0)
    width = vectors.shape[1] // pieces
    table, vectors = table.reshape(-1, pieces, width), vectors.reshape(-1, pieces, width)
    row, column = ids.reshape(-1), jnp.repeat(owner, ids.shape[1])
    partial = table.at[row, 0].get(mode="clip") * vectors.at[column, 0].get(mode="clip")
    for j in range(1, pieces):
        partial += table.at[row, j].get(mode="clip") * vectors.at[column, j].get(mode="clip")
    partial = lax.optimization_barrier(partial)  # fused with it, the product below is no matrix product
    return row_sums(partial).reshape(ids.shape)


def row_sums(x: Array) -> Array:
    """Sum along the last axis; on a CPU by a product with ones, as XLA's own sums take up to fifteen times as long."""
    if platform() != "cpu":
        return jnp.sum(x, axis=-1)
    return (x.reshape(-1, x.shape[-1]) @ jnp.ones(x.shape[-1], x.dtype)).reshape(x.shape[:-1])


# `scores` and `weighted_sums` define their own gradients, by `_transposed_sums`; they have no forward mode.
@jax.custom_vjp
def scores(vectors: Array, rows: Array) -> Array:
    """Multiply all vectors of each batch element with all of its rows: [B, I, J].

    Args:
        vectors: [B, I, D].
        rows: [B, J, D].
    """
    return jnp.einsum("bid,bjd->bij", vectors, rows)


@jax.custom_vjp
def weighted_sums(weights: Array, rows: Array) -> Array:
    """Compute weighted sums of the rows of each batch element: [B, I, D].

    Args:
        weights: [B, I, J].
        rows: [B, J, D].
    """
    return jnp.einsum("bij,bjd->bid", weights, rows)


def _with_factors(function: Callable[[Array, Array], Array]) -> Callable[..., Any]:
    return lambda *factors: (function(*factors), factors)


def _transposed_sums(weights: Array, vectors: Array) -> Array:
    """Compute weightsᵀ vectors of each batch element: [B, J, D].

    XLA on a CPU takes half the time if the weights are transposed beforehand.

    Args:
        weights: [B, I, J].
        vectors: [B, I, D].
    """
    if platform() != "cpu":
        return jnp.einsum("bij,bid->bjd", weights, vectors)
    transposed = lax.optimization_barrier(jnp.swapaxes(weights, 1, 2))
    return jnp.einsum("bji,bid->bjd", transposed, vectors)


def _scores_backward(factors: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    vectors, rows = factors
    return weighted_sums(g, rows).astype(vectors.dtype), _transposed_sums(g, vectors).astype(rows.dtype)


def _sums_backward(factors: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    weights, rows = factors
    return scores(g, rows).astype(weights.dtype), _transposed_sums(weights, g).astype(rows.dtype)


scores.defvjp(_with_factors(scores), _scores_backward)
weighted_sums.defvjp(_with_factors(weighted_sums), _sums_backward)


def stored(x: Array) -> Array:
    """Return an array that XLA computes once on a CPU, rather than again for each row of it that is gathered.

    XLA drops `lax.optimization_barrier` there before it fuses loops, but does not fuse what a scatter writes.
    """
    if platform() != "cpu":
        return x
    return jnp.zeros_like(x).at[jnp.arange(len(x))].set(x, indices_are_sorted=True, unique_indices=True)


def _dots_in_blocks(table: Array, ids: Array, vectors: Array, owner: Array) -> Array:
    """Compute `dots` by multiplying and summing gathered rows, in blocks that memory allows."""

    def of_block(part: tuple[Array, Array]) -> Array:
        ids, owner = part
        return jnp.sum(table.at[ids].get(mode="clip") * vectors.at[owner].get(mode="clip")[:, None], axis=-1)

    n, K = ids.shape
    number = block(n, K * vectors.shape[1])
    if number == n:
        return of_block((ids, owner))
    padded = [jnp.pad(x, ((0, -n % number), *[(0, 0)] * (x.ndim - 1))) for x in (ids, owner)]
    blocks = [x.reshape(-1, number, *x.shape[1:]) for x in padded]
    return lax.map(of_block, tuple(blocks)).reshape(-1, K)[:n]
