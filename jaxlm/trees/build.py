"""Building trees over words: random, by clustering features, Huffman, overcomplete (Mnih 2010, §4.4)."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from jaxfit.errors import UserError
from jaxlm.trees.clustering import average_features, log_odds, spread
from jaxlm.trees.file import load, save
from jaxlm.trees.paths import Paths, Statistics, Tree, base_rates, levels, node_biases, paths, statistics

__all__ = [
    "Kind",
    "Paths",
    "Rule",
    "Statistics",
    "Tree",
    "average_features",
    "base_rates",
    "build",
    "cluster",
    "huffman",
    "join",
    "load",
    "node_biases",
    "paths",
    "random_tree",
    "save",
    "statistics",
]

Ints = NDArray[np.integer]
Rule = Literal["balanced", "adaptive", "noisy-adaptive"]
Kind = Literal["random", "balanced", "adaptive", "noisy-adaptive", "huffman"]
Split = Callable[[int, Ints, Ints, int], tuple[NDArray[np.bool_], NDArray[np.bool_]]]

DEEPEST_UNBALANCED = (
    100  # splits below this depth are balanced: no corpus seen comes near, outliers in a chain would
)
MOST_CODES = 8  # mean codes per word from which on no word is put on both sides: ADAPTIVE(0.4) has 1.7


def random_tree(key: jax.Array, num_words: int) -> Tree:
    """Return the tree RANDOM: a random permutation, first half to the left, and so on (Mnih 2010, §4.4)."""
    check_num_words(num_words)
    order = np.asarray(jax.random.permutation(key, num_words))

    def first_half(level: int, words: Ints, sizes: Ints, leaves: int) -> tuple:
        left = _ranks(sizes) < spread((sizes + 1) // 2, sizes)
        return left, ~left

    return _grow(order, num_words, first_half)


def cluster(key: jax.Array, features: NDArray[np.floating], rule: Rule, epsilon: float = 0.0) -> Tree:
    """Return the tree that recursive two-Gaussian mixtures make of words (Mnih 2010, §4.4, §4.6.4).

    Every set of words, beginning with all, is split by the responsibilities p, 1 - p of a mixture fitted to
    it (see `tree_mixture.log_odds`), until it holds one word. `features` is [N_w, D], for the thesis
    `average_features`.

    - "balanced": words sorted by p, the upper half to the left.
    - "adaptive": to the component with the higher responsibility; to both where |p - 1/2| < `epsilon`.
    - "noisy-adaptive": likewise, but outside that band to the left with probability p.

    Where the thesis is silent: a split that shrinks nothing (a side empty, or a side with the whole set) is
    replaced by the balanced one, so that the recursion ends; so are all splits below depth 100, so that no
    chain of outliers makes it quadratic; from the level on at which words have 8 codes on average, epsilon
    is taken as 0. Equal keys give equal trees.

    Raises:
        UserError: if features are not finite, epsilon is not in [0, 1/2), or there are fewer than two words.
    """
    features = np.asarray(features)
    num_words = len(features)
    check_num_words(num_words)
    if not 0 <= epsilon < 0.5:
        raise UserError(f"epsilon is {epsilon}", do="give at least 0 and less than 0.5")
    if not np.isfinite(features).all():
        raise UserError("word features are not finite", do="train the model they come from at a lower rate")
    # Mixtures care neither for shift nor scale; with unit variance one absolute floor does for all models.
    centred = features - features.mean(axis=0, dtype=np.float64)
    unit = (centred / (np.sqrt(np.mean(np.square(centred))) or 1)).astype(np.float32)
    band = np.log(0.5 + epsilon) - np.log(0.5 - epsilon)

    def split(level: int, words: Ints, sizes: Ints, leaves: int) -> tuple:
        level_key = jax.random.fold_in(key, level)
        partition = _within(sizes, _bits(jax.random.fold_in(level_key, 0), len(words)))
        odds = log_odds(unit, words, sizes, partition)
        middle = spread((sizes + 1) // 2, sizes)
        balanced = _within(sizes, -odds) < middle
        if rule == "balanced" or level >= DEEPEST_UNBALANCED:
            return balanced, ~balanced
        if rule == "noisy-adaptive":
            # bits + 1/2 over 2**32 is uniform on (0, 1); compared in log-odds, where no p rounds to 0 or 1
            uniform = (_bits(jax.random.fold_in(level_key, 1), len(words)) + 0.5) / 2.0**32
            left = odds > np.log(uniform) - np.log1p(-uniform)
        else:
            left = odds > 0
        full = len(words) + leaves > MOST_CODES * num_words
        both = (np.abs(odds) < band) & (not full)
        left, right = left | both, ~left | both
        starts = np.cumsum(sizes) - sizes
        on_left, on_right = (np.add.reduceat(side.astype(np.int64), starts) for side in (left, right))
        shrinks = spread((on_left < sizes) & (on_right < sizes), sizes)
        return np.where(shrinks, left, balanced), np.where(shrinks, right, ~balanced)

    return _grow(np.arange(num_words), num_words, split)


def huffman(counts: Ints) -> Tree:
    """Return Huffman's tree, of the least mean code length for words that occur `counts` [N_w] times.

    Among equal weights the subtree made first is merged first, words before others: of all best trees the
    shallowest. Source: Huffman 1952; not in the thesis, whose trees follow the words' features.
    """
    num_words = len(counts)
    check_num_words(num_words)
    order = np.argsort(counts, kind="stable")
    # Words by weight, and merged subtrees in the order of their making, are two queues that are both sorted.
    weights, values = np.asarray(counts)[order].tolist(), (~order).tolist()
    merged: list[int] = []
    pairs = np.empty((num_words - 1, 2), np.int32)
    word = subtree = 0

    def lightest() -> tuple[int, int]:
        nonlocal word, subtree
        if word < num_words and (subtree == len(merged) or weights[word] <= merged[subtree]):
            word += 1
            return weights[word - 1], values[word - 1]
        subtree += 1
        return merged[subtree - 1], num_words - 1 - subtree  # made last is the root, node 0

    for made in range(num_words - 1):
        (weight_a, a), (weight_b, b) = lightest(), lightest()
        merged.append(weight_a + weight_b)
        pairs[num_words - 2 - made] = b, a
    return Tree(pairs, num_words)


def join(trees: Sequence[Tree]) -> Tree:
    """Return an overcomplete tree: the given ones under new roots, paired as evenly as can be (§4.6.2).

    Two trees get one new root, four get three: a word's codes are all those it has in the subtrees, two
    steps longer with four. Nodes are numbered level by level, so that the nodes most often met come first.
    """
    if not trees:
        raise UserError("no trees to join", do="ask for at least one copy")
    if len({tree.num_words for tree in trees}) != 1:
        raise UserError("the trees to join are over vocabularies of different sizes")
    return _by_level(_join(list(trees)))


def build(
    kind: Kind,
    key: jax.Array,
    *,
    num_words: int,
    features: NDArray[np.floating] | None = None,
    counts: Ints | None = None,
    epsilon: float = 0.0,
    copies: int = 1,
    replicate: bool = False,
) -> Tree:
    """Return a tree of the named kind, `copies` times overcomplete (Table 4.3: T1-T7; Table 4.6).

    Copy i is built from `fold_in(key, i)`; with `replicate` copy 0 is repeated instead (Table 4.6, "S1 x
    4"). `features` [N_w, D] is for the clustering kinds, `counts` [N_w] for "huffman", whose copies are
    always alike.
    """
    if kind not in get_args(Kind):
        raise UserError(f"no kind of tree is called {kind!r}", do=f"choose from {', '.join(get_args(Kind))}")
    if copies < 1:
        raise UserError(f"{copies} copies of a tree", do="ask for at least one")

    def one(copy_key: jax.Array) -> Tree:
        if kind == "random":
            return random_tree(copy_key, num_words)
        if kind == "huffman":
            if counts is None:
                raise UserError("a Huffman tree needs the words' counts", do="give a vocabulary with counts")
            return huffman(counts)
        if features is None:
            raise ValueError(f"a tree of kind {kind} is built from word features")
        return cluster(copy_key, features, kind, epsilon)

    if replicate or kind == "huffman":
        trees = [one(jax.random.fold_in(key, 0))] * copies
    else:
        trees = [one(jax.random.fold_in(key, copy)) for copy in range(copies)]
    if trees[0].num_words != num_words:
        raise ValueError(f"features or counts of {trees[0].num_words} words for a vocabulary of {num_words}")
    return join(trees)


def check_num_words(num_words: int) -> None:
    """Raise a UserError unless there are words to tell apart."""
    if num_words < 2:
        raise UserError(f"a vocabulary of {num_words} word(s) has no tree", do="train on a larger text")


def _grow(words: Ints, num_words: int, split: Split) -> Tree:
    """Split sets of words level by level until each holds one word; a set of one becomes a leaf.

    `split(level, words, sizes, leaves)` sees all sets of a level, end to end, and the number of leaves made
    so far; it returns who goes left and who goes right, at least one and not all of each set on either
    side.
    """
    made, num_nodes, leaves, level = [], 1, 0, 0
    sizes = np.array([len(words)])
    while len(sizes):
        left, right = split(level, words, sizes, leaves)
        node = np.repeat(np.arange(len(sizes)), sizes)
        slot = np.concatenate([2 * node[left], 2 * node[right] + 1])
        order = np.argsort(slot, kind="stable")
        words = np.concatenate([words[left], words[right]])[order]
        sizes = np.bincount(slot, minlength=2 * len(sizes))
        inner = sizes > 1
        first = words[np.cumsum(sizes) - sizes]
        made.append(np.where(inner, num_nodes - 1 + np.cumsum(inner), ~first).reshape(-1, 2).astype(np.int32))
        num_nodes, leaves, level = num_nodes + int(inner.sum()), leaves + int((~inner).sum()), level + 1
        words, sizes = words[np.repeat(inner, sizes)], sizes[inner]
    return Tree(np.concatenate(made), num_words)


def _join(trees: list[Tree]) -> Tree:
    if len(trees) == 1:
        return trees[0]
    left, right = _join(trees[: (len(trees) + 1) // 2]), _join(trees[(len(trees) + 1) // 2 :])
    shifted, at = [], 1
    for tree in (left, right):
        shifted.append(np.where(tree.children >= 0, tree.children + at, tree.children))
        at += len(tree.children)
    root = np.array([[1, 1 + len(left.children)]], np.int32)
    return Tree(np.concatenate([root, *shifted]), left.num_words)


def _by_level(tree: Tree) -> Tree:
    order = np.concatenate(levels(tree))
    new_id = np.empty(len(order), np.int32)
    new_id[order] = np.arange(len(order), dtype=np.int32)
    children = tree.children[order]
    return Tree(np.where(children >= 0, new_id[np.maximum(children, 0)], children), tree.num_words)


def _ranks(sizes: Ints) -> Ints:
    """Return 0, 1, … within each set."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _within(sizes: Ints, values: NDArray) -> Ints:
    """Return each member's rank in its own set by ascending value, equal values in their given order."""
    order = np.lexsort((values, np.repeat(np.arange(len(sizes)), sizes)))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = _ranks(sizes)
    return ranks


def _bits(key: jax.Array, number: int) -> NDArray[np.uint32]:
    """Return random words of 32 bits, drawn in powers of two so that few shapes are compiled."""
    return np.asarray(jax.random.bits(key, (1 << (number - 1).bit_length(),), jnp.uint32))[:number]
