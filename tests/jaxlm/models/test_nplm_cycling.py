"""The energy-based neural probabilistic language model against loops and enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlm.context_model import Batch
from jaxlm.models import nplm, nplm_cycling

N_W, D, C, N_H = 6, 3, 2, 4
CONFIG = nplm_cycling.Config(N_W, num_features=D, context_size=C, num_hidden=N_H)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def random_params(seed=0):
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda key: nplm_cycling.init(key, CONFIG, np.ones(N_W)), jax.random.key(0))
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), shapes)


def numpy_energy(p, context, word):
    """Pass the context and a next word through the network, unit by unit."""
    x, r = [p.R[w][k] for w in context for k in range(D)], p.R[word]
    energy = -p.b[word]
    for j in range(N_H):
        total = p.d[j] + sum(p.H[j][k] * x[k] for k in range(C * D)) + sum(p.G[j][k] * r[k] for k in range(D))
        energy -= p.v[j] * np.tanh(total)
    return energy


def test_probabilities_are_those_of_an_enumeration_of_energies():
    params = random_params()
    p = jax.tree.map(np.asarray, params)
    for context in itertools.islice(itertools.product(range(N_W), repeat=C), 0, None, 7):
        powers = np.exp([-numpy_energy(p, context, w) for w in range(N_W)])
        ours = np.exp(nplm_cycling.log_prob(params, jnp.array(context), CONFIG))
        np.testing.assert_allclose(ours, powers / powers.sum(), rtol=1e-12)
        assert abs(ours.sum() - 1) < 1e-12


@pytest.mark.parametrize("contexts", [1, 3, 7])
def test_a_minibatch_is_the_sum_of_the_specification(monkeypatch, contexts):
    """Value and gradients, in blocks of one context, of three, which do not divide the minibatch, and of all."""
    monkeypatch.setattr(nplm_cycling, "AT_ONCE", contexts)
    rng, params, size = np.random.default_rng(1), random_params(), 7
    batch = Batch(jnp.asarray(rng.integers(0, N_W, (size, C))), jnp.asarray(rng.integers(0, N_W, size)))
    weight = jnp.array([1.0, 1, 0.5, 2, 1, 0, 0])

    def each(params):
        return weight @ jax.vmap(lambda example: nplm_cycling.loss(params, example, None, CONFIG))(batch)

    ours = jax.jit(jax.value_and_grad(lambda p: nplm_cycling.batch_loss(p, batch, weight, None, CONFIG)[0]))(params)
    theirs = jax.value_and_grad(each)(params)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12), ours, theirs)


def test_a_small_next_word_makes_it_a_direct_model():
    """To first order in G r_w the scores are b_w + U h' with h' = v (1 - tanh²(d + Hx)) and U = R Gᵀ."""
    params, s = random_params(), 1e-5
    small = params._replace(G=s * params.G, b=s * params.b)
    context = jnp.array([3, 1])
    x = params.R[context].reshape(-1)
    slope = params.v * (1 - jnp.tanh(params.d + params.H @ x) ** 2)
    scores = params.R @ params.G.T @ slope + params.b
    found = nplm_cycling.energies(small, context)
    np.testing.assert_allclose((found[0] - found) / s, scores - scores[0], rtol=1e-4, atol=1e-6)


def test_without_weight_of_the_network_words_have_their_base_rates():
    counts = np.array([5, 3, 2, 1, 1, 0])
    params = nplm_cycling.init(jax.random.key(0), CONFIG, counts)._replace(v=jnp.zeros(N_H))
    found = np.exp(nplm_cycling.log_prob(params, jnp.array([0, 4]), CONFIG))
    np.testing.assert_allclose(found, np.maximum(counts, 1) / 13, rtol=1e-6)


def test_words_with_equal_vectors_and_biases_are_equally_probable_unlike_in_the_direct_model():
    """The next word has no parameters of its own but its bias: what is learned of a word holds for those like it."""
    params = random_params()
    twins = params._replace(R=params.R.at[4].set(params.R[2]), b=params.b.at[4].set(params.b[2]))
    found = nplm_cycling.log_prob(twins, jnp.array([1, 5]), CONFIG)
    assert found[4] == pytest.approx(float(found[2]), rel=1e-12)
    direct = nplm.Config(N_W, num_features=D, context_size=C, num_hidden=N_H)
    shapes = jax.eval_shape(lambda key: nplm.init(key, direct, np.ones(N_W)), jax.random.key(0))
    theirs = jax.tree.map(lambda x: jnp.asarray(np.random.default_rng(2).normal(size=x.shape)), shapes)
    theirs = theirs._replace(R=theirs.R.at[4].set(theirs.R[2]), b=theirs.b.at[4].set(theirs.b[2]))
    other = nplm.log_prob(theirs, jnp.array([1, 5]), direct)
    assert abs(float(other[4] - other[2])) > 0.01
