"""Annealed importance sampling: the partition function of the Replicated Softmax for documents of each length.

Z_D sums exp(-E(v, h)) over all sequences v of D words and all h. With the words summed out,

    Z_D = Σ_h exp(D g(h)),    g(h) = c·h + log Σ_w exp(b_w + h·W_w),

so that documents of fewer words have the same distribution at a higher temperature. Chains start from documents of one
word, which are drawn exactly and whose Z_1 is a sum over the vocabulary, and pass through increasing lengths: at each
length they make steps of Gibbs sampling, and from length d to d' their weight is multiplied by exp((d' - d) g(h)). The
mean of the product, times Z_1, estimates Z_d for every length on the way: one run serves all.

Source: Neal 2001; Salakhutdinov and Murray 2008; Lauly et al. 2017, §5 (Eq. 22-25). Differs: these anneal each model by
a factor of W and c that grows from 0 to 1. On a model of 20 Newsgroups that had been trained for too long, such chains
agreed on a log Z_75 of 22, within 0.2, where chains through lengths found states of 132 and more.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike, NDArray

from jaxfit.devices.platform import at_once
from jaxfit.rbm import hidden_free_energy
from jaxlm.models.replicated_softmax.chain import Slots, hidden_input, inverse_cdf, slots, step

CHAINS, STEPS = 256, 4  # chains, and steps of Gibbs sampling at each length
FINE = 100  # a length is followed by one that is longer by one part in so many, and by a word at least
CACHED = 64  # chains that a CPU runs at a time
SHORTEST = 64  # words; lengths up to this share a compiled program, as do those up to each power of two


class LogPartition(NamedTuple):
    """Estimates of log Z_D, in nats.

    Attributes:
        value: float64 [lengths], the logarithm of the mean weight over chains. That mean is unbiased; its logarithm is
            too low on average, so that perplexities tend to be too low.
        log_weight: float64 [lengths, chains], of which `value` is the log-mean-exp. Lengths share chains, so that their
            errors are not independent: see `error_of_sum`.
    """

    value: NDArray[np.float64]
    log_weight: NDArray[np.float64]

    def error_of_sum(self, factors: ArrayLike) -> float:
        """Return the standard error of Σ_D factor_D log Z_D.

        By the delta method: to first order, the sum is a mean over chains i of Σ_D factor_D w_Di / mean(w_D). It is too
        small if a few chains have nearly all of the weight, or if none has found the states that make up most of Z_D.
        Near 1 for one length, one chain has all of the weight, and `value` is only a lower bound.

        Args:
            factors: [lengths].
        """
        chains = self.log_weight.shape[1]
        if chains < 2:
            return float("inf")
        of_chains = np.asarray(factors) @ np.exp(self.log_weight - self.value[:, None])
        return float(of_chains.std(ddof=1) / np.sqrt(chains))


def log_partition(
    params: Any, lengths: ArrayLike, key: Array, *, chains: int = CHAINS, steps: int = STEPS
) -> LogPartition:
    """Estimate log Z_D of documents of D words.

    Args:
        params: with fields W [N_w, H], b [N_w], c [H].
        lengths: D, int [lengths], in any order, of at least 1.
        key: of all draws. An estimate does not depend on which other lengths are asked for.
        chains: number of independent chains, which run in blocks, so that memory does not grow with them.
        steps: number of steps of Gibbs sampling at each length that a chain passes through.
    """
    lengths = np.asarray(lengths, np.int64)
    if not len(lengths):
        return LogPartition(np.zeros(0), np.zeros((0, chains)))
    longest = int(lengths.max())
    ladder = _ladder(_power(longest))
    number = int(np.searchsorted(ladder, longest, side="right"))
    rung = np.searchsorted(ladder, lengths, side="right") - 1
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(chains))
    together = at_once(chains, params.W.shape[0], CACHED)
    parts = []
    for begin in range(0, chains, together):
        own = np.minimum(np.arange(begin, begin + together), chains - 1)
        log_weight, g = _run(params, keys[own], ladder, number, steps)
        # a length between two of the ladder's is reached from the shorter one
        of_lengths = log_weight[rung] + (lengths - ladder[rung])[:, None] * g[rung]
        parts.append(of_lengths[:, : chains - begin])
    log_weight = np.concatenate(parts, axis=1)
    highest = log_weight.max(axis=1, keepdims=True)
    return LogPartition(highest[:, 0] + np.log(np.exp(log_weight - highest).mean(axis=1)), log_weight)


def _ladder(longest: int) -> NDArray[np.int64]:
    """Return the lengths that chains pass through up to the first beyond `longest`; long ones are further apart."""
    lengths = [1]
    while lengths[-1] <= longest:
        lengths.append(lengths[-1] + max(1, lengths[-1] // FINE))
    return np.array(lengths, np.int64)


def _power(length: int) -> int:
    """Return the least power of two that is at least a length, and at least SHORTEST."""
    return max(SHORTEST, 1 << (length - 1).bit_length())


def _run(params: Any, keys: Array, ladder: NDArray[np.int64], number: int, steps: int) -> tuple[NDArray[Any], ...]:
    """Run chains through the first `number` lengths of a ladder, which ends at a power of two.

    Returns:
        The logarithms of their weights at each of these lengths, and g(h), float64 [number, B].
    """
    x, log_Z = _start(params, keys)
    values, begin = [], 0
    while begin < number:
        power = _power(int(ladder[begin]))
        end = int(np.searchsorted(ladder, power, side="right"))
        rungs, taken = ladder[begin : end + 1].astype(np.int32), min(end, number) - begin
        x, g = _climb(params, x, keys, rungs, np.int32(taken), steps, len(keys) * int(ladder[end]))
        values.append(np.asarray(g, np.float64)[:taken])
        begin = end
    g = np.concatenate(values)
    gains = np.cumsum(np.diff(ladder[:number])[:, None] * g[:-1], axis=0)
    return np.asarray(log_Z, np.float64) + np.concatenate([np.zeros_like(g[:1]), gains]), g


@jax.jit
def _start(params: Any, keys: Array) -> tuple[Array, Array]:
    """Draw documents of one word; return their hidden inputs, [B, H], and log Z_1."""
    log_weights = params.b - hidden_free_energy(params.c[None] + params.W)  # of each word
    highest = jnp.max(log_weights)
    below = jnp.cumsum(jnp.exp(log_weights - highest))[None]
    # the keys of later draws are by lengths, from 1 on
    first = jax.vmap(lambda key: jax.random.uniform(jax.random.fold_in(key, 0)))(keys)
    word = inverse_cdf(below, jnp.zeros(len(keys), jnp.int32), first)
    return params.c[None] + params.W[word], highest + jnp.log(below[0, -1])


@partial(jax.jit, static_argnums=(5, 6))
def _climb(
    params: Any, x: Array, keys: Array, rungs: Array, number: Array, steps: int, capacity: int
) -> tuple[Array, Array]:
    """Take chains from the first length of `rungs`, int32 [lengths + 1], past the first `number` of them.

    Returns:
        The hidden inputs of documents of the next length, [B, H], and g(h) at each length, [lengths, B].
    """

    def layout(length: Array) -> Slots:
        return slots(jnp.full(len(x), length), capacity)

    def keys_of(length: Array, r: Array) -> Array:
        fold = jax.vmap(jax.random.fold_in, (0, None))
        return fold(fold(keys, length), r)

    def on_rung(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, g = state
        here, there = layout(rungs[k]), layout(rungs[k + 1])

        def again(r: Array, x: Array) -> Array:
            return hidden_input(params, step(params, x, here, keys_of(rungs[k], r)).word, here)

        x = lax.fori_loop(1, steps, again, x)
        drawn = step(params, x, there, keys_of(rungs[k], jnp.int32(0)))
        g = g.at[k].set(drawn.h @ params.c + drawn.log_Z)
        return hidden_input(params, drawn.word, there), g

    return lax.fori_loop(0, number, on_rung, (x, jnp.zeros((len(rungs) - 1, len(x)))))
