"""The hierarchical model's minibatch loss and its gradient, written out for speed.

With g the derivative of the loss by a decision's logit r̂·q + b, the gradient of q is g r̂, and that of r̂ is the sum
of g q over the decisions. Hot nodes (see `jaxlm.models.hlbl.batch`) take part as dense matrix products. For the rest,
what XLA does well on a CPU was measured: rows are added up a tile at a time before they are scattered; sums
along rows are products with ones, as plain sums are not vectorised; and nothing as large as [decisions, N_f] is
held, as it would leave the cache.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxfit.devices.platform import platform
from jaxfit.row_products import dots
from jaxfit.tables import Head, Part, Rows, Weights, outer, zero_after
from jaxlm.models.hlbl.batch import Batch
from jaxlm.objectives.tree_tiles import TILE, Tiles, decide, weighted_rows


class Forward(NamedTuple):
    """What the forward pass leaves for the backward one.

    Attributes:
        loss: [B], nats.
        hot: [T, TILE], the derivative of the loss by each logit.
        cold: [T, TILE], likewise.
        r_hat: [B, N_f].
    """

    loss: Array
    hot: Array
    cold: Array
    r_hat: Array


@jax.named_scope("tree")
def forward(weights: Sequence[Weights], read: Array, batch: Batch, mask: Array | None, num_hot: int) -> Forward:
    """Compute -log P(word | context) of each example (Eq. 4.4-4.7).

    Args:
        weights: of R, C, Q and b.
        read: [c, B, N_f], the vectors of the contexts.
        batch: a minibatch.
        mask: [B, N_f], multiplies r̂ (dropout).
        num_hot: the number of hot nodes.
    """
    _, C, Q, b = weights
    with jax.named_scope("prediction"):
        r_hat = _predicted(C.value, read)
    if mask is not None:
        r_hat *= mask
    # the decisions at all hot nodes, of which those on an example's paths are picked
    logits = Q.scale * (r_hat @ Q.value[:num_hot].T) + (b.scale * b.value[:num_hot])[None]
    hot = logits.reshape(-1).at[_flat(batch.hot, num_hot)].get(mode="clip")
    cold = Q.scale * dots(Q.value, batch.cold.node, r_hat, batch.cold.owner)
    cold += b.scale * b.value.at[batch.cold.node].get(mode="clip")
    return Forward(*_of_words(batch, hot, cold), r_hat)


@jax.named_scope("tree_gradient")
def gradient(
    weights: Sequence[Weights], batch: Batch, weight: Array, mask: Array | None, num_hot: int
) -> tuple[Array, tuple[tuple[Part, ...], Array, tuple[Part, ...], tuple[Part, ...]]]:
    """Compute the sum of weight * loss over the examples, and its gradient by R, C, Q and b."""
    R, C, Q, _ = weights
    with jax.named_scope("prediction"):
        read = R.scale * R.value.at[batch.context].get(mode="clip")
    loss, hot, cold, r_hat = forward(weights, read, batch, mask, num_hot)
    B = r_hat.shape[0]
    hot *= weight[batch.hot.owner][:, None]
    cold *= weight[batch.cold.owner][:, None]

    at_all = jnp.zeros(B * num_hot, hot.dtype).at[_flat(batch.hot, num_hot)].add(hot, mode="drop")
    at_all = at_all.reshape(B, num_hot)
    by_r_hat = at_all @ Q.value[:num_hot]
    rows = weighted_rows(Q.value, cold, batch.cold)
    by_r_hat = by_r_hat.at[batch.cold.owner].add(rows, indices_are_sorted=True, mode="drop")
    by_r_hat *= Q.scale if mask is None else Q.scale * mask
    diagonal = C.value.ndim == 2
    by_C = _sums(read * by_r_hat[None]) if diagonal else jnp.einsum("bj,ibk->ijk", by_r_hat, read)

    done = zero_after(by_r_hat[0, 0] + by_C.ravel()[0])  # all that is read of tables has been read
    hot += done
    cold += done
    by_r_hat += done
    of_contexts = C.value[:, None] * by_r_hat[None] if diagonal else jnp.einsum("ijk,bj->ibk", C.value, by_r_hat)
    of_R: tuple[Part, ...] = (Rows(batch.context.reshape(-1), of_contexts.reshape(-1, r_hat.shape[1])),)
    of_Q: tuple[Part, ...] = (
        outer(batch.cold.node.reshape(-1), cold.reshape(-1), jnp.repeat(batch.cold.owner, TILE), r_hat),
        Head(lax.optimization_barrier(lax.optimization_barrier(r_hat.T) @ at_all).T + done),
    )
    of_b = tuple(Rows(t.node.reshape(-1), g.reshape(-1)) for t, g in ((batch.hot, hot), (batch.cold, cold)))
    return weight @ loss, (of_R, by_C, of_Q, of_b)


def _predicted(C: Array, read: Array) -> Array:
    """Compute r̂ of each example, [B, N_f] (Eq. 4.7; of matrices that are not diagonal, Eq. 4.1).

    Args:
        read: [c, B, N_f].
    """
    if C.ndim == 3:
        return jnp.einsum("ijk,ibk->bj", C, read)
    r_hat = C[0][None] * read[0]
    for j in range(1, len(read)):  # a plain sum is not vectorised
        r_hat += C[j][None] * read[j]
    return r_hat


def _flat(hot: Tiles, num_hot: int) -> Array:
    """Return the positions of hot decisions in a matrix [B, num_hot] laid flat; padding past its end."""
    inside = hot.node < num_hot
    return jnp.where(inside, hot.owner[:, None] * num_hot + hot.node, jnp.iinfo(jnp.int32).max)


def _of_words(batch: Batch, hot: Array, cold: Array) -> tuple[Array, Array, Array]:
    """Return the loss of each example, [B], and its derivatives by the logits `hot` and `cold`, [T, TILE] each."""
    B = batch.context.shape[1]
    log_code = jnp.zeros(B if batch.owner is None else batch.owner.shape, hot.dtype)
    slopes = []
    for tiles, logit in ((batch.hot, hot), (batch.cold, cold)):
        of_tile, slope = decide(tiles.sign, logit)
        slopes.append(slope)
        log_code = log_code.at[tiles.slot].add(of_tile, mode="drop")
    if batch.owner is None:
        return -log_code, slopes[0], slopes[1]
    most = jnp.full(B, -jnp.inf, log_code.dtype).at[batch.owner].max(log_code, mode="drop")
    p = jnp.exp(log_code - most.at[batch.owner].get(mode="fill", fill_value=jnp.inf))
    total = jnp.zeros(B, log_code.dtype).at[batch.owner].add(p, mode="drop")
    posterior = p / total.at[batch.owner].get(mode="clip")  # of each code, given the word
    hot_slope, cold_slope = (
        slope * posterior.at[tiles.slot].get(mode="clip")[:, None]
        for tiles, slope in zip((batch.hot, batch.cold), slopes, strict=True)
    )
    return -most - jnp.log(total), hot_slope, cold_slope


def _sums(x: Array) -> Array:
    """Compute Σ over axis 1 of [c, B, N_f]: on a CPU some rows by unrolled addition, the rest by products with ones."""
    if platform() != "cpu":
        return jnp.sum(x, axis=1)
    few = next(n for n in (8, 5, 4, 3, 2, 1) if x.shape[1] % n == 0)
    x = x.reshape(x.shape[0], few, -1, x.shape[2])
    partial = x[:, 0]
    for j in range(1, few):
        partial += x[:, j]
    ones = jnp.ones((1, partial.shape[1]), x.dtype)
    return jnp.concatenate([ones @ part for part in lax.optimization_barrier(partial)])
