"""The order in which a tree's nodes lie in memory; it changes the speed of training, not the model.

A step of the hierarchical model reads the rows of all nodes on its words' paths. The most visited nodes come
first, so that their decisions are one matrix product with the first rows of the table. The others follow in
pre-order with the more visited child first, so that most steps down a path go to the next row.
"""

import numpy as np
from numpy.typing import NDArray

from jaxlm.trees.paths import Ints, Tree, levels


def visits(tree: Tree, counts: Ints) -> NDArray[np.int64]:
    """Return how often training visits each node [num_nodes], for words that occur `counts` [N_w] times.

    Every code of a word is walked whenever the word is a target.
    """
    leaf = tree.children < 0
    below = np.zeros(tree.children.shape, np.int64)
    below[leaf] = np.asarray(counts, np.int64)[~tree.children[leaf]]
    for nodes in reversed(levels(tree)):
        node, side = np.nonzero(~leaf[nodes])
        below[nodes[node], side] = below[tree.children[nodes[node], side]].sum(axis=1)
    return below.sum(axis=1)


def by_visits(tree: Tree, counts: Ints, num_hot: int) -> Tree:
    """Return the same tree with its nodes renumbered, ids still growing from parent to child.

    The `num_hot` most visited nodes come first, then the others in pre-order.
    """
    count = visits(tree, counts)
    n = len(count)
    hot = np.lexsort((np.arange(n), -count))[:num_hot]
    size = _sizes(tree)
    place = np.zeros(n, np.int64)  # in the whole pre-order
    for nodes in levels(tree):
        children = tree.children[nodes]
        weight = np.where(children >= 0, count[np.maximum(children, 0)], -1)
        first = np.argmax(weight, axis=1)
        sizes = np.where(children >= 0, size[np.maximum(children, 0)], 0)
        for rank, side in enumerate((first, 1 - first)):
            child = np.take_along_axis(children, side[:, None], axis=1)[:, 0]
            before = np.take_along_axis(sizes, first[:, None], axis=1)[:, 0] if rank else 0
            inner = child >= 0
            place[child[inner]] = (place[nodes] + 1 + before)[inner]
    place += num_hot
    place[hot] = np.arange(len(hot))
    order = np.argsort(place)
    new = np.empty(n, np.int32)
    new[order] = np.arange(n, dtype=np.int32)
    children = tree.children[order]
    return tree._replace(
        children=np.where(children >= 0, new[np.maximum(children, 0)], children).astype(np.int32)
    )


def _sizes(tree: Tree) -> NDArray[np.int64]:
    """The number of nodes of each node's subtree, itself included."""
    inner = tree.children >= 0
    size = np.ones(len(tree.children), np.int64)
    for nodes in reversed(levels(tree)):
        below = np.where(inner[nodes], size[np.maximum(tree.children[nodes], 0)], 0)
        size[nodes] = 1 + below.sum(axis=1)
    return size
