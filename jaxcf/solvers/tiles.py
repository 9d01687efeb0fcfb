"""Ratings laid out for solving for every user (or item) by itself, in memory that does not grow with the ratings.

The normal equations of a row (a user, or an item) are sums over its ratings. Ratings are laid out row after row and cut
into tiles of `TILE`, the last of a row filled up with zeros; a chunk of whole rows has a bounded number of tiles, and
a solver goes through all chunks in one compiled loop.
"""

from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from jaxcf.data.ratings import Vectors
from jaxfit.bucketing import capacity_step
from jaxfit.devices.platform import at_once

TILE = 32  # ratings
CHUNK_TILES, CHUNK_ROWS = 1024, 256  # at most, on a CPU; on an accelerator, memory decides
CACHED_BYTES = 3 << 19  # of vectors that stay in the cache of a CPU while a solver reads them several times
SPARE_ROWS = 1.25  # capacity of a chunk, as a multiple of the rows that its tiles have on average


class Side(NamedTuple):
    """The ratings of all users (or items), cut into tiles, in chunks."""

    row: Array  # int32[chunks, rows], the users of a chunk, past the end for padding
    owner: Array  # int32[chunks, tiles], the place in `row` that a tile belongs to
    other: Array  # int32[chunks, tiles, TILE], the items rated, past the end for padding
    stars: Array  # float32[chunks, tiles, TILE], or what else there is of a rating, as its confidence


def make_side(vectors: Vectors, num_others: int, num_features: int, cached: bool = False) -> Side:
    """Cut the rows of ratings into tiles, and put rows into chunks; rows without ratings are in none.

    Args:
        vectors: the ratings of each row.
        num_others: items, where rows are users.
        num_features: with the length of a row's vector, the number of elements of its normal equations is known.
        cached: whether the solver reads the vectors of a chunk several times.
    """
    offsets, other, stars = vectors
    length = np.diff(offsets)
    rows = np.flatnonzero(length)
    tiles = -(-length[rows] // TILE)
    # a matrix is held for each tile and each row; `capacity_step`, so that data of nearly equal size share a program
    held = (num_features + 2) ** 2
    usual = min(CHUNK_TILES, CACHED_BYTES // (4 * TILE * num_features)) if cached else CHUNK_TILES
    most = max(at_once(capacity_step(tiles.sum()), held, max(1, usual)), int(tiles.max(initial=1)))
    needed = int(SPARE_ROWS * most * len(rows) / max(1, tiles.sum())) + 1
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
    return Side(*jax.device_put((row, owner, others.reshape(shape), values.reshape(shape))))


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
