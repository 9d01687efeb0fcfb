"""The loss of a binary decision beside float64, at the start of training (logits of zero) and far from it."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxlm.objectives.logistic import softplus


def test_softplus_and_its_gradient_equal_float64():
    x = np.r_[-np.inf, -200, -80, np.linspace(-20, 20, 4001), 80, 200].astype(np.float32)
    assert 0 in x
    exact = x.astype(float)
    np.testing.assert_allclose(softplus(jnp.array(x)), np.logaddexp(exact, 0), rtol=2e-7, atol=1e-7)
    with np.errstate(over="ignore"):
        want = 1 / (1 + np.exp(-exact))
    np.testing.assert_allclose(jax.vmap(jax.grad(softplus))(jnp.array(x)), want, rtol=1e-6, atol=1e-38)
