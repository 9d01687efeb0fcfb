"""Examples of recurrent models: windows of consecutive events, in the order of the text."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxlm.objectives import output
from jaxlm.trees.paths import Tree


class Windows(NamedTuple):
    """A text in windows: the word before each event, the word itself, and whether a line begins with it, [N, T].

    After the text's end the word is -1. aid: of a minibatch, what its objective needs (`output.begun`).
    """

    before: Array
    word: Array
    first: Array
    aid: Any = None


def texts(config: Any, eos: int, tree: Tree | None = None) -> Callable[[np.ndarray], Windows | output.Data]:
    """Return a function from ids, int32 [events], to their windows; before the text there is a line end.

    tree: of models with the objective `tree`.
    """
    codes = output.codes(tree)

    def cut(column: np.ndarray, fill: int) -> np.ndarray:
        return np.pad(column, (0, -len(column) % config.window), constant_values=fill).reshape(-1, config.window)

    def windows(ids: np.ndarray) -> Windows | output.Data:
        before = np.append(np.int32(eos), ids)[: len(ids)].astype(np.int32)
        words = cut(np.asarray(ids, np.int32), -1)
        text = Windows(*jax.device_put((cut(before, 0), words, cut(before == eos, False))))
        return output.data(text, words, config, codes())

    return windows


def gather(data: Windows | output.Data, index: Array, capacity: int, config: Any) -> Windows:
    """Return the windows `index`, int32 [B], of a text."""
    if isinstance(data, output.Data):
        plain = gather(data.text, index, 0, config)
        number = index[:, None] * config.window + jnp.arange(config.window, dtype=jnp.int32)[None]
        return plain._replace(aid=output.begun(data, plain.word, number, 0, config))
    return Windows(*(x[index] for x in data[:3]))


def num_windows(data: Windows | output.Data) -> int:
    """Return the number of windows of a text."""
    return len(_plain(data).word)


def num_events(data: Windows | output.Data) -> int:
    """Return the number of events of a text."""
    return int(np.sum(np.asarray(_plain(data).word) >= 0))


def _plain(data: Windows | output.Data) -> Windows:
    return data.text if isinstance(data, output.Data) else data
