"""Minibatches of the hierarchical model: contexts, and the decisions on the paths of their words, laid flat.

The nodes of a code are split in two: its way through the most visited nodes of the tree (*hot*: the first
`num_hot`, see `jaxlm.trees.order`) and the rest (*cold*). Either part is cut into tiles of `TILE` decisions, the
last one filled up with decisions of sign 0. A minibatch is a list of tiles, of static length.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.devices.platform import platform
from jaxfit.minibatches.bucketing import capacity_step, spread
from jaxlm.data.contexts import Text, gather_contexts, text_of
from jaxlm.trees.paths import Paths, Tree, paths

TILE = 4


class Table(NamedTuple):
    """The tiles of all words, ordered by word.

    start: int32[N_w + 1], word w has tiles start[w] up to start[w + 1]; turn: int32[tiles * TILE], v + 1 where the
    code goes left at node v, -(v + 1) where right, 0 beyond its end; the last tile is no word's, and all 0; it is flat,
    as rows of TILE numbers would fill a TPU's rows of 128; code: int32[tiles], the code that a tile belongs to,
    counted from its word's first; None where no word has several codes.
    """

    start: Array
    turn: Array
    code: Array | None


class Data(NamedTuple):
    """A text and the paths of all words, on the device.

    word_codes: int32[N_w + 1], as in `Paths`.
    """

    text: Text
    word_codes: Array
    hot: Table
    cold: Table


class Tiles(NamedTuple):
    """Decisions of a minibatch: node int32 [T, TILE], sign float32 [T, TILE], 0 for padding.

    slot, owner: int32[T], the code and the example that a tile belongs to.
    """

    node: Array
    sign: Array
    slot: Array
    owner: Array


class Batch(NamedTuple):
    """A minibatch: context int32[c, B], oldest first; owner: int32[slots], the example of each code (B: none).

    owner is None where no word has several codes, so that a code's slot is its example.
    """

    context: Array
    hot: Tiles
    cold: Tiles
    owner: Array | None


def make_data(ids: np.ndarray, tree: Tree, config: Any, eos: int) -> Data:
    """Return a text with the paths of all words, on the device; ids: int32 [events]."""
    every = paths(tree)
    is_hot = every.nodes < config.num_hot
    hot, cold = tabulate(every, is_hot), tabulate(every, ~is_hot)
    text = text_of(ids, eos)
    return Data(text, jax.device_put(every.word_codes), hot, cold)


def num_examples(data: Data) -> int:
    """Return the events of a text."""
    return int(data.text.events)


def tabulate(every: Paths, chosen: NDArray[np.bool_]) -> Table:
    """Cut the chosen entries of each code into tiles."""
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


def costs(data: Data) -> NDArray[np.unsignedinteger]:
    """int[N, 3]: hot tiles, cold tiles and codes of each example of the text."""
    offsets = (data.hot.start, data.cold.start, data.word_codes)
    per_word = np.stack([np.diff(np.asarray(x)) for x in offsets], axis=1)
    words = np.asarray(data.text.words)[: int(data.text.events)]
    return per_word.astype(np.min_scalar_type(per_word.max()))[words]


def gather(data: Data, index: Array, capacity: tuple[int, int, int], config: Any) -> Batch:
    """Gather the examples `index` int32[B] of the text; capacity: numbers of hot tiles, cold tiles and codes."""
    B = index.shape[0]
    hot_tiles, cold_tiles, slots = capacity
    context, word = gather_contexts(data.text, index, config.context_size, config.across_lines)
    owner, first_slot = None, jnp.arange(B, dtype=jnp.int32)
    if data.hot.code is not None:
        owner, _, _ = spread(data.word_codes, word, slots)
        codes = data.word_codes[word + 1] - data.word_codes[word]
        first_slot = jnp.cumsum(codes) - codes
    # padding is given a node past the last, whose row is neither read nor written
    hot, cold = (
        tiles(table, word, first_slot, max(1, capacity), config.num_nodes)
        for table, capacity in ((data.hot, hot_tiles), (data.cold, cold_tiles))
    )
    return Batch(context.T, hot, cold, owner)


def tiles(table: Table, word: Array, first_slot: Array, capacity: int, filler: int) -> Tiles:
    """Return the tiles of the words [B], end to end; first_slot: int32[B], the slot of each word's first code."""
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
