"""A text divided into documents, which are groups of consecutive lines, and minibatches of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.minibatches.bucketing import capacity_step, spread
from jaxlm.data.contexts import Text, gather_contexts, text_of
from jaxlm.objectives import output
from jaxlm.trees.paths import Tree


class Grouped(NamedTuple):
    """A text divided into documents: document i has the events start[i] … start[i + 1] - 1.

    Texts of similar length share a compiled program, as those of `Text` do.

    Attributes:
        text: the events.
        start: int32 [capacity], at least documents + 1 entries; those that follow are of empty documents.
        documents: int32 scalar, the number of documents.
    """

    text: Text
    start: Array
    documents: Array | np.int32


class Batch(NamedTuple):
    """The events of a minibatch of B documents, laid flat.

    Attributes:
        context: int32 [n, c], the words before each event, oldest first.
        word: int32 [n], -1 for padding.
        owner: int32 [n], the event's document within the minibatch, B for padding.
        earlier: int32 [n], the number of events before it in its document.
        length: int32 [B], the number of events of each document.
        aux: auxiliary data for the objective (`jaxlm.objectives.output.aux_of`).
    """

    context: Array
    word: Array
    owner: Array
    earlier: Array
    length: Array
    aux: Any = None


def texts(config: Any, eos: int, tree: Tree | None = None) -> Callable[[np.ndarray], Grouped | output.Data]:
    """Return a function from ids, int32 [events], to a text in documents.

    Args:
        config: of the model (`jaxlm.models.docnade_lm.model`).
        eos: id of the line end.
        tree: the model's tree, if any.
    """
    codes = output.codes(tree)

    def grouped(ids: np.ndarray) -> Grouped | output.Data:
        start = np.unique([0, *document_ends(ids, eos, config.group_lines), len(ids)]).astype(np.int32)
        padded = np.pad(start, (0, capacity_step(len(start)) - len(start)), mode="edge")
        text = Grouped(text_of(ids, eos), jax.device_put(padded), np.int32(len(start) - 1))
        return output.data(text, ids, config, codes())

    return grouped


def document_ends(ids: np.ndarray, eos: int, group_lines: int) -> NDArray[np.int64]:
    """Return the number of events up to the end of each complete document of a text."""
    return np.flatnonzero(ids == eos)[group_lines - 1 :: group_lines] + 1


def gather(data: Grouped | output.Data, index: Array, capacity: int, config: Any) -> Batch:
    """Gather the documents `index`, int32 [B], into `capacity` events."""
    text, start, _ = _grouped(data)
    owner, place, real = spread(start, index, capacity)
    context, word = gather_contexts(text, place, config.context_size, config.across_lines)
    word = jnp.where(real, word, -1)
    earlier = jnp.where(real, place - start[jnp.take(index, owner, mode="clip")], 0)
    aux = output.aux_of(data, word, place, 0) if isinstance(data, output.Data) else None
    return Batch(context, word, owner, earlier, start[index + 1] - start[index], aux)


def _grouped(data: Grouped | output.Data) -> Grouped:
    return data.text if isinstance(data, output.Data) else data


def num_documents(data: Grouped | output.Data) -> int:
    """Return the number of documents of a text."""
    return int(_grouped(data).documents)


def num_events(data: Grouped | output.Data) -> int:
    """Return the number of events of a text."""
    return int(_grouped(data).text.events)


def costs(data: Grouped | output.Data) -> NDArray[np.int32]:
    """Return the events of each document, int32 [documents], for `Ragged`."""
    return np.diff(np.asarray(_grouped(data).start))[: num_documents(data)]
