"""A toy: biases of users and items by SGD, the smallest rating model, which docs/adding-a-model.md shows in part."""

from dataclasses import dataclass
from math import inf

import jax
import numpy as np

from jaxcf.batches import Triples, triples
from jaxcf.contract import BySGD, PredictsRatings, RatingModel, TrainingSetup
from jaxcf.data.ratings import Units
from jaxcf.models.pairwise import by_pairs, rows_or_zeros
from jaxfit.program import Mean, Metric, Program
from jaxfit.recipe import Recipe, option
from jaxfit.registry import Cost


@dataclass(frozen=True)
class Config:
    num_users: int = option(help="users")
    num_items: int = option(help="items")
    mean: float = option(0.0, "mean of the training ratings", "stars", low=-inf)
    unit: float = option(1.0, "what a number of the parameters is", "stars")
    init_scale: float = option(0.1, "standard deviation of initial biases")


def init(key, config):
    b, c = jax.random.split(key)
    normal, scale = jax.random.normal, config.init_scale
    return {"b": scale * normal(b, config.num_users), "c": scale * normal(c, config.num_items)}


def biases(params, user, item):
    return rows_or_zeros(params["b"], user) + rows_or_zeros(params["c"], item)


def loss(params, example: Triples, config):
    return 0.5 * (example.stars - biases(params, example.user, example.item)) ** 2


def score(params, batch, config):
    return 2 * config.unit**2 * jax.vmap(lambda example: loss(params, example, config))(batch)


def batch_loss(params, batch, weight, keys, config):
    squares = weight @ score(params, batch, config)
    return squares / (2 * config.unit**2), {"RMSE": Mean(squares, weight.sum())}


def predict(params, user, item, config):
    return config.mean + config.unit * biases(params, user, item)


def prepare(key, data, rated, config):
    program = Program(config=config, loss=batch_loss, score=score, metric=Metric("RMSE", np.sqrt))
    units = Units(config.mean, config.unit)
    train, valid = (jax.device_put(triples(ratings, units)) for ratings in (data.train, data.valid))
    return TrainingSetup(program, init(key, config), train, valid)


MODEL = RatingModel(
    name="sgd-bias",
    about="biases of users and items by SGD",
    source="Mnih 2010, §5.4.5",
    config=Config,
    shapes=lambda config: jax.eval_shape(lambda: init(jax.random.key(0), config)),
    recipes={"tuned": (Recipe(optimizer="adam", batch_size=100, epochs=20, rate={"*": 0.01}, decay={"*": 1e-3}), {})},
    fitting=(BySGD(prepare),),
    capabilities=(PredictsRatings(lambda params, config, users: by_pairs(predict, params, config)),),
    cost=lambda config, costs: Cost(2, 3 + 2, 2, "2 operations; 12 + 8 · 2 bytes: the rating, two biases"),
)
