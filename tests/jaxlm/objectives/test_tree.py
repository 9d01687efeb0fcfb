"""Words as leaves of a tree, against loops over their paths, for balanced, skewed and chain-like trees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.objectives import tree, word_tree
from jaxlm.trees import build
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import Tree, node_biases

N_W, D = 9, 4
COUNTS = np.array([90, 41, 20, 11, 5, 3, 2, 1, 0])
CHAIN = Tree(np.array([[~k, k + 1] for k in range(N_W - 2)] + [[~(N_W - 2), ~(N_W - 1)]], np.int32), N_W)
TREES = {
    "random": build.random_tree(jax.random.key(1), N_W), "huffman": build.huffman(COUNTS), "chain": CHAIN,
}  # fmt: skip
WORD = np.array([0, 8, 3, 3, 7, 1, 0])


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def drawn(seed=0):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=size) for size in ((N_W - 1, D), N_W - 1, (len(WORD), D)))


def by_loops(built, Q, b, z):
    """P(w) of every word: from the root down, node by node."""
    found = np.zeros(N_W)

    def descend(node, p):
        if node < 0:
            found[~node] += p
            return
        left = 1 / (1 + np.exp(-(Q[node] @ z + b[node])))
        descend(built.children[node, 0], p * left)
        descend(built.children[node, 1], p * (1 - left))

    descend(0, 1.0)
    return found


@pytest.mark.parametrize("name", TREES)
def test_probabilities_equal_a_loop_over_nodes_and_sum_to_one(name):
    built, (Q, b, z) = TREES[name], drawn()
    for row in z:
        found = np.exp(tree.log_prob_of_logits(jnp.asarray(Q @ row + b), jnp.asarray(built.children), N_W))
        np.testing.assert_allclose(found, by_loops(built, Q, b, row), rtol=1e-12)
        assert abs(found.sum() - 1) < 1e-12


@pytest.mark.parametrize("spare", [None, 0, 5])
@pytest.mark.parametrize("name", TREES)
def test_nats_of_a_minibatch_and_their_gradients_are_those_of_each_word(name, spare):
    """In the decisions that there are, in some more, and in as many as the longest codes would be."""
    built, (Q, b, z) = TREES[name], drawn()
    codes = tree.codes(built)
    lengths = np.diff(np.asarray(codes.start))
    capacity = 0 if spare is None else int(lengths[WORD].sum()) + spare
    made = tree.decisions(codes, jnp.asarray(WORD), capacity)
    assert len(made.node) == (capacity or len(WORD) * lengths.max())
    weight = np.sin(np.arange(len(WORD)))

    def flat(Q, b, z):
        rows = (table.at[made.node].get(mode="clip") for table in (Q, b))
        return weight @ tree.nll(*rows, z, made)

    def each(Q, b, z):
        children = jnp.asarray(built.children)
        one = jax.vmap(lambda z, w: -tree.log_prob_of_logits(Q @ z + b, children, N_W)[w])
        return weight @ one(z, WORD)

    ours, theirs = (jax.jit(jax.value_and_grad(f, range(3)))(Q, b, z) for f in (flat, each))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12), ours, theirs)
    expected = weight @ -np.log([by_loops(built, Q, b, row)[w] for row, w in zip(z, WORD, strict=True)])
    np.testing.assert_allclose(ours[0], expected, rtol=1e-12)


def test_decisions_of_extreme_scores_are_finite():
    built, (Q, b, z) = CHAIN, drawn()
    made = tree.decisions(tree.codes(built), jnp.asarray(WORD), 0)
    rows = [jnp.asarray(table).at[made.node].get(mode="clip") for table in (1e4 * Q, b)]
    value, grads = jax.value_and_grad(lambda q: jnp.sum(tree.nll(q, rows[1], z, made)))(rows[0])
    assert np.isfinite(value)
    assert np.isfinite(grads).all()


def test_biases_alone_give_the_base_rates():
    for built in TREES.values():
        found = tree.log_prob_of_logits(jnp.asarray(node_biases(built, COUNTS)), jnp.asarray(built.children), N_W)
        np.testing.assert_allclose(np.exp(found), (COUNTS + 1) / (COUNTS + 1).sum(), rtol=1e-12)


def test_trees_with_several_codes_for_a_word_are_refused(tmp_path):
    tree_file.save(build.join([TREES["random"], TREES["huffman"]]), tmp_path / "two.npz")
    with pytest.raises(UserError, match=r"18 codes for 9 words.*each word is one leaf"):
        word_tree.check(word_tree.Options(str(tmp_path / "two.npz")))
    with pytest.raises(UserError, match="no rule for trees or file 'hufman'"):
        word_tree.check(word_tree.Options("hufman"))
