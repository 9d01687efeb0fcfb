"""Documents as sequences of words, in drawn orders, on the device, and minibatches of them laid flat.

A bag of words has no order; a model that predicts its words one after another is trained on orders drawn anew for each
epoch, and scored on orders that are drawn once (Lauly et al. 2017, §2.2.1).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.draws import integer
from jaxfit.minibatches.bucketing import capacity_step, spread
from jaxfit.recipe import INT32_MAX
from jaxlm.data.documents.collection import Documents

SPAN = 32  # words that are summed by a product


class Ordered(NamedTuple):
    """Documents' words, end to end: document i has the words offsets[i] … offsets[i+1]-1.

    Attributes:
        offsets: int32 [documents + 1].
        word: int32 [capacity], at least the number of words.
    """

    offsets: Any
    word: Any


class Words(NamedTuple):
    """The words of a minibatch of B documents, laid flat.

    Attributes:
        owner: int32 [n], the word's document within the minibatch, B for padding.
        word: int32 [n], N_w for padding.
        length: int32 [B], the number of words of each document.
    """

    owner: Array
    word: Array
    length: Array


def ordered(documents: Documents, key: Array) -> Ordered:
    """Lay out the words of documents, those of each document in an order drawn by key."""
    offsets = np.concatenate([[0], np.cumsum(documents.lengths)]).astype(np.int32)
    word = np.repeat(documents.counts.indices.astype(np.int32), documents.counts.data)
    return redraw(Ordered(offsets, np.pad(word, (0, capacity_step(len(word)) - len(word)))), key)


def redraw(original: Ordered, key: Array) -> Ordered:
    """Return the documents with the words of each in a new order drawn by key."""
    offsets, word = np.asarray(original.offsets), np.asarray(original.word)
    number = int(offsets[-1])
    drawn = np.asarray(_draws(key, len(word)))[:number]
    document = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.argsort(document << 32 | drawn, kind="stable")
    shuffled = word.copy()
    shuffled[:number] = word[:number][order]
    return Ordered(*jax.device_put((offsets, shuffled)))


@partial(jax.jit, static_argnums=1)
def _draws(key: Array, number: int) -> Array:
    return integer(key, jnp.arange(number, dtype=jnp.int32), INT32_MAX)


def num_documents(data: Ordered) -> int:
    """Return the number of documents."""
    return int(data.offsets.shape[0]) - 1


def lengths(data: Ordered) -> NDArray[np.int64]:
    """Return the number of words of each document: int64 [documents]."""
    return np.diff(np.asarray(data.offsets)).astype(np.int64)


def gather(data: Ordered, index: Array, capacity: int, num_words: int) -> Words:
    """Gather documents into `capacity` words.

    Args:
        data: the documents.
        index: int32 [B], which documents.
        capacity: number of entries, static.
        num_words: N_w.
    """
    owner, place, real = spread(data.offsets, index, capacity)
    word = jnp.where(real, data.word.at[place].get(mode="fill"), num_words)
    return Words(owner, word, data.offsets[index + 1] - data.offsets[index])


@jax.named_scope("running_sum")
def running_sums(rows: Array, owner: Array) -> Array:
    """Sum the rows of the words before each word in its document: Σ_{k<i} rows[k], [n, D].

    It is a cumulative sum that begins afresh at each document (Eq. 7), in about 2 n D (SPAN + 1) operations: sums
    within spans of words are products, to which those of earlier spans are added. Sums of other documents are never
    subtracted, which would lose precision.

    Args:
        rows: of each word, [n, D].
        owner: each word's document, int32 [n], ascending or descending.
    """
    n, D = rows.shape
    short = -n % SPAN
    rows = jnp.pad(rows, ((0, short), (0, 0))).reshape(-1, SPAN, D)
    owner = jnp.pad(owner, (0, short), mode="edge").reshape(-1, SPAN)
    first, last = owner[:, :1], owner[:, -1:]

    def product(chosen: str, which: Array) -> Array:
        return jnp.einsum(chosen, which.astype(rows.dtype), rows)

    before = (owner[:, :, None] == owner[:, None]) & jnp.tri(SPAN, k=-1, dtype=jnp.bool_)[None]
    within, of_last = product("sij,sjd->sid", before), product("si,sid->sd", owner == last)
    goes_on = jnp.concatenate([jnp.zeros((1, 1), jnp.bool_), first[1:] == last[:-1]])

    def add(so_far: Array, span: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        """Return the sum of the last document's words up to the end of a span; of its first document's before it."""
        of_last, goes_on, of_one = span
        carried = jnp.where(goes_on, so_far, 0)
        return of_last + jnp.where(of_one, carried, 0), carried

    _, carried = jax.lax.scan(add, jnp.zeros_like(of_last[0]), (of_last, goes_on, first == last))
    total = within + jnp.where(owner == first, 1.0, 0.0)[:, :, None] * carried[:, None]
    return total.reshape(-1, D)[:n]
