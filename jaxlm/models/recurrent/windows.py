"""Examples of recurrent models: windows of consecutive events, in the order of the text."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxlm.objectives import output
from jaxlm.topics import Topics, mixtures
from jaxlm.trees.paths import Tree


class Windows(NamedTuple):
    """A text in windows; past its end the word is -1.

    Attributes:
        before: int32 [N, T], the word before each event.
        word: int32 [N, T], the event itself.
        first: bool [N, T], whether a line begins with the event.
        aux: auxiliary data of a minibatch for the objective (`output.aux_of`).
        topics: float32 [N, T, K], the mixture of topics before each event, for models with topics.
    """

    before: Array
    word: Array
    first: Array
    aux: Any = None
    topics: Array | None = None


def texts(
    config: Any, eos: int, structure: Tree | Topics | None = None
) -> Callable[[np.ndarray], Windows | output.Data]:
    """Return a function from ids, int32 [events], to their windows; before the text there is a line end.

    Args:
        structure: the model's tree or topics, if any.
    """
    codes = output.codes(structure if isinstance(structure, Tree) else None)

    def cut(column: np.ndarray, fill: int) -> np.ndarray:
        missing = [(0, -len(column) % config.window)] + [(0, 0)] * (column.ndim - 1)
        return np.pad(column, missing, constant_values=fill).reshape(-1, config.window, *column.shape[1:])

    def windows(ids: np.ndarray) -> Windows | output.Data:
        before = np.append(np.int32(eos), ids)[: len(ids)].astype(np.int32)
        words = cut(np.asarray(ids, np.int32), -1)
        text = Windows(*jax.device_put((cut(before, 0), words, cut(before == eos, False))))
        if isinstance(structure, Topics):
            found = mixtures(structure, ids, eos, config, config.across_lines)
            text = text._replace(topics=jax.device_put(cut(found, 0)))
        return output.data(text, words, config, codes())

    return windows


def gather(data: Windows | output.Data, index: Array, capacity: int, config: Any) -> Windows:
    """Return the windows `index`, int32 [B], of a text."""
    if isinstance(data, output.Data):
        plain = gather(data.text, index, 0, config)
        number = index[:, None] * config.window + jnp.arange(config.window, dtype=jnp.int32)[None]
        return plain._replace(aux=output.aux_of(data, plain.word, number, 0))
    return jax.tree.map(lambda x: x[index], data)


def with_topics(vectors: Array, mixtures: Array | None) -> Array:
    """Return what the first layer reads at each event: vectors of words, [..., N_f], or with topics [..., N_f + K]."""
    return vectors if mixtures is None else jnp.concatenate([vectors, mixtures], axis=-1)


def num_windows(data: Windows | output.Data) -> int:
    """Return the number of windows of a text."""
    return len(_plain(data).word)


def num_events(data: Windows | output.Data) -> int:
    """Return the number of events of a text."""
    return int(np.sum(np.asarray(_plain(data).word) >= 0))


def _plain(data: Windows | output.Data) -> Windows:
    return data.text if isinstance(data, output.Data) else data
