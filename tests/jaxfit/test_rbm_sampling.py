"""Sampling units and CD-T, on a Boltzmann machine of binary units that is small enough to enumerate."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax

from jaxfit.draws import uniform
from jaxfit.rbm import bernoulli, contrastive_divergence, gibbs, hidden_free_energy, multinomial

V, H = 3, 2
W = np.array([[0.9, -1.1], [-0.4, 0.7], [1.3, 0.5]], np.float32)
a, b = np.array([0.2, -0.3, 0.1], np.float32), np.array([-0.5, 0.4], np.float32)
DRAWS = 40_000
Z = 4.0  # |z| of any one test stays below with p = 1 - 6e-5


def keys(n=DRAWS, seed=0):
    return jax.random.split(jax.random.key(seed), n)


def states(n):
    return np.array(list(itertools.product([0.0, 1.0], repeat=n)), np.float32)


@jax.jit
def free_energy(v, W=W, a=a, b=b):
    return hidden_free_energy(b[None] + v @ W) - v @ a


def gibbs_step(v, keys):
    for_hidden, for_visible = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    h = bernoulli(for_hidden, jax.nn.sigmoid(b[None] + v @ W))
    return bernoulli(for_visible, jax.nn.sigmoid(a[None] + h @ W.T))


def z(samples, expected):
    error = np.std(samples, axis=0) / len(samples) ** 0.5
    return np.abs(np.mean(samples, axis=0) - expected) / np.maximum(error, 1e-12)


def test_free_energy_sums_over_the_hidden_states():
    v, h = states(V), states(H)
    energy = -(np.einsum("vi,ij,hj->vh", v, W, h) + (v @ a)[:, None] + (h @ b)[None])  # Eq. 1.1
    np.testing.assert_allclose(free_energy(v), -logsumexp(-energy, axis=1), rtol=1e-5)


def pairs(which):
    """Draw pairs, [n, 2]: of one key, neighbouring numbers; of neighbouring keys, the same number; of both."""
    words = jnp.stack([jnp.zeros(1 << 18, jnp.uint32), jnp.arange(1 << 18, dtype=jnp.uint32)], axis=1)
    one, many = jax.random.key(3), jax.random.wrap_key_data(words)
    drawn = {
        "numbers": uniform(one, jnp.arange(1 << 19)),
        "keys": uniform(many, jnp.int32(7)),
        "numbers and keys": uniform(many[: 1 << 10, None], jnp.arange(1 << 9)[None]),
        "split keys": uniform(keys(1 << 18), jnp.int32(7)),
    }[which]
    return np.asarray(drawn).reshape(-1, 2)


@pytest.mark.parametrize("which", ["numbers", "keys", "numbers and keys", "split keys"])
def test_draws_are_uniform_and_neighbours_independent(which):
    drawn = pairs(which)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    for bins in (16, 64):  # of pairs: the highest bits; of the lowest bits as well
        for x in (drawn, drawn * 2**12 % 1):
            cell = np.floor(x * bins).astype(int) @ [bins, 1]
            counts, expected = np.bincount(cell, minlength=bins**2), len(x) / bins**2
            of_chi_square = (np.sum((counts - expected) ** 2 / expected) - bins**2) / (2 * bins**2) ** 0.5
            assert abs(of_chi_square) < Z


def test_each_bit_of_key_and_number_changes_half_of_the_bits_drawn():
    key, number = jax.random.bits(jax.random.key(4), (4000, 2)), jax.random.bits(jax.random.key(5), (4000,))

    def bits(key, number):
        return np.asarray(uniform(jax.random.wrap_key_data(key), number) * 2**24).astype(np.int32)

    for place in range(32):
        flip = jnp.uint32(1 << place)
        flips = jnp.array([[flip, 0], [0, flip]])
        for other in (bits(key, number ^ flip), bits(key ^ flips[:1], number), bits(key ^ flips[1:], number)):
            changed = (bits(key, number) ^ other)[:, None] >> np.arange(24) & 1
            assert np.all(np.abs(changed.mean(axis=0) - 0.5) < 5 * 0.5 / 4000**0.5)


def test_binary_units_have_their_probability():
    p = np.array([0.0, 0.03, 0.5, 0.9, 1.0], np.float32)
    drawn = np.asarray(jax.jit(bernoulli)(keys(), np.tile(p, (DRAWS, 1))))
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert np.all(z(drawn, p) < Z)


def test_multinomial_units_have_their_distribution():
    p = np.array([0.1, 0.0, 0.6, 0.25, 0.05], np.float32)
    given = jax.random.uniform(jax.random.key(1), (DRAWS,))
    drawn = np.eye(5)[np.asarray(jax.jit(multinomial)(given, np.tile(p, (DRAWS, 1))))]
    assert np.all(z(drawn, p) < Z)


def test_a_draw_depends_on_its_own_key_alone():
    p = jnp.full((6, 50), 0.5)
    every = bernoulli(keys(6), p)
    np.testing.assert_array_equal(every[4:5], bernoulli(keys(6)[4:5], p[4:5]))


def test_a_long_chain_samples_the_models_distribution():
    v = states(V)
    p = softmax(-np.asarray(free_energy(v)))
    end = jax.jit(lambda keys, steps: gibbs(gibbs_step, jnp.zeros((DRAWS, V)), keys, steps))(keys(), 60)
    which = (np.asarray(end) @ [4, 2, 1]).astype(int)
    assert np.all(z(np.eye(8)[which], p) < Z)


@pytest.fixture(scope="module")
def gradients():
    """Compute CD-T's gradient by W of every chain, from one visible state: [DRAWS, V, H]; T is traced."""
    data = np.array([1.0, 0.0, 1.0], np.float32)

    def one(key, steps):
        v = data[None]
        end = gibbs(gibbs_step, v, key[None], steps)
        return jax.grad(lambda W: contrastive_divergence(lambda v: free_energy(v, W), v, end)[0])(W)

    run = jax.jit(jax.vmap(one, (0, None)))
    exact = jax.grad(lambda W: free_energy(data[None], W)[0] + jax.nn.logsumexp(-free_energy(states(V), W)))
    return {steps: np.asarray(run(keys(seed=2), steps)) for steps in (1, 60)}, np.asarray(jax.jit(exact)(W))


def test_cd_approaches_the_likelihood_gradient_as_T_grows(gradients):
    by_steps, exact = gradients
    assert np.all(z(by_steps[60], exact) < Z)
    assert np.max(z(by_steps[1], exact)) > 10  # CD-1 is biased, significantly for this number of chains


def test_cd_gradient_equals_equation_1_13(gradients):
    v = np.array([[1.0, 0.0, 1.0]], np.float32)
    end = np.asarray(jax.jit(lambda keys: gibbs(gibbs_step, v, keys, 1))(keys(1, seed=2)))
    # Eq. 1.13, with the expectation by one sample
    by_hand = -(np.outer(v, expit(b + v[0] @ W)) - np.outer(end, expit(b + end[0] @ W)))
    found = jax.grad(lambda W: contrastive_divergence(lambda v: free_energy(v, W), v, end)[0])
    np.testing.assert_allclose(jax.jit(found)(W), by_hand, atol=1e-6)
