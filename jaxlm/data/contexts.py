"""Training examples of neural models: a context of word ids and the word that follows, gathered from a text."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxfit.errors import UserError
from jaxfit.minibatches.bucketing import capacity_step

NO_WORD = np.int32(np.iinfo(np.int32).max)  # the id where a context has no word, past those of all vocabularies


class Text(NamedTuple):
    """Events of a text, for models that predict each from the words before it.

    Attributes:
        words: int32 [capacity], the events, then `<eos>` up to one of a few capacities, so that texts of similar length
            share a compiled program; for a memory-mapped text, only the events.
        events: int32 scalar, the number of events; an array, since a static number would compile for each length.
        eos: int32 scalar, the id of the line end.
        before: int32 scalar, the id at all places before the line end that precedes the text and, if contexts do not
            run on across line ends, before a context's last one: `<eos>`, or `NO_WORD`.
        topics: float32 [capacity, K], the mixture of topics before each event, for models with topics.
    """

    words: jax.Array
    events: jax.Array | np.int32
    eos: jax.Array | np.int32
    before: jax.Array | np.int32
    topics: jax.Array | None = None


def text_of(ids: np.ndarray, eos: int, topics: np.ndarray | None = None) -> Text:
    """Put a text on the device.

    On a CPU, a memory-mapped text stays in its file, from which steps read what they need.

    Args:
        ids: int32 [events].
        eos: id of the line end.
        topics: float32 [events, K]; None for models without topics.
    """
    missing = 0 if isinstance(ids, np.memmap) else capacity_step(len(ids)) - len(ids)
    words = ids if isinstance(ids, np.memmap) else np.pad(ids, (0, missing), constant_values=eos)
    topics = None if topics is None else np.pad(topics, ((0, missing), (0, 0)))
    return Text(jax.device_put(words), np.int32(len(ids)), np.int32(eos), np.int32(eos), jax.device_put(topics))


def without_history(data: Any) -> Any:
    """Return a text, or a model's data of one, whose contexts have no words before the line end at their beginning.

    That is the line end which precedes the text or, where lines begin afresh, the line.
    """
    if isinstance(data, Text):
        return data._replace(before=NO_WORD)
    return data._replace(text=without_history(data.text))


def vectors_of(R: jax.Array, context: jax.Array) -> jax.Array:
    """Look up the vectors of the words of contexts, [..., c, N_f]: zeros where there is no word.

    Args:
        R: [N_w, N_f].
        context: int32 [..., c].
    """
    return jnp.take(R, context, axis=0, mode="fill", fill_value=0)


@jax.named_scope("context")
def gather_contexts(
    text: Text, index: jax.Array, context_size: int, across_lines: bool = True
) -> tuple[jax.Array, jax.Array]:
    """Gather contexts w_1..w_c, int32 [B, c], oldest word first, and the words that follow them, int32 [B].

    Args:
        text: the events; contexts of the first ones are filled with one line end and, before it, `text.before`.
        index: int32 [B], positions of events in the text.
        context_size: c.
        across_lines: whether contexts continue across line ends, as in the thesis; otherwise all places before a
            context's last line end have `text.before`.
    """
    place = index[:, None] + jnp.arange(-context_size, 0)[None, :]
    contexts = jnp.where(place < 0, text.eos, text.words[jnp.maximum(place, 0)])
    contexts = jnp.where(place < -1, text.before, contexts)
    if not across_lines:
        ended = jax.lax.cummax((contexts == text.eos).astype(jnp.int8), axis=1, reverse=True)
        earlier = jnp.pad(ended[:, 1:], ((0, 0), (0, 1)))  # than a line end of the context
        contexts = jnp.where(earlier == 1, text.before, contexts)
    return contexts, text.words[index]


def context_after(history: np.ndarray, eos: int, context_size: int, across_lines: bool) -> np.ndarray:
    """Return the context of the word after a history: int32 [c], oldest word first.

    Args:
        history: int32 [n], the words since the beginning of a line, with a line end after each line.
        eos: id of the line end, which also precedes the history.
        context_size: c.
        across_lines: whether contexts continue across line ends: then there is no word before the line end that
            precedes the history; otherwise all places before the context's last line end have line ends.
    """
    near = history if across_lines else np.split(history, np.flatnonzero(history == eos) + 1)[-1]
    before = np.full(context_size - 1, NO_WORD if across_lines else eos)
    return np.concatenate([before, [eos], near])[len(near) :].astype(np.int32)


def leave_out(ids: np.ndarray, eos: int, fold: int, folds: int) -> np.ndarray:
    """Return a text without one of several contiguous folds of nearly equal size, cut at line ends (§4.6.6).

    Raises:
        UserError: the text has too few lines for so many folds.
    """
    ends = np.concatenate([[0], np.flatnonzero(ids == eos) + 1])
    start, stop = ends[np.searchsorted(ends, [len(ids) * fold // folds, len(ids) * (fold + 1) // folds])]
    if start == stop:
        raise UserError(f"the text has too few lines for {folds} folds", do="use a longer text")
    return np.concatenate([ids[:start], ids[stop:]])
