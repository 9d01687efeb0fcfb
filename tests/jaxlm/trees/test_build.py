"""Trees over words against brute force: random, balanced, clustered, Huffman's, overcomplete, and mistakes."""

import itertools
import time

import jax
import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.trees import build as trees
from jaxlm.trees.build import Tree
from word_trees import COUNTS, FEATURES, KEY, NUM_WORDS, made, walk


def codes_per_word(tree: Tree) -> np.ndarray:
    return np.diff(trees.paths(tree).word_codes)


def depths(tree: Tree) -> np.ndarray:
    return np.diff(trees.paths(tree).code_nodes)


@pytest.mark.parametrize("kind", ["random", "balanced"])
@pytest.mark.parametrize("num_words", [2, 3, 7, 8, 61])
def test_random_and_balanced_trees_are_as_shallow_as_can_be(kind, num_words):
    tree = trees.build(kind, KEY, num_words=num_words, features=FEATURES[:num_words])
    assert depths(tree).max() == np.ceil(np.log2(num_words))
    assert depths(tree).min() == np.floor(np.log2(num_words))
    assert (codes_per_word(tree) == 1).all()


# Clustering


def below(tree: Tree, child: int) -> set[int]:
    return {~child} if child < 0 else {word for word, _ in walk(tree, child)}


@pytest.mark.parametrize("rule", ["balanced", "adaptive", "noisy-adaptive"])
def test_planted_clusters_are_parted_at_the_root(rule):
    noise = np.asarray(jax.random.normal(jax.random.key(4), (100, 10)))
    features = noise + np.where(np.arange(100) % 2 == 0, 3.0, -3.0)[:, None]
    tree = trees.cluster(KEY, features, rule, 0.0)
    even = set(range(0, 100, 2))
    assert below(tree, tree.children[0, 0]) in (even, set(range(100)) - even)


def test_the_balanced_rule_keeps_the_order_of_responsibilities():
    """On a line, with well-parted halves of unequal size, the smaller cluster stays on one side."""
    features = np.concatenate([np.linspace(-1, 1, 12), np.linspace(9, 11, 20)])[:, None]
    tree = trees.cluster(KEY, features, "balanced")
    small = set(range(12))
    left, right = (below(tree, child) for child in tree.children[0])
    assert len(left) == len(right) == 16
    assert small <= left or small <= right


def test_epsilon_nought_is_adaptive_and_greater_ones_only_add_codes():
    assert (codes_per_word(made(epsilon=0.0)) == 1).all()
    sizes = [len(made(epsilon=epsilon).children) for epsilon in (0.0, 0.25, 0.4)]
    assert sizes[0] == NUM_WORDS - 1
    assert sizes[0] < sizes[1] < sizes[2]


@pytest.mark.parametrize(
    ("epsilon", "both"), [(0.0, set()), (0.25, {2, 3}), (0.4, {1, 2, 3, 4}), (0.49, set(range(1, 6)))]
)
def test_the_band_of_epsilon_decides_who_goes_to_both_sides(monkeypatch, epsilon, both):
    p = np.array([0.001, 0.11, 0.5, 0.74, 0.89, 0.98, 0.999])
    monkeypatch.setattr(
        trees, "log_odds", lambda unit, words, sizes, order: np.log(p[words] / (1 - p[words]))
    )
    tree = trees.cluster(KEY, np.eye(7), "adaptive", epsilon)
    left, right = (below(tree, child) for child in tree.children[0])
    assert left & right == both
    assert {3, 4, 5, 6} <= left
    assert {0, 1, 2} <= right


def test_noisy_adaptive_draws_sides_with_the_responsibilities(monkeypatch):
    """With log-odds held at log 3, a word goes left with p = 3/4; z-test over all splits of sets of 64 words."""
    num_words = 64
    monkeypatch.setattr(trees, "log_odds", lambda unit, words, sizes, order: np.full(len(words), np.log(3)))
    features = np.eye(num_words)
    on_left = [
        len(below(tree, tree.children[0, 0]))
        for tree in (trees.cluster(jax.random.key(s), features, "noisy-adaptive", 0.2) for s in range(50))
    ]
    number = num_words * len(on_left)
    z = (sum(on_left) - 0.75 * number) / np.sqrt(0.75 * 0.25 * number)
    assert abs(z) < 3.3  # p = 0.001


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
@pytest.mark.parametrize("rule", ["balanced", "adaptive", "noisy-adaptive"])
def test_equal_features_end_in_a_balanced_tree(rule, epsilon):
    tree = trees.cluster(KEY, np.full((50, 3), 0.1), rule, epsilon)
    if rule == "noisy-adaptive" and epsilon == 0:  # coins at p = 1/2: random, but finite
        assert depths(tree).max() < 50
    else:
        assert depths(tree).max() == 6
    assert (codes_per_word(tree) == 1).all()


def test_unseen_words_among_others_end_too():
    features = np.where(np.arange(NUM_WORDS)[:, None] < 20, FEATURES.mean(axis=0), FEATURES)
    for epsilon in (0.0, 0.4):
        assert depths(trees.cluster(KEY, features, "adaptive", epsilon)).max() < 20


def test_words_nothing_tells_apart_do_not_multiply_without_end():
    """Noise without structure leaves most words in doubt at every split: the number of codes is held down."""
    noise = np.asarray(jax.random.normal(jax.random.key(5), (600, 100)))
    codes = codes_per_word(trees.cluster(KEY, noise, "adaptive", 0.45))
    assert trees.MOST_CODES < codes.mean() <= 2 * trees.MOST_CODES


def test_a_chain_of_outliers_does_not_make_a_chain_of_nodes(monkeypatch):
    monkeypatch.setattr(trees, "DEEPEST_UNBALANCED", 5)
    peel = lambda unit, words, sizes, order: np.where(order == 0, 1.0, -1.0)  # noqa: E731
    monkeypatch.setattr(trees, "log_odds", peel)
    assert (
        depths(trees.cluster(KEY, FEATURES, "adaptive")).max() == 5 + 6
    )  # 56 words left for a balanced tree


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_neither_scale_nor_shift_of_features_matters(offset):
    scaled = FEATURES.astype(np.float64) * 2.0**-12 + offset * 2.0**-12
    assert np.array_equal(
        trees.cluster(KEY, FEATURES, "adaptive", 0.25).children,
        trees.cluster(KEY, scaled, "adaptive", 0.25).children,
    )


@pytest.mark.parametrize("kind", ["random", "balanced", "adaptive", "noisy-adaptive"])
def test_equal_keys_give_equal_trees_and_other_keys_others(kind):
    assert np.array_equal(made(kind).children, made(kind).children)
    assert not np.array_equal(made(kind).children, made(kind, key=jax.random.key(8)).children)


# Huffman


def code_lengths_of_all_trees(words: tuple) -> set[tuple]:
    """Every assignment of code lengths that a binary tree over these words can give, by recursion."""
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


@pytest.mark.parametrize(
    "counts", [[5, 1], [1, 1, 1], [0, 0, 0, 7], [13, 2, 3, 5, 8, 1], [1, 2, 4, 8, 16, 32]]
)
def test_huffman_is_optimal(counts):
    counts = np.array(counts)
    best = min(
        sum(counts[w] * n for w, n in lengths)
        for lengths in code_lengths_of_all_trees(tuple(range(len(counts))))
    )
    assert depths(trees.huffman(counts)) @ counts == best


def test_huffman_of_equal_counts_is_balanced():
    assert set(depths(trees.huffman(np.zeros(64, int)))) == {6}


# Overcomplete trees


def test_join_doubles_codes_and_adds_one_root():
    one = made()
    two, four = trees.join([one, one]), trees.join([one] * 4)
    assert (codes_per_word(two) == 2 * codes_per_word(one)).all()
    assert len(two.children) == 2 * len(one.children) + 1
    assert len(four.children) == 4 * len(one.children) + 3
    assert sorted(depths(four)) == sorted(np.repeat(depths(one) + 2, 4))
    assert np.array_equal(made(copies=4, replicate=True).children, four.children)


def test_join_keeps_the_subtrees():
    left, right = made(), made("random")
    joined = trees.join([left, right])
    found = {(word, tuple(sign for _, sign in steps)) for word, steps in walk(joined)}
    expected = {
        (word, (side, *(sign for _, sign in steps)))
        for tree, side in ((left, 1), (right, -1))
        for word, steps in walk(tree)
    }
    assert found == expected


def test_copies_are_independent_unless_replicated():
    tree = made(copies=2)
    codes = [
        sorted(
            (word, tuple(sign for _, sign in steps[1:]))
            for word, steps in walk(tree)
            if steps[0] == (0, side)
        )
        for side in (1, -1)
    ]
    assert codes[0] != codes[1]
    twins = trees.statistics(made(copies=2, replicate=True), COUNTS)
    assert twins.mean_codes == 2 * trees.statistics(made(key=KEY), COUNTS).mean_codes


# Mistakes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"copies": 0}, "0 copies"),
        ({"kind": "bushy"}, "no kind of tree"),
        ({"epsilon": 0.5}, "epsilon"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"num_words": 1, "features": FEATURES[:1]}, "1 word"),
        ({"kind": "random", "num_words": 1}, "1 word"),
        ({"kind": "huffman", "num_words": 1, "counts": np.array([4])}, "1 word"),
        ({"kind": "huffman", "counts": None}, "counts"),
        ({"features": FEATURES * np.nan}, "not finite"),
    ],
)
def test_mistakes_are_told(changes, message):
    arguments = {"kind": "adaptive", "num_words": NUM_WORDS, "features": FEATURES, "counts": COUNTS} | changes
    with pytest.raises(UserError, match=message):
        trees.build(arguments.pop("kind"), KEY, **arguments)


def test_trees_of_two_vocabularies_do_not_join():
    with pytest.raises(UserError, match="different sizes"):
        trees.join([made("random"), trees.random_tree(KEY, 5)])
    with pytest.raises(UserError, match="no trees"):
        trees.join([])


def test_a_large_vocabulary_is_clustered_in_seconds():
    """The thesis' size, features with a spectrum like those of trained models: seconds; a minute is allowed."""
    num_words = 18_000
    spectrum = np.arange(1, 101)[None] ** -0.7
    features = np.asarray(jax.random.normal(jax.random.key(9), (num_words, 100))) * spectrum
    start = time.perf_counter()
    tree = trees.cluster(KEY, features, "adaptive", 0.4)
    assert time.perf_counter() - start < 60
    assert 1 < codes_per_word(tree).mean() < 4
    assert depths(tree).max() < 40
