"""Blocks of consecutive words, each with a window of words around it: examples of models that predict words from these.

A word of the text is the centre of one window and occurs in those of its neighbours. An example is a block of
consecutive centres, so that the vectors of its words are read, and their gradients written, once for all its windows.

Before each epoch, occurrences of frequent words are left out, which lets windows reach further. Some models also draw
the width of each window, 1 to c words on each side, so that near words count more (Mikolov et al. 2013b, §2.3; 2013a,
§3.2).

Differs: `<unk>` is a word like others, where the authors' programs leave out words that are not in the vocabulary.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.draws import integer, uniform
from jaxfit.errors import UserError
from jaxfit.minibatches.bucketing import capacity_step
from jaxfit.program import Mean, Metric, Metrics, Program
from jaxfit.tables import gathered
from jaxlm.data.corpus import counts_beside_others, word_counts
from jaxlm.objectives.noise import Noise, draw, unigram
from jaxlm.objectives.sampled import Source


class Data(NamedTuple):
    """A text without its line ends, or a part of it that was drawn for an epoch.

    Attributes:
        words: int32 [c + positions + c]: c zeros, the words, then zeros; the positions are a whole number of blocks.
        left, right: int8 [blocks, M], the number of words on each side in the window of the word at a position; -1 past
            the last word.
        events: int32 scalar, the number of words.
        noise: distribution of noise words, by the frequencies of this text; None for an objective without noise.
        codes: codes of words in a tree; None for an objective without a tree.
    """

    words: Any
    left: Any
    right: Any
    events: Any
    noise: Noise | None
    codes: Any


class Blocks(NamedTuple):
    """A minibatch: B blocks of M centres.

    Attributes:
        words: int32 [B, c + M + c].
        left, right: int8 [B, M], as in `Data`.
        aux: auxiliary data for the objective: noise, or the paths of words in a tree.
    """

    words: Array
    left: Array
    right: Array
    aux: Any


def data(ids: NDArray[np.int32], eos: int, config: Any, codes: Any) -> Data:
    """Lay out a text with all its words and windows of full width; windows end with a line unless they may cross lines.

    Args:
        ids: int32 [events].
        eos: id of the line end.
        config: of the model.
        codes: of the words in a tree; None for an objective that draws noise.

    Raises:
        UserError: no two words of the text are near one another.
    """
    words = ids[ids != eos]
    ends = np.cumsum(ids == eos)[ids != eos] * (not config.across_lines)
    if len(words) < 2 or not np.any(ends[1:] == ends[:-1]):
        do = "give longer lines, or --context-across-lines" if len(words) > 1 else "give a longer text"
        raise UserError("the text has no two words near one another", do=do)
    noise = None
    if codes is None:
        noise = unigram(np.bincount(words, minlength=config.num_words), config.noise_power)
    capacity = -(-capacity_step(len(words)) // config.block_size) * config.block_size
    laid_out = _laid_out(words, ends, np.full(len(words), config.window), capacity, config)
    return laid_out._replace(noise=noise, codes=codes)


def counts(ids: NDArray[np.int32], eos: int, config: Any) -> NDArray[np.int64]:
    """Return how often each word of a text is in a window: int64 [N_w], 0 for line ends."""
    if config.across_lines:
        return word_counts(ids[ids != eos], config.num_words)
    return counts_beside_others(ids, config.num_words, eos)


def _laid_out(words: NDArray, line: NDArray, radius: NDArray, capacity: int, config: Any) -> Data:
    """Lay out words, given the non-decreasing numbers of their lines and the radii of their windows."""
    c, number = config.window, len(words)
    starts = np.flatnonzero(np.diff(line, prepend=-1)).astype(np.int32)
    lengths = np.diff(starts, append=np.int32(number))
    place = np.arange(number, dtype=np.int32)
    padded = np.zeros(c + capacity + c, np.int32)
    padded[c : c + number] = words
    sides = np.full((2, capacity), -1, np.int8)
    sides[0, :number] = np.minimum(radius, place - np.repeat(starts, lengths))
    sides[1, :number] = np.minimum(radius, np.repeat(starts + lengths - 1, lengths) - place)
    padded, left, right = jax.device_put((padded, *sides.reshape(2, -1, config.block_size)))
    return Data(padded, left, right, np.int32(number), None, None)


def kept_share(counts: NDArray[np.int64], threshold: float) -> NDArray[np.float64]:
    """Return the share of each word's occurrences that is kept, [N_w]: 1 for rare words.

    With f the word's share of the text, it is sqrt(t/f) + t/f, as in the authors' program; the paper has sqrt(t/f).
    """
    if not threshold:
        return np.ones(len(counts))
    ratio = threshold * counts.sum() / np.maximum(counts, 1)
    return np.minimum(1, np.sqrt(ratio) + ratio)


def log_kept(counts: NDArray[np.int64], eos: int, config: Any) -> NDArray[np.float64]:
    """Return the logarithm of `kept_share` of each word, [N_w].

    Args:
        counts: [N_w], including those of line ends, which are left out.
        eos: id of the line end.
        config: of the model, with the threshold `subsample`.
    """
    return np.log(kept_share(np.where(np.arange(len(counts)) == eos, 0, counts), config.subsample))


def redraw(original: Data, key: Array, config: Any) -> Data:
    """Draw an epoch's words and windows from a text laid out by `data`: `Program.redraw`."""
    c, number = config.window, int(original.events)
    words = np.asarray(original.words[c : c + number])
    line = np.cumsum(np.ravel(original.left)[:number] == 0, dtype=np.int32)
    share = kept_share(np.bincount(words, minlength=config.num_words), config.subsample)
    drawn, radius = _draws(key, number, c)
    if not config.draws_widths:
        radius = np.full(number, c)
    kept = np.flatnonzero(np.asarray(drawn) < share.astype(np.float32)[words])
    if not len(kept):
        kept = np.zeros(1, np.int64)
    laid_out = _laid_out(words[kept], line[kept], np.asarray(radius)[kept], np.size(original.left), config)
    return laid_out._replace(noise=original.noise, codes=original.codes)


@partial(jax.jit, static_argnums=(1, 2))
def _draws(key: Array, number: int, window: int) -> tuple[Array, Array]:
    place = jnp.arange(number, dtype=jnp.int32)
    one, other = jax.random.split(key)
    return uniform(one, place), 1 + integer(other, place, window)


def num_blocks(data: Data) -> int:
    """Return the number of examples."""
    return -(-int(data.events) // data.left.shape[1])


def num_words(data: Data) -> int:
    """Return the number of words."""
    return int(data.events)


def gather(data: Data, index: Array, config: Any) -> tuple[Array, Array, Array]:
    """Gather the words and the windows of the blocks `index`, int32 [B]: `Blocks` without its aux."""
    c, M = config.window, config.block_size
    first = index[:, None] * M
    words = data.words[first + jnp.arange(M + 2 * c, dtype=jnp.int32)[None]]
    return words, data.left[index], data.right[index]


def draw_noise(source: Source, key: Array, number: int) -> Array:
    """Draw `number` noise words for each block: int32 [B, number].

    Args:
        source: distribution of noise, and the indices of the blocks.
        key: of the step, equal on all devices.
        number: of noise words.
    """
    place = source.number[:, None] * number + jnp.arange(number, dtype=jnp.int32)[None]
    return draw(source.noise, key, place)


def centres(batch: Blocks, config: Any) -> Array:
    """Return the words at the centres of windows: int32 [B, M]."""
    return batch.words[:, config.window : config.window + config.block_size]


def offsets(window: int) -> list[int]:
    """Return the offsets of a window's words from its centre: -c … -1, 1 … c."""
    return [d for d in range(-window, window + 1) if d]


def holds(left: Array, right: Array, offset: Any) -> Array:
    """Return whether windows hold the word at an offset from their centres, broadcasting."""
    return (-left <= offset) & (offset <= right) & (offset != 0)


def window_sizes(batch: Blocks) -> Array:
    """Return the number of words in each window: int32 [B, M], 0 past the last word of the text."""
    return jnp.where(batch.left < 0, 0, batch.left.astype(jnp.int32) + batch.right)


def band(batch: Blocks, config: Any) -> Array:
    """Return which of a block's words are in the window of each of its centres: bool [B, M, c + M + c]."""
    M, c = config.block_size, config.window
    offset = jnp.arange(M + 2 * c)[None] - c - jnp.arange(M)[:, None]
    left, right = (side.astype(jnp.int32)[:, :, None] for side in (batch.left, batch.right))
    return holds(left, right, offset[None])


# a program over blocks; the last epoch is the result, as vectors are judged by other tasks than predicting words
block_program = partial(Program, size=num_blocks, events=num_words, redraw=redraw, result="last")


def read(params: Any, batch: Blocks, program: Program) -> tuple[Any, Blocks]:
    """Gather the parameter rows of blocks, and draw their noise, if any, the same each time; return both."""
    assert program.sparse is not None
    if program.at_step is not None:
        batch = program.at_step(batch, jax.random.key(0), jnp.zeros(()), program.config)
    return gathered(params, program.sparse.touched(batch, program.config)).rows, batch


def weighted(nats: Array, batch: Blocks, weight: Array, metric: Metric) -> tuple[Array, Metrics]:
    """Return the sum of weight * nats over blocks, [B] each, and as metric their mean over the blocks' words."""
    total = weight @ nats
    return total, {metric.name: Mean(total, weight @ jnp.sum(batch.left >= 0, axis=1, dtype=jnp.float32))}
