"""Trees over words as arrays: the codes of words, statistics and base rates (Mnih 2010, §4.3)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxfit.errors import UserError

Ints = NDArray[np.integer]
Floats = NDArray[np.float64]


class Tree(NamedTuple):
    """A binary tree with words at its leaves; a word may have several leaves.

    `children` is int32 [num_nodes, 2]: column 0 the left child (d = 1), column 1 the right one (d = 0). A child
    v >= 0 is non-leaf node v, a child v < 0 is a leaf with word ~v. Node 0 is the root, and ids increase from parent
    to child.
    """

    children: NDArray[np.int32]
    num_words: int


class Paths(NamedTuple):
    """All codes of all words, concatenated, with offsets of words and codes.

    Codes are ordered by word, the nodes of a code from the root down. The log-probability of a word is the
    logsumexp over its codes of Σ log σ(sign (r̂·q_node + b_node)) (Mnih 2010, Eq. 4.4-4.6).
    """

    word_codes: NDArray[np.int32]  # [N_w + 1]: word w has codes word_codes[w] up to word_codes[w + 1]
    code_nodes: NDArray[np.int32]  # [num_codes + 1]: code c has entries code_nodes[c] up to code_nodes[c + 1]
    nodes: NDArray[np.int32]  # [entries]: the node of a decision
    signs: NDArray[np.int8]  # [entries]: +1 for left, -1 for right


class Statistics(NamedTuple):
    """The statistics of a tree in Table 4.3."""

    mean_code_length: float  # total length of all codes of a word, averaged over the training text
    mean_codes: float  # number of codes of a word, averaged over the training text
    num_nodes: int  # non-leaf nodes, each of which has a feature vector


def levels(tree: Tree, root: int = 0) -> list[NDArray[np.int32]]:
    """Return the ids of a node, of those one level below it, and so on, each level from left to right."""
    result = [np.array([root], np.int32)]
    while (children := tree.children[result[-1]].ravel()).max() >= 0:
        result.append(children[children >= 0])
    return result


def renumbered(tree: Tree, order: Ints) -> Tree:
    """Return the tree with its nodes in another order; node `order[i]` becomes node i."""
    new_id = np.empty(len(order), np.int32)
    new_id[order] = np.arange(len(order), dtype=np.int32)
    children = tree.children[order]
    return tree._replace(children=np.where(children >= 0, new_id[np.maximum(children, 0)], children))


def paths(tree: Tree) -> Paths:
    """Return the paths from the root to every leaf of every word (Mnih 2010, §4.3).

    Raises:
        UserError: if the paths have too many entries for 32-bit offsets.
    """
    depth = np.zeros(len(tree.children), np.int64)
    for level, nodes in enumerate(levels(tree)):
        depth[nodes] = level
    children = tree.children.reshape(-1)  # entry 2 v is the left child of node v, 2 v + 1 the right one
    leaves = np.flatnonzero(children < 0)
    entry = leaves[np.argsort(~children[leaves], kind="stable")].astype(np.int32)
    code_nodes = _offsets(depth[entry // 2] + 1)
    if code_nodes[-1] > np.iinfo(np.int32).max:
        what = f"the paths of the tree have {code_nodes[-1]} entries, too many for 32-bit offsets"
        raise UserError(what, do="use fewer copies or words")
    word_codes = _offsets(np.bincount(~children[leaves], minlength=tree.num_words))
    inner = np.flatnonzero(children >= 0)
    above = np.full(len(tree.children), -1, np.int32)  # the entry that leads to a node; -1: it is the root
    above[children[inner]] = inner
    entries, position = np.empty(code_nodes[-1], np.int32), code_nodes[1:] - 1
    while len(entry):  # all codes are followed upwards at once, until they reach the root
        entries[position] = entry
        entry = above[entry // 2]
        unfinished = entry >= 0
        position, entry = position[unfinished] - 1, entry[unfinished]
    signs = 1 - 2 * (entries % 2).astype(np.int8)
    return Paths(word_codes.astype(np.int32), code_nodes.astype(np.int32), entries // 2, signs)


def below(tree: Tree, mass: NDArray) -> NDArray:
    """Return the total mass of the leaves on each side of each node, [num_nodes, 2].

    Args:
        mass: [N_w], of one leaf.
    """
    if np.shape(mass) != (tree.num_words,):
        raise ValueError(f"numbers of shape {np.shape(mass)} for a tree over {tree.num_words} words")
    leaf = tree.children < 0
    total = np.zeros(tree.children.shape, mass.dtype)
    total[leaf] = mass[~tree.children[leaf]]
    for nodes in reversed(levels(tree)):
        node, side = np.nonzero(~leaf[nodes])
        total[nodes[node], side] = total[tree.children[nodes[node], side]].sum(axis=1)
    return total


def statistics(tree: Tree, counts: Ints) -> Statistics:
    """Return the statistics of Table 4.3, for words that occur `counts` [N_w] times in the training text."""
    word_codes, code_nodes, _, _ = paths(tree)
    rate = np.asarray(counts, np.float64) / max(int(np.sum(counts)), 1)
    nodes_of_word = np.diff(code_nodes[word_codes])
    return Statistics(float(rate @ nodes_of_word), float(rate @ np.diff(word_codes)), len(tree.children))


def base_rates(counts: Ints) -> Floats:
    """Return smoothed, nonzero rates of words, [N_w]: (count + 1) / (sum of counts + N_w)."""
    smoothed = np.asarray(counts, np.float64) + 1
    return smoothed / smoothed.sum()


def node_biases(tree: Tree, counts: Ints) -> Floats:
    """Return biases b [num_nodes] that give words their base rates if all other parameters are 0 (Mnih 2010, §4.6.1).

    b = log(mass of the left subtree) - log(mass of the right one), where the mass of a leaf is the base rate of its
    word divided by the number of leaves of the word.

    Differs: rates are smoothed by one occurrence per word, where the thesis uses the rates of the training set, since
    a rate of zero would need an infinite bias.
    """
    leaves = np.bincount(~tree.children[tree.children < 0], minlength=tree.num_words)
    mass = below(tree, base_rates(counts) / leaves)
    return np.log(mass[:, 0]) - np.log(mass[:, 1])


def _offsets(sizes: Ints) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
