"""Tables that are too large to have on every device: each device has a part of their rows.

Row r of a table over n devices is at place r // n of device r mod n, so that neighbouring rows, such as those of the
most frequent words, are on different devices.

Tables that are read by rows: devices exchange the rows that a step reads (`jaxfit.devices.row_exchange`).

Tables that every step reads whole, such as the output vectors of a full softmax: the compiler splits the products, and
each device computes the logits of its own words. While steps run, a device has a block of neighbouring rows.
"""

import math
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxfit import tables
from jaxfit.devices import sharding
from jaxfit.devices.sharding import ROWS, WHOLE
from jaxfit.optimizer import Transform
from jaxfit.tables import Weights

SPLIT = PartitionSpec(ROWS)  # the first axis of a table split over the devices that share it
PIECE = 1 << 24  # numbers of a table that every device has while processes put its parts together


class Layout(NamedTuple):
    """Which parameters are split: hashable, as compiled programs depend on it.

    Attributes:
        tree: the structure of the parameters.
        rows: for each array, its number of rows if it is split; None if every device has a copy of it.
        read_whole: whether steps read whole tables, and the compiler splits what is computed from them.
    """

    tree: Any
    rows: tuple[int | None, ...]
    read_whole: bool = False

    def map(self, function: Callable[..., Any], *trees: Any) -> Any:
        """Apply function(rows, *leaves) to the arrays, or `Weights`, of trees like params."""
        leaves = [tables.flatten(tree)[0] for tree in trees]
        return self.tree.unflatten([function(*each) for each in zip(self.rows, *leaves, strict=True)])

    def specs(self, transform: Transform) -> Any:
        """Return the partition specs of the `Weights` of all parameters: like params."""
        return self.map(lambda rows: WHOLE if rows is None else self._specs(transform))

    def shapes(self, weights: Any, transform: Transform, mesh: Mesh) -> Any:
        """Return the shapes and shardings of split `Weights`, from the shapes of whole ones."""

        def shape(leaf: Any, spec: PartitionSpec) -> jax.ShapeDtypeStruct:
            stored = _stored_shape(leaf.shape, mesh) if spec == SPLIT else leaf.shape
            return jax.ShapeDtypeStruct(stored, leaf.dtype, sharding=NamedSharding(mesh, spec))

        def shapes(rows: int | None, w: Weights) -> Any:
            return jax.tree.map(shape, w, jax.tree.map(lambda _: WHOLE, w) if rows is None else self._specs(transform))

        return self.map(shapes, weights)

    def on_host(self, params: Any) -> Any:
        """Return the parameters with each split table as a NumPy array, so that no device has to hold it whole."""
        return self.map(lambda rows, x: x if rows is None else np.asarray(x), params)

    def one_row(self, params: Any) -> Any:
        """Return the parameters with only the first row of each table that is split."""
        return self.map(lambda rows, x: x if rows is None else x[:1], params)

    def start(self, params: Any, weights: Any, transform: Transform, mesh: Mesh) -> Any:
        """Return the `Weights` before the first step, on the devices; no device ever holds a split table whole.

        Args:
            params: the whole initial parameters.
            weights: the `Weights` of `one_row(params)`.
        """

        def begun(rows: int | None, x: Any, w: Weights) -> Weights:
            if rows is None:
                return sharding.replicate(w, mesh)
            value, places = split(x, mesh), jax.tree.map(partial(_place, mesh), _is_split(transform))
            memory = jax.jit(transform.init, out_shardings=places)(value)
            return Weights(value, sharding.replicate(w.scale, mesh), memory, _scratch(rows, w.scratch, mesh))

        return self.map(begun, params, weights)

    def place(self, weights: Any, transform: Transform, mesh: Mesh) -> Any:
        """Put whole `Weights` on the devices, split; their working memory is made anew."""

        def part(is_split: bool, leaf: Any) -> Any:
            return split(leaf, mesh) if is_split else sharding.replicate(leaf, mesh)

        def placed(rows: int | None, w: Weights) -> Weights:
            if rows is None:
                return sharding.replicate(w, mesh)
            memory = jax.tree.map(part, _is_split(transform), w.memory)
            scratch = _scratch(rows, w.scratch, mesh)
            return Weights(split(w.value, mesh), sharding.replicate(w.scale, mesh), memory, scratch)

        return self.map(placed, weights)

    def whole_params(self, params: Any) -> Any:
        """Return the whole parameters, rows in their order; those that are split become arrays in the host's memory."""
        return self.map(lambda rows, x: sharding.one_copy(x) if rows is None else whole(x, rows), params)

    def whole_weights(self, weights: Any, transform: Transform) -> Any:
        """Return whole `Weights`, as `whole_params` does parameters, without working memory."""

        def joined(rows: int | None, w: Weights) -> Weights:
            if rows is None:
                return sharding.one_copy(w._replace(scratch=None))
            memory = jax.tree.map(
                lambda is_split, leaf: whole(leaf, rows) if is_split else sharding.one_copy(leaf),
                _is_split(transform), w.memory,
            )  # fmt: skip
            value: Any = whole(w.value, rows)
            return Weights(value, sharding.one_copy(w.scale), memory, None)

        return self.map(joined, weights)

    def like_whole(self, weights: Any, transform: Transform) -> Any:
        """Return placeholders of the shapes and types of `whole_weights`; they take no memory."""

        def like(rows: int | None, w: Weights) -> Weights:
            if rows is None:
                return w._replace(scratch=None)
            memory = jax.tree.map(
                lambda is_split, leaf: _empty(leaf, rows) if is_split else leaf, _is_split(transform), w.memory
            )
            return Weights(_empty(w.value, rows), w.scale, memory, None)

        return self.map(like, weights)

    def like_params(self, params: Any) -> Any:
        """Return placeholders of the shapes and types of `whole_params`; they take no memory."""
        return self.map(lambda rows, x: x if rows is None else _empty(x, rows), params)

    def in_order(self, params: Any, mesh: Mesh) -> Any:
        """Return, in a compiled program, parameters with whole tables, which the compiler splits by blocks of rows."""

        return self.map(lambda rows, x: x if rows is None else _in_order(x, rows, mesh), params)

    def blocks(self, weights: Any, transform: Transform, mesh: Mesh) -> Any:
        """Return, in a compiled program, `Weights` with whole tables, split as by `in_order`."""
        return self._of_tables(lambda x, rows: _in_order(x, rows, mesh), weights, transform)

    def parts(self, weights: Any, transform: Transform, mesh: Mesh) -> Any:
        """Invert `blocks`."""
        return self._of_tables(lambda x, rows: _in_parts(x, mesh), weights, transform)

    def _of_tables(self, function: Callable[[Array, int], Array], weights: Any, transform: Transform) -> Any:
        """Apply function(table, rows) to split tables, and to what the optimizer keeps of their rows."""

        def each(rows: int | None, w: Weights) -> Weights:
            if rows is None:
                return w
            memory = jax.tree.map(
                lambda is_split, leaf: function(leaf, rows) if is_split else leaf, _is_split(transform), w.memory
            )
            return w._replace(value=function(w.value, rows), memory=memory)

        return self.map(each, weights)

    def _specs(self, transform: Transform) -> Any:
        """Return the partition specs of the `Weights` of a table that is split."""
        memory = jax.tree.map(lambda split: SPLIT if split else WHOLE, _is_split(transform))
        return Weights._make([SPLIT, WHOLE, memory, SPLIT if jax.tree.leaves(memory) and not self.read_whole else None])


def _is_split(transform: Transform) -> Any:
    """Return, for each array of an optimizer's memory of a table, whether it has an entry for each row."""
    table = jax.ShapeDtypeStruct((7, 1), jnp.float32)
    return jax.tree.map(lambda leaf: leaf.shape[:1] == table.shape[:1], jax.eval_shape(transform.init, table))


def _place(mesh: Mesh, is_split: bool) -> NamedSharding:
    return NamedSharding(mesh, SPLIT if is_split else WHOLE)


def _scratch(rows: int, before: Any, mesh: Mesh) -> jax.Array | None:
    return None if before is None else split(np.zeros(rows, np.int32), mesh)


def _empty(leaf: Any, rows: int) -> Any:
    return np.broadcast_to(np.zeros((), leaf.dtype), (rows, *leaf.shape[1:]))


def _block(part: Array) -> Array:
    """Exchange a part, every n-th row, for a block of neighbouring rows."""
    n = lax.axis_size(ROWS)
    of_each = lax.all_to_all(part.reshape(n, -1, *part.shape[1:]), ROWS, 0, 0)
    return jnp.swapaxes(of_each, 0, 1).reshape(part.shape)


def _in_order(table: Array, rows: int, mesh: Mesh) -> Array:
    """Return the rows of a split table in their order, split by blocks."""
    blocks = jax.shard_map(_block, mesh=mesh, in_specs=SPLIT, out_specs=SPLIT)(table)[:rows]
    return lax.with_sharding_constraint(blocks, NamedSharding(mesh, SPLIT))


def _in_parts(table: Array, mesh: Mesh) -> Array:
    """Invert `_in_order`."""
    missing = _stored_shape(table.shape, mesh)[0] - len(table)
    padded = jnp.pad(table, [(0, missing), *[(0, 0)] * (table.ndim - 1)])
    return jax.shard_map(_part, mesh=mesh, in_specs=SPLIT, out_specs=SPLIT)(padded)


def _part(block: Array) -> Array:
    """Invert `_block`."""
    n = lax.axis_size(ROWS)
    of_each = jnp.swapaxes(block.reshape(-1, n, *block.shape[1:]), 0, 1)
    return lax.all_to_all(of_each, ROWS, 0, 0).reshape(block.shape)


def part_length(rows: int, shards: int) -> int:
    """Return the number of rows of one device's part: a multiple of `shards`, for `Layout.in_order`."""
    return shards * -(-rows // shards**2)


def _stored_shape(shape: tuple[int, ...], mesh: Mesh) -> tuple[int, ...]:
    shards = mesh.shape[ROWS]
    return shards * part_length(shape[0], shards), *shape[1:]


def described(params: Any, mesh: Mesh | None) -> dict[str, Any]:
    """Return what must be equal on all processes: a checksum of the initial parameters, which each makes by itself."""
    if mesh is None or not mesh.is_multi_process or sharding.row_shards(mesh) == 1:
        return {}
    checksum = 0
    for array in jax.tree.leaves(params):
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    return {"checksum of the initial parameters": checksum}


def split(table: Any, mesh: Mesh) -> jax.Array:
    """Put a whole table on the devices, split by rows; all processes give equal ones.

    Args:
        table: [rows, …].
        mesh: devices.

    Returns:
        An array [n L, …] with L rows on each device, where n devices share the table and L is its `part_length`.
    """
    host, shards = np.asarray(table), mesh.shape[ROWS]
    length = part_length(len(host), shards)

    def part(index: tuple[slice, ...] | None) -> np.ndarray:
        first = index[0].start if index else 0
        own = host[(first or 0) // length :: shards]
        return np.pad(own, [(0, length - len(own)), *[(0, 0)] * (host.ndim - 1)])

    return jax.make_array_from_callback(_stored_shape(host.shape, mesh), NamedSharding(mesh, SPLIT), part)


def whole(table: jax.Array, rows: int) -> np.ndarray:
    """Invert `split`, in the host's memory; with several processes all of them must call this."""
    mesh = table.sharding.mesh  # type: ignore[attr-defined]
    shards, rest = mesh.shape[ROWS], table.shape[1:]
    length = table.shape[0] // shards
    if table.is_fully_addressable:
        parts = np.asarray(table).reshape(shards, length, *rest)
    else:  # in pieces, for which every device has memory
        parts = np.empty((shards, length, *rest), table.dtype)
        size = max(1, min(length, PIECE // (shards * max(1, math.prod(rest)))))
        for begin in range(0, length, size):
            first = min(begin, length - size)
            piece = _piece(table, np.int32(first), size, mesh)
            parts[:, first : first + size] = np.asarray(piece.addressable_data(0))
    return np.ascontiguousarray(np.swapaxes(parts, 0, 1).reshape(table.shape)[:rows])


@partial(jax.jit, static_argnums=(2, 3))
def _piece(table: Array, first: Array, size: int, mesh: Mesh) -> Array:
    """Put the same rows of all parts on every device: [n, size, …]."""
    parts = table.reshape(mesh.shape[ROWS], -1, *table.shape[1:])
    piece = lax.dynamic_slice_in_dim(parts, first, size, axis=1)
    return lax.with_sharding_constraint(piece, NamedSharding(mesh, WHOLE))
