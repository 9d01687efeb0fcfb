"""Noise, noise-contrastive estimation and importance sampling, against closed forms, enumeration and z-tests."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare, norm

from jaxfit.errors import UserError
from jaxlm.models import lbl
from jaxlm.objectives import noise, sampled

N_W, D, WORD = 7, 4, 2
COUNTS = np.array([40, 17, 11, 9, 2, 0, 1])
LIMIT = norm.isf(1e-6)  # of a z-score


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def config(**options):
    return lbl.Config(N_W, num_features=D, **options)


def normalized(seed=0):
    """Draw vectors, biases and z, whose probabilities exp s sum to 1, as noise-contrastive estimation has them."""
    rng = np.random.default_rng(seed)
    V, b, z = rng.normal(size=(N_W, D)), rng.normal(size=N_W), rng.normal(size=D)
    return jnp.asarray(V), jnp.asarray(b - np.log(np.exp(V @ z + b).sum())), jnp.asarray(z)


@functools.partial(jax.jit, static_argnums=(1, 2))
def drawn(key, number, cfg):
    """Draw the noise of so many next words, all of them WORD."""
    word = jnp.full(number, WORD, jnp.int32)
    source = sampled.Source(noise.unigram(COUNTS, cfg.noise_power), jnp.arange(number, dtype=jnp.int32))
    return sampled.draw(source, word, key, cfg)


@pytest.mark.parametrize("power", [0.0, 0.75, 1.0])
def test_noise_has_the_distribution_that_it_says(power):
    found = noise.unigram(COUNTS, power)
    expected = np.maximum(COUNTS, 1) ** power
    expected = expected / expected.sum()
    of_places = np.bincount(found.other, 1 - np.asarray(found.share, np.float64), N_W) + found.share
    np.testing.assert_allclose(of_places / N_W, expected, atol=1e-6)
    np.testing.assert_allclose(found.log_p, np.log(expected), rtol=1e-6)
    words = noise.draw(found, jax.random.key(0), jnp.arange(100_000))
    assert chisquare(np.bincount(words, minlength=N_W), 100_000 * expected).pvalue > 1e-6


def test_noise_over_a_million_words_has_their_frequencies():
    counts = np.random.default_rng(0).zipf(1.3, 1_000_000).clip(1, 10**6)
    found = noise.unigram(counts, 1.0)
    share = np.asarray(found.share, np.float64)
    of_places = np.bincount(found.other, 1 - share, len(counts)) + share
    np.testing.assert_allclose(of_places / len(counts) * counts.sum(), counts, rtol=1e-3, atol=0.01)


def test_noise_is_each_example_s_own_or_the_minibatch_s():
    own, shared = (drawn(jax.random.key(3), 5, config(num_noise=20, shared_noise=s)) for s in (False, True))
    assert (own.words[0] != own.words[1]).any()
    np.testing.assert_array_equal(shared.words, np.broadcast_to(shared.words[:1], (5, 20)))


@pytest.mark.parametrize("learned", [False, True])
def test_nce_equals_its_formula(float64, learned):
    cfg = config(objective="nce", num_noise=6, learned_normalizer=learned)
    V, b, z = normalized()
    log_Z = jnp.asarray(0.3) if learned else None
    one = jax.tree.map(lambda x: x[0], drawn(jax.random.key(0), 1, cfg))
    p_n = np.maximum(COUNTS, 1) / np.maximum(COUNTS, 1).sum()

    def of_data(w):  # P(the word is the text's | w), Mnih and Teh 2012, Eq. 4
        u = np.exp(V[w] @ z + b[w] - (0.3 if learned else 0.0))
        return u / (u + 6 * p_n[w])

    expected = -np.log(of_data(WORD)) - sum(np.log(1 - of_data(int(w))) for w in one.words)
    np.testing.assert_allclose(sampled.loss(V, b, log_Z, z, WORD, one, cfg), expected, rtol=1e-6)


def test_nce_approaches_maximum_likelihood_as_its_noise_grows(float64):
    """The mean gradient is its expectation, by z-test, and comes ever nearer to maximum likelihood's."""
    V, b, z = normalized()
    u, p_n = np.exp(V @ z + b), np.maximum(COUNTS, 1) / np.maximum(COUNTS, 1).sum()
    next_word = np.eye(N_W)[WORD]
    likelihood = u - next_word  # by the scores: those of a softmax
    distances = []
    for K in (1, 10, 100, 1000):
        cfg, number = config(objective="nce", num_noise=K), 4000
        by_scores = jax.vmap(jax.grad(lambda b, one: sampled.loss(V, b, None, z, WORD, one, cfg)), (None, 0))  # noqa: B023
        found = np.asarray(by_scores(b, drawn(jax.random.key(K), number, cfg)))
        expected = K * p_n / (u + K * p_n) * likelihood
        error = found.std(axis=0) / number**0.5
        assert (np.abs(found.mean(axis=0) - expected) < LIMIT * error + 1e-9).all()
        distances.append(np.linalg.norm(found.mean(axis=0) - likelihood))
    assert distances[0] > 2 * distances[1] > 4 * distances[2] > 20 * distances[3]


def test_importance_sampling_estimates_the_normalizer_without_bias(float64):
    V, b, z = normalized()
    b = b + 1.7  # Z is e^1.7
    cfg, number = config(objective="importance", num_noise=3), 100_000
    nats = jax.vmap(lambda one: sampled.loss(V, b, None, z, WORD, one, cfg))(drawn(jax.random.key(0), number, cfg))
    Z = np.exp(np.asarray(nats) + V[WORD] @ z + b[WORD])
    assert abs(Z.mean() - np.exp(1.7)) < LIMIT * Z.std() / number**0.5
    assert (np.exp(V[WORD] @ z + b[WORD]) * (1 - 1e-9) < Z).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "importance", "learned_normalizer": True}, "no normalizer to be learned"),
        ({"objective": "nce", "targets": "contexts"}, "is of words"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        config(**options)
