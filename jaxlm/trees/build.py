"""Construction of trees over words: random, by clustering features, Huffman, overcomplete (Mnih 2010, §4.4)."""

import functools
import heapq
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import jax
import numpy as np
from numpy.typing import NDArray

from jaxfit.errors import UserError
from jaxlm.trees.clustering import STEPS, log_odds, segment_sum, spread
from jaxlm.trees.paths import Tree, levels, renumbered

Ints = NDArray[np.integer]
Rule = Literal["balanced", "adaptive", "noisy-adaptive"]
Kind = Literal["random", "balanced", "adaptive", "noisy-adaptive", "huffman"]
Sides = tuple[NDArray[np.bool_], NDArray[np.bool_]]  # which words go left and which right
Split = Callable[[int, Ints, Ints, int], Sides]  # of `grow`

MAX_UNBALANCED_DEPTH = 100  # deeper splits are balanced; only chains of outliers come so deep
MAX_MEAN_CODES = 8  # with more codes per word, no word is put on both sides; ADAPTIVE(0.4) has 1.7


def random_tree(key: jax.Array, num_words: int) -> Tree:
    """Build the tree RANDOM: permute the words, put the first half to the left, and recurse (Mnih 2010, §4.4)."""

    def first_half(level: int, words: Ints, sizes: Ints, leaves: int) -> Sides:
        left = ranks(sizes) < spread((sizes + 1) // 2, sizes)
        return left, ~left

    return grow(np.asarray(jax.random.permutation(key, num_words)), first_half)


def cluster(
    key: jax.Array,
    features: NDArray[np.floating],
    rule: Rule,
    epsilon: float = 0.0,
    em_steps: int = STEPS,
    shared_variance: bool = False,
) -> Tree:
    """Build a tree by recursive clustering with mixtures of two Gaussians (Mnih 2010, §4.4, §4.6.4).

    Each set of words, beginning with all words, is split by the responsibilities p, 1 - p of a mixture fitted to it
    (see `clustering.log_odds`), until it holds one word.

    Where the thesis is silent: a split that leaves a side empty or with the whole set is replaced by the balanced
    one, so that the recursion ends; so are all splits below depth 100, so that chains of outliers do not make it
    quadratic; epsilon is taken as 0 from the level at which words have 8 codes on average.

    Args:
        key: equal keys give equal trees.
        features: [N_w, D]; in the thesis `clustering.average_features`.
        rule: "balanced" sorts words by p and puts the upper half to the left. "adaptive" puts a word to the component
            with the higher responsibility, or to both sides if |p - 1/2| < epsilon. "noisy-adaptive" does likewise,
            but outside that band puts a word to the left with probability p.
        epsilon: half the width of the band of p in which words are put on both sides.
        em_steps: `steps` of `clustering.log_odds`.
        shared_variance: `shared` of `clustering.log_odds`.

    Raises:
        UserError: features are not finite, epsilon is not in [0, 1/2), or there are fewer than two words.
    """
    features = np.asarray(features)
    num_words = len(features)
    if not 0 <= epsilon < 0.5:
        raise UserError(f"epsilon is {epsilon}", do="give at least 0 and less than 0.5")
    if not np.isfinite(features).all():
        raise UserError("word features are not finite", do="train the model they come from at a lower rate")
    # Mixtures are invariant to shift and scale; with unit variance one absolute floor suits all models.
    centred = features - features.mean(axis=0, dtype=np.float64)
    unit = (centred / (np.sqrt(np.mean(np.square(centred))) or 1)).astype(np.float32)
    band = np.log(0.5 + epsilon) - np.log(0.5 - epsilon)

    def split(level: int, words: Ints, sizes: Ints, leaves: int) -> Sides:
        level_key = jax.random.fold_in(key, level)
        partition = _within(sizes, _bits(jax.random.fold_in(level_key, 0), len(words)))
        odds = log_odds(unit, words, sizes, partition, em_steps, shared_variance)
        middle = spread((sizes + 1) // 2, sizes)
        balanced = _within(sizes, -odds) < middle
        if rule == "balanced" or level >= MAX_UNBALANCED_DEPTH:
            return balanced, ~balanced
        if rule == "noisy-adaptive":
            # (bits + 1/2) / 2**32 is uniform on (0, 1); compared as log-odds, since p could round to 0 or 1
            uniform = (_bits(jax.random.fold_in(level_key, 1), len(words)) + 0.5) / 2.0**32
            left = odds > np.log(uniform) - np.log1p(-uniform)
        else:
            left = odds > 0
        full = len(words) + leaves > MAX_MEAN_CODES * num_words
        both = (np.abs(odds) < band) & (not full)
        return proper_sides(left | both, ~left | both, balanced, sizes)

    return grow(np.arange(num_words), split)


def huffman(counts: Ints) -> Tree:
    """Build the Huffman tree, which has the least mean code length for words that occur `counts` [N_w] times.

    Of subtrees with equal weights the oldest is merged first, and words before others, which gives the shallowest
    of all optimal trees. Source: Huffman 1952; not in the thesis, whose trees depend on word features.
    """
    num_words = len(counts)
    _check_num_words(num_words)
    children = np.empty((num_words - 1, 2), np.int32)
    # weight, age rank, child: of equal weights the oldest comes first
    subtrees = [(count, word, ~word) for word, count in enumerate(np.asarray(counts).tolist())]
    heapq.heapify(subtrees)
    for node in reversed(range(num_words - 1)):  # the last one created is the root, node 0
        (weight_a, _, a), (weight_b, _, b) = heapq.heappop(subtrees), heapq.heappop(subtrees)
        children[node] = b, a
        heapq.heappush(subtrees, (weight_a + weight_b, 2 * num_words - node, node))
    return Tree(children, num_words)


def join(trees: Sequence[Tree]) -> Tree:
    """Build an overcomplete tree: join trees under new roots, paired as evenly as possible (§4.6.2).

    Two trees get one new root, four get three. A word has all the codes that it has in the given trees, longer by one
    step for two trees and by two for four. Nodes are numbered level by level, so that the most visited come first.

    Raises:
        UserError: there are no trees, or they are over vocabularies of different sizes.
    """
    if not trees:
        raise UserError("no trees to join", do="ask for at least one copy")
    if len({tree.num_words for tree in trees}) != 1:
        raise UserError("the trees to join are over vocabularies of different sizes")
    joined = _join(list(trees))
    return renumbered(joined, np.concatenate(levels(joined)))


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
    em_steps: int = STEPS,
    shared_variance: bool = False,
) -> Tree:
    """Build a tree of the given kind, overcomplete if there are several copies (Table 4.3: T1-T7; Table 4.6).

    Args:
        kind: how the tree is built.
        key: copy i is built with `fold_in(key, i)`.
        num_words: N_w.
        features: [N_w, D], for the rules that cluster.
        counts: [N_w], for "huffman", whose copies are all equal.
        epsilon: as in `cluster`.
        em_steps: as in `cluster`.
        shared_variance: as in `cluster`.
        copies: number of trees that are joined.
        replicate: use copy 0 for all copies (Table 4.6, "S1 x 4").

    Raises:
        UserError: an argument is invalid, or a Huffman tree has no counts.
        ValueError: features are missing, or there are features or counts of another number of words.
    """
    if kind not in get_args(Kind):
        raise UserError(f"unknown kind of tree {kind!r}", do=f"choose from {', '.join(get_args(Kind))}")
    if copies < 1:
        raise UserError(f"invalid number of copies {copies}", do="give at least 1")

    def one(copy_key: jax.Array) -> Tree:
        if kind == "random":
            return random_tree(copy_key, num_words)
        if kind == "huffman":
            if counts is None:
                raise UserError("a Huffman tree needs counts of words", do="give a vocabulary with counts")
            return huffman(counts)
        if features is None:
            raise ValueError(f"a tree of kind {kind} needs word features")
        return cluster(copy_key, features, kind, epsilon, em_steps, shared_variance)

    if replicate or kind == "huffman":
        trees = [one(jax.random.fold_in(key, 0))] * copies
    else:
        trees = [one(jax.random.fold_in(key, copy)) for copy in range(copies)]
    if trees[0].num_words != num_words:
        raise ValueError(f"features or counts of {trees[0].num_words} words for a vocabulary of {num_words}")
    return join(trees)


def _check_num_words(num_words: int) -> None:
    if num_words < 2:
        what = f"a tree needs at least 2 words, and the vocabulary has {num_words}"
        raise UserError(what, do="train on a larger text")


def grow(words: Ints, split: Split) -> Tree:
    """Split sets of words, at first all words, level by level until each holds one word and becomes a leaf.

    `split(level, words, sizes, leaves)` is given all sets of a level, concatenated, and the number of leaves so far;
    it returns which words go left and which right. Each side gets at least one and not all words of a set.
    """
    num_words = len(words)
    _check_num_words(num_words)
    nodes, num_nodes, leaves, level = [], 1, 0, 0
    sizes = np.array([num_words])
    while len(sizes):
        left, right = split(level, words, sizes, leaves)
        node = np.repeat(np.arange(len(sizes)), sizes)
        slot = np.concatenate([2 * node[left], 2 * node[right] + 1])
        order = np.argsort(slot, kind="stable")
        words = np.concatenate([words[left], words[right]])[order]
        sizes = np.bincount(slot, minlength=2 * len(sizes))
        inner = sizes > 1
        first = words[np.cumsum(sizes) - sizes]
        nodes.append(np.where(inner, num_nodes - 1 + np.cumsum(inner), ~first).reshape(-1, 2).astype(np.int32))
        num_nodes, leaves, level = num_nodes + int(inner.sum()), leaves + int((~inner).sum()), level + 1
        words, sizes = words[np.repeat(inner, sizes)], sizes[inner]
    return Tree(np.concatenate(nodes), num_words)


def proper_sides(left: NDArray[np.bool_], right: NDArray[np.bool_], otherwise: NDArray[np.bool_], sizes: Ints) -> Sides:
    """Return the sides of the words; where one side would be the whole set, `otherwise` says which words go left."""
    on_left, on_right = (segment_sum(side.astype(np.int64), sizes) for side in (left, right))
    shrinks = spread((on_left < sizes) & (on_right < sizes), sizes)
    return np.where(shrinks, left, otherwise), np.where(shrinks, right, ~otherwise)


def _join(trees: list[Tree]) -> Tree:
    if len(trees) == 1:
        return trees[0]
    half = (len(trees) + 1) // 2
    left, right = _join(trees[:half]).children, _join(trees[half:]).children
    root = np.array([[1, 1 + len(left)]], np.int32)
    left = np.where(left >= 0, left + 1, left)
    right = np.where(right >= 0, right + 1 + len(left), right)
    return Tree(np.concatenate([root, left, right]), trees[0].num_words)


def ranks(sizes: Ints) -> Ints:
    """Return 0, 1, … within each set."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _within(sizes: Ints, values: NDArray) -> Ints:
    """Return each member's rank in its own set, by ascending value; ties are in the given order."""
    order = np.lexsort((values, np.repeat(np.arange(len(sizes)), sizes)))
    within = np.empty(len(order), np.int64)
    within[order] = ranks(sizes)
    return within


_draw = jax.jit(functools.partial(jax.random.bits, dtype=np.uint32), static_argnums=1)


def _bits(key: jax.Array, number: int) -> NDArray[np.uint32]:
    """Return random 32-bit integers, drawn in powers of two so that few shapes are compiled."""
    return np.asarray(_draw(key, (1 << (number - 1).bit_length(),)))[:number]
