"""The nonlinear log-bilinear model against NumPy, and what it drops."""

import dataclasses
import functools
import itertools

import jax
import numpy as np
import pytest
from scipy.special import expit, log_softmax

from jaxlm.models import nlbl

N_W, D, C, N_H = 7, 4, 3, 5

log_prob = jax.jit(nlbl.log_prob, static_argnums=2)


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def config(**options):
    sizes = {"num_words": N_W, "num_features": D, "context_size": C, "num_hidden": N_H}
    return nlbl.Config(**{**sizes, **options})


def random_params(cfg, seed=0):
    """Draw parameters large enough that every probability matters."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda key: nlbl.init(key, cfg, np.ones(cfg.num_words)), jax.random.key(0))
    return jax.tree.map(lambda x: 0.7 * rng.normal(size=x.shape), shapes)


@pytest.mark.parametrize("linear", [True, False])
def test_log_prob_equals_the_formula(float64, linear):
    """r̂ = B σ(A x + a) + e, and Σ_i C_i r_{w_i} unless left out; the scores are r̂·r_w + b_w."""
    cfg = config(linear=linear)
    p = random_params(cfg)
    assert len(p.C) == (C if linear else 0)
    for context in itertools.islice(itertools.product(range(N_W), repeat=C), 0, None, 17):
        x = np.concatenate([p.R[w] for w in context])
        r_hat = p.B @ expit(p.A @ x + p.a) + p.e
        r_hat = r_hat + sum((C_i @ p.R[w] for C_i, w in zip(p.C, context, strict=False)), np.zeros(D))
        ours = np.asarray(log_prob(p, np.array(context), cfg))
        np.testing.assert_allclose(ours, log_softmax(p.R @ r_hat + p.b), rtol=1e-12)


def test_features_units_and_prediction_are_dropped_by_rates_of_their_own_and_independently():
    """Over 4,000 keys, within 5 standard errors.

    Each number of r̂ is 100, and 10 and 1 more for a feature and a unit that are kept, each divided by its share kept.
    """
    n, draws, rates = 6, 4000, (0.2, 0.5, 0.35)
    cfg = config(num_features=n, context_size=1, num_hidden=n, feature_dropout=rates[0], hidden_dropout=rates[1])
    p = jax.tree.map(np.zeros_like, random_params(cfg))
    p = p._replace(C=10 * np.eye(n)[None], B=2 * np.eye(n), e=np.full(n, 100.0))

    @functools.partial(jax.jit, static_argnums=0)
    def predicted(cfg):
        keys = jax.random.split(jax.random.key(1), draws)
        return jax.vmap(lambda key: nlbl.predicted_vector(p, np.ones((1, n)), key, cfg))(keys)

    seen = np.asarray(predicted(cfg)) - 100
    np.testing.assert_allclose(np.unique(seen.round(4)), [0, 2, 12.5, 14.5])
    whole = np.asarray(predicted(dataclasses.replace(cfg, dropout=rates[2])))
    np.testing.assert_allclose(whole[whole != 0], (seen[whole != 0] + 100) / (1 - rates[2]), rtol=1e-5)
    dropped, error = np.stack([seen < 5, seen % 12.5 < 1, whole == 0]), 2.5 / (draws * n) ** 0.5
    np.testing.assert_allclose(dropped.mean(axis=(1, 2)), rates, atol=error)
    for one, other in itertools.combinations(range(3), 2):
        assert abs((dropped[one] & dropped[other]).mean() - rates[one] * rates[other]) < error, (one, other)
