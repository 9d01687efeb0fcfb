"""Tables that are read by rows and too large to have on every device: each device has a part of their rows.

Row r of a table over n devices is at place r // n of device r mod n, so that neighbouring rows, such as those of the
most frequent words, are on different devices. In a step each device sorts the rows that its examples read by their
devices, asks each of these for at most a fixed number of them, and returns the sums of its gradients the same way
(`all_to_all`). The traffic of a device is in proportion to the rows that it reads, whatever the number of devices.
Where a device would have to ask another one for more, all devices take this step by sending ids and rows to all
(`all_gather`), so that the result does not depend on the fixed number.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxfit import tables
from jaxfit.devices import sharding
from jaxfit.devices.sharding import DATA, ROWS, WHOLE
from jaxfit.recipe import Transform
from jaxfit.tables import Rows, Weights

SPLIT = PartitionSpec(ROWS)  # the first axis of a table split over the devices that share it
FALLBACK = "rows_to_all_devices"  # the scope of what is done where a device would ask another one for too much
SLACK = 2  # a device asks another one for at most so many times the mean number of rows


class Layout(NamedTuple):
    """Which parameters are split: hashable, as compiled programs depend on it.

    Attributes:
        tree: the structure of the parameters.
        rows: of each array that is split, its number of rows; None for arrays of which every device has a copy.
    """

    tree: Any
    rows: tuple[int | None, ...]

    def specs(self, transform: Transform) -> Any:
        """How the `Weights` of the parameters are split: like params."""
        probe = jax.ShapeDtypeStruct((7, 1), jnp.float32)
        memory = jax.tree.map(
            lambda leaf: SPLIT if leaf.shape[:1] == probe.shape[:1] else WHOLE, jax.eval_shape(transform.init, probe)
        )
        split: Any = Weights._make([SPLIT, WHOLE, memory, SPLIT if jax.tree.leaves(memory) else None])
        return self.tree.unflatten([WHOLE if rows is None else split for rows in self.rows])

    def map(self, function: Callable[[Any, int | None], Any], tree: Any) -> Any:
        """Apply a function to each array, or `Weights`, of a tree like params and the number of rows that is split."""
        leaves, _ = tables.flatten(tree)
        return self.tree.unflatten([function(leaf, rows) for leaf, rows in zip(leaves, self.rows, strict=True)])

    def shapes(self, weights: Any, mesh: Mesh) -> Any:
        """The shapes and places of what `place` makes, of those of whole `Weights`."""
        everywhere, parts = NamedSharding(mesh, WHOLE), NamedSharding(mesh, SPLIT)

        def shape(leaf: Any, rows: int | None) -> jax.ShapeDtypeStruct:
            if rows is None or leaf.shape[:1] != (rows,):
                return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=everywhere)
            shards = mesh.shape[ROWS]
            stored = (shards * part_length(rows, shards), *leaf.shape[1:])
            return jax.ShapeDtypeStruct(stored, leaf.dtype, sharding=parts)

        return self.map(lambda w, rows: jax.tree.map(lambda leaf: shape(leaf, rows), w), weights)

    def place(self, weights: Any, mesh: Mesh) -> Any:
        """Put whole `Weights` on the devices, split; their working memory is made anew."""

        def placed(w: Weights, rows: int | None) -> Any:
            if rows is None:
                return sharding.replicate(w, mesh)

            def part(leaf: Any) -> Any:
                return split(leaf, mesh) if np.shape(leaf)[:1] == (rows,) else sharding.replicate(leaf, mesh)

            scratch = None if w.scratch is None else split(np.zeros(rows, np.int32), mesh)
            memory = jax.tree.map(part, w.memory)
            return Weights(split(w.value, mesh), sharding.replicate(w.scale, mesh), memory, scratch)

        return self.map(placed, weights)

    def whole_params(self, params: Any) -> Any:
        """The whole parameters, in the order of their rows: of those that are split, arrays of the host."""
        return self.map(lambda x, rows: sharding.one_copy(x) if rows is None else whole(x, rows), params)

    def whole_weights(self, weights: Any) -> Any:
        """The same of `Weights`, without working memory."""

        def joined(w: Weights, rows: int | None) -> Weights:
            if rows is None:
                return sharding.one_copy(w._replace(scratch=None))
            stored = w.value.shape[:1]
            value, memory = jax.tree.map(
                lambda leaf: whole(leaf, rows) if leaf.shape[:1] == stored else sharding.one_copy(leaf),
                (w.value, w.memory),
            )
            return Weights(value, sharding.one_copy(w.scale), memory, None)

        return self.map(joined, weights)

    def in_order(self, params: Any, mesh: Mesh) -> Any:
        """Within a compiled program: parameters with whole tables, which the compiler splits by blocks of rows."""

        def ordered(x: Array, rows: int | None) -> Array:
            return x if rows is None else jax.shard_map(_block, mesh=mesh, in_specs=SPLIT, out_specs=SPLIT)(x)[:rows]

        return self.map(ordered, params)


def _block(part: Array) -> Array:
    """Of a part, every n-th row, to a block of neighbouring rows."""
    n = lax.axis_size(ROWS)
    of_each = lax.all_to_all(part.reshape(n, -1, *part.shape[1:]), ROWS, 0, 0)
    return jnp.swapaxes(of_each, 0, 1).reshape(part.shape)


def part_length(rows: int, shards: int) -> int:
    """The rows of one device's part: a multiple of `shards`, for `Layout.in_order`."""
    return shards * -(-rows // shards**2)


def split(table: Any, mesh: Mesh) -> jax.Array:
    """Put a whole table on the devices, split by rows; all processes give equal ones."""
    host, shards = np.asarray(table), mesh.shape[ROWS]
    length = part_length(len(host), shards)

    def part(index: tuple[slice, ...] | None) -> np.ndarray:
        first = index[0].start if index else 0
        own = host[(first or 0) // length :: shards]
        return np.pad(own, [(0, length - len(own)), *[(0, 0)] * (host.ndim - 1)])

    shape = (shards * length, *host.shape[1:])
    return jax.make_array_from_callback(shape, NamedSharding(mesh, SPLIT), part)


def whole(table: jax.Array, rows: int) -> np.ndarray:
    """Invert `split`, in the host's memory; with several processes all of them must call this."""
    if table.is_fully_addressable:
        stored = np.asarray(table)
    else:
        stored = np.asarray(multihost_utils.process_allgather(table, tiled=True))
    shards = table.sharding.mesh.shape[ROWS]  # type: ignore[attr-defined]
    parts = stored.reshape(shards, -1, *stored.shape[1:])
    return np.ascontiguousarray(np.swapaxes(parts, 0, 1).reshape(stored.shape)[:rows])


class Route(NamedTuple):
    """Where the rows are that one device's examples read.

    Attributes:
        number: int32[k], which of the distinct rows each id is.
        written: bool[k], whether an id is a row's; the others are padding, which reads the last row.
        place: int32[k], where each distinct row is, device * L + place within its part of L rows, ascending; padded.
        asked: int32[n, C], the places of the rows that are asked of each device; L where there are fewer.
        slots: int32[n, C], which of the distinct rows these are.
        begin: int32[n], the first distinct row of each device.
        fits: bool, on all devices alike: whether no device asks another one for more than C rows.
    """

    number: Array
    written: Array
    place: Array
    asked: Array
    slots: Array
    begin: Array
    fits: Array


def route(ids: Array, rows: int) -> Route:
    """Find the devices of rows, int32[k], of a table of so many rows."""
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
    slots = begin[:, None] + jnp.arange(capacity(k, n), dtype=jnp.int32)[None]
    places = place.at[slots].get(mode="clip") - devices[:, None] * length
    asked = jnp.where(slots < end[:, None], places, length)
    fits = lax.pmax(jnp.max(end - begin), (DATA, ROWS)) <= slots.shape[1]
    return Route(number, ids < rows, place, asked, slots, begin, fits)


def capacity(number: int, shards: int) -> int:
    """The most rows that a device asks of another one, of so many ids that it has."""
    return min(number, math.ceil(SLACK * number / shards))


def fetch(part: Array, way: Route) -> Array:
    """Read the rows of a route's ids, [k, …], from the parts of a table on the devices, of which this is one's."""
    n, length, k = lax.axis_size(ROWS), part.shape[0], len(way.place)

    def ask() -> Array:
        answers = _exchanged(part.at[_exchanged(way.asked)].get(mode="clip"))
        device = jnp.minimum(way.place // length, n - 1)
        slot = jnp.arange(k, dtype=jnp.int32) - way.begin[device]
        return answers.at[device, slot].get(mode="clip")

    @jax.named_scope(FALLBACK)
    def ask_all() -> Array:
        own = lax.all_gather(way.place, ROWS) - lax.axis_index(ROWS) * length
        here = ((own >= 0) & (own < length)).reshape(n, k, *[1] * (part.ndim - 1))
        answers = jnp.where(here, part.at[own].get(mode="clip"), 0)
        return lax.psum_scatter(answers, ROWS, scatter_dimension=0)

    distinct = ask() if len(way.asked[0]) == k else lax.cond(way.fits, ask, ask_all)
    return distinct[way.number]


def update(
    weights: Weights, way: Route, grad: Array, rate: Array, decay: Array | None, transform: Transform
) -> Weights:
    """Make `tables.update_rows` on one device's part of a table; grad: [k, …], of the rows of the route's ids."""
    length, k = weights.value.shape[0], len(way.place)
    number = jnp.where(way.written, way.number, k)
    sums = jnp.zeros_like(grad).at[number].add(grad, mode="drop")
    used = jnp.zeros(k, bool).at[number].set(True, mode="drop")  # not what only padding has read

    def returned() -> Rows:
        slots = jnp.minimum(way.slots, k - 1)
        ids, grads = _exchanged(jnp.where(used[slots], way.asked, length)), _exchanged(sums[slots])
        return Rows(ids.reshape(-1), grads.reshape(-1, *grads.shape[2:]))

    @jax.named_scope(FALLBACK)
    def returned_to_all() -> Rows:
        place = jnp.where(used, way.place, lax.axis_size(ROWS) * length)
        own = lax.all_gather(place, ROWS, tiled=True) - lax.axis_index(ROWS) * length
        ids = jnp.where((own >= 0) & (own < length), own, length)
        return Rows(ids, lax.all_gather(sums, ROWS, tiled=True))

    def updated(rows: Rows, weights: Weights) -> Weights:
        rows = jax.tree.map(lambda x: lax.all_gather(x, DATA, tiled=True), rows)
        return tables.update_rows(weights, (rows,), rate, decay, transform)

    if len(way.asked[0]) == k:
        return updated(returned(), weights)
    # loops of one step or of none, in which a table is updated in place; a branch would copy it
    fits = way.fits.astype(jnp.int32)
    weights = lax.fori_loop(0, fits, lambda _, w: updated(returned(), w), weights)
    with jax.named_scope(FALLBACK):
        return lax.fori_loop(0, 1 - fits, lambda _, w: updated(returned_to_all(), w), weights)


def _exchanged(of_each: Array) -> Array:
    """Send entry i of the first axis to device i, and return what all devices have sent to this one."""
    return lax.all_to_all(of_each, ROWS, 0, 0)
