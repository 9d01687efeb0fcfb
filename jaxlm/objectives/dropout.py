"""Dropout of the predicted feature vector, for models that are trained with it (it is not the thesis')."""

import jax
import jax.numpy as jnp
from jax import Array


def dropout(r_hat: Array, key: Array | None, rate: float) -> Array:
    """r̂ with a share `rate` of its features dropped, the others scaled up; as it is when there is no key."""
    if key is None or rate == 0:
        return r_hat
    return jnp.where(jax.random.bernoulli(key, 1 - rate, r_hat.shape), r_hat / (1 - rate), 0.0)
