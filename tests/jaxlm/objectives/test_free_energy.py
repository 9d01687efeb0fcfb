"""Sums over hidden units and words: products of terms against single terms, and against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp
from scipy.stats import chisquare

from jaxfit.devices import platform
from jaxfit.draws import uniform
from jaxlm.objectives import free_energy
from jaxlm.objectives.free_energy import draw


def inputs(contexts, hidden, words, scale, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (contexts, hidden), (hidden, words), (words,)
    return [jnp.asarray(scale * rng.normal(size=shape), jnp.float32) for shape in shapes]


def log_normalizer(*given):
    return jax.jit(lambda *given: free_energy.log_normalizer(*given))(*given)  # compiled anew: sizes of blocks change


def by_numpy(a, U, b):
    a, U, b = (np.asarray(x, np.float64) for x in (a, U, b))
    return b + np.logaddexp(0, a[:, :, None] + U[None]).sum(axis=1)


# groups of 16 hidden units, of which 7 and 20 do not fill the last
@pytest.mark.parametrize("hidden", [7, 16, 20])
@pytest.mark.parametrize("scale", [1.0, 40.0, 1000.0])
@pytest.mark.parametrize("contexts", [1, 5])
def test_equal_to_numpy(hidden, scale, contexts, monkeypatch):
    monkeypatch.setattr(free_energy, "ROWS", 2)  # blocks of two contexts, the last of one
    monkeypatch.setattr(free_energy, "TILE", 4)  # three tiles, the last of three words
    a, U, b = inputs(contexts, hidden, 11, scale)
    expected = by_numpy(a, U, b)
    np.testing.assert_allclose(log_normalizer(a, U, b), logsumexp(expected, axis=1), rtol=2e-6)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_inputs_of_several_types_are_promoted_to_float32_at_least(scale):
    given = [x.astype(jnp.bfloat16) for x in inputs(2, 7, 11, scale)]
    wide = [x.astype(jnp.float32) for x in given]
    expected = log_normalizer(*wide)
    for mixed in (given, [wide[0], *given[1:]]):
        found = log_normalizer(*mixed)
        assert found.dtype == jnp.float32
        np.testing.assert_array_equal(found, expected)
    with jax.enable_x64(True):
        assert log_normalizer(np.asarray(given[0], np.float64), *wide[1:]).dtype == np.float64


def test_inputs_up_to_the_bound_do_not_overflow():
    each = free_energy.LARGEST / free_energy.SAFE - 0.01  # of SAFE units
    for of_context, of_word in ((0, each), (each, 0), (each / 2, each / 2), (-each, each), (-200, each), (0, -200)):
        given = jnp.full((2, 32), float(of_context)), jnp.full((32, 3), float(of_word)), jnp.zeros(3)
        np.testing.assert_allclose(log_normalizer(*given), logsumexp(by_numpy(*given), axis=1), rtol=1e-6)


@pytest.mark.parametrize("scale", [0.5, 15.0])
def test_draws_follow_the_distribution(scale, monkeypatch):
    monkeypatch.setattr(free_energy, "ROWS", 999)  # several blocks
    monkeypatch.setattr(free_energy, "TILE", 100)  # of 256 words with padding
    words, number = 150, 100_000
    a, U, b = inputs(1, 8, words, scale)
    keys = jax.random.split(jax.random.key(1), number)
    found, log_Z = jax.jit(draw)(jnp.tile(a, (number, 1)), U, b, uniform(keys, jnp.zeros(number, jnp.int32))[:, None])
    expected = by_numpy(a, U, b)[0]
    p = np.exp(log_softmax(expected))
    counts = np.bincount(np.asarray(found)[:, 0], minlength=words)
    assert len(counts) == words
    often = p * number > 10  # the others together
    pooled = [np.append(values[often], values[~often].sum()) for values in (counts, p * number)]
    keep = pooled[1] > 0
    assert chisquare(pooled[0][keep], pooled[1][keep] * pooled[0].sum() / pooled[1][keep].sum()).pvalue > 1e-4
    np.testing.assert_allclose(log_Z, logsumexp(expected), rtol=1e-5)


def test_blocks_by_memory_on_an_accelerator_give_the_same(monkeypatch):
    a, U, b = inputs(5, 8, 11, 1.0)
    expected = log_normalizer(a, U, b)
    monkeypatch.setattr(platform, "HELD", 2 * 11)
    with platform.tracing_for("tpu"):
        np.testing.assert_allclose(log_normalizer(a, U, b), expected, rtol=1e-6)
