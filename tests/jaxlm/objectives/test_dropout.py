"""Dropout against its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binomtest, norm

from jaxlm.objectives.dropout import dropout


def test_a_share_is_dropped_and_the_expectation_stays() -> None:
    rate, number = 0.3, 5000
    x = jnp.array([1.0, -2.0, 0.5])
    found = np.asarray(jax.vmap(lambda key: dropout(x, key, rate))(jax.random.split(jax.random.key(0), number)))
    assert binomtest(int(np.sum(found == 0)), found.size, rate).pvalue > 1e-4
    kept = np.broadcast_to(x / (1 - rate), found.shape)
    np.testing.assert_allclose(found[found != 0], kept[found != 0], rtol=1e-6)
    z = (found.mean(axis=0) - x) / (found.std(axis=0) / np.sqrt(number))
    assert 2 * norm.sf(np.abs(z)).min() > 1e-4
    assert np.corrcoef(found.T != 0)[0, 1] == pytest.approx(0, abs=0.06), "each number by itself"


def test_nothing_is_dropped_without_a_key_or_at_rate_zero() -> None:
    x = jnp.arange(4.0)
    for found in (dropout(x, None, 0.5), dropout(x, jax.random.key(0), 0.0)):
        np.testing.assert_array_equal(found, x)
