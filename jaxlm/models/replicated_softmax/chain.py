"""The Gibbs chains of documents of different lengths, laid flat: drawing hidden units, and D words for each document.

    p(h_j = 1 | v) = σ(D c_j + Σ_i W_{v_i j}),    p(v_i = w | h) ∝ exp(b_w + h·W_w)

Source: Lauly et al. 2017, §5 (Eq. 22-25).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxfit.draws import uniform
from jaxfit.rbm import bernoulli


class Slots(NamedTuple):
    """The places of the words of B documents, end to end in arrays of n entries.

    Attributes:
        first: int32 [B], the place of a document's first word.
        length: int32 [B], D, its number of words.
        owner: int32 [n], the document of each place, B for padding.
    """

    first: Array
    length: Array
    owner: Array


class Step(NamedTuple):
    """What a full step of block Gibbs sampling draws.

    Attributes:
        h: [B, H], the hidden units, 0 or 1.
        log_Z: [B], log Σ_w exp(b_w + h·W_w).
        word: int32 [n], the words that were drawn given h.
    """

    h: Array
    log_Z: Array
    word: Array


def slots(length: Array, capacity: int) -> Slots:
    """Lay out documents of these lengths, int32 [B], in `capacity` entries, which must suffice."""
    end = jnp.cumsum(length)
    owner = jnp.cumsum(jnp.zeros(capacity, jnp.int32).at[end].add(1, mode="drop"))
    return Slots(end - length, length, owner)


@jax.named_scope("hidden_input")
def hidden_input(params: Any, word: Array, at: Slots) -> Array:
    """Compute D c + Σ_i W_{v_i} of each document, [B, H] (Eq. 24).

    Args:
        word: int32 [n].
    """
    rows = params.W.at[word].get(mode="fill", fill_value=0)
    total = jax.ops.segment_sum(rows, at.owner, len(at.length), indices_are_sorted=True)
    return at.length.astype(rows.dtype)[:, None] * params.c[None] + total


def step(params: Any, x: Array, at: Slots, keys: Array) -> Step:
    """Draw h given the words, then words given h: a full step of block Gibbs sampling (Eq. 23-25).

    Args:
        params: taken as constants.
        x: `hidden_input` of the words, [B, H].
        at: slots of the words to draw; as many as before, except in annealing.
        keys: key [B], of the documents; the i-th word of a document is drawn by the i-th number of its key.
    """
    for_hidden, for_words = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    h = bernoulli(for_hidden, jax.nn.sigmoid(x))  # Eq. 24
    logits = params.b[None] + h @ params.W.T
    highest = jnp.max(logits, axis=1)
    below = jnp.cumsum(jnp.exp(logits - highest[:, None]), axis=1)
    own = jnp.minimum(at.owner, len(x) - 1)
    place = jnp.arange(len(own), dtype=jnp.int32) - at.first[own]
    word = inverse_cdf(below, own, uniform(for_words[own], place))  # Eq. 25
    word = jnp.where(at.owner < len(x), word, params.W.shape[0])
    return Step(h, highest + jnp.log(below[:, -1]), word)


@jax.named_scope("inverse_cdf")
def inverse_cdf(below: Array, owner: Array, u: Array) -> Array:
    """Draw from B distributions by inversion, several times from each: no array of [n, V] is needed.

    Args:
        below: cumulative sums of weights, which need not sum to one, [B, V].
        owner: the distribution of each draw, int32 [n].
        u: uniform numbers in [0, 1), [n].

    Returns:
        The first value whose cumulative sum is above u times the sum of all, int32 [n].
    """
    last = below.shape[1] - 1
    low, high = jnp.zeros_like(owner), jnp.full_like(owner, last)
    target = u * below[owner, high]
    for _ in range(last.bit_length()):  # of a binary search
        middle = (low + high) // 2
        above = target >= below[owner, middle]
        low, high = jnp.where(above, middle + 1, low), jnp.where(above, high, middle)
    return jnp.minimum(low, last)
