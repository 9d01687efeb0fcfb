"""Decisions on the paths of words in a tree, in tiles, for models whose gradients are written out for speed.

The decisions of each code are cut into tiles of `TILE`, the last one padded with decisions of sign 0. A minibatch is a
list of tiles, of static length.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.devices.platform import platform
from jaxfit.minibatches.bucketing import capacity_step, spread
from jaxlm.trees.paths import Paths

TILE = 4


class Table(NamedTuple):
    """The tiles of all words, ordered by word.

    Attributes:
        start: int32 [N_w + 1], word w has tiles start[w] up to start[w + 1].
        turn: int32 [tiles * TILE], v + 1 where the code goes left at node v, -(v + 1) where right, 0 beyond its end.
            The last tile belongs to no word, and is 0. The array is flat, as a TPU would pad rows of TILE to 128.
        code: int32 [tiles], the code that a tile belongs to, counted from its word's first; None where no word has
            several codes.
    """

    start: Array
    turn: Array
    code: Array | None


class Tiles(NamedTuple):
    """Decisions of a minibatch.

    Attributes:
        node: int32 [T, TILE].
        sign: float32 [T, TILE], 0 for padding.
        slot: int32 [T], the code that a tile belongs to.
        owner: int32 [T], the example that a tile belongs to.
    """

    node: Array
    sign: Array
    slot: Array
    owner: Array


def tabulate(every: Paths, chosen: NDArray[np.bool_]) -> Table:
    """Cut the chosen entries, bool [entries], of each code into tiles."""
    number = np.concatenate([[0], np.cumsum(chosen)])[every.code_nodes]  # chosen entries before each code
    length = np.diff(number)
    tiles = -(-length // TILE)
    first = np.concatenate([[0], np.cumsum(tiles)])
    place = np.arange(number[-1]) + np.repeat(first[:-1] * TILE - number[:-1], length)
    # one of a few numbers of tiles, at least the last of which is empty: trees that are nearly alike share a program
    size = capacity_step(first[-1] + 1)
    turn = np.zeros(size * TILE, np.int32)
    turn[place] = (every.nodes[chosen] + 1) * every.signs[chosen]
    codes = np.diff(every.word_codes)
    local = np.arange(len(tiles)) - np.repeat(every.word_codes[:-1], codes)
    code = np.resize(np.repeat(local, tiles), size)
    start = first[every.word_codes]
    on_device = [jax.device_put(x.astype(np.int32)) for x in (start, turn, code)]
    return Table(on_device[0], on_device[1], on_device[2] if codes.max() > 1 else None)


def tiles(table: Table, word: Array, first_slot: Array, capacity: int, filler: int) -> Tiles:
    """Return the tiles of words, end to end.

    Args:
        table: the tiles of all words.
        word: [B], the words.
        first_slot: int32 [B], the slot of each word's first code.
        capacity: number of tiles, static.
        filler: node of padding.
    """
    owner, position, real = spread(table.start, word, capacity)
    at = jnp.minimum(owner, word.shape[0] - 1)
    # padding reads the table's empty last tile: were it zeroed here, XLA would fuse the choice into each loop over
    # decisions and vectorise none of them
    turn = _rows(table.turn, jnp.where(real, position, table.turn.shape[0] // TILE - 1))
    return Tiles(
        node=jnp.where(turn == 0, filler, jnp.abs(turn) - 1),
        sign=jnp.sign(turn).astype(jnp.float32),
        slot=at if table.code is None else first_slot[at] + jnp.where(real, table.code[position], 0),
        owner=at,
    )


def _rows(turn: Array, at: Array) -> Array:
    """Read tiles: int32[T] -> int32 [T, TILE]."""
    if platform() == "cpu":
        return turn.reshape(-1, TILE)[at]
    return turn[at[:, None] * TILE + jnp.arange(TILE, dtype=jnp.int32)[None]]


def decide(sign: Array, logit: Array) -> tuple[Array, Array]:
    """Return Σ log σ(sign logit) of each tile, [T], and the derivatives of -Σ by the logits, like them [T, TILE]."""
    x = sign * logit
    small = jnp.exp(-jnp.abs(x))
    # a decision's log σ(x), and σ(-x): from one exponential (log1p costs twice as much as log)
    log_p = jnp.where(sign == 0, 0.0, jnp.minimum(x, 0) - jnp.log(1 + small))
    of_tile = log_p[:, 0]
    for j in range(1, TILE):
        of_tile += log_p[:, j]
    return of_tile, -sign * jnp.where(x > 0, small, 1.0) / (1 + small)


def weighted_rows(Q: Array, g: Array, decisions: Tiles) -> Array:
    """Compute Σ g q over the decisions of each tile: [T, N_f]."""
    rows = g[:, 0][:, None] * Q.at[decisions.node[:, 0]].get(mode="clip")
    for j in range(1, TILE):
        rows += g[:, j][:, None] * Q.at[decisions.node[:, j]].get(mode="clip")
    return rows
