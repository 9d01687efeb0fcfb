"""Words drawn as noise, many at a time, from a distribution that training does not change.

The cost does not grow with the vocabulary. Walker's alias method (Walker 1977, in the form of Vose 1991): each of N_w
equally probable places holds a word, and another that takes over with the rest of the place's probability.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.draws import integer, uniform


class Noise(NamedTuple):
    """A distribution over words.

    Place w selects word w with probability `share`, and otherwise the word `other`.

    Attributes:
        share: float32 [N_w].
        other: int32 [N_w].
        log_p: float32 [N_w], the words' log-probabilities, nats.
    """

    share: Array
    other: Array
    log_p: Array


def unigram(counts: NDArray[np.int64], power: float) -> Noise:
    """Return P(w) ∝ max(count_w, 1)^power; a power of 0 is uniform.

    Args:
        counts: [N_w], of the training text.
    """
    weights = np.maximum(counts, 1).astype(np.float64) ** power
    p = weights / weights.sum()
    share, other = p * len(p), np.arange(len(p))
    small, large = (list(np.flatnonzero(chosen)) for chosen in (share < 1, share >= 1))
    while small and large:
        one, giver = small.pop(), large[-1]
        other[one] = giver
        share[giver] -= 1 - share[one]
        if share[giver] < 1:
            small.append(large.pop())
    share[small + large] = 1.0  # but for rounding
    tables = share.astype(np.float32), other.astype(np.int32), np.log(p).astype(np.float32)
    return Noise(*jax.device_put(tables))


def draw(noise: Noise, key: Array, number: Array) -> Array:
    """Draw words, the `number`-th of each key: int32 [...].

    Args:
        noise: distribution over words.
        key: [...].
        number: int32, broadcast with key.
    """
    place = integer(key, 2 * number, len(noise.share))
    return jnp.where(uniform(key, 2 * number + 1) < noise.share[place], place, noise.other[place])
