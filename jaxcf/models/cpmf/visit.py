"""A visit of conditional PMF to a user: steps of stochastic gradients, one after each block of the user's ratings.

Source: Mnih 2010, §5.3.2 (Learning), §5.4.2. The errors of a block are those before its step. A block adds the same
vector to the conditioning vectors W_j of all items of the user's rated set, and shrinks them by the same factor; so W
is read once and written once a visit, and the mean of its rows follows from block to block by the same rule.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxfit.program import Mean, Metrics

PIECE = 64  # rows of W that are read or written at a time


@jax.named_scope("visit")
def visit(weights: Any, data: Any, user: Array, rate: Any, decay: Any, config: Any) -> tuple[Array, Metrics, Any]:
    """Return the sum of ½ e² over one user's standardized ratings, its Metrics, and the weights after its blocks.

    A row that a block uses decays once for each of its ratings, W_j once for a block. A user's last block may be
    short, and blocks are in the order of the data. Work is linear in the user's ratings and rated set; nothing is
    padded to the largest.

    Args:
        weights: `tables.Weights` of each of `cpmf.Params`.
        data: from `cpmf.make_data`.
        user: int32 scalar.
        rate: η of each parameter.
        decay: λ of each parameter.
    """
    block, biases = config.block, config.biases
    Y, V, W, b, c = (w.value for w in weights)
    scale = type(weights)._make(w.scale for w in weights)
    no_item = V.shape[0]
    first, size = data.rated.offsets[user], data.rated.offsets[user + 1] - data.rated.offsets[user]
    begin, count = data.known.offsets[user], data.known.offsets[user + 1] - data.known.offsets[user]
    share = jnp.where(size > 0, 1 / jnp.maximum(size, 1).astype(W.dtype), 0.0)  # an empty set stays at 0
    pieces, blocks = -(-size // PIECE), -(-count // block)

    def rated(k: Array) -> tuple[Array, Array]:
        place = k * PIECE + jnp.arange(PIECE, dtype=jnp.int32)
        real = place < size
        return jnp.where(real, data.rated.item.at[first + place].get(mode="clip"), no_item), real.astype(W.dtype)

    def total(k: Array, carry: Array) -> Array:
        item, real = rated(k)
        return carry + real @ W.at[item].get(mode="clip")

    condition = share * scale.W * lax.fori_loop(0, pieces, total, jnp.zeros(W.shape[1], W.dtype))  # Eq. 5.22

    def step(k: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        V, c, y, bias, condition, shrunk, moved, loss = carry
        place = k * block + jnp.arange(block, dtype=jnp.int32)
        real, at = (place < count).astype(W.dtype), begin + place
        item = jnp.where(place < count, data.known.item.at[at].get(mode="clip"), no_item)
        v, u, number = scale.V * V.at[item].get(mode="clip"), y + condition, jnp.sum(real)
        error = data.known.value.at[at].get(mode="clip") - v @ u
        if biases:
            offset = scale.c * c.at[item].get(mode="clip")
            error = real * (error - bias - offset)
            c = c.at[item].add(rate.c / scale.c * (error - decay.c * offset), mode="drop")
            bias = bias + rate.b * (jnp.sum(error) - decay.b * number * bias)
        error = real * error
        pull = error @ v
        V = V.at[item].add(rate.V / scale.V * (error[:, None] * u[None, :] - decay.V * v), mode="drop")
        y = y + rate.Y * (pull - decay.Y * number * y)
        # W_j <- shrink W_j + move for every j of the rated set, and so their mean
        shrink, move = 1 - rate.W * decay.W, rate.W * share * pull
        condition, shrunk, moved = shrink * condition + move, shrink * shrunk, shrink * moved + move
        return V, c, y, bias, condition, shrunk, moved, loss + 0.5 * jnp.sum(jnp.square(error))

    zero, one = jnp.zeros((), W.dtype), jnp.ones((), W.dtype)
    start = V, c, scale.Y * Y[user], scale.b * b[user], condition, one, jnp.zeros_like(condition), zero
    V, c, y, bias, _, shrunk, moved, loss = lax.fori_loop(0, blocks, step, start)

    def write(k: Array, W: Array) -> Array:
        item, _ = rated(k)
        rows = W.at[item].get(mode="clip")
        return W.at[item].set(shrunk * rows + moved[None, :] / scale.W, mode="drop")

    W = lax.fori_loop(0, pieces, write, W)
    values = Y.at[user].set(y / scale.Y), V, W, b.at[user].set(bias / scale.b), c
    after = type(weights)._make(w._replace(value=x) for w, x in zip(weights, values, strict=True))
    return loss, {"RMSE": Mean(2 * config.unit**2 * loss, count.astype(W.dtype))}, after
