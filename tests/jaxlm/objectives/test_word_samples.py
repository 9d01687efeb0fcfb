"""Words drawn by inversion follow the softmax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp
from scipy.stats import chisquare

from jaxfit.draws import uniform
from jaxlm.objectives import softmax
from jaxlm.objectives.word_samples import draw


def model(words, seed=0):
    rng = np.random.default_rng(seed)
    R, b = rng.normal(size=(words, 4)), rng.normal(size=words)
    return jnp.asarray(R, jnp.float32), jnp.asarray(b, jnp.float32), jnp.asarray(rng.normal(size=4), jnp.float32)


# fewer words than a piece, whole pieces, and a piece that is filled up
@pytest.mark.parametrize("words", [5, 256, 300])
def test_draws_follow_the_distribution(words, monkeypatch):
    monkeypatch.setattr(softmax, "CACHE_ENTRIES", 512 * 1000)  # several blocks
    R, b, x = model(words)
    number = 200_000
    keys = jax.random.split(jax.random.key(1), number)
    found, log_sums = jax.jit(draw)(
        R, b, jnp.tile(x, (number, 1)), uniform(keys, jnp.zeros(number, jnp.int32))[:, None]
    )
    logits = np.asarray(R, np.float64) @ np.asarray(x) + np.asarray(b)
    p = np.exp(log_softmax(logits))
    counts = np.bincount(np.asarray(found)[:, 0], minlength=words)
    assert len(counts) == words
    often = p * number > 10  # the others together
    pooled = [np.append(values[often], values[~often].sum()) for values in (counts, p * number)]
    keep = pooled[1] > 0
    assert chisquare(pooled[0][keep], pooled[1][keep]).pvalue > 1e-4
    np.testing.assert_allclose(log_sums, logsumexp(logits), rtol=1e-5)


def test_a_draw_is_where_the_running_sum_exceeds_the_uniform_number():
    R, b, x = model(300, seed=2)
    numbers = np.linspace(0, 1, 2001, endpoint=False).astype(np.float32)
    found, _ = jax.jit(draw)(R, b, jnp.tile(x, (3, 1)), jnp.asarray(numbers).reshape(3, 667))
    logits = np.asarray(R, np.float64) @ np.asarray(x) + np.asarray(b)
    sums = np.cumsum(np.exp(log_softmax(logits)))
    expected = np.searchsorted(sums, numbers, side="right")
    # neighbours where rounding decides
    assert np.all(np.abs(np.ravel(found) - expected) <= 1)
    assert np.mean(np.ravel(found) != expected) < 0.01


@pytest.mark.parametrize("number", [0.0, 1 - 2**-24])
def test_no_word_without_probability_is_drawn(number):
    b = jnp.array([-200.0, 0.0, -200.0] + [-200.0] * 200)
    found, _ = draw(jnp.zeros((203, 2)), b, jnp.zeros((3, 2)), jnp.full((3, 2), number))
    np.testing.assert_array_equal(found, np.ones((3, 2)))
