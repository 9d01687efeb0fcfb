"""Examples of the hierarchical model as plain arrays, for a training loop of your own.

`jaxlm.models.hlbl.model.loss` takes one of them; `jax.vmap` takes all. The engine's minibatches
(`jaxlm.models.hlbl.batch`) hold the same decisions without padding.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxlm import context_model
from jaxlm.trees.paths import Tree, paths


class Example(NamedTuple):
    """What `loss` takes, of one example or, with a leading axis, of many.

    Attributes:
        context: int32 [c], oldest word first.
        nodes: int32 [codes, depth], of the decisions on the paths to the word's leaves.
        signs: int8 [codes, depth], of these decisions: +1 where the path goes left, -1 right, 0 beyond its end.
    """

    context: Array
    nodes: Array
    signs: Array


def padded_paths(tree: Tree) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return the paths to all leaves of all words, padded to the longest.

    Returns:
        Nodes and signs, [N_w, codes, depth]; signs are 0 for padding.
    """
    every = paths(tree)
    lengths, codes = np.diff(every.code_nodes), np.diff(every.word_codes)
    word = np.repeat(np.arange(tree.num_words), codes)  # of each code
    code = np.repeat(np.arange(len(lengths)), lengths)  # of each decision
    place = (word[code], code - every.word_codes[word[code]], np.arange(len(code)) - every.code_nodes[code])
    nodes = np.zeros((tree.num_words, codes.max(), lengths.max()), np.int32)
    signs = np.zeros(nodes.shape, np.int8)
    nodes[place], signs[place] = every.nodes, every.signs
    return nodes, signs


def examples(ids: np.ndarray, tree: Tree, context_size: int, eos: int, across_lines: bool = True) -> Example:
    """Return all examples of a text over a tree; the arguments are those of `jaxlm.context_model.examples`."""
    nodes, signs = padded_paths(tree)
    contexts, words = context_model.examples(ids, context_size, eos, across_lines)
    return Example(contexts, jnp.asarray(nodes)[words], jnp.asarray(signs)[words])
