"""Word biases with which a model without inputs predicts each word's share of the training text."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def log_base_rates(counts: Any) -> Array:
    """Return the logarithm of each word's share of a text: [N_w].

    A word that never occurs counts as one that occurs once, since its bias would be infinite.

    Args:
        counts: [N_w].
    """
    xp = jnp if isinstance(counts, jax.core.Tracer) else np  # float64 where it can be
    rates = xp.maximum(xp.asarray(counts, float), 1)
    return jnp.asarray(xp.log(rates / rates.sum()), float)
