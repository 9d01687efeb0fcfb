"""Two-level classes of words against loops over classes and words, and against the softmax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jaxlm.objectives import classes

N_W, D, B = 11, 4, 9
COUNTS = np.array([50, 20, 12, 6, 4, 3, 2, 1, 1, 0, 0])


def drawn(ends, seed=0):
    rng = np.random.default_rng(seed)
    C = len(ends)
    return tuple(jnp.asarray(rng.normal(size=size)) for size in ((N_W, D), N_W, (C, D), C, (B, D)))


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def by_loops(V, b, Q, a, z, ends):
    """P(c) P(w | c) of every word, class by class."""
    of_class = np.exp(Q @ z + a)
    of_class /= of_class.sum()
    found, start = [], 0
    for share, end in zip(of_class, ends, strict=True):
        powers = np.exp(V[start:end] @ z + b[start:end])
        found.extend(share * powers / powers.sum())
        start = end
    return np.array(found)


@pytest.mark.parametrize("ends", [(3, 7, 11), (1, 2, 11), (11,)])
def test_probabilities_equal_a_loop_over_classes_and_sum_to_one(ends):
    V, b, Q, a, z = drawn(ends)
    for row in z:
        found = np.exp(classes.log_prob(V, b, Q, a, row, ends))
        np.testing.assert_allclose(found, by_loops(*map(np.asarray, (V, b, Q, a, row)), ends), rtol=1e-12)
        assert abs(found.sum() - 1) < 1e-12


def test_one_class_is_the_softmax():
    V, b, Q, a, z = drawn((N_W,))
    expected = jax.nn.log_softmax(V @ z[0] + b)
    np.testing.assert_allclose(classes.log_prob(V, b, Q, a, z[0], (N_W,)), expected, rtol=1e-12)


@pytest.mark.parametrize("ends", [(1, 4, 11), (11,), tuple(range(1, 12))], ids=["three", "one", "each"])
@pytest.mark.parametrize(
    "tile", [(16, 64), (2, 3), *(pytest.param(t, marks=pytest.mark.extended) for t in ((3, 2), (1, 1)))]
)
@pytest.mark.parametrize("at_a_time", [1, 4])
def test_nats_of_a_minibatch_and_their_gradients_are_those_of_each_word(monkeypatch, ends, tile, at_a_time):
    monkeypatch.setattr(classes, "EXAMPLES", tile[0])
    monkeypatch.setattr(classes, "WORDS", tile[1])
    monkeypatch.setattr(classes, "ON_CPU", at_a_time)
    V, b, Q, a, z = drawn(ends)
    word = jnp.array([0, 1, 10, 3, 4, 0, 9, 2, 4])
    weight = jnp.sin(jnp.arange(B))

    def together(V, b, Q, a, z, weight):
        return classes.sum_nll(V, b, Q, a, z, word, weight, ends)

    def each(V, b, Q, a, z, weight):
        return weight @ jax.vmap(lambda z, w: -classes.log_prob(V, b, Q, a, z, ends)[w])(z, word)

    args = V, b, Q, a, z, weight
    ours, theirs = (jax.jit(jax.value_and_grad(f, range(6)))(*args) for f in (together, each))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12), ours, theirs)
    of_each = theirs[1][5]  # the sum is linear in the weights
    np.testing.assert_allclose(classes.nll(V, b, Q, a, z, word, ends), of_each, rtol=1e-10)
    np.testing.assert_allclose(jax.jit(together)(*args), theirs[0], rtol=1e-10)


@pytest.mark.parametrize("varies", ["z", "word", "weight"])
def test_it_works_under_a_shard_map_of_ones_own(varies):
    ends = (1, 4, 11)
    V, b, Q, a, z = drawn(ends)
    given = {"z": z[:8], "word": jnp.array([0, 1, 10, 3, 4, 0, 9, 2]), "weight": jnp.ones(8)}
    mesh = Mesh(np.array(jax.devices()[:2]), ("devices",))

    def parts(V, z, word, weight):  # what does not vary is as long as a part
        total = classes.sum_nll(V, b, Q, a, z, word, weight, ends) + classes.nll(V, b, Q, a, z, word, ends).sum()
        return jax.lax.psum(total, "devices")

    specs = [P(), *(P("devices") if name == varies else P() for name in given)]
    args = [x if name == varies else x[:4] for name, x in given.items()]
    split = jax.jit(jax.shard_map(parts, mesh=mesh, in_specs=tuple(specs), out_specs=P()))
    found = split(V, *args)

    def halves(V):
        of_half = [
            x.reshape(2, 4, *x.shape[1:]) if name == varies else jnp.stack([x[:4]] * 2) for name, x in given.items()
        ]
        return sum(
            classes.sum_nll(V, b, Q, a, *(x[i] for x in of_half), ends)
            + classes.nll(V, b, Q, a, of_half[0][i], of_half[1][i], ends).sum()
            for i in range(2)
        )

    np.testing.assert_allclose(found, halves(V), rtol=1e-10)


def test_numbers_of_several_types_are_added_up_in_the_widest():
    ends = (1, 4, 11)
    V, b, Q, a, z = (x.astype(jnp.float32) for x in drawn(ends))
    word, coarse = jnp.array([0, 1, 10, 3, 4, 0, 9, 2, 4]), V.astype(jnp.bfloat16)

    def total(V):
        return classes.sum_nll(V, b, Q, a, z, word, jnp.ones(B, jnp.int32), ends)

    loss, gradient = jax.value_and_grad(total)(coarse)
    expected, of_wide = jax.value_and_grad(total)(coarse.astype(jnp.float32))
    assert loss.dtype == jnp.float32
    assert gradient.dtype == jnp.bfloat16
    np.testing.assert_allclose(
        loss, expected, rtol=1e-2
    )  # bfloat16 has 8 bits: the scores of next words alone are in it
    np.testing.assert_allclose(gradient.astype(jnp.float32), of_wide, rtol=0.05, atol=0.02)


def test_scores_that_are_far_apart_do_not_overflow():
    ends = (3, 11)
    V, b, Q, a, z = drawn(ends)
    word = jnp.array([0, 1, 2, 3, 4, 5, 6, 10, 10])
    for shift in (-1e4, 1e4):  # added to all scores of one class
        shifted = b.at[:3].add(shift)
        loss, grads = jax.value_and_grad(classes.sum_nll, (0, 1))(V, shifted, Q, a, z, word, jnp.ones(B), ends)
        expected, of_those = jax.value_and_grad(classes.sum_nll, (0, 1))(V, b, Q, a, z, word, jnp.ones(B), ends)
        np.testing.assert_allclose(loss, expected, rtol=1e-9)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-9), grads, of_those)


def test_classes_are_of_about_equal_frequency_or_size():
    assert classes.cut(COUNTS, 4, by_frequency=False) == (2, 5, 8, 11)
    ends = classes.cut(COUNTS, 3, by_frequency=True)  # of 101: words 0 to 34, 35 to 67, and the rest
    assert ends == (1, 2, 11)
    assert classes.cut(COUNTS, 50, by_frequency=False) == tuple(range(1, 12))
    assert classes.cut(COUNTS, 50, by_frequency=True)[-1] == 11
