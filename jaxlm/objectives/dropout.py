"""Dropout of a vector (Srivastava et al. 2014); the thesis does not use it."""

import jax.numpy as jnp
from jax import Array

from jaxfit.draws import uniform


def dropout(x: Array, key: Array | None, rate: float) -> Array:
    """Set each element of x, [n], to zero with probability `rate`, and divide the others by 1 - `rate`.

    Without a key, x is returned unchanged.
    """
    if key is None or rate == 0:
        return x
    kept = uniform(key, jnp.arange(x.shape[0])) < 1 - rate
    return jnp.where(kept, x / (1 - rate), 0.0)
