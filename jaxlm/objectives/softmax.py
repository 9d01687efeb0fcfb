"""The full softmax over the vocabulary, the costly part of every model that normalises over all words.

For a minibatch, Eq. 3.17's normaliser needs a matrix [B, N_w] of exponentials, which is far larger than the model. Two
things make it cheap. The gradient is computed with the value, while the exponentials are at hand, so that they are
neither stored nor computed again. The minibatch is taken in blocks: on a CPU so small that their exponentials stay in
the cache, if that leaves enough rows for a fast matrix product; elsewhere as large as memory allows. On a CPU, biases
and row sums are columns of matrix products, which saves passes over the exponentials; elsewhere one more column would
take a whole tile.

On a CPU, large vocabularies are processed in chunks of words, with all examples at once, so that the temporaries do not
grow with the vocabulary. The normaliser is found first, chunk by chunk (Milakov and Gimelshein 2018); the gradient then
computes each chunk's exponentials again. Elsewhere blocks are bounded by memory, and no exponential is computed twice.

Where the compiler splits the words over devices, the number of a block's examples suits the words of one device, and a
block has examples of every device that shares the minibatch; the words are not divided further, as their parts would be
gathered.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxfit.devices.platform import block, parts, platform
from jaxfit.devices.sharding import varying_alike
from jaxlm.objectives.promotion import promoted

CACHE_ENTRIES = 2_500_000  # exponentials at a time on a CPU: 10 MB
ROWS = 250  # minimum examples of a block on a CPU, since each block reads all of R
CHUNKED = 100_000  # words of the largest vocabulary that a CPU does not process in chunks
CHUNK = 1024  # minimum words of a chunk
Carry = TypeVar("Carry")


def block_rows(batch_size: int, num_words: int) -> int:
    """Return how many examples of a minibatch are taken at a time: nearly equal blocks, of the platform's size."""
    of_device = -(-num_words // parts())
    if platform() != "cpu":
        return block(batch_size, of_device)
    blocks = -(-batch_size // max(ROWS, CACHE_ENTRIES // of_device))
    return -(-batch_size // blocks)


@jax.named_scope("softmax")
def log_normalizer(R: Array, b: Array, r_hat: Array) -> Array:
    """Compute log Σ_j exp(r̂ᵀr_j + b_j) of each example, the denominator of Eq. 3.17 (Mnih 2010, §3.3).

    Not made for differentiation: see `sum_log_normalizer`.

    Args:
        R: [N_w, N_f].
        b: [N_w].
        r_hat: [B, N_f].

    Returns:
        [B], in nats.
    """
    R, b, r_hat = promoted(R, b, r_hat)
    if in_chunks(R.shape[0]):
        return _log_normalizer_in_chunks(*varying_alike(R, b, r_hat))
    blocks = to_blocks(r_hat, block_rows(r_hat.shape[0], R.shape[0]))
    out = lax.map(lambda x: jax.nn.logsumexp(x @ R.T + b[None], axis=1), blocks)
    return from_blocks(out, r_hat.shape[0])


def sum_log_normalizer(R: Array, b: Array, r_hat: Array, weight: Array) -> Array:
    """Compute Σ_i weight_i log Σ_j exp(r̂_iᵀr_j + b_j), in nats.

    Its gradient costs two more matrix products, and stores no array of size B x N_w. The other arguments are as in
    `log_normalizer`.

    Args:
        weight: [B].
    """
    return _sum_log_normalizer(*varying_alike(*promoted(R, b, r_hat, weight)))


def nll(R: Array, b: Array, r_hat: Array, word: Array) -> Array:
    """Compute -log P(word) of each example, [B], in nats.

    The other arguments are as in `log_normalizer`.

    Args:
        word: int32 [B].
    """
    return log_normalizer(R, b, r_hat) - logit(R, b, r_hat, word)


def logit(R: Array, b: Array, r_hat: Array, word: Array) -> Array:
    """Compute r̂ᵀr_word + b_word of each example, [B]; arguments as in `nll`."""
    return jnp.sum(r_hat * R[word], axis=1) + b[word]


def in_chunks(num_words: int) -> bool:
    """Return whether a vocabulary of this size is processed in chunks."""
    return num_words > CHUNKED and platform() == "cpu" and parts() == 1


def _over_chunks(R: Array, b: Array, r_hat: Array, step: Callable[[Array, Array, Carry], Carry], begin: Carry) -> Carry:
    """Fold `step` over the chunks of the vocabulary.

    Args:
        step: (where the chunk begins, its vectors beside its biases [C, N_f + 1], carry) -> carry.
    """
    num_words = len(R)
    chunks = -(-num_words // max(CHUNK, CACHE_ENTRIES // len(r_hat)))
    size = -(-num_words // chunks)

    def of_chunk(start: Array, size: int, carry: Carry) -> Carry:
        vectors, biases = (lax.dynamic_slice_in_dim(x, start, size) for x in (R, b[:, None]))
        return step(start, jnp.concatenate([vectors, biases], axis=1), carry)

    whole, rest = divmod(num_words, size)
    carry = lax.fori_loop(0, whole, lambda i, carry: of_chunk(i * size, size, carry), begin)
    return of_chunk(jnp.int32(whole * size), rest, carry) if rest else carry


def _with_ones(r_hat: Array) -> Array:
    return jnp.concatenate([r_hat, jnp.ones_like(r_hat[:, :1])], axis=1)


def _log_normalizer_in_chunks(R: Array, b: Array, r_hat: Array) -> Array:
    """Compute `log_normalizer` by the largest logit so far and the sum of exponentials relative to it."""
    x_1 = _with_ones(r_hat)

    def step(_: Array, R_b: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        top, total = carry
        logits = x_1 @ R_b.T
        new = jnp.maximum(top, jnp.max(logits, axis=1))
        ones = jnp.ones((len(R_b), 1), R_b.dtype)
        return new, total * jnp.exp(top - new) + (jnp.exp(logits - new[:, None]) @ ones)[:, 0]

    lowest, zeros, _ = varying_alike(jnp.full_like(r_hat[:, 0], -jnp.inf), jnp.zeros_like(r_hat[:, 0]), R)
    top, total = _over_chunks(R, b, r_hat, step, (lowest, zeros))
    return top + jnp.log(total)


def _forward_in_chunks(R: Array, b: Array, r_hat: Array, weight: Array) -> tuple[Array, tuple[Array, ...]]:
    """Compute what `_forward` does, in chunks of the vocabulary."""
    log_Z = _log_normalizer_in_chunks(R, b, r_hat)
    x_1 = _with_ones(r_hat)
    x_w = x_1 * weight[:, None]

    def step(start: Array, R_b: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        dR, db, dr_hat = carry
        p = jnp.exp(x_1 @ R_b.T - log_Z[:, None])
        dR_b = p.T @ x_w
        dR = lax.dynamic_update_slice_in_dim(dR, dR_b[:, :-1], start, 0)
        db = lax.dynamic_update_slice_in_dim(db, dR_b[:, -1], start, 0)
        return dR, db, dr_hat + p @ R_b[:, :-1]

    *zeros, _ = varying_alike(jnp.zeros_like(R), jnp.zeros_like(b), jnp.zeros_like(r_hat), R)
    dR, db, dr_hat = _over_chunks(R, b, r_hat, step, tuple(zeros))
    return weight @ log_Z, (dR, db, dr_hat * weight[:, None], log_Z)


@jax.custom_vjp
def _sum_log_normalizer(R: Array, b: Array, r_hat: Array, weight: Array) -> Array:
    return weight @ log_normalizer(R, b, r_hat)


def in_blocks(x: Array, rows: int) -> Array:
    """Cut an array into blocks of rows, the last padded with zeros: [B, …] -> [blocks, rows, …]."""
    padding = [(0, -x.shape[0] % rows)] + [(0, 0)] * (x.ndim - 1)
    return jnp.pad(x, padding).reshape(-1, rows, *x.shape[1:])


def to_blocks(x: Array, rows: int) -> Array:
    """Divide rows whose order does not matter among blocks: [B, …] -> [blocks, rows, …].

    As `in_blocks`, but where the compiler splits the program, each block has rows of every device.
    """
    if parts() > 1:
        return jnp.swapaxes(in_blocks(x, -(-x.shape[0] // rows)), 0, 1)
    return in_blocks(x, rows)


def from_blocks(blocks: Array, number: int) -> Array:
    """Invert `to_blocks`: [blocks, rows, …] -> [number, …]."""
    if parts() > 1:
        blocks = jnp.swapaxes(blocks, 0, 1)
    return blocks.reshape(-1, *blocks.shape[2:])[:number]


@jax.named_scope("softmax")
def _forward(R: Array, b: Array, r_hat: Array, weight: Array) -> tuple[Array, tuple[Array, ...]]:
    if in_chunks(R.shape[0]):
        return _forward_in_chunks(R, b, r_hat, weight)
    B, D = r_hat.shape
    rows = block_rows(B, R.shape[0])
    if platform() != "cpu":
        return _forward_apart(R, b, r_hat, weight, rows)
    R_b = jnp.concatenate([R, b[:, None]], axis=1)
    R_1 = jnp.concatenate([R, jnp.ones_like(b)[:, None]], axis=1)

    def of_block(dR_b: Array, xs: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        x, w = xs
        x_1 = jnp.concatenate([x, jnp.ones_like(w)[:, None]], axis=1)
        logits = x_1 @ R_b.T
        top = jnp.max(logits, axis=1, keepdims=True)
        e = jnp.exp(logits - top)
        sums = e @ R_1  # Σ_j e_j r_j, and in the last column the normaliser Z = Σ_j e_j
        Z = sums[:, D:]
        dR_b = dR_b + e.T @ (x_1 * (w[:, None] / Z))
        return dR_b, (sums[:, :D] * (w[:, None] / Z), (top + jnp.log(Z))[:, 0])

    zeros, _ = varying_alike(jnp.zeros_like(R_b), R_b)
    dR_b, (dr_hat, log_Z) = lax.scan(of_block, zeros, (to_blocks(r_hat, rows), to_blocks(weight, rows)))
    log_Z = from_blocks(log_Z, B)
    return weight @ log_Z, (dR_b[:, :D], dR_b[:, D], from_blocks(dr_hat, B), log_Z)


def _forward_apart(R: Array, b: Array, r_hat: Array, weight: Array, rows: int) -> tuple[Array, tuple[Array, ...]]:
    """Compute what `_forward` does, with biases and row sums apart from the matrix products."""
    B, D = r_hat.shape
    # dR is added to in pieces of the vocabulary, so that no temporary exceeds HELD elements
    size = block(R.shape[0], D) if parts() == 1 else R.shape[0]
    pieces = [slice(first, first + size) for first in range(0, R.shape[0], size)]

    def of_block(sums: tuple[Array, Array], xs: tuple[Array, Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        dR, db = sums
        x, w = xs
        logits = x @ R.T + b[None]
        top = jnp.max(logits, axis=1, keepdims=True)
        e = jnp.exp(logits - top)
        Z = jnp.sum(e, axis=1, keepdims=True)
        p = e * (w[:, None] / Z)
        for piece in pieces:
            dR = dR.at[piece].add(p[:, piece].T @ x)
        return (dR, db + jnp.sum(p, axis=0)), (p @ R, (top + jnp.log(Z))[:, 0])

    dR, db, _, _ = varying_alike(jnp.zeros_like(R), jnp.zeros_like(b), R, b)
    zeros = (dR, db)
    (dR, db), (dr_hat, log_Z) = lax.scan(of_block, zeros, (to_blocks(r_hat, rows), to_blocks(weight, rows)))
    log_Z = from_blocks(log_Z, B)
    return weight @ log_Z, (dR, db, from_blocks(dr_hat, B), log_Z)


def _backward(gradient: tuple[Array, ...], g: Array) -> tuple[Array, ...]:
    return tuple(g * part for part in gradient)


_sum_log_normalizer.defvjp(_forward, _backward)
