"""The gradient of a table as a sum of parts, none of which is as large as the table.

Automatic differentiation of gathered rows gives one row of gradient for each row that was read. A model that
reads very many rows (the nodes of a word's codes) can say more cheaply what its gradient is: a dense block of
the rows that every example reads, and rows that are multiples of few vectors. `add` then writes rows in chunks
that stay in the cache, and never holds all of them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

CHUNK = 4096


class Head(NamedTuple):
    """Rows 0 … K-1: grad [K, …]."""

    grad: jax.Array


class Rows(NamedTuple):
    """Row ids[j] has grad[j]: int32 [k], [k, …]. Equal ids add up; ids past the last row are padding."""

    ids: jax.Array
    grad: jax.Array


class Outer(NamedTuple):
    """Row ids[j] has coef[j] * vectors[owner[j]]: int32 [k], [k], int32 [k], [B, D]."""

    ids: jax.Array
    coef: jax.Array
    owner: jax.Array
    vectors: jax.Array


Part = Head | Rows | Outer


def add(value: jax.Array, parts: tuple[Part, ...], factor: jax.Array) -> jax.Array:
    """value + factor * (the sum of the parts), written into `value` where it may be."""
    for part in parts:
        if isinstance(part, Head):
            value = value.at[: part.grad.shape[0]].add(factor * part.grad)
        elif isinstance(part, Rows):
            value = value.at[part.ids].add(factor * part.grad, mode="drop")
        else:
            value = _add_outer(value, part, factor)
    return value


def _add_outer(value: jax.Array, part: Outer, factor: jax.Array) -> jax.Array:
    def chunk(value: jax.Array, piece: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        ids, coef, owner = piece
        return value.at[ids].add((factor * coef)[:, None] * part.vectors[owner], mode="drop"), None

    number = part.ids.shape[0]
    chunks = -(-number // CHUNK) if jax.default_backend() == "cpu" else 1
    missing = -number % chunks  # filled up with no row
    ids = jnp.pad(part.ids, (0, missing), constant_values=value.shape[0])
    coef, owner = jnp.pad(part.coef, (0, missing)), jnp.pad(part.owner, (0, missing))
    pieces = jax.tree.map(lambda x: x.reshape(chunks, -1), (ids, coef, owner))
    return lax.scan(chunk, value, pieces)[0]


def row_ids(parts: tuple[Part, ...]) -> jax.Array:
    """The rows that the parts name: int32[k], with duplicates and padding."""
    ids = [
        jnp.arange(p.grad.shape[0], dtype=jnp.int32) if isinstance(p, Head) else p.ids.astype(jnp.int32)
        for p in parts
    ]
    return jnp.concatenate(ids)
