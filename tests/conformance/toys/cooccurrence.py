"""A toy: word vectors without a distribution, r_i·q_j + b_i + c_j being near the log of how often j follows i."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxfit.program import Mean, Metric, Program
from jaxfit.recipe import Recipe
from jaxlm.contract import BySGD, Embeds, LanguageModel


@dataclass(frozen=True)
class Config:
    num_words: int
    num_features: int = 8


class Count(NamedTuple):
    first: jax.Array  # int32 [...]
    second: jax.Array  # int32 [...]
    log: jax.Array  # float32 [...]


def init(key, config, counts):
    shape, numbers = (config.num_words, config.num_features), jnp.zeros(config.num_words)
    first, second = (jax.random.normal(k, shape) / 3 for k in jax.random.split(key))
    return {"first": {"R": first, "b": numbers}, "second": {"R": second, "b": numbers}}


def count(ids):
    pairs, number = np.unique(np.stack([ids[:-1], ids[1:]], axis=1), axis=0, return_counts=True)
    first, second = jnp.asarray(pairs.T, jnp.int32)
    return Count(first, second, jnp.log(jnp.asarray(number, jnp.float32)))


def loss(params, example: Count, config):
    one, two = params["first"], params["second"]
    i, j = example.first, example.second
    return (one["R"][i] @ two["R"][j] + one["b"][i] + two["b"][j] - example.log) ** 2


def score(params, batch, config):
    return jax.vmap(lambda example: loss(params, example, config))(batch)


def batch_loss(params, batch, weight, keys, config):
    total = weight @ score(params, batch, config)
    return total, {"root mean squared error": Mean(total, jnp.sum(weight))}


def program(config):
    metric = Metric("root mean squared error", np.sqrt)
    return Program(config=config, loss=batch_loss, score=score, metric=metric)


RECIPE = Recipe(optimizer="adagrad", batch_size=16, epochs=5, rate={"*": 0.1}, decay={"*": 0.0})
MODEL = LanguageModel(
    name="cooccurrence", about="vectors from counts", source="a toy", config=Config,
    recipes={"tuned": (RECIPE, {})}, capabilities=(Embeds(lambda params: params["first"]["R"]),),
    fitting=BySGD(
        parameters=("first/R", "first/b", "second/R", "second/b"), init=init, texts=lambda config, eos: count,
        program=program,
    ),
)  # fmt: skip
