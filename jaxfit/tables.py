"""Parameters as training stores them, gradients of tables by rows, and their updates.

A step's cost must not grow with the vocabulary or the number of users, so a table that has no dense use is
differentiated with respect to the rows that were *gathered* from it, and only those are written back. Two
things would still touch every row, and both are avoided:

* Weight decay. Every weight shrinks at every step, w <- w (1 - ηλ). The table is stored as w = s·v with one
  scalar s, so that decaying it is s <- s (1 - ηλ) and a gradient step is v <- v - η u / s; `rescale` multiplies s
  into v (at each epoch's end). For SGD this equals the dense update exactly.
* Momenta of an optimizer. They are read, moved and written for the touched rows only: for Adam this is *lazy*
  Adam, whose averages of a row stay as they are while no example reads it.

A row that a batch reads several times gets the sum of its gradients. SGD simply adds them all. An optimizer with
memory must see the sum once: the gradients are added up in a scratch table of zeros; each id writes its place in
the list to a second one, and the places that can be read back name every row once, unsorted. Those rows are
updated in blocks that stay in the cache, and the scratch table is cleared where it was used. Row ids past the
end of the table are padding: they read the last row and write nothing.

The gradient of a table is a sum of parts, none of which is as large as the table. Automatic differentiation of
gathered rows gives one row of gradient for each row that was read. A model that reads very many rows (the nodes of a
word's codes) can say more cheaply what its gradient is: a dense block of the rows that every example reads, and rows
that are multiples of few vectors. `add` then writes rows in chunks that stay in the cache.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

BLOCK = 1024  # rows of an optimizer's memory that are updated at a time
CHUNK = 4096  # rows that are added at a time on a CPU


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


@jax.tree_util.register_pytree_node_class
class Gathered:
    """The rows that a minibatch reads, in place of whole tables: a pytree with one child, `rows`.

    rows: like params; for each table with touched rows those, [k, …], for other parameters the whole.
    """

    def __init__(self, rows: Any):
        self.rows = rows

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        """Its child, for JAX."""
        return (self.rows,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any]) -> "Gathered":
        """The inverse of `tree_flatten`."""
        return cls(*children)


def zero_after(x: jax.Array) -> jax.Array:
    """A zero, whatever x is, that XLA computes from the scalar x.

    What is added to it waits for x. XLA updates a table in place only where it sees that nothing reads the old one any
    more: elsewhere it copies the whole table at every step, also with `lax.optimization_barrier` (30 times slower for
    a table of 300,000 rows). And 0 * x would not be zero where x is not finite.
    """
    return jnp.where(x == jnp.inf, -0.0, 0.0).astype(x.dtype)


def is_weights(node: Any) -> bool:
    """True for one parameter's training state, where a tree of them is mapped over."""
    return isinstance(node, Weights)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves and structure of params, or of a tree of `Weights` like params."""
    return jax.tree.flatten(tree, is_leaf=is_weights)


def gathered(params: Any, touched: Any) -> Gathered:
    """The rows `touched` of whole parameters (like params: int32[k], None for dense ones)."""
    leaves, tree = flatten(params)
    ids = tree.flatten_up_to(touched)
    rows = [x if k is None else x.at[k].get(mode="clip") for x, k in zip(leaves, ids, strict=True)]
    return Gathered(tree.unflatten(rows))


def rows_of(params: Any) -> Any:
    """The rows of `Gathered`; raises TypeError for whole parameters."""
    if not isinstance(params, Gathered):
        raise TypeError(
            "this loss reads gathered rows: call it with program.gathered(params, batch), not params"
        )
    return params.rows


def require_whole(params: Any) -> None:
    """Raise TypeError for `Gathered` rows, where a function reads whole tables."""
    if isinstance(params, Gathered):
        raise TypeError("the loss of one example reads whole tables: call it with params, not gathered rows")


class Scratch(NamedTuple):
    """What an update by rows needs and leaves behind: grad, zeros like the table; slot, int32[rows], anything."""

    grad: jax.Array
    slot: jax.Array


class Weights(NamedTuple):
    """One parameter in training: its weights are `scale * value`.

    value: [rows, …], v above; scale: float32 scalar, s above, 1 for a parameter updated as a whole;
    memory: the optax state; scratch: where rows need merging, otherwise None.
    """

    value: jax.Array
    scale: jax.Array
    memory: Any
    scratch: Scratch | None


def _has_memory(transform: optax.GradientTransformation) -> bool:
    state = jax.eval_shape(transform.init, jax.ShapeDtypeStruct((1,), jnp.float32))
    return bool(jax.tree.leaves(state))


def create(value: jax.Array, transform: optax.GradientTransformation, by_rows: bool) -> Weights:
    """Training's view of a freshly initialised parameter (a copy: its buffers will be donated)."""
    value = jnp.array(value, value.dtype)  # strongly typed, or the second chunk would compile again
    scratch = None
    if by_rows and _has_memory(transform):
        scratch = Scratch(jnp.zeros_like(value), jnp.zeros(value.shape[0], jnp.int32))
    return Weights(value, jnp.ones((), value.dtype), transform.init(value), scratch)


def whole(weights: Weights) -> jax.Array:
    """The weights themselves, scale applied: [rows, …]."""
    return weights.scale * weights.value


def gather(weights: Weights, ids: jax.Array) -> jax.Array:
    """The rows that a batch reads, scale applied: int32[k] -> [k, …]."""
    return weights.scale * weights.value.at[ids].get(mode="clip")


def read(weights: Weights, ids: jax.Array) -> jax.Array:
    """The same rows of a table whose scale stays 1, as nothing but every step's decay moves it."""
    return weights.value.at[ids].get(mode="clip")


def rescale(weights: Weights) -> Weights:
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
    decay: jax.Array | None,
    transform: optax.GradientTransformation,
) -> Weights:
    """The same update for a gradient given in parts; decay reaches every row through the scale.

    decay: None where it is part of the gradient, and the scale stays 1.
    """
    value, scratch = weights.value, weights.scratch
    scale = weights.scale if decay is None else weights.scale * (1 - rate * decay)
    if scratch is None:
        factor = -rate if decay is None else -rate / scale
        return weights._replace(value=add(value, parts, factor), scale=scale)

    rows, count, slot = _distinct(row_ids(parts), scratch.slot)
    grad = add(scratch.grad, parts, jnp.ones((), value.dtype))

    def is_table(leaf: jax.Array) -> bool:
        return leaf.shape == value.shape

    def block(i: jax.Array, tables: tuple[jax.Array, Any, jax.Array]) -> tuple[jax.Array, Any, jax.Array]:
        value, memory, grad = tables
        ids = lax.dynamic_slice(rows, (i * BLOCK,), (BLOCK,))

        def read(table: jax.Array) -> jax.Array:
            return table.at[ids].get(mode="clip")

        def write(table: jax.Array, new: jax.Array) -> jax.Array:
            return table.at[ids].set(new, mode="drop")

        before = jax.tree.map(lambda m, now: read(now) if is_table(m) else m, weights.memory, memory)
        u, after = transform.update(read(grad), before)
        value = write(value, read(value) - (rate / scale) * jnp.asarray(u))
        done = zero_after(value.ravel()[0])
        memory = jax.tree.map(
            lambda m, now, r: write(now, r + done) if is_table(m) else r, weights.memory, memory, after
        )
        return value, memory, write(grad, jnp.broadcast_to(done, (BLOCK, *grad.shape[1:])))

    blocks = (count + BLOCK - 1) // BLOCK
    value, memory, grad = lax.fori_loop(0, blocks, block, (value, weights.memory, grad))
    return Weights(value, scale, memory, Scratch(grad, slot))


def _distinct(ids: jax.Array, slot: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Every row of `ids` once, then padding, to a whole number of blocks; how many rows; the new `slot`."""
    place = jnp.arange(ids.shape[0], dtype=jnp.int32)
    slot = slot.at[ids].set(place, mode="drop")
    chosen = (slot.at[ids].get(mode="clip") == place) & (ids < slot.shape[0])
    position = jnp.cumsum(chosen.astype(jnp.int32)) - 1
    room = -(-ids.shape[0] // BLOCK) * BLOCK
    rows = jnp.full(room, slot.shape[0], jnp.int32)
    rows = rows.at[jnp.where(chosen, position, room)].set(ids, mode="drop")
    return rows, position[-1] + 1, slot
