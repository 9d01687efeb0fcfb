"""Words drawn from a softmax over the vocabulary, many at a time, inside a compiled step.

Drawing by inversion takes one uniform number for each draw, where the Gumbel-max trick takes one for each word.
Inversion finds the first word whose cumulative sum is above the uniform number, in two stages: among pieces of the
vocabulary, then among the words of the piece that was found.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxlm.objectives.softmax import block_rows, from_blocks, to_blocks

PIECE = 128  # words
NEVER = -1e30  # the bias of the padding of the last piece


@jax.named_scope("word_samples")
def draw(R: Array, b: Array, x: Array, uniform: Array) -> tuple[Array, Array]:
    """Draw words for each row of x from P(w) ∝ exp(x·r_w + b_w), each by one uniform number.

    Args:
        R: [N_w, D].
        b: [N_w].
        x: [B, D].
        uniform: [B, K], in [0, 1).

    Returns:
        The words, int32[B, K], and the logarithms of the sums of exp(x·r_w + b_w), [B].
    """
    V, B = len(R), len(x)
    R, b = jnp.pad(R, ((0, -V % PIECE), (0, 0))), whole_pieces(b)
    rows = block_rows(B, len(b))
    blocks = to_blocks(x, rows), to_blocks(uniform, rows)

    def of_block(given: tuple[Array, Array]) -> tuple[Array, Array]:
        x, uniform = given
        logits = x @ R.T + b[None]
        top = jnp.max(logits, axis=1)
        word, total = inverted(jnp.exp(logits - top[:, None]), uniform)
        return word, top + jnp.log(total)

    words, log_sums = lax.map(of_block, blocks)
    return from_blocks(words, B), from_blocks(log_sums, B)


def whole_pieces(b: Array) -> Array:
    """Pad the words' biases, [N_w], to whole pieces, with words that are never drawn."""
    return jnp.pad(b, (0, -len(b) % PIECE), constant_values=NEVER)


def inverted(weights: Array, uniform: Array) -> tuple[Array, Array]:
    """Find the words that uniform numbers select.

    Args:
        weights: unnormalised probabilities, [rows, words], in whole pieces.
        uniform: [rows, K], in [0, 1).

    Returns:
        The words, int32[rows, K], and the sums of the weights, [rows].
    """
    rows = len(weights)
    pieces = weights.reshape(rows, -1, PIECE)
    ones = jnp.ones((PIECE, 1), weights.dtype)
    sums = jnp.matmul(pieces.reshape(-1, PIECE), ones, precision=lax.Precision.HIGHEST).reshape(rows, -1)

    def word_of(uniform: Array) -> tuple[Array, Array]:  # [rows]
        piece, rest, total = _first_above(sums, lambda total: uniform * total)
        inside = jnp.take_along_axis(pieces, piece[:, None, None], axis=1)[:, 0]
        word, _, _ = _first_above(inside, lambda total: jnp.minimum(rest, total))
        return piece * PIECE + word, total

    return jax.vmap(word_of, 1, (1, None))(uniform)


def _first_above(weights: Array, level: Callable[[Array], Array]) -> tuple[Array, Array, Array]:
    """Find where the running sum of each row first exceeds a level.

    Args:
        weights: [rows, n], not negative, and not all zero.
        level: from the sums of rows, [rows], to the levels, [rows].

    Returns:
        The places, int32[rows]; how far each level is above the sum before its place, and the sums of rows, [rows].
    """
    sums = jnp.cumsum(weights, axis=1)
    total = sums[:, -1]
    target = level(total)
    above = jnp.sum(sums <= target[:, None], axis=1, dtype=jnp.int32)
    last = jnp.sum(sums < total[:, None], axis=1, dtype=jnp.int32)  # where a rounded level may be the sum itself
    place = jnp.minimum(above, last)
    before = jnp.take_along_axis(sums, jnp.maximum(place - 1, 0)[:, None], axis=1)[:, 0]
    return place, target - jnp.where(place == 0, 0.0, before), total
