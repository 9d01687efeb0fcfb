"""What training of the factored RBM reports, against enumeration of its hidden units."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_softmax

from jaxlm.context_model import Batch
from jaxlm.models import frbm

N_W, D, C, N_H = 7, 3, 2, 4


def config(objective):
    return frbm.Config(num_words=N_W, num_features=D, context_size=C, num_hidden=N_H, objective=objective)


def random_params():
    rng = np.random.default_rng(0)
    shapes = (N_W, D), (C + 1, D, N_H), (N_H,), (N_W,)
    return frbm.Params(*(jnp.asarray(0.7 * rng.normal(size=shape), jnp.float32) for shape in shapes))


def reported(objective, contexts, words, weight):
    """Return the metrics of a minibatch by the name under which they are shown."""
    cfg, batch = config(objective), Batch(jnp.asarray(contexts), jnp.asarray(words))
    keys = jax.random.split(jax.random.key(0), len(words))
    metrics = frbm.batch_loss(random_params(), batch, jnp.asarray(weight), keys, cfg)[1]
    assert list(metrics) == [metric.name for metric in frbm.program(cfg).loss_metrics]
    return metrics


@pytest.mark.parametrize("objective", ["cd", "mean-field"])
def test_the_reconstruction_is_of_words_given_hidden_units_that_are_drawn_from_them(objective):
    """By z-test at p = 6e-5, with the mean and the variance over all states of the hidden units."""
    (context, word), number = ((4, 1), 5), 20_000
    mean = reported(objective, [context] * number, [word] * number, np.full(number, 0.5, np.float32))["reconstruction"]
    p = frbm.Params(*(np.asarray(x, np.float64) for x in random_params()))
    on = expit(p.b_h + sum(p.R[w] @ W for w, W in zip((*context, word), p.W, strict=True)))
    states = np.array(list(itertools.product((0, 1), repeat=N_H)))
    share = np.prod(np.where(states, on, 1 - on), axis=1)
    nats = -log_softmax(states @ p.W[-1].T @ p.R.T + p.b_v, axis=1)[:, word]
    expected = share @ nats
    assert mean.count == number / 2
    assert abs(mean.total / mean.count - expected) < 4 * np.sqrt(share @ (nats - expected) ** 2 / number)


def test_by_likelihood_the_perplexity_is_that_of_the_words():
    cfg, rng, weight = config("likelihood"), np.random.default_rng(1), np.float32([1, 0.5, 2, 0])
    contexts, words = rng.integers(0, N_W, (4, C)), rng.integers(0, N_W, 4)
    mean = reported("likelihood", contexts, words, weight)["perplexity"]
    nats = [-frbm.log_prob(random_params(), jnp.asarray(c), cfg)[w] for c, w in zip(contexts, words, strict=True)]
    np.testing.assert_allclose((mean.total, mean.count), (weight @ np.array(nats), 3.5), rtol=1e-5)
