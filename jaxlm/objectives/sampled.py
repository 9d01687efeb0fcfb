"""Objectives that look at few words beside the next one: noise-contrastive estimation and importance sampling.

Scores s(w) = z·v_w + b_w of the next word and of K words drawn as noise, from P_n, take the place of a softmax over the
vocabulary, so that a step's cost does not grow with it. A model trained in this way is evaluated by the exact softmax.

Source: Gutmann and Hyvärinen 2010, Mnih and Teh 2012 (noise-contrastive estimation); Bengio and Senécal 2003, Jean et
al. 2015 (importance sampling).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxfit.program import Mean, Metric, Metrics
from jaxlm.objectives import noise
from jaxlm.objectives.noise import Noise


class Source(NamedTuple):
    """What the noise of a minibatch is drawn from.

    Attributes:
        noise: a distribution over words.
        number: int32 [...], an index for each next word, from which the key of its noise is derived.
    """

    noise: Noise
    number: Array


class Drawn(NamedTuple):
    """The noise of a minibatch.

    Shared noise is the same for all next words of the minibatch.

    Attributes:
        words: int32 [..., K].
        log_p: float32 [..., K], their log P_n.
        of_word: float32 [...], log P_n of the next words.
    """

    words: Array
    log_p: Array
    of_word: Array


METRICS = {"nce": Metric("NCE loss", float), "importance": Metric("estimated nats", float)}


def is_sampled(config: Any) -> bool:
    """Return whether a model is trained with words drawn as noise."""
    return config.objective in METRICS


def draw(source: Source, word: Array, key: Array, config: Any) -> Drawn:
    """Draw the noise of a step.

    Args:
        word: the next words, int32 [...].
        key: of the step, equal on all devices.
    """
    place = jnp.arange(config.num_noise, dtype=jnp.int32)
    if config.shared_noise:
        words = noise.draw(source.noise, key, place)
    else:
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, source.number.reshape(-1))
        words = noise.draw(source.noise, keys[:, None], place[None]).reshape(*word.shape, -1)
    shape = (*word.shape, config.num_noise)
    log_p = jnp.broadcast_to(source.noise.log_p[words], shape)  # of shared noise, each word is looked up once
    return Drawn(jnp.broadcast_to(words, shape), log_p, source.noise.log_p[word])


def row_ids(word: Array, drawn: Drawn, config: Any) -> Array:
    """Return the words that a minibatch reads: int32 [n], the next words, [B], then noise: [B, K], or [K] if shared."""
    words = drawn.words[:1] if config.shared_noise else drawn.words
    return jnp.concatenate([word, words.reshape(-1)])


def loss(V: Array, b: Array, log_Z: Array | None, z: Array, word: Array, drawn: Drawn, config: Any) -> Array:
    """Compute the loss of ONE next word: the specification.

    By noise-contrastive estimation it is -log σ(s(w) - log K P_n(w)) - Σ_k log σ(log K P_n(w_k) - s(w_k)), where
    exp s(w) is treated as a probability, and -log Z, 0 unless learned, is part of s (Mnih and Teh 2012, §3). By
    importance sampling it is -s(w) + log(exp s(w) + 1/K Σ_k exp s(w_k) / P_n(w_k)), where the sum leaves out noise
    words that equal the next word.

    Args:
        V: vectors of words, [N_w, D].
        b: their biases, [N_w].
        log_Z: [], or None where it is not learned.
        z: the vector that predicts, [D].
        word: the next word, int32.
        drawn: its noise.
        config: of the model, with `output.Options`.
    """
    of_noise = V[drawn.words] @ z + b[drawn.words]
    return _nats(V[word] @ z + b[word], of_noise, log_Z, word, drawn, config)


def batch_loss(
    V: Array, b: Array, log_Z: Array | None, z: Array, word: Array, drawn: Drawn, weight: Array, config: Any
) -> tuple[Array, Metrics]:
    """Sum over next words of weight * `loss`.

    Args:
        V: [n, D], vectors of the words of `row_ids`.
        b: [n], their biases.
        log_Z: scalar, or None.
        z: [B, D].
        word: next words, int32 [B].
        drawn: their noise.
        weight: [B], 0 for padding.
        config: of the model, including `output.Options`.
    """
    (B, K), of_next = drawn.words.shape, jnp.sum(z * V[: len(z)], axis=1) + b[: len(z)]
    V, b = V[B:], b[B:]
    if config.shared_noise:
        of_noise = z @ V.T + b[None]
    else:
        of_noise = jnp.einsum("bd,bkd->bk", z, V.reshape(B, K, -1)) + b.reshape(B, K)
    total = weight @ jax.vmap(_nats, (0, 0, None, 0, 0, None))(of_next, of_noise, log_Z, word, drawn, config)
    return total, {METRICS[config.objective].name: Mean(total, jnp.sum(weight))}


def _nats(of_next: Array, of_noise: Array, log_Z: Array | None, word: Array, drawn: Drawn, config: Any) -> Array:
    """Compute `loss` from the scores of the next word, [], and of the noise, [K]."""
    if config.objective == "nce":
        log_Z = jnp.zeros(()) if log_Z is None else log_Z
        return nce(of_next - log_Z, of_noise - log_Z, drawn.of_word, drawn.log_p)
    estimate = jnp.where(drawn.words == word, -jnp.inf, of_noise - jnp.log(len(of_noise)) - drawn.log_p)
    return jax.nn.logsumexp(jnp.append(estimate, of_next)) - of_next


def nce(of_next: Array, of_noise: Array, log_p_next: Array, log_p_noise: Array) -> Array:
    """Compute the losses of noise-contrastive estimation from scores, [...], whose arguments broadcast.

    Args:
        of_next: scores of next words, [...].
        of_noise: scores of their noise, [..., K].
        log_p_next: log P_n of the next words, [...].
        log_p_noise: that of the noise, [..., K].
    """
    log_K = jnp.log(of_noise.shape[-1])
    against = jnp.sum(jax.nn.softplus(of_noise - log_K - log_p_noise), axis=-1)
    return jax.nn.softplus(log_K + log_p_next - of_next) + against
