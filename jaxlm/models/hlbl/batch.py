"""Minibatches of the hierarchical model: contexts, and the decisions on the paths of their words, laid flat.

The nodes of a code are split in two: its way through the most visited nodes of the tree (*hot*: the first
`num_hot`, see `jaxlm.trees.order`) and the rest (*cold*). Either part is cut into tiles of decisions
(`jaxlm.objectives.tree_tiles`).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.minibatches.bucketing import spread
from jaxlm.data.contexts import Text, gather_contexts, text_of
from jaxlm.objectives.tree_tiles import Table, Tiles, tabulate, tiles
from jaxlm.trees.paths import Tree, paths


class Data(NamedTuple):
    """A text and the paths of all words, on the device.

    word_codes: int32[N_w + 1], as in `Paths`.
    """

    text: Text
    word_codes: Array
    hot: Table
    cold: Table


class Batch(NamedTuple):
    """A minibatch.

    Attributes:
        context: int32 [c, B], oldest first.
        owner: int32 [slots], the example of each code (B: none); None where no word has several codes, so that a code's
            slot is its example.
    """

    context: Array
    hot: Tiles
    cold: Tiles
    owner: Array | None


def make_data(ids: np.ndarray, tree: Tree, config: Any, eos: int) -> Data:
    """Return a text with the paths of all words, on the device.

    Args:
        ids: int32 [events].
    """
    every = paths(tree)
    is_hot = every.nodes < config.num_hot
    hot, cold = tabulate(every, is_hot), tabulate(every, ~is_hot)
    text = text_of(ids, eos)
    return Data(text, jax.device_put(every.word_codes), hot, cold)


def num_examples(data: Data) -> int:
    """Return the events of a text."""
    return int(data.text.events)


def costs(data: Data) -> NDArray[np.unsignedinteger]:
    """Count the hot tiles, cold tiles and codes of each example of the text: int[N, 3]."""
    offsets = (data.hot.start, data.cold.start, data.word_codes)
    per_word = np.stack([np.diff(np.asarray(x)) for x in offsets], axis=1)
    words = np.asarray(data.text.words)[: int(data.text.events)]
    return per_word.astype(np.min_scalar_type(per_word.max()))[words]


def gather(data: Data, index: Array, capacity: tuple[int, int, int], config: Any) -> Batch:
    """Gather examples of the text.

    Args:
        index: int32 [B], the examples.
        capacity: numbers of hot tiles, cold tiles and codes.
    """
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
        tiles(table, word, first_slot, max(1, number), config.num_nodes)
        for table, number in ((data.hot, hot_tiles), (data.cold, cold_tiles))
    )
    return Batch(context.T, hot, cold, owner)
