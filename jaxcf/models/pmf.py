"""Probabilistic matrix factorization: a rating is the product of a user's and a movie's feature vector, plus biases.

Source: Mnih 2010, §5.3.1 (Eq. 5.16-5.21), §5.4.2. Online SVD, with biases or without, is the same program
without regularisation (§5.4.5): `SVD_RECIPES`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf.contract import (
    BySGD,
    BySweeps,
    FoldsIn,
    HasFactors,
    KnownUsers,
    Predictor,
    PredictsRatings,
    RatingModel,
    SimilarItems,
    Sweeps,
    TakesNewItems,
    TrainingSetup,
)
from jaxcf.data import triples
from jaxcf.data.ratings import Dataset, Pairs, Ratings, Units, standardized
from jaxcf.models.pairwise import by_pairs, rows_or_zeros, used_rows, zero_unrated
from jaxcf.solvers import als
from jaxfit.draws import normal
from jaxfit.program import Decay, Mean, Metric, Metrics, Program, Sparse
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxfit.tables import Gathered, require_whole, rows_of


@dataclass(frozen=True)
class Config:
    """What shapes the program."""

    num_users: int = option(help="users", unit="users")
    num_items: int = option(help="items", unit="items")
    num_features: int = option(10, "feature vector dimensionality", "features", first=True)
    biases: bool = option(True, "a bias for each user and each item")
    mean: float = option(0.0, "what every prediction starts from", "stars", low=-np.inf)
    unit: float = option(1.0, "what a number of the parameters' units is", "stars")
    subtract_mean: bool = option(True, "start predictions from the mean of the training ratings; otherwise from 0")
    prior: Literal["per-rating", "per-row"] = option("per-rating", "apply decay once per rating, or once per row")
    init_scale: float = option(0.1, "standard deviation of initial feature vectors")

    @property
    def units(self) -> Units:
        """The units of the parameters, in which rates, priors and losses are expressed."""
        return Units(self.mean, self.unit)


class Params(NamedTuple):
    """Feature vectors and biases.

    Attributes:
        U: [users, D], feature vectors.
        V: [items, D], feature vectors.
        b: [users], biases, 0 where there are none.
        c: [items], biases, 0 where there are none.
    """

    U: Array
    V: Array
    b: Array
    c: Array


class Batch(NamedTuple):
    """Ratings.

    Attributes:
        user: int32[...].
        item: int32[...].
        stars: float32[...], standardized.
    """

    user: Array
    item: Array
    stars: Array


def make_data(ratings: Ratings, config: Config) -> Array:
    """Put the ratings on the device, standardized, as `jaxcf.data.triples` lays them out: int32[N, 3]."""
    return jax.device_put(triples.laid_out(standardized(ratings, config.units), config.num_users))


def init(key: Array, config: Config) -> Params:
    """Draw small Gaussian feature vectors, with biases of 0 (the thesis does not say)."""
    key_U, key_V = jax.random.split(key)
    D = config.num_features
    return Params(
        U=config.init_scale * normal(key_U, (config.num_users, D)),
        V=config.init_scale * normal(key_V, (config.num_items, D)),
        b=jnp.zeros(config.num_users),
        c=jnp.zeros(config.num_items),
    )


def loss(params: Params, rating: Batch, config: Config) -> Array:
    """Compute ½ (R_ij - U_i·V_j - b_i - c_j)², in squared units of `config`, for ONE rating: the specification.

    It is -log P(R_ij) of Eq. 5.20 up to a constant, in units of 1/σ²; its gradient gives the thesis' update,
    U_i <- U_i + η e V_j. Differs: ratings are standardized first, so that the priors of the biases, which are around 0,
    need not reach the mean, and so that rates and priors suit any scale. On 1 to 5 stars the unit is a star. Without
    `subtract_mean`, predictions start from 0, as in the thesis.
    """
    require_whole(params)
    i, j, stars = rating
    predicted = jnp.sum(params.U[i] * params.V[j])
    if config.biases:
        predicted = predicted + params.b[i] + params.c[j]
    return 0.5 * jnp.square(stars - predicted)


@jax.named_scope("prediction")
def errors(read: Params, stars: Array, config: Config) -> Array:
    """Compute R_ij less its prediction, [B], both standardized, from the rows that `touched` names; stars: [B]."""
    error = stars - jnp.sum(read.U * read.V, axis=1)
    return error - read.b - read.c if config.biases else error


def batch_loss(
    params: Gathered, batch: Batch, weight: Array, keys: Array | None, config: Config
) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`, from the rows of `touched`; the RMSE is in stars."""
    squares = jnp.sum(weight * jnp.square(errors(rows_of(params), batch.stars, config)))
    return 0.5 * squares, {"RMSE": Mean(config.unit**2 * squares, jnp.sum(weight))}


def penalty(params: Gathered, batch: Any, weight: Array, config: Config) -> Params:
    """Compute ½|row|², summed over the ratings that use a row: prior `per-rating`, as in steps per triple (§5.4.2)."""
    read = rows_of(params)

    def vectors(rows: Array) -> Array:
        return 0.5 * jnp.sum(weight * jnp.sum(jnp.square(rows), axis=1))

    def numbers(rows: Array) -> Array:
        return 0.5 * jnp.sum(weight * jnp.square(rows)) if config.biases else jnp.zeros(())

    return Params(vectors(read.U), vectors(read.V), numbers(read.b), numbers(read.c))


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows that a minibatch reads, int32[B] each; without biases, b and c have one id past the end."""
    if config.biases:
        return Params(batch.user, batch.item, batch.user, batch.item)
    none = jnp.full(1, max(config.num_users, config.num_items), jnp.int32)
    return Params(batch.user, batch.item, none, none)


def predict(params: Params, user: Array | np.ndarray, item: Array | np.ndarray, config: Config) -> Array:
    """Predict stars, [n], not clipped (Eq. 5.20); an unknown user or item, -1, has the prior's mean, zeros.

    Args:
        user: int32[n].
        item: int32[n].
    """
    product = jnp.sum(rows_or_zeros(params.U, user) * rows_or_zeros(params.V, item), axis=1)
    biases = rows_or_zeros(params.b, user) + rows_or_zeros(params.c, item)
    return config.mean + config.unit * product + config.unit * biases


def gather(data: Array, index: Array, capacity: int, config: Config) -> Batch:
    """Gather a minibatch of ratings.

    Args:
        index: int32[B], the ratings.
    """
    found = data.at[index].get(mode="clip")
    return Batch(found[:, 0], found[:, 1], jax.lax.bitcast_convert_type(found[:, 2], jnp.float32))


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Return the squared errors, [B], in squared stars."""
    predicted = predict(params, batch.user, batch.item, replace(config, mean=0.0))
    return jnp.square(predicted - config.unit * batch.stars)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over the ratings of `make_data`.

    Its config has the mean 0, so that data with different means share a compiled program: predict with `config`.
    """
    config = replace(config, mean=0.0)
    per_rating = config.prior == "per-rating"
    return Program(
        config=config,
        batch=gather,
        loss=batch_loss,
        score=score,
        metric=Metric("RMSE", np.sqrt),
        group_size=triples.GROUP_SIZE,
        sections=triples.num_sections(config.num_users),
        sparse=Sparse(touched),
        decay=Decay("when-touched", penalty) if per_rating else Decay("per-row"),
    )


def starting_params(key: Array, data: Dataset, config: Config) -> Params:
    """Initialise parameters, with zeros for users and items without training ratings."""
    users, items = used_rows(data.train.user, config.num_users), used_rows(data.train.item, config.num_items)
    return _starting_params(key, users, items, config)


@partial(jax.jit, static_argnames="config")
def _starting_params(key: Array, users: Array, items: Array, config: Config) -> Params:
    params = init(key, config)
    return params._replace(U=zero_unrated(params.U, users), V=zero_unrated(params.V, items))


def prepare(key: Array, data: Dataset, rated: Pairs, config: Config) -> TrainingSetup:
    """Set up what the engine trains."""
    train, valid = make_data(data.train, config), make_data(data.valid, config)
    return TrainingSetup(program(config), starting_params(key, data, config), train, valid)


def prepare_sweeps(key: Array, data: Dataset, rated: Pairs, config: Config, recipe: Recipe) -> Sweeps:
    """Return the alternating exact solutions for the same objective."""
    return als.sweeps(starting_params(key, data, config), data.train, data.valid, config, recipe.decay)


def predictor(params: Params, config: Config, users: KnownUsers) -> Predictor:
    """Return the predictor for the users of training."""
    return by_pairs(predict, params, config)


def fold_in(params: Params, config: Config, users: KnownUsers, decay: Mapping[str, float]) -> Predictor:
    """Fold in new users, each with its best vector and bias given the items' (a ridge regression)."""
    U, b = als.fold_in_users(users.ratings, users.number, params, config, decay)
    return predictor(params._replace(U=U, b=b), config, users)


def with_new_items(
    params: Params,
    config: Config,
    place: NDArray[np.int32],
    ratings: Ratings,
    num_items: int,
    decay: Mapping[str, float],
) -> tuple[Params, Config]:
    """Add items, each with its best vector and bias given the users' (`jaxcf.contract.TakesNewItems`)."""
    V, c = als.fold_in_items(ratings, num_items, params, config, decay)
    # an item without new ratings is at zeros there, so the sum has the old items and the new ones
    extended = params._replace(V=V.at[place].add(params.V), c=c.at[place].add(params.c))
    return extended, replace(config, num_items=num_items)


def shapes(config: Config) -> Params:
    """Return the parameters' shapes."""
    return jax.eval_shape(lambda: init(jax.random.key(0), config))


def factors(params: Params, config: Config, users: KnownUsers) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return (unit U, mean + unit b, 1) of users and (V, 1, unit c) of items, whose products are Eq. 5.20 in stars."""
    U, V, b, c = map(np.asarray, params)
    of_users = config.mean + config.unit * b[:, None], np.ones((len(U), 1), np.float32)
    of_items = np.ones((len(V), 1), np.float32), config.unit * c[:, None]
    return np.concatenate([config.unit * U, *of_users], axis=1), np.concatenate([V, *of_items], axis=1)


def cost(config: Config, costs: None = None) -> Cost:
    """Count what a rating takes: the product of two rows, which are read and written with their biases."""
    numbers = 2 * (config.num_features + config.biases)
    size, rows = ("(D + 1)", "rows of U and V with their biases") if config.biases else ("D", "rows of U and V")
    formula = f"6 D operations; 12 + 8 · 2 {size} bytes: the rating, {rows}"
    return Cost(PRODUCT * config.num_features, 3 + numbers, numbers, formula)


def item_vectors(params: Any, config: Config) -> NDArray[np.float32]:
    """Return V, [items, D]."""
    return np.asarray(params.V)


# Differs: a pass draws the order of groups of ratings; the ratings of a group, from all over the data, stay the same.
# With more than 8192 users, it visits one section of the users after another (`jaxcf.data.triples`).
# "thesis" follows the sum over minibatches of 100 triples, where the thesis updates after each: among 100 hardly any
# share a user or an item, and the parameters after a pass are nearly the same (a test, of one section). "tuned" was
# chosen by validation ratings of MovieLens 1M; `python -m benchmarks run recipe-choice` compares it with others.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (
        Recipe(
            optimizer="sgd", batch_size=100, epochs=250, rate={"*": 1e-2, "b": 1e-3, "c": 1e-3},
            decay={"*": 1e-2, "b": 1e-1, "c": 1e-1}, patience=250, reduction="sum",
        ),
        {},
    ),
    "tuned": (
        Recipe(
            optimizer="sgd", batch_size=1000, epochs=25, rate={"*": 3e-2},
            decay={"*": 4.5e-2, "b": 2e-2, "c": 1e-2}, anneal=True, reduction="sum",
        ),
        {"num_features": 50, "init_scale": 0.01},
    ),
}  # fmt: skip

# Without priors the validation error soon rises again: small rates and initial features come nearer to its minimum.
# From so small a start, features take some passes to grow, in which the error hardly falls: patience is longer.
SVD_RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (replace(RECIPES["thesis"][0], decay={"*": 0.0}), RECIPES["thesis"][1]),
    "tuned": (
        Recipe(
            optimizer="sgd", batch_size=1000, epochs=100, rate={"*": 1e-2, "b": 3e-3, "c": 3e-3}, decay={"*": 0.0},
            patience=10, reduction="sum",
        ),
        {**RECIPES["tuned"][1], "init_scale": 1e-4},
    ),
}  # fmt: skip


BY_SGD = BySGD(prepare)
BY_ALS = BySweeps(
    "als", "alternating exact solutions for users and items of the same objective", prepare_sweeps,
    uses=("decay", "epochs", "patience"), cost=als.cost,
)  # fmt: skip
PMF = RatingModel(
    name="pmf", about="probabilistic matrix factorization", source="Mnih 2010, §5.3.1", config=Config,
    shapes=shapes, recipes=RECIPES, fitting=(BY_SGD, BY_ALS),
    capabilities=(
        PredictsRatings(predictor), FoldsIn(fold_in), TakesNewItems(with_new_items), SimilarItems(item_vectors),
        HasFactors(factors, "mean + unit (U·V + b + c)"),
    ),
    cost=cost, one_thread_up_to=inf,
)  # fmt: skip
SVD_BIAS = replace(
    PMF, name="svd-bias", about="online SVD with biases", source="Mnih 2010, §5.4.5", recipes=SVD_RECIPES,
    fitting=(BY_SGD,), fixed={"biases": True},
)  # fmt: skip
SVD = replace(SVD_BIAS, name="svd", about="online SVD: PMF without priors and biases", fixed={"biases": False})
