"""Examples of recurrent models: windows of consecutive events, in the order of the text."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxlm.objectives import sampled
from jaxlm.objectives.noise import unigram


class Windows(NamedTuple):
    """A text in windows: the word before each event, the word itself, and whether a line begins with it, [N, T].

    After the text's end the word is -1. drawn: for a sampled objective, what noise is drawn from; of a minibatch the
    `Source`, and in a step the noise, `Drawn`.
    """

    before: Array
    word: Array
    first: Array
    drawn: Any = None


def texts(config: Any, eos: int) -> Callable[[np.ndarray], Windows]:
    """Return a function from ids, int32 [events], to their windows; before the text there is a line end."""

    def cut(column: np.ndarray, fill: int) -> Array:
        padded = np.pad(column, (0, -len(column) % config.window), constant_values=fill)
        return jax.device_put(padded.reshape(-1, config.window))

    def windows(ids: np.ndarray) -> Windows:
        ids = np.asarray(ids, np.int32)
        before = np.append(np.int32(eos), ids)[: len(ids)]
        source = None
        if sampled.is_sampled(config):
            source = unigram(np.bincount(ids, minlength=config.num_words), config.noise_power)
        return Windows(cut(before, 0), cut(ids, -1), cut(before == eos, False), source)

    return windows


def gather(data: Windows, index: Array, capacity: int, config: Any) -> Windows:
    """Return the windows `index`, int32 [B], of a text."""
    before, word, first = (x[index] for x in data[:3])
    if data.drawn is None:
        return Windows(before, word, first)
    number = index[:, None] * config.window + jnp.arange(config.window, dtype=jnp.int32)[None]
    return Windows(before, word, first, sampled.Source(data.drawn, number))


def with_noise(batch: Windows, key: Array, fraction: Array, config: Any) -> Windows:
    """Draw the noise of a step with a sampled objective."""
    return batch._replace(drawn=sampled.draw(batch.drawn, jnp.maximum(batch.word, 0), key, config))


def num_windows(data: Windows) -> int:
    """Return the number of windows of a text."""
    return len(data.word)


def num_events(data: Windows) -> int:
    """Return the number of events of a text."""
    return int(np.sum(np.asarray(data.word) >= 0))
