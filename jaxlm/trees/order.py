"""The order of a tree's nodes in memory, which affects the speed of training but not the model.

A training step of the hierarchical model reads the rows of all nodes on the paths of its words. The most visited
nodes come first, so that their decisions are one matrix product with the first rows of the table. The others follow
in pre-order with the more visited child first, so that most steps down a path go to the next row.
"""

import numpy as np
from numpy.typing import NDArray

from jaxlm.trees.paths import Ints, Tree, below, levels, renumbered


def visits(tree: Tree, counts: Ints) -> NDArray[np.int64]:
    """Return how often an epoch visits each node, [num_nodes], for words that occur `counts` [N_w] times.

    All codes of a word are visited whenever the word is a target.
    """
    return below(tree, np.asarray(counts, np.int64)).sum(axis=1)


def by_visits(tree: Tree, counts: Ints, num_hot: int) -> Tree:
    """Renumber the nodes: first the `num_hot` most visited ones, then the others in pre-order.

    Ids still increase from parent to child.
    """
    count = visits(tree, counts)
    hot = np.argsort(-count, kind="stable")[:num_hot]
    # nodes of the subtree on each side: one fewer than it has leaves
    size = below(tree, np.ones(tree.num_words, np.int64)) - 1
    position = np.zeros(len(count), np.int64)  # in the pre-order of all nodes
    for nodes in levels(tree):
        children = tree.children[nodes]
        inner = children >= 0
        weight = np.where(inner, count[np.maximum(children, 0)], -1)
        second = np.argmax(weight, axis=1)[:, None] != np.arange(2)
        first_child = position[nodes][:, None] + 1
        position[children[inner]] = np.where(second, first_child + size[nodes, ::-1], first_child)[inner]
    position += num_hot
    position[hot] = np.arange(len(hot))
    return renumbered(tree, np.argsort(position))
