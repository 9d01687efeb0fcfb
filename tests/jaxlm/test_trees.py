"""Trees over words against brute force: codes, base rates, mixtures, clustering, Huffman, files."""

import itertools
import time

import jax
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from jaxfit.errors import UserError
from jaxlm import tree_mixture as mixture
from jaxlm import trees
from jaxlm.trees import Tree

KEY = jax.random.key(7)
NUM_WORDS = 61
FEATURES = np.asarray(jax.random.normal(jax.random.key(1), (NUM_WORDS, 4))) * np.array([4.0, 2.0, 1.0, 0.5])
COUNTS = np.asarray(jax.random.randint(jax.random.key(2), (NUM_WORDS,), 0, 50))
KINDS = [
    ("random", 0.0, 1, False),
    ("balanced", 0.0, 1, False),
    ("adaptive", 0.0, 1, False),
    ("adaptive", 0.25, 1, False),
    ("adaptive", 0.4, 1, False),
    ("noisy-adaptive", 0.4, 1, False),
    ("huffman", 0.0, 1, False),
    ("random", 0.0, 4, True),
    ("adaptive", 0.4, 2, False),
    ("adaptive", 0.4, 3, False),
    ("adaptive", 0.4, 4, False),
]


def made(kind="adaptive", epsilon=0.4, copies=1, replicate=False, key=KEY) -> Tree:
    return trees.build(
        kind,
        key,
        num_words=NUM_WORDS,
        features=FEATURES,
        counts=COUNTS,
        epsilon=epsilon,
        copies=copies,
        replicate=replicate,
    )


@pytest.fixture(params=KINDS, ids=lambda k: f"{k[0]}({k[1]})x{k[2]}{'r' if k[3] else ''}")
def tree(request) -> Tree:
    return made(*request.param)


def walk(tree: Tree, node: int = 0, code: tuple = ()) -> list[tuple[int, tuple]]:
    """Every leaf's (word, ((node, sign), …)) by plain recursion, from left to right."""
    found = []
    for child, sign in zip(tree.children[node].tolist(), (1, -1), strict=True):
        step = (*code, (node, sign))
        found += [(~child, step)] if child < 0 else walk(tree, child, step)
    return found


def flat(tree: Tree) -> list[tuple[int, tuple]]:
    """The same from the flat arrays."""
    word_codes, code_nodes, nodes, signs = trees.paths(tree)
    return [
        (word, tuple(zip(nodes[a:b].tolist(), signs[a:b].tolist(), strict=True)))
        for word in range(tree.num_words)
        for a, b in itertools.pairwise(code_nodes[word_codes[word] : word_codes[word + 1] + 1])
    ]


def word_probabilities(tree: Tree, biases: np.ndarray) -> np.ndarray:
    word_codes, code_nodes, nodes, signs = trees.paths(tree)
    steps = -np.logaddexp(0, -signs * biases[nodes])
    codes = np.add.reduceat(steps, code_nodes[:-1])
    return np.exp([logsumexp(codes[a:b]) for a, b in itertools.pairwise(word_codes)])


def codes_per_word(tree: Tree) -> np.ndarray:
    return np.diff(trees.paths(tree).word_codes)


def test_paths_equal_a_recursive_walk(tree):
    assert sorted(flat(tree)) == sorted(walk(tree))


def test_every_word_has_a_leaf_and_codes_are_complete_and_prefix_free(tree):
    word_codes, code_nodes, _, _ = trees.paths(tree)
    assert (np.diff(word_codes) >= 1).all()
    assert np.sum(2.0 ** -np.diff(code_nodes)) == 1  # Kraft's sum: exact in float64 at these depths
    digits = sorted(tuple(sign for _, sign in steps) for _, steps in flat(tree))
    assert all(later[: len(code)] != code for code, later in itertools.pairwise(digits))


def test_arrays_have_the_promised_types_and_order(tree):
    word_codes, code_nodes, nodes, signs = trees.paths(tree)
    assert tree.children.dtype == word_codes.dtype == code_nodes.dtype == nodes.dtype == np.int32
    assert signs.dtype == np.int8
    assert (nodes[code_nodes[:-1]] == 0).all()  # the root comes first
    at, side = np.nonzero(tree.children >= 0)
    assert (tree.children[at, side] > at).all()
    assert len(code_nodes) - 1 == len(tree.children) + 1 == word_codes[-1]  # binary: one leaf more than nodes


def test_nodes_are_numbered_level_by_level(tree):
    assert (np.diff(np.concatenate(trees.levels(tree))) == 1).all()


def depths(tree: Tree) -> np.ndarray:
    return np.diff(trees.paths(tree).code_nodes)


@pytest.mark.parametrize("kind", ["random", "balanced"])
@pytest.mark.parametrize("num_words", [2, 3, 7, 8, 61])
def test_random_and_balanced_trees_are_as_shallow_as_can_be(kind, num_words):
    tree = trees.build(kind, KEY, num_words=num_words, features=FEATURES[:num_words])
    assert depths(tree).max() == np.ceil(np.log2(num_words))
    assert depths(tree).min() == np.floor(np.log2(num_words))
    assert (codes_per_word(tree) == 1).all()


def test_node_biases_give_base_rates(tree):
    biases = trees.node_biases(tree, COUNTS)
    np.testing.assert_allclose(word_probabilities(tree, biases), trees.base_rates(COUNTS), rtol=1e-12)


def test_base_rates_are_add_one():
    assert COUNTS.min() == 0
    np.testing.assert_allclose(trees.base_rates(COUNTS), (COUNTS + 1) / (COUNTS.sum() + NUM_WORDS))


def test_statistics_equal_sums_over_the_walk(tree):
    length, codes = np.zeros(NUM_WORDS), np.zeros(NUM_WORDS)
    for word, steps in walk(tree):
        length[word] += len(steps)
        codes[word] += 1
    rate = COUNTS / COUNTS.sum()
    expected = (rate @ length, rate @ codes, len(tree.children))
    np.testing.assert_allclose(trees.statistics(tree, COUNTS), expected, rtol=1e-12)


# Mixtures of two Gaussians


def sets_and_members(seed: int, sizes: list[int], dimension: int):
    key_x, key_order = jax.random.split(jax.random.key(seed))
    x = np.asarray(jax.random.normal(key_x, (sum(sizes), dimension)), np.float64)
    parts = np.split(x, np.cumsum(sizes)[:-1])
    for part in parts:
        part[: len(part) // 2] += 1.5
        part -= part.mean(axis=0)
    order = np.concatenate(
        [np.asarray(jax.random.permutation(jax.random.fold_in(key_order, i), n)) for i, n in enumerate(sizes)]
    )
    return np.concatenate(parts), np.array(sizes), order


def naive_densities(x, weight, mean, variance):
    return np.stack(
        [
            weight[k] * multivariate_normal(mean[k], variance[k] * np.eye(x.shape[1])).pdf(x).reshape(len(x))
            for k in (0, 1)
        ],
        axis=1,
    )


def naive_step(x, weight, mean, variance):
    """One EM step written from the textbook, with the same floor on variances."""
    p = naive_densities(x, weight, mean, variance)
    p /= p.sum(axis=1, keepdims=True)
    number = p.sum(axis=0)
    mean = (p.T @ x) / number[:, None]
    distance = np.sum((x[:, None] - mean[None]) ** 2, axis=2)
    variance = np.sum(p * distance, axis=0) / (number * x.shape[1])
    return number / len(x), mean, np.maximum(variance, mixture.RELATIVE_FLOOR * np.mean(x**2))


def test_em_equals_a_naive_one_set_by_set():
    x, sizes, order = sets_and_members(0, [5, 40, 9, 23], 3)
    square = np.sum(x**2, axis=1)
    ours = mixture.initial(x, square, sizes, order)
    bounds = list(itertools.pairwise([0, *np.cumsum(sizes)]))
    naive = []
    for a, b in bounds:
        first = order[a:b] < (b - a) // 2
        mean = np.stack([x[a:b][first].mean(axis=0), x[a:b][~first].mean(axis=0)])
        naive.append((np.array([0.5, 0.5]), mean, np.full(2, np.mean(x[a:b] ** 2))))
    for _ in range(4):
        for s, parts in enumerate(naive):
            for mine, his in zip(ours, parts, strict=True):
                np.testing.assert_allclose(mine[s], his, rtol=1e-9, atol=1e-12)
        odds = mixture.expectation(x, square, sizes, ours)
        for (a, b), parts in zip(bounds, naive, strict=True):
            dense = naive_densities(x[a:b], *parts)
            np.testing.assert_allclose(odds[a:b], np.log(dense[:, 0] / dense[:, 1]), rtol=1e-8, atol=1e-8)
        ours = mixture.maximisation(x, square, sizes, odds)
        naive = [naive_step(x[a:b], *parts) for (a, b), parts in zip(bounds, naive, strict=True)]


def test_em_never_lowers_the_likelihood():
    x, sizes, order = sets_and_members(3, [80], 2)
    square = np.sum(x**2, axis=1)
    now, likelihood = mixture.initial(x, square, sizes, order), []
    for _ in range(30):
        likelihood.append(np.log(naive_densities(x, *(part[0] for part in now)).sum(axis=1)).sum())
        now = mixture.maximisation(x, square, sizes, mixture.expectation(x, square, sizes, now))
    assert (np.diff(likelihood) > -1e-9).all()
    assert likelihood[-1] > likelihood[0] + 5


def test_sets_do_not_touch_each_other_and_blocks_change_nothing(monkeypatch):
    x, sizes, order = sets_and_members(5, [30, 2, 55, 3, 17], 6)
    whole = mixture.log_odds(x, np.arange(len(x)), sizes, order)
    monkeypatch.setattr(mixture, "BLOCK", 20)
    np.testing.assert_allclose(mixture.log_odds(x, np.arange(len(x)), sizes, order), whole, rtol=1e-9)
    for a, b in itertools.pairwise([0, *np.cumsum(sizes)]):
        alone = mixture.log_odds(x, np.arange(a, b), np.array([b - a]), order[a:b])
        np.testing.assert_allclose(alone, whole[a:b], rtol=1e-9)


def test_components_that_die_stay_finite():
    x = np.concatenate([np.zeros((9, 3)), np.full((1, 3), 1e3)])
    for shift in range(10):
        order = np.roll(np.arange(10), shift)
        assert np.isfinite(mixture.log_odds(x, np.arange(10), np.array([10]), order)).all()


def test_average_features():
    sums = np.array([[2.0, 4.0], [0.0, 0.0], [3.0, 0.0]])
    found = trees.average_features(sums, np.array([2, 0, 3]))
    np.testing.assert_allclose(found, [[1, 2], [1, 0.8], [1, 0]])  # the unseen word: all sums over all counts


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


# Files


def test_a_tree_comes_back_from_its_file(tree, tmp_path):
    trees.save(tree, tmp_path / "tree.npz")
    back = trees.load(tmp_path / "tree.npz", NUM_WORDS)
    assert back.num_words == tree.num_words
    assert back.children.dtype == np.int32
    assert np.array_equal(back.children, tree.children)
    assert [path.name for path in tmp_path.iterdir()] == ["tree.npz"]


BROKEN = {
    "a cycle": ([[1, -1], [0, -2]], "cycle"),
    "its own child": ([[0, -1]], "cycle"),
    "two parents": ([[1, 2], [2, -1], [-2, -3]], "parents"),
    "no parent": ([[-1, -2], [-3, -1]], "parents"),
    "no such node": ([[5, -1]], "no such node"),
    "no such word": ([[1, -1], [-2, -9]], "a leaf has word 8"),
    "a word without leaf": ([[1, -1], [-1, -2]], "word 2 has no leaf"),
    "no nodes": (np.zeros((0, 2)), "0 nodes"),
    "three children": ([[-1, -2, -3]], "int32"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_holds_no_tree_is_refused(name, tmp_path):
    children, message = BROKEN[name]
    np.savez(tmp_path / "t.npz", version=1, num_words=3, children=np.array(children, np.int32))
    with pytest.raises(UserError, match=message) as error:
        trees.load(tmp_path / "t.npz")
    assert str(tmp_path / "t.npz") in str(error.value)


def test_damaged_files_are_refused(tmp_path):
    whole = tmp_path / "whole.npz"
    trees.save(made(), whole)
    content = whole.read_bytes()
    broken = tmp_path / "broken.npz"
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 255
    for damaged in (b"", b"not a tree", content[: len(content) // 2], content[:-30], bytes(flipped)):
        broken.write_bytes(damaged)
        with pytest.raises(UserError, match=r"damaged|missing"):
            trees.load(broken)
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "pickle.npz", version=1, num_words=3, children=np.array([None, {}], object))
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    np.savez(
        tmp_path / "shapes.npz", version=np.ones(2, int), num_words=2.5, children=np.zeros((1, 2), np.int32)
    )
    for name in ("array.npy", "pickle.npz", "other.npz", "shapes.npz"):
        with pytest.raises(UserError, match="not a tree file"):
            trees.load(tmp_path / name)
    with pytest.raises(UserError, match="no such file"):
        trees.load(tmp_path / "absent.npz")
    with pytest.raises(UserError, match="not a tree file"):
        trees.load(tmp_path)


def test_another_version_and_another_vocabulary_are_refused(tmp_path):
    np.savez(tmp_path / "t.npz", version=2, num_words=2, children=np.array([[-1, -2]], np.int32))
    with pytest.raises(UserError, match="version 2"):
        trees.load(tmp_path / "t.npz")
    trees.save(made(), tmp_path / "t.npz")
    with pytest.raises(UserError, match="61 words for a vocabulary of 60"):
        trees.load(tmp_path / "t.npz", 60)


def test_a_tree_that_cannot_be_written_leaves_the_old_one(tmp_path):
    trees.save(made(), tmp_path / "t.npz")
    before = (tmp_path / "t.npz").read_bytes()
    with pytest.raises(UserError):
        trees.save(Tree(np.array([[-1, -1]], np.int32), 2), tmp_path / "t.npz")
    with pytest.raises(UserError, match="is a folder"):
        trees.save(made(), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        trees.save(made(), tmp_path / "file" / "t.npz")
    assert (tmp_path / "t.npz").read_bytes() == before


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
