"""Tables that are too large to have on every device: each device has a part of their rows.

Row r of a table over n devices is at place r // n of device r mod n, so that neighbouring rows, such as those of the
most frequent words, are on different devices.

Tables that are read by rows: in a step each device sorts the ids of the rows that its examples read by their devices,
each row once, asks each of these for at most a fixed number of rows, and returns the sums of its gradients the same way
(`all_to_all`). Where all devices share one table, what a device sends depends on the number of rows that it reads, not
on the number of devices. Where a device would have to ask another one for more, all devices take this step by sending
ids and rows to all (`all_gather`), so that the result does not depend on the fixed number.

Tables that every step reads whole, such as the output vectors of a full softmax: the compiler splits the products, and
each device computes the logits of its own words. While steps run, a device has a block of neighbouring rows.
"""

import math
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
from jaxfit.devices.sharding import DATA, ROWS, WHOLE
from jaxfit.recipe import Transform
from jaxfit.tables import Rows, Weights

SPLIT = PartitionSpec(ROWS)  # the first axis of a table split over the devices that share it
FALLBACK = "rows_to_all_devices"  # the scope of what is done where a device would ask another one for too much
SLACK = 2  # a device asks another one for at most so many times the mean number of rows
PIECE = 1 << 24  # numbers of a table that every device has while processes put its parts together


class Layout(NamedTuple):
    """Which parameters are split: hashable, as compiled programs depend on it.

    Attributes:
        tree: the structure of the parameters.
        rows: of each array that is split, its number of rows; None for arrays of which every device has a copy.
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
        """Return how the `Weights` of the parameters are split: like params."""
        return self.map(lambda rows: WHOLE if rows is None else self._specs(transform))

    def shapes(self, weights: Any, transform: Transform, mesh: Mesh) -> Any:
        """Return the shapes and places of split `Weights`, from the shapes of whole ones."""

        def shape(leaf: Any, spec: PartitionSpec) -> jax.ShapeDtypeStruct:
            stored = _stored_shape(leaf.shape, mesh) if spec == SPLIT else leaf.shape
            return jax.ShapeDtypeStruct(stored, leaf.dtype, sharding=NamedSharding(mesh, spec))

        def shapes(rows: int | None, w: Weights) -> Any:
            return jax.tree.map(shape, w, jax.tree.map(lambda _: WHOLE, w) if rows is None else self._specs(transform))

        return self.map(shapes, weights)

    def one_row(self, params: Any) -> Any:
        """Return the parameters with the first row alone of each table that is split."""
        return self.map(lambda rows, x: x if rows is None else x[:1], params)

    def start(self, params: Any, weights: Any, transform: Transform, mesh: Mesh) -> Any:
        """Return the `Weights` before the first step, on the devices; none of a split table is whole on a device.

        params: whole; weights: of `one_row(params)`.
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
        """Return the whole parameters, in the order of their rows: of those that are split, arrays of the host."""
        return self.map(lambda rows, x: sharding.one_copy(x) if rows is None else whole(x, rows), params)

    def whole_weights(self, weights: Any, transform: Transform) -> Any:
        """Return the same of `Weights`, without working memory."""

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
        """Return arrays of the shapes and types of `whole_weights`, which take no memory."""

        def like(rows: int | None, w: Weights) -> Weights:
            if rows is None:
                return w._replace(scratch=None)
            memory = jax.tree.map(
                lambda is_split, leaf: _empty(leaf, rows) if is_split else leaf, _is_split(transform), w.memory
            )
            return Weights(_empty(w.value, rows), w.scale, memory, None)

        return self.map(like, weights)

    def like_params(self, params: Any) -> Any:
        """Return the same of whole parameters."""
        return self.map(lambda rows, x: x if rows is None else _empty(x, rows), params)

    def in_order(self, params: Any, mesh: Mesh) -> Any:
        """Within a compiled program: parameters with whole tables, which the compiler splits by blocks of rows."""

        return self.map(lambda rows, x: x if rows is None else _in_order(x, rows, mesh), params)

    def blocks(self, weights: Any, transform: Transform, mesh: Mesh) -> Any:
        """Within a compiled program: the same of `Weights`."""
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
        """Return how the `Weights` of a table that is split are."""
        memory = jax.tree.map(lambda split: SPLIT if split else WHOLE, _is_split(transform))
        return Weights._make([SPLIT, WHOLE, memory, SPLIT if jax.tree.leaves(memory) and not self.read_whole else None])


def _is_split(transform: Transform) -> Any:
    """Return of each array of an optimizer's memory of a table whether it has an entry for each row."""
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
    """Return the rows of one device's part: a multiple of `shards`, for `Layout.in_order`."""
    return shards * -(-rows // shards**2)


def _stored_shape(shape: tuple[int, ...], mesh: Mesh) -> tuple[int, ...]:
    shards = mesh.shape[ROWS]
    return shards * part_length(shape[0], shards), *shape[1:]


def split(table: Any, mesh: Mesh) -> jax.Array:
    """Put a whole table on the devices, split by rows; all processes give equal ones.

    table: [rows, …]. Returns an array [n L, …], of which L rows are each device's, n and L being the devices that share
    the table and `part_length`.
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


class Route(NamedTuple):
    """Where the rows are that one device's examples read: k ids, over n devices that each have L rows.

    Attributes:
        number: int32[k], of each id the index of its row in `place`.
        real: bool[k], whether an id is a row's; the others are padding, which reads the last row.
        place: int32[k], device * L + place within its part of each distinct row, ascending; padded with n L.
        asked: int32[n, C], the places that are asked of each device; L where there are fewer.
        slots: int32[n, C], their indices in `place`.
        begin: int32[n], the first index in `place` of each device.
        fits: bool, the same on all devices: whether none asks another one for more than C rows.
    """

    number: Array
    real: Array
    place: Array
    asked: Array
    slots: Array
    begin: Array
    fits: Array


def route(ids: Array, rows: int) -> Route:
    """Find the devices of rows, int32[k], k >= 1, of a table of so many rows."""
    n, k = lax.axis_size(ROWS), len(ids)
    length = part_length(rows, n)
    row = jnp.minimum(ids.astype(jnp.int32), rows - 1)
    of_id = row % n * length + row // n
    order = jnp.argsort(of_id)
    ascending = of_id[order]
    new = jnp.concatenate([jnp.ones(1, bool), ascending[1:] != ascending[:-1]])
    count = jnp.cumsum(new.astype(jnp.int32)) - 1
    number = jnp.zeros(k, jnp.int32).at[order].set(count)
    place = jnp.full(k, n * length, jnp.int32).at[count].set(ascending)
    devices = jnp.arange(n, dtype=jnp.int32)
    begin = jnp.searchsorted(place, devices * length).astype(jnp.int32)
    end = jnp.searchsorted(place, (devices + 1) * length).astype(jnp.int32)
    slots = begin[:, None] + jnp.arange(capacity(k, rows, n), dtype=jnp.int32)[None]
    places = place.at[slots].get(mode="clip") - devices[:, None] * length
    asked = jnp.where(slots < end[:, None], places, length)
    fits = lax.pmax(jnp.max(end - begin), (DATA, ROWS)) <= slots.shape[1]
    return Route(number, ids < rows, place, asked, slots, begin, fits)


def capacity(number: int, rows: int, shards: int) -> int:
    """Return the most rows that a device asks of another one, of so many ids that it has, and rows of the table."""
    return min(math.ceil(SLACK * number / shards), number, part_length(rows, shards))


def fetch(part: Array, found: Route) -> Array:
    """Read the rows of a route's ids, [k, …], from the parts of a table: this device's is `part`, [L, …]."""
    n, length, k = lax.axis_size(ROWS), part.shape[0], len(found.place)

    def exchanged() -> Array:
        answers = _exchanged(part.at[_exchanged(found.asked)].get(mode="clip"))
        device = jnp.minimum(found.place // length, n - 1)
        slot = jnp.arange(k, dtype=jnp.int32) - found.begin[device]
        return answers.at[device, slot].get(mode="clip")

    @jax.named_scope(FALLBACK)
    def asked_of_all() -> Array:
        local = lax.all_gather(found.place, ROWS) - lax.axis_index(ROWS) * length
        here = ((local >= 0) & (local < length)).reshape(n, k, *[1] * (part.ndim - 1))
        answers = jnp.where(here, part.at[local].get(mode="clip"), 0)
        return lax.psum_scatter(answers, ROWS, scatter_dimension=0)

    distinct = exchanged() if _always_fits(found, length) else lax.cond(found.fits, exchanged, asked_of_all)
    return distinct[found.number]


def update(
    weights: Weights, found: Route, grad: Array, rate: Array, decay: Array | None, transform: Transform
) -> Weights:
    """Make `tables.update_rows` on one device's part of a table; grad: [k, …], of the rows of the route's ids."""
    length, k = weights.value.shape[0], len(found.place)
    number = jnp.where(found.real, found.number, k)
    sums = jnp.zeros_like(grad).at[number].add(grad, mode="drop")
    used = jnp.zeros(k, bool).at[number].set(True, mode="drop")  # not what only padding has read

    def exchanged() -> Rows:
        slots = jnp.minimum(found.slots, k - 1)
        ids, grads = _exchanged(jnp.where(used[slots], found.asked, length)), _exchanged(sums[slots])
        return Rows(ids.reshape(-1), grads.reshape(-1, *grads.shape[2:]))

    @jax.named_scope(FALLBACK)
    def sent_to_all() -> Rows:
        place = jnp.where(used, found.place, lax.axis_size(ROWS) * length)
        local = lax.all_gather(place, ROWS, tiled=True) - lax.axis_index(ROWS) * length
        ids = jnp.where((local >= 0) & (local < length), local, length)
        return Rows(ids, lax.all_gather(sums, ROWS, tiled=True))

    def updated(rows: Rows, weights: Weights) -> Weights:
        rows = jax.tree.map(lambda x: lax.all_gather(x, DATA, tiled=True), rows)
        return tables.update_rows(weights, (rows,), rate, decay, transform)

    if _always_fits(found, length):
        return updated(exchanged(), weights)
    # loops of one step or of none, in which a table is updated in place; a branch would copy it
    fits = found.fits.astype(jnp.int32)
    weights = lax.fori_loop(0, fits, lambda _, w: updated(exchanged(), w), weights)
    with jax.named_scope(FALLBACK):
        return lax.fori_loop(0, 1 - fits, lambda _, w: updated(sent_to_all(), w), weights)


def _always_fits(found: Route, length: int) -> bool:
    return found.asked.shape[1] >= min(len(found.place), length)


def _exchanged(of_each: Array) -> Array:
    """Send entry i of the first axis to device i, and return what all devices have sent to this one."""
    return lax.all_to_all(of_each, ROWS, 0, 0)
