"""Annealed importance sampling: the log partition function of the Replicated Softmax for documents of each length.

Z_D = Σ_v Σ_h exp(-E(v, h)), over all sequences v of D words. Between a model whose words do not depend on its hidden
units, β = 0, and the model itself, β = 1, are the distributions

    p*_β(v) = exp(b·n(v)) Π_j (1 + exp(β (D c_j + n(v)·W_j))),

with the hidden units summed out. A chain starts from p_0, whose Z is 2^H (Σ_w exp b_w)^D, and takes a step of Gibbs
sampling at each β in turn; the product of the ratios p*_{β_k}(v) / p*_{β_{k-1}}(v) at what it visits has the mean
Z_D / Z of p_0.

Source: Neal 2001; Salakhutdinov and Murray 2008; Salakhutdinov and Hinton 2009, §3.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike, NDArray

from jaxfit.bucketing import capacity_step
from jaxfit.devices.platform import at_once
from jaxlm.models.replicated_softmax.chain import hidden_input, slots, step

CHAINS, STEPS = 64, 1000  # of each length; of each chain
CACHED = 64  # chains that a CPU runs at a time


class LogPartition(NamedTuple):
    """Estimates of log Z_D, float64 [lengths], nats.

    Attributes:
        value: the logarithm of the mean weight over chains. The mean is unbiased; its logarithm is too low on average,
            so that a perplexity comes out too low rather than too high.
        standard_error: of `value`, from the spread of the weights by the delta method. Where few chains have nearly
            all of the weight it is too small, and more steps are needed.
    """

    value: NDArray[np.float64]
    standard_error: NDArray[np.float64]


def log_partition(
    params: Any, lengths: ArrayLike, key: Array, *, chains: int = CHAINS, steps: int = STEPS
) -> LogPartition:
    """Estimate log Z_D of documents of D words.

    Args:
        params: W [N_w, H], b [N_w], c [H].
        lengths: D, int [lengths].
        key: of all draws. An estimate depends on its own length alone, not on which others are asked for.
        chains: independent chains for each length.
        steps: distributions that a chain passes through, at equal distances of β.
    """
    lengths = np.asarray(lengths, np.int64)
    if not len(lengths):
        return LogPartition(np.zeros(0), np.zeros(0))
    of_chain = np.repeat(lengths, chains).astype(np.int32)
    every = _chain_keys(key, jnp.asarray(lengths, jnp.int32), chains)
    at_a_time = at_once(len(of_chain), params.W.shape[0], CACHED)
    capacity = capacity_step(max(of_chain.max(), 1.25 * at_a_time * of_chain.mean()))
    log_weight = np.zeros(len(of_chain))
    for chosen in _blocks(of_chain, at_a_time, capacity):
        index = np.pad(chosen, (0, at_a_time - len(chosen)), mode="edge")
        length = np.where(np.arange(at_a_time) < len(chosen), of_chain[index], 0)
        found = _log_weights(params, jnp.asarray(length), every[index], steps, capacity)
        log_weight[chosen] = np.asarray(found)[: len(chosen)]
    log_weight = log_weight.reshape(len(lengths), chains)
    highest = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - highest)
    mean, b = weight.mean(axis=1), np.asarray(params.b, np.float64)
    error = weight.std(axis=1, ddof=1) / mean / np.sqrt(chains) if chains > 1 else np.full(len(lengths), np.inf)
    of_words = b.max() + np.log(np.exp(b - b.max()).sum())
    start = params.W.shape[1] * np.log(2) + lengths * of_words
    return LogPartition(start + highest[:, 0] + np.log(mean), error)


@partial(jax.jit, static_argnums=2)
def _chain_keys(key: Array, lengths: Array, chains: int) -> Array:
    """Return a key for each chain of each length, key [lengths * chains]."""
    of_length = jax.vmap(jax.random.fold_in, (None, 0))(key, lengths)
    fold = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
    return fold(of_length, jnp.arange(chains)).reshape(-1)


def _blocks(lengths: NDArray[np.int32], number: int, capacity: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of chains that run together: at most `number`, of at most `capacity` words."""
    order, begin, words = np.argsort(-lengths, kind="stable"), 0, 0
    for end, length in enumerate(lengths[order]):
        if end - begin == number or words + length > capacity:
            yield order[begin:end]
            begin, words = end, 0
        words += length
    yield order[begin:]


@partial(jax.jit, static_argnums=(3, 4))
def _log_weights(params: Any, length: Array, keys: Array, steps: int, capacity: int) -> Array:
    """Run chains for documents of these lengths, int32 [B]; return the logarithms of their weights, [B]."""
    at = slots(length, capacity)

    def move(x: Array, k: Array, beta: Array) -> Array:
        drawn = step(params, x, at, jax.vmap(jax.random.fold_in, (0, None))(keys, k), beta)
        return hidden_input(params, drawn.word, at)

    def pass_on(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, log_weight = state
        before, beta = (k - 1) / steps, k / steps
        ratio = jax.nn.softplus(beta * x) - jax.nn.softplus(before * x)
        return move(x, k, beta), log_weight + jnp.sum(ratio, axis=1)

    start = move(jnp.zeros((len(length), params.W.shape[1])), jnp.int32(0), jnp.float32(0))
    return lax.fori_loop(1, steps + 1, pass_on, (start, jnp.zeros(len(length))))[1]
