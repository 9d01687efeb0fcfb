"""Parameters as training stores them, gradients of tables by rows, and their updates.

A step's cost must not grow with the vocabulary or the number of users: a table that is read by rows is differentiated
by the *gathered* rows, and only those are written back. Two things that would still touch every row are avoided:

* Weight decay. Every weight shrinks at every step, w <- w (1 - ηλ). The table is stored as w = s·v with one scalar s,
  so that decaying it is s <- s (1 - ηλ) and a gradient step is v <- v - η u / s; `rescale` multiplies s into v (at the
  end of an epoch, and before s could underflow: `jaxfit.loop.RESCALE_STEPS`). For SGD this equals the dense update.
* Momenta of an optimizer. They are read, moved and written for rows with a gradient only: for Adam this is *lazy*
  Adam, whose averages of a row stay as they are in steps in which no example reads it or its gradient is zero.

A row that a minibatch reads several times gets the sum of its gradients. SGD simply adds them all. An optimizer with
memory must see the sum once. Duplicates are removed without sorting: each id writes its position in the list of ids to
`Weights.scratch`, and the positions that are not overwritten select each row once. Rows are updated in blocks that fit
into a CPU's cache. Row ids past the end of the table are padding: they read the last row and write nothing.

The gradient of a table is a sum of parts, none as large as the table. Automatic differentiation of gathered rows gives
one row of gradient for each row read. A model that reads very many rows (the nodes of a word's codes) can instead give
a dense block for the rows that every example reads, and rows that are linear combinations of few vectors.
"""

import functools
import math
import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxfit.devices.platform import at_once
from jaxfit.optimizer import Transform

BLOCK = 1024  # rows of an optimizer's memory that a CPU updates at a time; accelerators: as many as memory allows
CHUNK = 4096  # rows that a CPU adds at a time; accelerators: as many as memory allows
HELD_ROWS = 4  # maximum arrays held for each updated row: gradient, two averages, direction


class Head(NamedTuple):
    """Gradient of the first K rows."""

    grad: jax.Array  # [K, …]


class Rows(NamedTuple):
    """Gradient of single rows: grad[j] of row ids[j]. Equal ids add up; ids past the last row are padding."""

    ids: jax.Array  # int32 [k]
    grad: jax.Array  # [k, …]


class Products(NamedTuple):
    """Gradient of groups of K rows: coef[j] @ vectors[owner[j]] of the rows ids[j] K … ids[j] K + K - 1."""

    ids: jax.Array  # int32 [k]
    coef: jax.Array  # [k, K, R]
    owner: jax.Array  # int32 [k]
    vectors: jax.Array  # [B, R, D]


Part = Head | Rows | Products


def outer(ids: jax.Array, coef: jax.Array, owner: jax.Array, vectors: jax.Array) -> Products:
    """Return the gradient of single rows: coef[j] * vectors[owner[j]] of row ids[j], where coef is [k]."""
    return Products(ids, coef[:, None, None], owner, vectors[:, None])


def add(value: jax.Array, parts: tuple[Part, ...], factor: jax.Array) -> jax.Array:
    """Add factor * (the sum of the parts) to a table, [rows, …], in place where `value` is donated."""
    for part in parts:
        if isinstance(part, Head):
            value = value.at[: part.grad.shape[0]].add(factor * part.grad)
        elif isinstance(part, Rows):
            value = value.at[part.ids].add(factor * part.grad, mode="drop")
        else:
            value = _add_products(value, part, factor)
    return value


def _add_products(value: jax.Array, part: Products, factor: jax.Array) -> jax.Array:
    number, K, R = part.coef.shape

    def chunk(groups: jax.Array, piece: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        ids, coef, owner = piece
        # not by @: small products of matrices are slow
        terms = [(factor * coef[:, :, r])[..., None] * part.vectors[owner, r][:, None] for r in range(R)]
        total = functools.reduce(operator.add, terms).reshape(-1, *groups.shape[1:])
        return groups.at[ids].add(total, mode="drop"), None

    # a single row is scattered faster than a block of one row
    groups = value if K == 1 else value.reshape(-1, K, value.shape[1])
    chunks = -(-number // at_once(number, K * value.shape[1], -(-CHUNK // K)))
    missing = -number % chunks  # padded with ids past the end
    ids = jnp.pad(part.ids, (0, missing), constant_values=len(groups))
    coef = jnp.pad(part.coef, ((0, missing), (0, 0), (0, 0)))
    owner = jnp.pad(part.owner, (0, missing))
    pieces = jax.tree.map(lambda x: x.reshape(chunks, -1, *x.shape[1:]), (ids, coef, owner))
    return lax.scan(chunk, groups, pieces)[0].reshape(value.shape)


def _by_row(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the same gradient with each `Products` replaced by K R ones of single rows."""
    found: list[Part] = []
    for part in parts:
        if isinstance(part, Products):
            _, K, R = part.coef.shape
            found += [
                outer(part.ids * K + k, part.coef[:, k, r], part.owner, part.vectors[:, r])
                for k in range(K)
                for r in range(R)
            ]
        else:
            found.append(part)
    return tuple(found)


def row_ids(parts: tuple[Part, ...]) -> jax.Array:
    """Return the ids of the rows in parts as `_by_row` returns them: int32 [k], with duplicates and padding."""
    ids = [
        jnp.arange(p.grad.shape[0], dtype=jnp.int32) if isinstance(p, Head) else p.ids.astype(jnp.int32) for p in parts
    ]
    return jnp.concatenate(ids)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Gathered:
    """The rows that a minibatch reads, in place of whole tables: a pytree with one child, `rows`.

    Attributes:
        rows: like params: the gathered rows, [k, …], of each table that is read by rows, and other parameters whole.
    """

    rows: Any


def zero_after(x: jax.Array) -> jax.Array:
    """Return zero, computed from the scalar x so that XLA runs whatever the zero is added to after x.

    XLA updates a table in place only if nothing reads the old one afterwards; else it copies the table at every step,
    even with `lax.optimization_barrier` (30 times slower for 300,000 rows). 0 * x would not be zero for an x that is
    not finite.
    """
    return jnp.where(x == jnp.inf, -0.0, 0.0).astype(x.dtype)


def is_weights(node: Any) -> bool:
    """Return whether a node is the training state of one parameter, for `jax.tree.map`."""
    return isinstance(node, Weights)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves and the structure of params, or of a tree of `Weights` of the same structure."""
    return jax.tree.flatten(tree, is_leaf=is_weights)


def gathered(params: Any, touched: Any) -> Gathered:
    """Gather the rows that a minibatch reads from whole parameters.

    Args:
        touched: like params: row ids, int32[k], of each table that is read by rows, None for dense parameters.
    """
    leaves, tree = flatten(params)
    ids = tree.flatten_up_to(touched)
    rows = [x if k is None else x.at[k].get(mode="clip") for x, k in zip(leaves, ids, strict=True)]
    return Gathered(tree.unflatten(rows))


def rows_of(params: Any) -> Any:
    """Return the rows of `Gathered`; raises TypeError for whole parameters."""
    if not isinstance(params, Gathered):
        what = "this loss reads gathered rows: call it with program.gathered(params, batch), not params"
        raise TypeError(what)
    return params.rows


def require_whole(params: Any) -> None:
    """Raise TypeError for `Gathered` rows, in a function that reads whole tables."""
    if isinstance(params, Gathered):
        raise TypeError("the loss of one example reads whole tables: call it with params, not gathered rows")


class Weights(NamedTuple):
    """One parameter in training: its weights are `scale * value`.

    Attributes:
        value: [rows, …], v above.
        scale: float32 scalar, s above; 1 for a parameter updated as a whole.
        memory: the state of its `Transform`.
        scratch: int32[rows] of any value, working memory of an update by rows; None for an optimizer without memory.
    """

    value: jax.Array
    scale: jax.Array
    memory: Any
    scratch: jax.Array | None


def _has_memory(transform: Transform) -> bool:
    state = jax.eval_shape(transform.init, jax.ShapeDtypeStruct((1,), jnp.float32))
    return bool(jax.tree.leaves(state))


def create(value: jax.Array, transform: Transform, by_rows: bool) -> Weights:
    """Return the training state of an initial parameter; the parameter is copied, as the state is donated."""
    value = jnp.array(value, value.dtype)  # strongly typed, so that the second chunk does not compile again
    scratch = jnp.zeros(value.shape[0], jnp.int32) if by_rows and _has_memory(transform) else None
    return Weights(value, jnp.ones((), value.dtype), transform.init(value), scratch)


def unscaled(value: jax.Array) -> Weights:
    """Return whole or gathered weights, with scale 1, for a function that reads `Weights`."""
    return Weights(value, jnp.ones((), value.dtype), None, None)


def whole(weights: Weights) -> jax.Array:
    """Return the weights, with the scale applied: [rows, …]."""
    return weights.scale * weights.value


def gather(weights: Weights, ids: jax.Array) -> jax.Array:
    """Gather rows, with the scale applied: ids int32 [k] -> [k, …]."""
    return weights.scale * weights.value.at[ids].get(mode="clip")


def read(weights: Weights, ids: jax.Array) -> jax.Array:
    """Gather rows, ids int32 [k] -> [k, …], of a table that does not decay at every step: its scale is always 1."""
    return weights.value.at[ids].get(mode="clip")


def rescale(weights: Weights) -> Weights:
    """Return the same weights with scale 1."""
    return weights._replace(value=whole(weights), scale=jnp.ones_like(weights.scale))


def update_whole(weights: Weights, grad: jax.Array, rate: jax.Array, decay: jax.Array, transform: Transform) -> Weights:
    """Update a whole parameter: w <- w (1 - rate·decay) - rate·u, where u is the optimizer's direction."""
    u, memory = transform.update(grad, weights.memory)
    value = weights.value * (1 - rate * decay) - rate * jnp.asarray(u)
    return weights._replace(value=value, memory=memory)


def update_rows(
    weights: Weights,
    parts: tuple[Part, ...],
    rate: jax.Array,
    decay: jax.Array | None,
    transform: Transform,
) -> Weights:
    """Update the rows of a table by a gradient given in parts; decay reaches every row through the scale.

    With SGD and AdaGrad this equals an update of the whole array; with Adam, rows without a gradient do not move.
    If `decay` is None, the gradient already includes it, and the scale remains 1.
    """
    value = weights.value
    scale = weights.scale if decay is None else weights.scale * (1 - rate * decay)
    if weights.scratch is None:
        factor = -rate if decay is None else -rate / scale
        return weights._replace(value=add(value, parts, factor), scale=scale)

    parts = _by_row(parts)
    ids = row_ids(parts)
    size = at_once(min(len(ids), len(value)), HELD_ROWS * math.prod(value.shape[1:]), BLOCK)
    distinct = _distinct(ids, weights.scratch, size)
    sums = jnp.zeros((len(distinct.rows), *value.shape[1:]), value.dtype)
    sums = add(sums, _renumbered(parts, distinct.number), jnp.ones((), value.dtype))

    def is_table(leaf: jax.Array) -> bool:
        return leaf.shape[:1] == value.shape[:1]

    def block(i: jax.Array | int, tables: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        value, memory = tables
        ids, grad = (lax.dynamic_slice_in_dim(array, i * size, size) for array in (distinct.rows, sums))
        # rows of zero gradient, as padding examples have, are skipped: Adam would move them as in earlier steps
        ids = jnp.where(jnp.any(grad.reshape(size, -1) != 0, axis=1), ids, len(value))

        def take(table: jax.Array) -> jax.Array:
            return table.at[ids].get(mode="clip")

        def write(table: jax.Array, new: jax.Array) -> jax.Array:
            return table.at[ids].set(new, mode="drop")

        before = jax.tree.map(lambda m, now: take(now) if is_table(m) else m, weights.memory, memory)
        u, after = transform.update(grad, before)
        moved = -(rate / scale) * jnp.asarray(u)
        done = zero_after(moved.ravel()[0])  # reading the written table instead takes a third longer
        value = value.at[ids].add(moved, mode="drop")
        memory = jax.tree.map(
            lambda m, now, r: write(now, r + done) if is_table(m) else r, weights.memory, memory, after
        )
        return value, memory

    start = (value, weights.memory)
    if len(distinct.rows) == size:  # one block needs no loop, whose trip count a device would have to read first
        value, memory = block(0, start)
    else:
        # at least one block: the optimizer's count of steps grows even if no row of this part of a table was read
        blocks = (jnp.maximum(distinct.total, 1) + size - 1) // size
        value, memory = lax.fori_loop(0, blocks, block, start)
    return Weights(value, scale, memory, distinct.place)


class _Distinct(NamedTuple):
    """The distinct rows of a list of ids.

    Attributes:
        rows: int32, padded to whole blocks with the number of rows of the table.
        total: the number of distinct rows.
        number: int32[k], for each id the index of its row in `rows`; for padding, the length of `rows`.
        place: the new `Weights.scratch`.
    """

    rows: jax.Array
    total: jax.Array
    number: jax.Array
    place: jax.Array


def _distinct(ids: jax.Array, place: jax.Array, size: int) -> _Distinct:
    """Find the distinct rows among ids, for blocks of `size` rows; place: `Weights.scratch`."""
    here, end = jnp.arange(ids.shape[0], dtype=jnp.int32), place.shape[0]
    place = place.at[ids].set(here, mode="drop")
    last = place.at[ids].get(mode="clip")
    chosen = (last == here) & (ids < end)
    number = jnp.cumsum(chosen.astype(jnp.int32)) - 1
    length = -(-min(ids.shape[0], end) // size) * size
    rows = jnp.full(length, end, jnp.int32).at[jnp.where(chosen, number, length)].set(ids, mode="drop")
    return _Distinct(rows, number[-1] + 1, jnp.where(ids < end, number[last], length), place)


def _renumbered(parts: tuple[Part, ...], number: jax.Array) -> tuple[Part, ...]:
    """Return the parts with other row ids: number, int32[k], one for each of `row_ids`."""
    found: list[Part] = []
    first = 0
    for part in parts:
        last = first + (part.grad.shape[0] if isinstance(part, Head) else part.ids.shape[0])
        of_part, first = number[first:last], last
        found.append(Rows(of_part, part.grad) if isinstance(part, Head) else part._replace(ids=of_part))
    return tuple(found)
