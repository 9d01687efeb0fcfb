"""Parameters as training stores them, and their updates: of a whole array, or of the rows that a batch read.

A step's cost must not grow with the vocabulary or the number of users, so a table that has no dense use is
differentiated with respect to the rows that were *gathered* from it, and only those are written back. Two
things would still touch every row, and both are avoided:

* Weight decay. Every weight shrinks at every step, w <- w (1 - ηλ). The table is stored as w = s·v with one
  scalar s, so that decaying it is s <- s (1 - ηλ) and a gradient step is v <- v - η u / s; `fold` multiplies s
  into v (at each epoch's end). For SGD this equals the dense update exactly.
* Momenta of an optimizer. They are read, moved and written for the touched rows only: for Adam this is *lazy*
  Adam, whose averages of a row stand still while no example reads it.

A row that a batch reads several times gets the sum of its gradients. SGD simply adds them all. An optimizer with
memory must see the sum once: the gradients are added up in a scratch table of zeros, read back for every
occurrence (so that equal rows compute equal updates and write them over each other), and cleared again. Nothing
is sorted. Row ids past the end of the table are padding: they read the last row and write nothing.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxfit.parts import Part, add, merge


class Weights(NamedTuple):
    """One parameter in training: its weights are `scale * value`.

    value: [rows, …], v above; scale: float32 scalar, s above, 1 for a parameter updated as a whole;
    memory: the optax state; scratch: zeros like `value` where rows need merging, otherwise None.
    """

    value: jax.Array
    scale: jax.Array
    memory: Any
    scratch: jax.Array | None


def _has_memory(transform: optax.GradientTransformation) -> bool:
    state = jax.eval_shape(transform.init, jax.ShapeDtypeStruct((1,), jnp.float32))
    return bool(jax.tree.leaves(state))


def create(value: jax.Array, transform: optax.GradientTransformation, by_rows: bool) -> Weights:
    """Training's view of a freshly initialised parameter (a copy: its buffers will be donated)."""
    value = jnp.array(value, value.dtype)  # strongly typed, or the second chunk would compile again
    scratch = jnp.zeros_like(value) if by_rows and _has_memory(transform) else None
    return Weights(value, jnp.ones((), value.dtype), transform.init(value), scratch)


def whole(weights: Weights) -> jax.Array:
    """The weights themselves, scale applied: [rows, …]."""
    return weights.scale * weights.value


def gather(weights: Weights, ids: jax.Array) -> jax.Array:
    """The rows that a batch reads, scale applied: int32[k] -> [k, …]."""
    return weights.scale * weights.value.at[ids].get(mode="clip")


def fold(weights: Weights) -> Weights:
    """The same weights with scale 1."""
    return weights._replace(value=whole(weights), scale=jnp.ones_like(weights.scale))


def update_whole(
    weights: Weights,
    grad: jax.Array,
    rate: jax.Array,
    decay: jax.Array,
    transform: optax.GradientTransformation,
) -> Weights:
    """w <- w (1 - rate·decay) - rate·u, with u what the optimizer makes of the gradient."""
    u, memory = transform.update(grad, weights.memory)
    value = weights.value * (1 - rate * decay) - rate * jnp.asarray(u)
    return weights._replace(value=value, memory=memory)


def update_rows(
    weights: Weights,
    parts: tuple[Part, ...],
    rate: jax.Array,
    decay: jax.Array,
    transform: optax.GradientTransformation,
) -> Weights:
    """The same update for a gradient given in parts; decay reaches every row through the scale."""
    value, scratch = weights.value, weights.scratch
    scale = weights.scale * (1 - rate * decay)
    if scratch is None:
        return weights._replace(value=add(value, parts, -rate / scale), scale=scale)

    def is_table(leaf: jax.Array) -> bool:
        return leaf.shape == value.shape

    ids, grad = merge(parts)
    scratch = scratch.at[ids].add(grad, mode="drop")
    merged = scratch.at[ids].get(mode="clip")
    rows = jax.tree.map(lambda m: m.at[ids].get(mode="clip") if is_table(m) else m, weights.memory)
    u, rows = transform.update(merged, rows)
    memory = jax.tree.map(
        lambda m, r: m.at[ids].set(r, mode="drop") if is_table(m) else r, weights.memory, rows
    )
    moved = value.at[ids].get(mode="clip") - (rate / scale) * jnp.asarray(u)
    return Weights(
        value=value.at[ids].set(moved, mode="drop"),
        scale=scale,
        memory=memory,
        scratch=scratch.at[ids].set(0, mode="drop"),
    )
