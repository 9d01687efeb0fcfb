"""Words in two levels: a softmax over classes of words, then one over the words of the class.

P(w) = P(c(w)) P(w | c(w)), with P(c) ∝ exp(z·q_c + a_c) over the classes, and P(w | c) ∝ exp(z·v_w + b_w) over the
words of one class. A class is a range of ids, which are in the order of decreasing frequency.

A word is scored only against the words of its class, by matrix products: the examples of a minibatch are sorted by
class, and the examples and the words of each class that occurs are cut into tiles. As the number of tiles depends on
the minibatch, a loop takes some at a time. The gradient is computed together with the value, and no scores are stored.

Source: Goodman 2001; Mikolov, Kombrink, Burget, Černocký and Khudanpur 2011, §3.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from jaxfit.devices.platform import platform
from jaxfit.devices.sharding import varying_alike
from jaxlm.objectives.promotion import promoted
from jaxlm.objectives.segments import segment_logsumexp
from jaxlm.objectives.softmax import logit

EXAMPLES, WORDS = 16, 64  # of a tile
ON_CPU, ELSEWHERE = 8, 256  # tiles at a time
Carry = TypeVar("Carry")


class Tiles(NamedTuple):
    """Tiles of examples, sorted by class, by words of the class.

    Attributes:
        example: int32 [n], the index of the tile's first example in that order.
        own_example: bool [n, EXAMPLES], which of the tile's examples are in its class.
        word: int32 [n], the tile's first word.
        own_word: bool [n, WORDS], which of the tile's words are in its class.
    """

    example: Array
    own_example: Array
    word: Array
    own_word: Array

    def take_examples(self, x: Array) -> Array:
        """Return the examples of each tile: [B, …], sorted by class -> [n, EXAMPLES, …]."""
        return _windows(x, self.example, self.own_example.shape[1])

    def take_words(self, x: Array) -> Array:
        """Return the words of each tile: [N_w, …] -> [n, WORDS, …]."""
        return _windows(x, self.word, self.own_word.shape[1])


def cut(counts: NDArray[np.int64], number: int, by_frequency: bool) -> tuple[int, ...]:
    """Return the end of each class's range of ids, for classes of about equal frequency, or of equal size.

    There are fewer classes than `number` if single words are as frequent as a class should be, or words are too few.

    Args:
        counts: [N_w], of the training text, by decreasing frequency.
        number: number of classes.
        by_frequency: whether classes are of about equal frequency.
    """
    N_w = len(counts)
    number = min(number, N_w)
    if not by_frequency:
        return tuple((np.arange(1, number + 1) * N_w // number).tolist())
    share = np.cumsum(np.maximum(counts, 1)) / np.maximum(counts, 1).sum()
    ends = np.searchsorted(share, np.arange(1, number) / number) + 1
    return (*np.unique(ends[ends < N_w]).tolist(), N_w)


def of_words(ends: tuple[int, ...], words: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return the classes of words, int32, like `words`."""
    return np.searchsorted(np.array(ends), words, side="right").astype(np.int32)


def sum_nll(
    V: Array, b: Array, Q: Array, a: Array, z: Array, word: Array, weight: Array, ends: tuple[int, ...]
) -> Array:
    """Compute Σ_i weight_i (-log P(word_i)), in nats.

    The other arguments are as in `nll`.

    Args:
        weight: [B].
    """
    within = _sum_log_normalizer(*_alike(V, b, z, weight, word=word), word, ends)
    return within - weight @ (logit(V, b, z, word) + _log_prob_of_class(Q, a, z, word, ends))


def nll(V: Array, b: Array, Q: Array, a: Array, z: Array, word: Array, ends: tuple[int, ...]) -> Array:
    """Compute -log P of next words, in nats: [B]. Not made for differentiation: see `sum_nll`.

    Args:
        V: [N_w, D], vectors of words.
        b: [N_w], biases of words.
        Q: [C, D], vectors of classes.
        a: [C], biases of classes.
        z: [B, D].
        word: the next words, int32 [B].
        ends: from `cut`.
    """
    order = _order(ends, word)
    V_alike, b_alike, z_in_order = _alike(V, b, z[order], word=word)
    log_Z = _log_normalizer(V_alike, b_alike, z_in_order, word, ends)
    within = jnp.zeros_like(log_Z).at[order].set(log_Z) - logit(V, b, z, word)
    return within - _log_prob_of_class(Q, a, z, word, ends)


def log_prob(V: Array, b: Array, Q: Array, a: Array, z: Array, ends: tuple[int, ...]) -> Array:
    """Compute log P of every word: [N_w], nats; the other arguments are as in `nll`.

    Args:
        z: [D].
    """
    of_word = jnp.asarray(of_words(ends, np.arange(ends[-1])))
    scores = V @ z + b
    log_Z = segment_logsumexp(scores, of_word, len(ends))
    return jax.nn.log_softmax(Q @ z + a)[of_word] + scores - log_Z[of_word]


def _class_of(ends: tuple[int, ...], word: Array) -> Array:
    return jnp.searchsorted(jnp.asarray(np.array(ends, np.int32)), word, side="right").astype(jnp.int32)


def _alike(*arrays: Array, word: Array) -> list[Array]:
    """Return arrays of one float type that vary over the same axes, with those of `word`."""
    return varying_alike(*promoted(*arrays), word)[:-1]


def _order(ends: tuple[int, ...], word: Array) -> Array:
    """Return the indices of the examples, sorted by the classes of their next words: int32 [B]."""
    return jnp.argsort(_class_of(ends, word), stable=True)


@jax.named_scope("classes")
def _log_prob_of_class(Q: Array, a: Array, z: Array, word: Array, ends: tuple[int, ...]) -> Array:
    of_class = jax.nn.log_softmax(z @ Q.T + a[None], axis=1)
    return jnp.take_along_axis(of_class, _class_of(ends, word)[:, None], axis=1)[:, 0]


def _over_tiles(ends: tuple[int, ...], word: Array, step: Callable[[Tiles, Carry], Carry], begin: Carry) -> Carry:
    """Fold `step` over all tiles of a minibatch, some at a time.

    The trip count is traced: the most tiles that there could be are many times those that there are.
    """
    at_a_time = ON_CPU if platform() == "cpu" else ELSEWHERE
    num_examples, num_words = min(EXAMPLES, len(word)), min(WORDS, ends[-1])
    # runs of words, each of one class
    start = [np.arange(first, end, num_words, dtype=np.int32) for first, end in pairwise((0, *ends))]
    of_run = jnp.asarray(np.repeat(np.arange(len(ends), dtype=np.int32), [len(runs) for runs in start]))
    run_start, class_end = jnp.asarray(np.concatenate(start)), jnp.asarray(np.array(ends, np.int32))
    in_class = jnp.zeros(len(ends), jnp.int32).at[_class_of(ends, word)].add(1)
    last = jnp.cumsum(in_class)  # where the examples of a class end
    deep = -(-in_class // num_examples)  # tiles, of each run of a class
    until = jnp.cumsum(deep[of_run])

    def some(i: Array, carry: Carry) -> Carry:
        number = i * at_a_time + jnp.arange(at_a_time, dtype=jnp.int32)
        run = jnp.minimum(jnp.searchsorted(until, number, side="right"), len(until) - 1)
        k = of_run[run]
        place = number - (until[run] - deep[k])
        # past the last tile there are no examples left
        first_example = (last - in_class)[k] + place * num_examples
        first_word = run_start[run]
        # at the end of the examples, or of the words, a tile begins earlier, and some of it is not its own
        example = jnp.minimum(first_example, len(word) - num_examples)
        first_of_tile = jnp.minimum(first_word, ends[-1] - num_words)
        examples = example[:, None] + jnp.arange(num_examples)[None]
        words = first_of_tile[:, None] + jnp.arange(num_words)[None]
        own_example = (examples >= first_example[:, None]) & (examples < last[k][:, None])
        own_word = (words >= first_word[:, None]) & (words < class_end[k][:, None])
        return step(Tiles(example, own_example, first_of_tile, own_word), carry)

    return lax.fori_loop(0, -(-until[-1] // at_a_time), some, begin)


def _windows(x: Array, start: Array, size: int) -> Array:
    """Return the rows start[i] … start[i] + size - 1 of x, for each i: [n, size, …]."""
    return jax.vmap(lambda first: lax.dynamic_slice_in_dim(x, first, size))(start)


def _add_windows(x: Array, start: Array, windows: Array) -> Array:
    """Add windows, [n, size, …], to the rows of x from start[i] on."""
    dims = lax.ScatterDimensionNumbers(tuple(range(1, windows.ndim)), (), (0,))
    return lax.scatter_add(x, start[:, None], windows, dims)


def _scores(V: Array, b: Array, z: Array, tiles: Tiles) -> Array:
    """Score a tile's words by its examples: [n, EXAMPLES, WORDS], -inf for words of other classes."""
    scores = jnp.einsum("ned,nwd->new", tiles.take_examples(z), tiles.take_words(V)) + tiles.take_words(b)[:, None]
    return jnp.where(tiles.own_word[:, None], scores, -jnp.inf)


@jax.named_scope("classes")
def _log_normalizer(V: Array, b: Array, z: Array, word: Array, ends: tuple[int, ...]) -> Array:
    """Compute log Σ_j exp(z·v_j + b_j) over the words of the class, [B]; it and z, [B, D], in the order of classes."""

    def step(tiles: Tiles, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        top, total = carry  # the largest score so far, and the sum of exponentials relative to it
        scores = _scores(V, b, z, tiles)
        place = tiles.example[:, None] + jnp.arange(scores.shape[1])[None]
        place = jnp.where(tiles.own_example, place, len(z))
        new = top.at[place].max(jnp.max(scores, axis=2), mode="drop")
        powers = jnp.sum(jnp.exp(scores - tiles.take_examples(new)[:, :, None]), axis=2)
        return new, (total * jnp.exp(top - new)).at[place].add(powers, mode="drop")

    lowest = jnp.full(len(z), jnp.finfo(z.dtype).min, z.dtype)
    top, total = _over_tiles(ends, word, step, tuple(varying_alike(lowest, jnp.zeros_like(lowest), z)[:2]))
    return top + jnp.log(total)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def _sum_log_normalizer(V: Array, b: Array, z: Array, weight: Array, word: Array, ends: tuple[int, ...]) -> Array:
    """Σ_i weight_i log Σ_j exp(z_i·v_j + b_j), over the words j of the class of word_i."""
    order = _order(ends, word)
    return weight[order] @ _log_normalizer(V, b, z[order], word, ends)


@jax.named_scope("classes")
def _forward(
    V: Array, b: Array, z: Array, weight: Array, word: Array, ends: tuple[int, ...]
) -> tuple[Array, tuple[Array, ...]]:
    order = _order(ends, word)
    in_order, weight_in_order = z[order], weight[order]
    log_Z = _log_normalizer(V, b, in_order, word, ends)

    def step(tiles: Tiles, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        dV, db, dz = carry
        p = jnp.exp(_scores(V, b, in_order, tiles) - tiles.take_examples(log_Z)[:, :, None])
        p = jnp.where(tiles.own_example[:, :, None], p * tiles.take_examples(weight_in_order)[:, :, None], 0)
        dV = _add_windows(dV, tiles.word, jnp.einsum("new,ned->nwd", p, tiles.take_examples(in_order)))
        db = _add_windows(db, tiles.word, jnp.sum(p, axis=1))
        return dV, db, _add_windows(dz, tiles.example, jnp.einsum("new,nwd->ned", p, tiles.take_words(V)))

    zeros = (jnp.zeros_like(x) for x in (V, b, z))
    dV, db, dz = _over_tiles(ends, word, step, tuple(varying_alike(*zeros, in_order)[:3]))
    unordered = [jnp.zeros_like(x).at[order].set(x) for x in (dz, log_Z)]
    return weight_in_order @ log_Z, (dV, db, *unordered)


def _backward(ends: tuple[int, ...], gradient: tuple[Array, ...], g: Array) -> tuple[Array | None, ...]:
    return (*(g * part for part in gradient), None)


_sum_log_normalizer.defvjp(_forward, _backward)
