"""A toy: biases of users and items drawn from their posterior by Gibbs sampling, whose mean is the model."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxcf.contract import BySweeps, FoldsIn, PredictsRatings, RatingModel, Sweeps
from jaxcf.models import bias
from jaxcf.models.bias import Params
from jaxcf.solvers.sweeps import SweepRecipe


@dataclass(frozen=True)
class Config:
    num_users: int
    num_items: int
    mean: float
    unit: float  # of the noise's standard deviation
    precision: float = 4.0  # of the prior, in units of the noise's


def prepare(key, data, rated, config, recipe):
    @jax.jit
    def sweep(params, ratings, key):
        user, item, stars = ratings

        def draw(key, index, rest, number):
            precision = config.precision + jnp.zeros(number).at[index].add(1.0)
            noise = config.unit * jax.random.normal(key, (number,)) / jnp.sqrt(precision)
            return jnp.zeros(number).at[index].add(rest) / precision + noise

        keys, centred = jax.random.split(key), stars - config.mean
        b = draw(keys[0], user, centred - params.c[item], config.num_users)
        return Params(b, draw(keys[1], item, centred - b[user], config.num_items))

    @jax.jit
    def mean_square(params, user, item, stars):
        return jnp.mean((stars - bias.predict(params, user, item, config)) ** 2)

    def error(params, ratings=data.valid):
        return float(mean_square(params, *ratings[:3]))

    start = Params(jnp.zeros(config.num_users), jnp.zeros(config.num_items))
    ratings = tuple(jnp.asarray(x) for x in data.train[:3])
    return Sweeps(start, ratings, sweep, lambda params: error(params, data.train), error, mean_after=recipe.epochs // 8)


def fold_in(params, config, users, decay):
    return bias.predictor(params._replace(b=jnp.zeros(users.number)), config, users)


MODEL = RatingModel(
    name="gibbs-bias", about="biases by Gibbs sampling", source="a toy", config=Config,
    shapes=bias.shapes, recipes={"tuned": (SweepRecipe(epochs=400, patience=400), {})},
    fitting=(BySweeps("gibbs", "sweeps of Gibbs sampling", prepare),),
    capabilities=(PredictsRatings(bias.predictor), FoldsIn(fold_in)),
)  # fmt: skip
