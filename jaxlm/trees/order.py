"""The order of a tree's nodes in memory, which affects the speed of training but not the model.

A training step of the hierarchical model reads the rows of all nodes on the paths of its words. The most visited
nodes come first, so that their decisions are one matrix product with the first rows of the table. The others follow
in pre-order with the more visited child first, so that most steps down a path go to the next row.
"""

import numpy as np
from numpy.typing import NDArray

from jaxlm.trees.paths import Ints, Tree, levels, renumbered


def visits(tree: Tree, counts: Ints) -> NDArray[np.int64]:
    """Return how often an epoch visits each node, [num_nodes], for words that occur `counts` [N_w] times.

    All codes of a word are visited whenever the word is a target.
    """
    leaf = tree.children < 0
    below = np.zeros(tree.children.shape, np.int64)
    below[leaf] = np.asarray(counts, np.int64)[~tree.children[leaf]]
    for nodes in reversed(levels(tree)):
        node, side = np.nonzero(~leaf[nodes])
        below[nodes[node], side] = below[tree.children[nodes[node], side]].sum(axis=1)
    return below.sum(axis=1)


def by_visits(tree: Tree, counts: Ints, num_hot: int) -> Tree:
    """Renumber the nodes: first the `num_hot` most visited ones, then the others in pre-order.

    Ids still increase from parent to child.
    """
    count = visits(tree, counts)
    n = len(count)
    hot = np.lexsort((np.arange(n), -count))[:num_hot]
    size = _sizes(tree)
    position = np.zeros(n, np.int64)  # in the pre-order of all nodes
    for nodes in levels(tree):
        children = tree.children[nodes]
        weight = np.where(children >= 0, count[np.maximum(children, 0)], -1)
        first = np.argmax(weight, axis=1)
        sizes = np.where(children >= 0, size[np.maximum(children, 0)], 0)
        for rank, side in enumerate((first, 1 - first)):
            child = np.take_along_axis(children, side[:, None], axis=1)[:, 0]
            before = np.take_along_axis(sizes, first[:, None], axis=1)[:, 0] if rank else 0
            inner = child >= 0
            position[child[inner]] = (position[nodes] + 1 + before)[inner]
    position += num_hot
    position[hot] = np.arange(len(hot))
    return renumbered(tree, np.argsort(position))


def _sizes(tree: Tree) -> NDArray[np.int64]:
    """Return the number of nodes in the subtree of each node, itself included."""
    inner = tree.children >= 0
    size = np.ones(len(tree.children), np.int64)
    for nodes in reversed(levels(tree)):
        below = np.where(inner[nodes], size[np.maximum(tree.children[nodes], 0)], 0)
        size[nodes] = 1 + below.sum(axis=1)
    return size
