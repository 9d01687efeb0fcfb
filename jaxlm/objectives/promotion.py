"""Arrays of several float types, such as the weights and parameters of a training loop of one's own."""

import jax.numpy as jnp
from jax import Array


def promoted(*arrays: Array) -> list[Array]:
    """Return arrays of one float type, at least float32: loops and gradients that are written out keep their types."""
    dtype = jnp.result_type(jnp.float32, *arrays)
    return [x.astype(dtype) for x in arrays]
