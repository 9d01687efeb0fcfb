"""Dropout of the predicted feature vector (Srivastava et al. 2014); the thesis does not use it."""

import jax.numpy as jnp
from jax import Array

from jaxfit.draws import uniform


def dropout(r_hat: Array, key: Array | None, rate: float) -> Array:
    """Set each feature of r̂, [N_f], to zero with probability `rate`, and divide the others by 1 - `rate`.

    Without a key, r̂ is returned unchanged.
    """
    if key is None or rate == 0:
        return r_hat
    kept = uniform(key, jnp.arange(r_hat.shape[0])) < 1 - rate
    return jnp.where(kept, r_hat / (1 - rate), 0.0)
