"""The words that follow each context of a text, and how often: training cases of §3.4.1 (Mnih 2010).

A case is a context with the distribution of the next word after it, in place of one next word. Each event of the text
is still an example, so that contexts count as often as they occur; its target is the distribution after its context.
The distributions are stored once for each distinct context.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.minibatches.bucketing import capacity_step, spread


class NextWords(NamedTuple):
    """The distributions after the distinct contexts of a text.

    Attributes:
        context: int32 [capacity], the number of each event's context.
        start: int32 [at least contexts + 1]: the words that follow context k are word[start[k] : start[k + 1]], with
            probabilities share[start[k] : start[k + 1]].
        word: int32 [entries].
        share: float32 [entries].
    """

    context: Array
    start: Array
    word: Array
    share: Array


class Following(NamedTuple):
    """The distributions of a minibatch of B examples, laid flat.

    Attributes:
        owner: int32 [n], the example, B for padding.
        word: int32 [n].
        share: float32 [n], its probability, 0 for padding.
    """

    owner: Array
    word: Array
    share: Array


def count(contexts: NDArray[np.int32], words: NDArray[np.int32]) -> NextWords:
    """Count what follows each context of a text's events.

    Args:
        contexts: int32 [N, c].
        words: int32 [N].
    """
    _, context = np.unique(contexts, axis=0, return_inverse=True)
    context = context.reshape(-1).astype(np.int64)
    pairs, counts = np.unique(context * (words.max(initial=0) + 1) + words, return_counts=True)
    of_pair, word = np.divmod(pairs, words.max(initial=0) + 1)
    start = np.concatenate([[0], np.cumsum(np.bincount(of_pair, minlength=context.max(initial=-1) + 1))])
    share = counts / np.bincount(of_pair, counts)[of_pair]
    padded = [_padded(x, kind) for x, kind in ((context, np.int32), (word, np.int32), (share, np.float32))]
    context, word, share = jax.device_put(padded)
    return NextWords(context, jax.device_put(_padded(start, np.int32, "edge")), word, share)


def _padded(entries: NDArray, kind: type, mode: str = "constant") -> NDArray:
    """Pad to one of a few capacities, so that texts of similar size share a compiled program."""
    return np.pad(entries.astype(kind), (0, capacity_step(len(entries)) - len(entries)), mode)  # type: ignore[call-overload]


def costs(found: NextWords, events: int) -> NDArray[np.int32]:
    """Return the number of words that follow each event's context: int32 [events]."""
    return np.diff(np.asarray(found.start))[np.asarray(found.context)[:events]]


def gather(found: NextWords, index: Array, capacity: int) -> Following:
    """Gather the distributions of the events `index`, int32 [B], laid flat in `capacity` entries."""
    owner, place, real = spread(found.start, found.context[index], max(1, capacity))
    return Following(owner, found.word[place], jnp.where(real, found.share[place], 0.0))


def expected(table: Array, following: Following, number: int) -> Array:
    """Compute the expectation of rows of a table, [N_w, …], under each of `number` distributions: [number, …]."""
    share = following.share.reshape(-1, *[1] * (table.ndim - 1))
    return jax.ops.segment_sum(share * table[following.word], following.owner, number, indices_are_sorted=True)
