"""Products of users' vectors with items', for the pairs of a data set."""

import jax
import jax.numpy as jnp
from jax import Array

PAIRS = 1 << 18  # whose products are computed at a time


@jax.jit
def of_pairs(X: Array, Y: Array, user: Array, item: Array) -> Array:
    """Compute x_u·y_i of pairs, [N], some at a time: the rows of all pairs would be many times the ratings.

    Args:
        X: [users, D].
        Y: [items, D].
        user: int32 [N].
        item: int32 [N].
    """
    return jax.lax.map(lambda pair: jnp.sum(X[pair[0]] * Y[pair[1]]), (user, item), batch_size=PAIRS)
