"""Codes of words, their statistics and base rates, against recursive walks over the tree."""

import itertools

import numpy as np
from scipy.special import logsumexp

from jaxlm.trees import build as trees
from jaxlm.trees import paths as tree_paths
from jaxlm.trees.paths import Tree
from word_trees import COUNTS, NUM_WORDS, walk


def walk_arrays(tree: Tree) -> list[tuple[int, tuple]]:
    """Return what `walk` returns, from the arrays of `paths`."""
    word_codes, code_nodes, nodes, signs = tree_paths.paths(tree)
    return [
        (word, tuple(zip(nodes[a:b].tolist(), signs[a:b].tolist(), strict=True)))
        for word in range(tree.num_words)
        for a, b in itertools.pairwise(code_nodes[word_codes[word] : word_codes[word + 1] + 1])
    ]


def word_probabilities(tree: Tree, biases: np.ndarray) -> np.ndarray:
    word_codes, code_nodes, nodes, signs = tree_paths.paths(tree)
    steps = -np.logaddexp(0, -signs * biases[nodes])
    codes = np.add.reduceat(steps, code_nodes[:-1])
    return np.exp([logsumexp(codes[a:b]) for a, b in itertools.pairwise(word_codes)])


def test_paths_equal_a_recursive_walk(tree):
    assert sorted(walk_arrays(tree)) == sorted(walk(tree))


def test_every_word_has_a_leaf_and_codes_are_complete_and_prefix_free(tree):
    word_codes, code_nodes, _, _ = tree_paths.paths(tree)
    assert (np.diff(word_codes) >= 1).all()
    assert np.sum(2.0 ** -np.diff(code_nodes)) == 1  # Kraft's sum: exact in float64 at these depths
    digits = sorted(tuple(sign for _, sign in steps) for _, steps in walk_arrays(tree))
    assert all(later[: len(code)] != code for code, later in itertools.pairwise(digits))


def test_arrays_have_the_documented_types_and_order(tree):
    word_codes, code_nodes, nodes, signs = tree_paths.paths(tree)
    assert tree.children.dtype == word_codes.dtype == code_nodes.dtype == nodes.dtype == np.int32
    assert signs.dtype == np.int8
    assert (nodes[code_nodes[:-1]] == 0).all()  # the root comes first
    at, side = np.nonzero(tree.children >= 0)
    assert (tree.children[at, side] > at).all()
    # a binary tree has one leaf more than nodes
    assert len(code_nodes) - 1 == len(tree.children) + 1 == word_codes[-1]


def test_nodes_are_numbered_level_by_level(tree):
    assert (np.diff(np.concatenate(trees.levels(tree))) == 1).all()


def test_node_biases_give_base_rates(tree):
    biases = tree_paths.node_biases(tree, COUNTS)
    np.testing.assert_allclose(word_probabilities(tree, biases), tree_paths.base_rates(COUNTS), rtol=1e-12)


def test_base_rates_are_add_one_smoothed():
    assert COUNTS.min() == 0
    np.testing.assert_allclose(tree_paths.base_rates(COUNTS), (COUNTS + 1) / (COUNTS.sum() + NUM_WORDS))


def test_statistics_equal_sums_over_the_walk(tree):
    length, codes = np.zeros(NUM_WORDS), np.zeros(NUM_WORDS)
    for word, steps in walk(tree):
        length[word] += len(steps)
        codes[word] += 1
    rate = COUNTS / COUNTS.sum()
    expected = (rate @ length, rate @ codes, len(tree.children))
    np.testing.assert_allclose(tree_paths.statistics(tree, COUNTS), expected, rtol=1e-12)
