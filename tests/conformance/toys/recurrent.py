"""A toy: a recurrent language model, whose hidden state is carried from each window of the text to the next."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxfit.program import Carried, Mean, Metric, Program, Sequential
from jaxfit.recipe import Recipe
from jaxlm.contract import BySGD, Embeds, LanguageModel, PredictsWords

WINDOW = 4  # events of an example, through which gradients flow


@dataclass(frozen=True)
class Config:
    num_words: int
    num_features: int = 8


class Params(NamedTuple):
    R: jax.Array  # [N_w, N_f]
    W: jax.Array  # [N_f, N_f]
    b: jax.Array  # [N_w]


class Windows(NamedTuple):
    before: jax.Array  # int32 [N, WINDOW], the word before each event
    word: jax.Array  # int32 [N, WINDOW], -1 after the text's end


def init(key, config, counts):
    keys, D = jax.random.split(key), config.num_features
    normal = jax.random.normal
    return Params(normal(keys[0], (config.num_words, D)) / 3, normal(keys[1], (D, D)) / 3,
                  jnp.log(jnp.maximum(counts, 1) / jnp.sum(counts)))  # fmt: skip


def windows(ids, eos):
    before = np.concatenate([[eos], ids[:-1]])
    missing = -len(ids) % WINDOW
    padded = [np.pad(x, (0, missing), constant_values=-1).reshape(-1, WINDOW) for x in (before, ids)]
    return Windows(*(jnp.asarray(x, jnp.int32) for x in padded))


def read(params, h, before, word, eos=-1):
    """The hidden state after a text, and the nats of each word; afresh after each eos; nothing beyond the end."""

    def step(h, event):
        before, word = event
        now = jnp.tanh(params.R[before] + params.W @ jnp.where(before == eos, 0.0, h))
        nats = -jax.nn.log_softmax(params.R @ now + params.b)[word]
        return jnp.where(word < 0, h, now), jnp.where(word < 0, 0.0, nats)

    return jax.lax.scan(step, h, (before, word))


def loss(params, example: Carried, config):
    h, nats = read(params, example.carry, *example.batch)
    return jnp.sum(nats), h


def score(params, given, config):
    return jax.vmap(loss, (None, 0, None))(params, given, config)


def batch_loss(params, given, weight, keys, config):
    nats, carry = score(params, given, config)
    events = jnp.sum(given.batch.word >= 0, axis=1)
    return weight @ nats, {"perplexity": Mean(weight @ nats, weight @ events)}, carry


def num_events(data):
    return int(jnp.sum(data.word >= 0))


def start(config):
    return jnp.zeros(config.num_features)


def program(config):
    return Program(
        config=config, loss=batch_loss, score=score, events=num_events, metric=Metric("perplexity", np.exp),
        sequential=Sequential(start),
    )  # fmt: skip


def event_log_probs(model, ids, fresh_lines):
    eos, h = model.vocabulary.eos, start(model.config)
    before = np.concatenate([[eos], ids[:-1]])
    return -np.asarray(jax.jit(read)(model.params, h, before, ids, eos if fresh_lines else -1)[1], np.float64)


def log_prob(model, history):
    events = np.array([model.vocabulary.eos, *history]), np.zeros(len(history) + 1, np.int32)
    h, _ = read(model.params, start(model.config), *events)
    return np.asarray(jax.nn.log_softmax(model.params.R @ h + model.params.b))


RECIPE = Recipe(optimizer="adam", batch_size=16, epochs=5, rate={"*": 0.02}, decay={"*": 0.0})
MODEL = LanguageModel(
    name="recurrent", about="a recurrent model", source="a toy", config=Config, recipes={"tuned": (RECIPE, {})},
    fitting=BySGD(
        parameters=Params._fields, init=init, texts=lambda config, eos: partial(windows, eos=eos), program=program
    ),
    capabilities=(PredictsWords(log_prob, event_log_probs), Embeds(lambda params: params.R)),
)  # fmt: skip
