"""The rows of split tables that a step reads: devices ask each other for them, and return their gradients.

In a step each device sorts the ids of the rows that its examples read by their devices, each row once, asks each of
these for at most a fixed number of rows, and returns the sums of its gradients the same way (`all_to_all`). Where all
devices share one table, what a device sends depends on the number of rows that it reads, not on the number of devices.
Where a device would have to ask another one for more, all devices take this step by sending ids and rows to all
(`all_gather`), so that the result does not depend on the fixed number.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxfit import tables
from jaxfit.devices.sharding import DATA, ROWS
from jaxfit.devices.split_tables import part_length
from jaxfit.optimizer import Transform
from jaxfit.tables import Rows, Weights

FALLBACK = "rows_to_all_devices"  # the scope of what is done where a device would ask another one for too much
SLACK = 2  # a device asks another one for at most so many times the mean number of rows


class Route(NamedTuple):
    """Where the rows are that the examples of one device read: k ids, and n devices with L rows each.

    Attributes:
        number: int32[k], for each id the index of its row in `place`.
        real: bool[k], whether an id is that of a row; the others are padding, and read the last row.
        place: int32[k], for each distinct row device * L + its position in that device's part, ascending; n L is
            padding.
        asked: int32[n, C], positions of the rows that are requested from each device; padded with L.
        slots: int32[n, C], indices in `place` of the requested rows.
        begin: int32[n], the first index in `place` of each device.
        fits: bool, the same on all devices: whether no device needs more than C rows of another one.
    """

    number: Array
    real: Array
    place: Array
    asked: Array
    slots: Array
    begin: Array
    fits: Array


def route(ids: Array, rows: int) -> Route:
    """Find where the rows with these ids, int32[k], k >= 1, of a table of `rows` rows are."""
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
    """Return the maximum number of rows that a device requests from another one, C of `Route`.

    Args:
        number: number of ids on a device.
        rows: rows of the table.
        shards: number of devices that share the table.
    """
    return min(math.ceil(SLACK * number / shards), number, part_length(rows, shards))


def fetch(part: Array, found: Route) -> Array:
    """Read the rows of a route's ids, [k, …], where `part`, [L, …], is this device's part of the table."""
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
    """Apply `tables.update_rows` to this device's part of a table.

    Args:
        weights: of this device's part, [L, …].
        found: where the rows are.
        grad: [k, …], gradients of the rows of the route's ids.
        rate: scalar.
        decay: scalar; None if the gradients include it.
        transform: the optimizer.
    """
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
