"""Ratings laid out for solving for every user (or item) by itself, in memory that does not grow with the ratings.

The normal equations of a row (a user, or an item) are sums over its ratings. Ratings are laid out row after row and cut
into tiles of `TILE`, the last of a row filled up with zeros; a chunk of whole rows has a bounded number of tiles, and
a solver goes through all chunks in one compiled loop.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxcf.data.ratings import Vectors
from jaxfit.devices.cores import cores
from jaxfit.devices.platform import at_once, platform
from jaxfit.devices.precision import full_float32
from jaxfit.minibatches.bucketing import capacity_step

TILE = 32  # ratings
CHUNK_TILES, CHUNK_ROWS = 1024, 256  # at most, on a CPU; on an accelerator, memory decides
CACHED_BYTES = 3 << 19  # of vectors that stay in the cache of a CPU while a solver reads them several times
LEAST_ROWS = 8  # capacity of a chunk of new users
SPARE_ROWS = 1.25  # capacity of a chunk, as a multiple of the rows that its tiles have on average


class Side(NamedTuple):
    """The ratings of all users (or items), cut into tiles, in chunks."""

    row: Array  # int32[chunks, rows], the users of a chunk, past the end for padding
    owner: Array  # int32[chunks, tiles], the place in `row` that a tile belongs to
    other: Array  # int32[chunks, tiles, TILE], the items rated, past the end for padding
    stars: Array  # float32[chunks, tiles, TILE]: stars, or another value of a rating, such as its confidence


def make_side(vectors: Vectors, num_others: int, num_features: int, few_sizes: bool = False) -> Side:
    """Cut the ratings of rows into tiles, and group rows into chunks, on the device; rows without ratings are in none.

    Args:
        vectors: the ratings of each row.
        num_others: number of items, where rows are users.
        num_features: D, which determines the size of a row's normal equations.
        few_sizes: whether the row capacity of a chunk is one of few values, so that new users, one after another, share
            a compiled program, however many ratings each has.
    """
    return Side(*jax.device_put(_lay_out(vectors, num_others, num_features, few_sizes=few_sizes)))


def make_sides(vectors: Vectors, num_others: int, num_features: int) -> list[Side]:
    """Make the sides for a solver that reads the vectors of a chunk several times; otherwise as `make_side`.

    On a CPU, chunks are as large as its cache, and divided into a part for each core; elsewhere there is one part.
    Parts are of equal shape, the last one filled up with chunks of padding. What is solved for a row does not depend on
    their number.
    """
    arrays = _lay_out(vectors, num_others, num_features, cached=True)
    chunks = len(arrays[0])
    number = min(cores(), max(1, chunks)) if platform() == "cpu" else 1
    size = -(-chunks // number)

    def part(array: np.ndarray, i: int) -> np.ndarray:
        found = array[i * size : (i + 1) * size]
        padding = 0 if array.dtype == np.float32 else np.iinfo(np.int32).max
        return np.pad(found, [(0, size - len(found))] + [(0, 0)] * (array.ndim - 1), constant_values=padding)

    return [Side(*jax.device_put([part(array, i) for array in arrays])) for i in range(number)]


def solve_in_parts(solution: Callable[..., Array], sides: Sequence[Side], rows: Array, *arguments: Any) -> Array:
    """Return the rows [rows, D] that a compiled function finds, part by part; 0 where a row is in no chunk.

    Each part is solved in a thread of its own: XLA's programs for a CPU use one core for the small products of a chunk,
    however many there are.

    Args:
        solution: (part, rows, *arguments) -> [chunks, rows of a chunk, D]. With several parts it must not call LAPACK,
            as `cholesky` does: batches of it wait for the threads of one pool, and two of them for each other.
        sides: from `make_sides`.
        rows: the previous rows, [rows, D].
        arguments: the same for every part.
    """

    @full_float32()  # which holds in the thread that enters it
    def solve(part: Side) -> Array:
        return jax.block_until_ready(solution(part, rows, *arguments))

    traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((sides, rows, arguments)))
    if len(sides) == 1 or traced:  # a compiled sweep runs all parts itself
        found = [solution(side, rows, *arguments) for side in sides]
    else:
        with ThreadPoolExecutor(len(sides)) as threads:
            found = list(threads.map(solve, sides))
    return _place([side.row for side in sides], found, rows)


@jax.jit
def _place(numbers: list[Array], found: list[Array], rows: Array) -> Array:
    placed = jnp.zeros_like(rows)
    for number, each in zip(numbers, found, strict=True):
        placed = placed.at[number].set(each, mode="drop")
    return placed


def _lay_out(
    vectors: Vectors, num_others: int, num_features: int, cached: bool = False, few_sizes: bool = False
) -> tuple[np.ndarray, ...]:
    """Return the fields of a `Side` of all chunks."""
    offsets, other, stars = vectors
    length = np.diff(offsets)
    rows = np.flatnonzero(length)
    tiles = -(-length[rows] // TILE)
    # a matrix is held for each tile and each row; `capacity_step`, so that data of nearly equal size share a program
    held = (num_features + 2) ** 2
    usual = min(CHUNK_TILES, CACHED_BYTES // (4 * TILE * num_features)) if cached else CHUNK_TILES
    most = max(at_once(capacity_step(tiles.sum()), held, usual), int(tiles.max(initial=1)))
    needed = int(SPARE_ROWS * most * len(rows) / max(1, tiles.sum())) + 1
    if few_sizes:
        needed = min(_rows_step(needed), _rows_step(len(rows)))
    most_rows = min(needed, at_once(capacity_step(len(rows)), held, CHUNK_ROWS))
    starts = _chunk_starts(tiles, most, most_rows)
    chunks = len(starts) - 1
    chunk = np.repeat(np.arange(chunks), np.diff(starts))  # of each row
    place = np.arange(len(rows)) - starts[chunk]
    before = np.concatenate([[0], np.cumsum(tiles)])
    first = before[:-1] - before[starts[chunk]]  # a row's first tile, in its chunk
    row = np.full((chunks, most_rows), len(length), np.int32)
    row[chunk, place] = rows
    owner = np.full((chunks, most), most_rows, np.int32)
    of_tile = np.arange(before[-1]) - np.repeat(before[starts[chunk]], tiles)
    owner[np.repeat(chunk, tiles), of_tile] = np.repeat(place, tiles)
    within = np.arange(len(other)) - np.repeat(offsets[rows], length[rows])
    at = np.repeat((chunk * most + first) * TILE, length[rows]) + within
    others = np.full(chunks * most * TILE, num_others, np.int32)
    values = np.zeros(chunks * most * TILE, np.float32)
    others[at], values[at] = other, stars
    shape = (chunks, most, TILE)
    return row, owner, others.reshape(shape), values.reshape(shape)


def _rows_step(number: int) -> int:
    """Round a number of rows up to a power of two from LEAST_ROWS on, or, of more than 128, as `capacity_step` does."""
    return capacity_step(number) if number > 128 else max(LEAST_ROWS, 1 << (number - 1).bit_length())


def _chunk_starts(tiles: np.ndarray, most: int, most_rows: int) -> np.ndarray:
    """Return the first row of each chunk, with at most `most` tiles and `most_rows` rows in each; then their number."""
    ends, starts = np.cumsum(tiles), [0]
    while starts[-1] < len(tiles):
        used = ends[starts[-1] - 1] if starts[-1] else 0
        fits = int(np.searchsorted(ends, used + most, side="right"))
        starts.append(min(fits, starts[-1] + most_rows))
    return np.array(starts)


def row_sums(of_tiles: Array, part: Side) -> Array:
    """Sum what each tile of a chunk has over the tiles of each of its rows: [tiles, …] -> [rows, …]."""
    return jax.ops.segment_sum(of_tiles, part.owner, part.row.shape[0], indices_are_sorted=True)
