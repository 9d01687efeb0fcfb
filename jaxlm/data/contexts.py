"""The examples of a neural model: a context of word ids and the word that follows, gathered from encoded text."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxfit.bucketing import capacity_step
from jaxfit.errors import UserError


class Text(NamedTuple):
    """Events of a text with the history of its beginning, as models with a context of c words read it.

    padded: int32[c + capacity]: c times `<eos>`, the events, `<eos>` up to one of a few lengths, so that texts nearly
        as long compile to the same program.
    events: int32 scalar, how many there are; no static number, which would compile for each.
    eos: int32 scalar, the id of the line end.
    """

    padded: jax.Array
    events: jax.Array | np.int32
    eos: jax.Array | np.int32


def pad(ids: np.ndarray, context_size: int, eos: int) -> Text:
    """Put a context of line ends before a text; ids [events]."""
    padded = np.full(context_size + capacity_step(len(ids)), eos, np.int32)
    padded[context_size : context_size + len(ids)] = ids
    return Text(jnp.asarray(padded), np.int32(len(ids)), np.int32(eos))


def gather_contexts(
    text: Text, index: jax.Array, context_size: int, across_lines: bool = True
) -> tuple[jax.Array, jax.Array]:
    """Gather contexts w_1..w_c, oldest first, and the words that follow them.

    Args:
        text: the events, with a context of line ends before them.
        index: int32 [B], numbers of events.
        context_size: c.
        across_lines: whether a context runs on across line ends, as in the thesis; otherwise all of it that
            lies before the line's start is `<eos>`.

    Returns:
        contexts, int32 [B, c], and words, int32 [B].
    """
    contexts = text.padded[index[:, None] + jnp.arange(context_size)[None, :]]
    if not across_lines:
        ended = jax.lax.cummax((contexts == text.eos).astype(jnp.int8), axis=1, reverse=True)
        contexts = jnp.where(ended == 1, text.eos, contexts)
    return contexts, text.padded[index + context_size]


def split_validation(ids: np.ndarray, eos: int, part: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Carve validation from a training text that comes without: its last lines, one in `part` (at least one).

    The last lines and not scattered ones: neighbouring sentences share their topic and their names, and would
    make validation easier than a test on other text.

    Raises:
        UserError: the text has a single line.
    """
    ends = np.flatnonzero(ids == eos) + 1
    if len(ends) < 2:
        raise UserError("the training text has too few lines to take validation from", do="give --valid FILE")
    cut = ends[len(ends) - max(1, len(ends) // part) - 1]
    return ids[:cut], ids[cut:]


def leave_out(ids: np.ndarray, eos: int, part: int, parts: int) -> np.ndarray:
    """Leave one of several nearly equal, contiguous parts out of a text; cuts are at line ends (4.6.6).

    Raises:
        UserError: the text has fewer lines than would fill the parts.
    """
    ends = np.concatenate([[0], np.flatnonzero(ids == eos) + 1])
    start, stop = ends[np.searchsorted(ends, [len(ids) * part // parts, len(ids) * (part + 1) // parts])]
    if start == stop:
        raise UserError(f"the text has too few lines to cut it into {parts}", do="use a larger text")
    return np.concatenate([ids[:start], ids[stop:]])
