"""A toy: word vectors from a sampled loss, whose noise words are drawn once for each minibatch.

The noise is part of the minibatch, equal on all devices, so that the rows that it reads are declared like any others.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxfit.program import Mean, Program, Sparse
from jaxfit.recipe import Recipe
from jaxfit.tables import rows_of
from jaxlm.contract import BySGD, Embeds, LanguageModel

log_sigmoid = jax.nn.log_sigmoid


@dataclass(frozen=True)
class Config:
    num_words: int
    num_features: int = 8
    num_noise: int = 6


class Params(NamedTuple):
    V: jax.Array  # [N_w, N_f] vectors of words
    U: jax.Array  # [N_w, N_f] vectors of the words that follow


class Batch(NamedTuple):
    word: jax.Array  # int32 [B]
    following: jax.Array  # int32 [B]
    noise: jax.Array  # int32 [num_noise], of the whole minibatch


def init(key, config, counts):
    shape = config.num_words, config.num_features
    return Params(*(jax.random.normal(k, shape) / 3 for k in jax.random.split(key)))


def pairs(ids):
    return jnp.asarray(np.stack([ids[:-1], ids[1:]], axis=1), jnp.int32)


def batch(data, index, capacity, config):
    return Batch(data[index, 0], data[index, 1], jnp.arange(config.num_words, dtype=jnp.int32))


def with_noise(batch, key, fraction, config):
    return batch._replace(noise=jax.random.randint(key, (config.num_noise,), 0, config.num_words))


def touched(batch, config):
    return Params(batch.word, jnp.concatenate([batch.following, batch.noise]))


def nats(V, U, noise, config):
    """-log σ(u·v) - num_noise E[log σ(-u_noise·v)] of each example: V, U [B, N_f]; noise [n, N_f]."""
    against = jnp.mean(log_sigmoid(-(V @ noise.T)), axis=1)
    return -log_sigmoid(jnp.sum(U * V, axis=1)) - config.num_noise * against


def batch_loss(params, batch, weight, keys, config):
    rows, B = rows_of(params), len(batch.word)
    total = weight @ nats(rows.V, rows.U[:B], rows.U[B:], config)
    return total, {"loss": Mean(total, jnp.sum(weight))}


def score(params, batch, config):
    """The expected loss: validation is without noise."""
    return nats(params.V[batch.word], params.U[batch.following], params.U[batch.noise], config)


def program(config):
    return Program(
        config=config, batch=batch, loss=batch_loss, score=score, at_step=with_noise, sparse=Sparse(touched)
    )  # fmt: skip


RECIPE = Recipe(optimizer="adagrad", batch_size=16, epochs=5, rate={"*": 0.1}, decay={"*": 1e-3})
MODEL = LanguageModel(
    name="sampled", about="vectors from sampled noise", source="a toy", config=Config,
    recipes={"tuned": (RECIPE, {})}, capabilities=(Embeds(lambda params: params.V),),
    fitting=BySGD(parameters=Params._fields, init=init, texts=lambda config, eos: pairs, program=program),
)  # fmt: skip
