"""Dropout of the predicted feature vector (Srivastava et al. 2014); the thesis does not use it."""

import jax
import jax.numpy as jnp
from jax import Array


def dropout(r_hat: Array, key: Array | None, rate: float) -> Array:
    """Set each feature of r̂ to zero with probability `rate`, and divide the others by 1 - `rate`.

    Without a key, r̂ is returned unchanged.
    """
    if key is None or rate == 0:
        return r_hat
    return jnp.where(jax.random.bernoulli(key, 1 - rate, r_hat.shape), r_hat / (1 - rate), 0.0)
