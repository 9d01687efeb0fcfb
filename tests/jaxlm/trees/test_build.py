"""Trees over words against brute force: random, balanced, clustered, Huffman, overcomplete, invalid arguments."""

import itertools

import jax
import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.trees import build as trees
from jaxlm.trees import paths as tree_paths
from jaxlm.trees.paths import Tree
from word_trees import COUNTS, FEATURES, KEY, NUM_WORDS, make_tree, walk


def codes_per_word(tree: Tree) -> np.ndarray:
    return np.diff(tree_paths.paths(tree).word_codes)


def depths(tree: Tree) -> np.ndarray:
    return np.diff(tree_paths.paths(tree).code_nodes)


@pytest.mark.parametrize("kind", ["random", "balanced"])
@pytest.mark.parametrize("num_words", [2, 3, 7, 8, 61])
def test_random_and_balanced_trees_have_minimum_depth(kind, num_words):
    tree = trees.build(kind, KEY, num_words=num_words, features=FEATURES[:num_words])
    assert depths(tree).max() == np.ceil(np.log2(num_words))
    assert depths(tree).min() == np.floor(np.log2(num_words))
    assert (codes_per_word(tree) == 1).all()


# Clustering


def below(tree: Tree, child: int) -> set[int]:
    return {~child} if child < 0 else {word for word, _ in walk(tree, child)}


@pytest.mark.parametrize("rule", ["balanced", "adaptive", "noisy-adaptive"])
def test_planted_clusters_are_separated_at_the_root(rule):
    noise = np.asarray(jax.random.normal(jax.random.key(4), (100, 10)))
    features = noise + np.where(np.arange(100) % 2 == 0, 3.0, -3.0)[:, None]
    tree = trees.cluster(KEY, features, rule, 0.0)
    even = set(range(0, 100, 2))
    assert below(tree, tree.children[0, 0]) in (even, set(range(100)) - even)


def test_balanced_rule_splits_in_the_order_of_responsibilities():
    """Of two well-separated clusters of unequal size in one dimension, the smaller one stays on one side."""
    features = np.concatenate([np.linspace(-1, 1, 12), np.linspace(9, 11, 20)])[:, None]
    tree = trees.cluster(KEY, features, "balanced")
    small = set(range(12))
    left, right = (below(tree, child) for child in tree.children[0])
    assert len(left) == len(right) == 16
    assert small <= left or small <= right


def test_epsilon_zero_gives_one_code_and_larger_epsilon_more():
    assert (codes_per_word(make_tree(epsilon=0.0)) == 1).all()
    sizes = [len(make_tree(epsilon=epsilon).children) for epsilon in (0.0, 0.25, 0.4)]
    assert sizes[0] == NUM_WORDS - 1
    assert sizes[0] < sizes[1] < sizes[2]


@pytest.mark.parametrize(
    ("epsilon", "both"), [(0.0, set()), (0.25, {2, 3}), (0.4, {1, 2, 3, 4}), (0.49, set(range(1, 6)))]
)
def test_words_within_the_band_of_epsilon_go_to_both_sides(monkeypatch, epsilon, both):
    p = np.array([0.001, 0.11, 0.5, 0.74, 0.89, 0.98, 0.999])
    monkeypatch.setattr(trees, "log_odds", lambda unit, words, sizes, order, *_: np.log(p[words] / (1 - p[words])))
    tree = trees.cluster(KEY, np.eye(7), "adaptive", epsilon)
    left, right = (below(tree, child) for child in tree.children[0])
    assert left & right == both
    assert {3, 4, 5, 6} <= left
    assert {0, 1, 2} <= right


def test_noisy_adaptive_draws_sides_by_responsibilities(monkeypatch):
    """With log-odds of log 3, a word goes left with p = 3/4; z-test over splits of 64 words."""
    num_words = 64
    monkeypatch.setattr(trees, "log_odds", lambda unit, words, sizes, order, *_: np.full(len(words), np.log(3)))
    features = np.eye(num_words)
    on_left = [
        len(below(tree, tree.children[0, 0]))
        for tree in (trees.cluster(jax.random.key(s), features, "noisy-adaptive", 0.2) for s in range(50))
    ]
    number = num_words * len(on_left)
    z = (sum(on_left) - 0.75 * number) / np.sqrt(0.75 * 0.25 * number)
    assert abs(z) < 3.3  # p = 0.001


def test_noise_of_sides_is_independent_of_the_partition_that_clustering_begins_with(monkeypatch):
    """With log-odds of 0, half of the words of the first component's half go left; z-test over splits of 64 words."""
    partitions, first_left = [], []
    monkeypatch.setattr(
        trees, "log_odds", lambda unit, words, sizes, order, *_: partitions.append(order) or np.zeros(len(words))
    )
    for seed in range(50):
        partitions.clear()
        tree = trees.cluster(jax.random.key(seed), np.eye(64), "noisy-adaptive")
        left = below(tree, tree.children[0, 0])
        first_left.append(len(left & set(np.flatnonzero(partitions[0] < 32).tolist())))
    number = 32 * len(first_left)
    assert abs(sum(first_left) - 0.5 * number) / np.sqrt(0.25 * number) < 3.3  # p = 0.001


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
@pytest.mark.parametrize("rule", ["balanced", "adaptive", "noisy-adaptive"])
def test_equal_features_give_a_balanced_tree(rule, epsilon):
    tree = trees.cluster(KEY, np.full((50, 3), 0.1), rule, epsilon)
    if rule == "noisy-adaptive" and epsilon == 0:  # sides are drawn with p = 1/2
        assert depths(tree).max() < 50
    else:
        assert depths(tree).max() == 6
    assert (codes_per_word(tree) == 1).all()


def test_words_with_equal_features_among_others_give_bounded_depth():
    features = np.where(np.arange(NUM_WORDS)[:, None] < 20, FEATURES.mean(axis=0), FEATURES)
    for epsilon in (0.0, 0.4):
        assert depths(trees.cluster(KEY, features, "adaptive", epsilon)).max() < 20


def test_number_of_codes_is_bounded_for_features_without_structure():
    """On pure noise most words lie within the band of epsilon at every split."""
    noise = np.asarray(jax.random.normal(jax.random.key(5), (600, 100)))
    codes = codes_per_word(trees.cluster(KEY, noise, "adaptive", 0.45))
    assert trees.MAX_MEAN_CODES < codes.mean() <= 2 * trees.MAX_MEAN_CODES


def test_chains_of_outliers_have_bounded_depth(monkeypatch):
    monkeypatch.setattr(trees, "MAX_UNBALANCED_DEPTH", 5)
    one_outlier = lambda unit, words, sizes, order, *_: np.where(order == 0, 1.0, -1.0)  # noqa: E731
    monkeypatch.setattr(trees, "log_odds", one_outlier)
    # after 5 splits, 56 words are left for a balanced tree
    assert depths(trees.cluster(KEY, FEATURES, "adaptive")).max() == 5 + 6


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_trees_are_invariant_to_scale_and_shift_of_features(offset):
    scaled = FEATURES.astype(np.float64) * 2.0**-12 + offset * 2.0**-12
    assert np.array_equal(
        trees.cluster(KEY, FEATURES, "adaptive", 0.25).children,
        trees.cluster(KEY, scaled, "adaptive", 0.25).children,
    )


@pytest.mark.parametrize("kind", ["random", "balanced", "adaptive", "noisy-adaptive"])
def test_equal_keys_give_equal_trees_and_different_keys_different_ones(kind):
    assert np.array_equal(make_tree(kind).children, make_tree(kind).children)
    assert not np.array_equal(make_tree(kind).children, make_tree(kind, key=jax.random.key(8)).children)


# Huffman


def code_lengths_of_all_trees(words: tuple) -> set[tuple]:
    """Return all assignments of code lengths that binary trees over these words can have, by recursion."""
    if len(words) == 1:
        return {((words[0], 0),)}
    found = set()
    first, rest = words[0], words[1:]
    for number in range(len(rest)):
        for others in itertools.combinations(rest, number):
            left = (first, *others)
            right = tuple(w for w in rest if w not in others)
            for a, b in itertools.product(code_lengths_of_all_trees(left), code_lengths_of_all_trees(right)):
                found.add(tuple(sorted((w, n + 1) for w, n in a + b)))
    return found


@pytest.mark.parametrize("counts", [[5, 1], [1, 1, 1], [0, 0, 0, 7], [13, 2, 3, 5, 8, 1], [1, 2, 4, 8, 16, 32]])
def test_huffman_tree_has_the_least_mean_code_length(counts):
    counts = np.array(counts)
    best = min(
        sum(counts[w] * n for w, n in lengths) for lengths in code_lengths_of_all_trees(tuple(range(len(counts))))
    )
    assert depths(trees.huffman(counts)) @ counts == best


def test_huffman_tree_of_equal_counts_is_balanced():
    assert set(depths(trees.huffman(np.zeros(64, int)))) == {6}


# Overcomplete trees


def test_join_adds_codes_and_new_roots():
    one = make_tree()
    two, four = trees.join([one, one]), trees.join([one] * 4)
    assert (codes_per_word(two) == 2 * codes_per_word(one)).all()
    assert len(two.children) == 2 * len(one.children) + 1
    assert len(four.children) == 4 * len(one.children) + 3
    assert sorted(depths(four)) == sorted(np.repeat(depths(one) + 2, 4))
    assert np.array_equal(make_tree(copies=4, replicate=True).children, four.children)


def test_joined_tree_contains_the_given_trees():
    left, right = make_tree(), make_tree("random")
    joined = trees.join([left, right])
    found = {(word, tuple(sign for _, sign in steps)) for word, steps in walk(joined)}
    expected = {
        (word, (side, *(sign for _, sign in steps)))
        for tree, side in ((left, 1), (right, -1))
        for word, steps in walk(tree)
    }
    assert found == expected


def test_copies_are_independent_unless_replicated():
    tree = make_tree(copies=2)
    codes = [
        sorted((word, tuple(sign for _, sign in steps[1:])) for word, steps in walk(tree) if steps[0] == (0, side))
        for side in (1, -1)
    ]
    assert codes[0] != codes[1]
    replicated = tree_paths.statistics(make_tree(copies=2, replicate=True), COUNTS)
    assert replicated.mean_codes == 2 * tree_paths.statistics(make_tree(key=KEY), COUNTS).mean_codes


# Invalid arguments


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"copies": 0}, "invalid number of copies 0"),
        ({"kind": "bushy"}, "unknown kind of tree"),
        ({"epsilon": 0.5}, "epsilon"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"num_words": 1, "features": FEATURES[:1]}, "at least 2 words, and the vocabulary has 1"),
        ({"kind": "random", "num_words": 1}, "at least 2 words, and the vocabulary has 1"),
        ({"kind": "huffman", "num_words": 1, "counts": np.array([4])}, "at least 2 words"),
        ({"kind": "huffman", "counts": None}, "counts"),
        ({"features": FEATURES * np.nan}, "not finite"),
    ],
)
def test_invalid_arguments_are_refused(changes, message):
    arguments = {"kind": "adaptive", "num_words": NUM_WORDS, "features": FEATURES, "counts": COUNTS} | changes
    with pytest.raises(UserError, match=message):
        trees.build(arguments.pop("kind"), KEY, **arguments)


def test_trees_over_different_vocabularies_cannot_be_joined():
    with pytest.raises(UserError, match="different sizes"):
        trees.join([make_tree("random"), trees.random_tree(KEY, 5)])
    with pytest.raises(UserError, match="no trees"):
        trees.join([])


@pytest.mark.extended
def test_trees_of_large_vocabularies_are_not_deep():
    """At the size of the thesis, with features whose spectrum is like that of trained models."""
    num_words = 18_000
    spectrum = np.arange(1, 101)[None] ** -0.7
    features = np.asarray(jax.random.normal(jax.random.key(9), (num_words, 100))) * spectrum
    tree = trees.cluster(KEY, features, "adaptive", 0.4)
    assert 1 < codes_per_word(tree).mean() < 4
    assert depths(tree).max() < 40
