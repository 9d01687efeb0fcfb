"""Conditional PMF: which items a user has rated says something of their taste before any rating is known.

Source: Mnih 2010, §5.3.2 (Eq. 5.22-5.24), §5.4.2. A user's vector is U_i = Y_i + μ_i: an offset Y_i with a prior around
0, and the mean μ_i of the conditioning vectors W_j of all items that the user has rated. Which items were rated and the
ratings are separate inputs, in training and in prediction.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf.contract import (
    BySGD,
    FoldsIn,
    HasFactors,
    KnownUsers,
    Predictor,
    PredictsRatings,
    RatingModel,
    SimilarItems,
    TrainingSetup,
    UsesRatedItems,
)
from jaxcf.data import user_batches
from jaxcf.data.ratings import Dataset, Pairs, Ratings, by_user, rated_sets, standardized, take
from jaxcf.data.user_batches import Batch, Data, Lists
from jaxcf.models import pmf
from jaxcf.models.cpmf.visit import visit
from jaxcf.models.pairwise import used_rows, zero_unrated
from jaxcf.solvers import als
from jaxfit.draws import permutation
from jaxfit.minibatches.bucketing import capacity_step
from jaxfit.program import Decay, Mean, Metric, Metrics, Program, Ragged, Sparse, Visits
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxfit.tables import Gathered, gathered, require_whole, rows_of

PIECE = 4096  # entries of rated sets that are summed at a time, outside training


@dataclass(frozen=True)
class Config(pmf.Config):
    """What shapes the program."""

    block: int = option(100, "ratings of a user between updates, at most; 0: all of them", "ratings", low=0)


class Params(NamedTuple):
    """Offsets, vectors and biases.

    Attributes:
        Y: [users, D], offsets.
        V: [items, D], feature vectors.
        W: [items, D], conditioning vectors.
        b: [users], biases.
        c: [items], biases.
    """

    Y: Array
    V: Array
    W: Array
    b: Array
    c: Array


def make_rated(*pairs: Ratings | Pairs, config: Config) -> Lists:
    """Put the union of sets of rated pairs on the device; stars are not read."""
    return user_batches.on_device(*rated_sets(*pairs, num_users=config.num_users))


def make_data(ratings: Ratings, rated: Lists, config: Config) -> Data:
    """Put the stars, standardized, on the device user by user, each user's in an order drawn once by a fixed key.

    Blocks are cut from that order: in the order of files, which is often that of time, blocks would differ more.
    """
    number = len(ratings.user)
    # of a capacity, so that data of similar size share a compiled program
    order = np.asarray(permutation(jax.random.key(0), max(1, number), capacity_step(number)))[:number]
    known = by_user(take(standardized(ratings, config.units), order), config.num_users)
    return Data(user_batches.on_device(*known), None, rated)


def init(key: Array, config: Config) -> Params:
    """Initialise as PMF, with conditioning vectors of 0."""
    U, V, b, c = pmf.init(key, config)
    return Params(U, V, jnp.zeros_like(V), b, c)


def loss(params: Params, ratings: pmf.Batch, rated: Array, config: Config) -> Array:
    """Compute Σ_j ½ (R_ij - U_i·V_j - b_i - c_j)², as in `pmf.loss`, for ONE user's ratings: the specification.

    U_i = Y_i + Σ_{j in set} W_j / |set| (Eq. 5.22-5.23), or Y_i where the set is empty.
    Differs: U_i is written as its prior's mean plus an offset Y_i, which is the same posterior; ratings are
    standardized first, as in `pmf.loss`.

    Args:
        ratings: user int32 scalar, item int32[n], stars float32[n], standardized; items past the last are padding.
        rated: int32[m], the set that is conditioned on; items past the last are padding.
    """
    require_whole(params)
    size = jnp.maximum(1, jnp.sum(rated < config.num_items))
    condition = jnp.sum(params.W.at[rated].get(mode="fill", fill_value=0), axis=0) / size
    given = pmf.Params(params.Y + condition[None], params.V, params.b, params.c)
    user = jnp.broadcast_to(ratings.user, ratings.item.shape)
    each = jax.vmap(functools.partial(pmf.loss, config=config), (None, 0))
    real = ratings.item < config.num_items
    return jnp.sum(jnp.where(real, each(given, ratings._replace(user=user)), 0.0))


def rows_of_ratings(params: Params, condition: Array, batch: Batch, config: Config) -> tuple[pmf.Params, Array]:
    """Return PMF's rows of every rating of the minibatch, and which ratings are real, [n].

    Args:
        params: the rows that `touched` names.
        condition: [B, D], added to the users' offsets.
        batch: a minibatch of users.
        config: of the model.
    """
    owner, item, _ = batch.known
    U = (params.Y + condition).at[owner].get(mode="clip")
    b = params.b.at[owner].get(mode="clip") if config.biases else jnp.zeros(item.shape)
    return pmf.Params(U, params.V, b, params.c), item < config.num_items


def shares(batch: Batch, config: Config) -> Array:
    """Return 1 / the size of the user's set for each rated item of a minibatch of users, 0 for padding: [m]."""
    assert batch.rated is not None
    owner, item, _ = batch.rated
    real, users = item < config.num_items, batch.user.shape[0]
    size = jax.ops.segment_sum(real.astype(jnp.int32), owner, users, indices_are_sorted=True)
    return jnp.where(real, 1 / jnp.maximum(size, 1).at[owner].get(mode="clip"), 0.0)


def squares(params: Params, condition: Array, batch: Batch, config: Config) -> Array:
    """Return the squared error of each standardized rating, [n], 0 for padding.

    Args:
        params: the rows that `touched` names.
        condition: [B, D], Eq. 5.22.
        batch: a minibatch of users.
        config: of the model.
    """
    rows, real = rows_of_ratings(params, condition, batch, config)
    return jnp.where(real, jnp.square(pmf.errors(rows, batch.known.value, config)), 0.0)


def batch_loss(
    params: Gathered, batch: Batch, weight: Array, keys: Array | None, config: Config
) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`, from the rows of `touched`; the RMSE is in stars."""
    read, of_rating = rows_of(params), weight.at[batch.known.owner].get(mode="clip")
    assert batch.rated is not None
    shared, users = shares(batch, config)[:, None] * read.W, batch.user.shape[0]
    condition = jax.ops.segment_sum(shared, batch.rated.owner, users, indices_are_sorted=True)  # Eq. 5.22
    errors = jnp.sum(of_rating * squares(read, condition, batch, config))
    count = jnp.sum(jnp.where(batch.known.item < config.num_items, of_rating, 0.0))
    return 0.5 * errors, {"RMSE": Mean(config.unit**2 * errors, count)}


def penalty(params: Gathered, batch: Batch, weight: Array, config: Config) -> Params:
    """Compute ½|row|², summed over the uses of a row: prior `per-rating`. A rating uses Y_i, V_j, b_i, c_j, as in PMF.

    An update for a user uses W_j once for each item j of the rated set, however many ratings are in the update; a user
    without ratings has none.
    """
    given = rows_of(params)
    rows, real = rows_of_ratings(given, jnp.zeros_like(given.Y), batch, config)  # U_i is Y_i alone
    used = jnp.where(real, weight.at[batch.known.owner].get(mode="clip"), 0.0)
    of_rating = pmf.penalty(Gathered(rows), batch, used, config)
    assert batch.rated is not None
    owner, item, _ = batch.rated
    number = jax.ops.segment_sum(real.astype(jnp.int32), batch.known.owner, len(weight), indices_are_sorted=True)
    of_user = jnp.where(number > 0, weight, 0.0)
    conditioned = jnp.where(item < config.num_items, of_user.at[owner].get(mode="clip"), 0.0)
    of_W = 0.5 * jnp.sum(conditioned * jnp.sum(jnp.square(given.W), axis=1))
    return Params(of_rating.U, of_rating.V, of_W, of_rating.b, of_rating.c)


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows that a minibatch reads; without biases, b and c have one id past the end."""
    assert batch.rated is not None
    ids = pmf.touched(pmf.Batch(batch.user, batch.known.item, batch.known.value), config)
    return Params(ids.U, ids.V, batch.rated.item, ids.b, ids.c)


@jax.jit
def conditions(W: Array, rated: Lists) -> Array:
    """Compute μ_i of all users, [users, D]: the mean of W over each rated set (Eq. 5.22), 0 for an empty one."""
    users, entries = rated.offsets.shape[0] - 1, rated.offsets[-1]
    size = jnp.diff(rated.offsets)

    def piece(k: Array, sums: Array) -> Array:
        at = k * PIECE + jnp.arange(PIECE, dtype=jnp.int32)
        owner = jnp.searchsorted(rated.offsets, at, side="right").astype(jnp.int32) - 1
        rows = W.at[rated.item.at[at].get(mode="clip")].get(mode="clip")
        return sums.at[jnp.where(at < entries, owner, users)].add(rows, mode="drop")

    sums = jax.lax.fori_loop(0, -(-entries // PIECE), piece, jnp.zeros((users, W.shape[1]), W.dtype))
    return sums / jnp.maximum(size, 1)[:, None]


def as_pmf(params: Params, rated: Lists) -> pmf.Params:
    """Return the PMF model that predicts the same given the rated sets: U_i = Y_i + μ_i."""
    return pmf.Params(params.Y + conditions(params.W, rated), params.V, params.b, params.c)


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Return the squared errors, in squared stars, summed over the ratings of each user: [B]."""
    assert batch.rated is not None
    ids: Any = touched(batch, config)
    users, rated_items = batch.user.shape[0], batch.rated._replace(value=shares(batch, config))

    def piece(k: Array, sums: Array) -> Array:  # the rows of W of all rated sets would be large
        at = k * PIECE + jnp.arange(PIECE, dtype=jnp.int32)
        whose, rated, share = (x.at[at].get(mode="fill", fill_value=0) for x in rated_items)
        return sums.at[whose].add(share[:, None] * params.W.at[rated].get(mode="clip"), mode="drop")

    zeros = jnp.zeros((users, params.W.shape[1]), params.W.dtype)
    condition = jax.lax.fori_loop(0, -(-rated_items.item.shape[0] // PIECE), piece, zeros)
    each = squares(gathered(params, ids._replace(W=None)).rows, condition, batch, config)
    return config.unit**2 * jax.ops.segment_sum(each, batch.known.owner, users, indices_are_sorted=True)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over `Data`: an example is a user with all their ratings."""
    config = replace(config, mean=0.0)  # as in PMF
    per_rating = config.prior == "per-rating"
    return Program(
        config=config,
        size=user_batches.num_users,
        batch=user_batches.gather,
        loss=batch_loss,
        score=score,
        metric=Metric("RMSE", np.sqrt),
        events=user_batches.num_events,
        sparse=Sparse(touched),
        ragged=Ragged(user_batches.costs),
        decay=Decay("when-touched", penalty) if per_rating else Decay("per-row"),
        visits=Visits(visit) if config.block else None,
    )


def prepare(key: Array, data: Dataset, rated: Pairs, config: Config) -> TrainingSetup:
    """Set up what the engine trains, conditioned on the items of the training ratings and on `rated`."""
    sets = make_rated(data.train, rated, config=config)
    train, valid = (make_data(part, sets, config) for part in (data.train, data.valid))
    users, items = used_rows(data.train.user, config.num_users), used_rows(data.train.item, config.num_items)
    return TrainingSetup(program(config), _starting_params(key, users, items, config), train, valid)


@functools.partial(jax.jit, static_argnames="config")
def _starting_params(key: Array, users: Array, items: Array, config: Config) -> Params:
    params = init(key, config)
    return params._replace(Y=zero_unrated(params.Y, users), V=zero_unrated(params.V, items))


def predictor(params: Params, config: Config, users: KnownUsers) -> Predictor:
    """Return the predictor for the users of training, conditioned on their rated sets."""
    sets = make_rated(*users.rated_sets, config=config)
    return pmf.predictor(as_pmf(params, sets), config, users)


def fold_in(params: Params, config: Config, users: KnownUsers, decay: Mapping[str, float]) -> Predictor:
    """Fold in new users.

    μ follows from the rated sets; PMF's ridge regression fits offsets and biases to the ratings less what μ predicts.
    """
    own = replace(config, num_users=users.number)
    means = conditions(params.W, make_rated(*users.rated_sets, config=own))
    known = users.ratings
    expected = np.sum(np.asarray(means)[known.user] * np.asarray(params.V)[known.item], axis=1)
    rest = known._replace(stars=(known.stars - config.unit * expected).astype(np.float32))
    plain = pmf.Params(means, params.V, jnp.zeros(users.number), params.c)
    of_pmf = {"U" if name == "Y" else name: value for name, value in decay.items() if name != "W"}
    Y, b = als.fold_in_users(rest, users.number, plain, own, of_pmf)
    return pmf.predictor(plain._replace(U=means + Y, b=b), config, users)


def factors(params: Params, config: Config, users: KnownUsers) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the factors of PMF, of users given their rated sets: [users, D + 2] and [items, D + 2]."""
    return pmf.factors(as_pmf(params, make_rated(*users.rated_sets, config=config)), config, users)


def shapes(config: Config) -> Params:
    """Return the parameters' shapes."""
    return jax.eval_shape(lambda: init(jax.random.key(0), config))


def cost(config: Config, costs: NDArray[np.int64]) -> Cost:
    """Count what a rating takes: the product of its item's row of V, and the rows of W of its user's rated items."""
    D, rated = config.num_features, float(costs[:, 1].sum() / costs[:, 0].sum())
    numbers = D + config.biases + D * rated
    size, row = ("(D + 1)", "a row of V with its bias") if config.biases else ("D", "a row of V")
    formula = f"6 D operations, and 3 D for each rated item; 12 + 8 {size} bytes: the rating, {row}; 8 D: of W"
    return Cost((PRODUCT + 3 * rated) * D, 3 + numbers, numbers, formula)


# "tuned" was chosen by validation ratings of MovieLens 1M; `python -m benchmarks run recipe-choice` compares it with
# others. W's rate is far above Y's because a block moves the mean over a set of m items by 1/m of what it moves Y_i by
# at the same rate.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (
        Recipe(
            optimizer="sgd", batch_size=1, epochs=250, rate={"*": 1e-2, "W": 5e-3, "b": 1e-3, "c": 1e-3},
            decay={"*": 1e-2, "W": 3e-3, "b": 1e-1, "c": 1e-1}, patience=250, reduction="sum",
        ),
        {"block": 100},
    ),
    "tuned": (
        Recipe(
            optimizer="sgd", batch_size=8, epochs=15, rate={"*": 4e-2, "W": 5.0, "b": 3e-2, "c": 3e-2},
            decay={"*": 4.5e-2, "W": 1e-4, "b": 2e-2, "c": 1e-2}, anneal=True, reduction="sum",
        ),
        {"num_features": 50, "init_scale": 0.01, "block": 25},
    ),
}  # fmt: skip

CPMF = RatingModel(
    name="cpmf", about="conditional PMF, which knows what a user rated", source="Mnih 2010, §5.3.2", config=Config,
    shapes=shapes, recipes=RECIPES, fitting=(BySGD(prepare),),
    capabilities=(
        PredictsRatings(predictor), FoldsIn(fold_in), SimilarItems(pmf.item_vectors),
        HasFactors(factors, "mean + unit ((Y + the mean W of rated items)·V + b + c)"), UsesRatedItems(),
    ),
    cost=cost, one_thread_up_to=inf,
)  # fmt: skip
