"""Words in two levels: a softmax over classes of words, then one over the words of the class.

P(w) = P(c(w)) P(w | c(w)), with P(c) ∝ exp(z·q_c + a_c) over the classes, and P(w | c) ∝ exp(z·v_w + b_w) over the
words of one class. A class is a range of ids, which are in the order of decreasing frequency.

Source: Goodman 2001; Mikolov, Kombrink, Burget, Černocký and Khudanpur 2011, §3.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.bucketing import spread


class Members(NamedTuple):
    """The words of the classes of a minibatch's next words, laid flat: int32 [n].

    owner: which next word (B: padding); word: a word of its class.
    """

    owner: Array
    word: Array


def cut(counts: NDArray[np.int64], number: int, by_frequency: bool) -> tuple[int, ...]:
    """Return the end of each class's range of ids: classes of about equal frequency, or of equal size.

    counts: [N_w], of the training text, by decreasing frequency. There are fewer classes where words run out.
    """
    N_w = len(counts)
    number = min(number, N_w)
    if not by_frequency:
        return tuple((np.arange(1, number + 1) * N_w // number).tolist())
    share = np.cumsum(np.maximum(counts, 1)) / np.maximum(counts, 1).sum()
    ends = np.searchsorted(share, np.arange(1, number) / number) + 1
    return (*np.unique(ends[ends < N_w]).tolist(), N_w)


def of_words(ends: tuple[int, ...], words: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return the classes of words."""
    return np.searchsorted(np.array(ends), words, side="right").astype(np.int32)


def sizes(ends: tuple[int, ...]) -> NDArray[np.int32]:
    """Return the number of words of each class."""
    return np.diff(ends, prepend=0).astype(np.int32)


def members(ends: tuple[int, ...], word: Array, capacity: int) -> Members:
    """Gather the words of the classes of next words, int32 [B], into `capacity` entries."""
    start = jnp.asarray(np.array([0, *ends], np.int32))
    owner, found, real = spread(start, _class_of(ends, word), max(1, capacity))
    return Members(jnp.where(real, owner, len(word)), found)


def nll(V: Array, b: Array, Q: Array, a: Array, z: Array, word: Array, found: Members, ends: tuple[int, ...]) -> Array:
    """Compute -log P of next words, int32 [B], in nats: [B].

    V: [N_w, D]; b: [N_w]; Q: [C, D]; a: [C]; z: [B, D]; found: of `members`.
    """
    B = len(z)
    owner = jnp.minimum(found.owner, B - 1)
    with jax.named_scope("classes"):
        of_class = jax.nn.log_softmax(z @ Q.T + a[None], axis=1)
        chosen = jnp.take_along_axis(of_class, _class_of(ends, word)[:, None], axis=1)[:, 0]
    scores = jnp.sum(V[found.word] * z[owner], axis=1) + b[found.word]
    top = jax.lax.stop_gradient(jax.ops.segment_max(scores, found.owner, B + 1, indices_are_sorted=True))
    powers = jnp.exp(scores - top[found.owner])
    log_sum = jnp.log(jax.ops.segment_sum(powers, found.owner, B + 1, indices_are_sorted=True)) + top
    return log_sum[:B] - (jnp.sum(V[word] * z, axis=1) + b[word]) - chosen


def log_prob(V: Array, b: Array, Q: Array, a: Array, z: Array, ends: tuple[int, ...]) -> Array:
    """Compute log P of every word: z [D] -> [N_w], nats."""
    of_word = jnp.asarray(of_words(ends, np.arange(ends[-1])))
    scores = V @ z + b
    top = jax.lax.stop_gradient(jax.ops.segment_max(scores, of_word, len(ends), indices_are_sorted=True))
    powers = jnp.exp(scores - top[of_word])
    log_sum = jnp.log(jax.ops.segment_sum(powers, of_word, len(ends), indices_are_sorted=True)) + top
    return jax.nn.log_softmax(Q @ z + a)[of_word] + scores - log_sum[of_word]


def _class_of(ends: tuple[int, ...], word: Array) -> Array:
    return jnp.searchsorted(jnp.asarray(np.array(ends, np.int32)), word, side="right").astype(jnp.int32)
