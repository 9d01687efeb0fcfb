"""The conditional restricted Boltzmann machine: which items a user rated moves the biases of its hidden units.

Source: Mnih 2010, §5.2.2 (Eq. 5.12-5.15), §5.4.4. All else is as in `rbm`. The rated items are part of the data, and
may differ between training and prediction: those of the training ratings alone (the thesis' CRBM1), those of
validation and test ratings as well (CRBM2), or any pairs of user and movie.
"""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from jaxcf.contract import (
    BySGD,
    FoldsIn,
    KnownUsers,
    Predictor,
    PredictsExactly,
    PredictsRatings,
    RatingModel,
    SimilarItems,
    TrainingSetup,
    UsesRatedItems,
)
from jaxcf.data import user_batches as vectors
from jaxcf.data.ratings import Dataset, Pairs, Ratings
from jaxcf.data.user_batches import Batch, Data
from jaxcf.models.rbm import model as rbm
from jaxcf.models.rbm.chains import contrast, of_entries
from jaxcf.models.rbm.config import Config as Config
from jaxcf.models.rbm.config import covariance, expected_stars, scale
from jaxfit.program import Decay, Metrics, Program, Sparse
from jaxfit.recipe import Recipe
from jaxfit.tables import Gathered, Outer, require_whole, rows_of


class Params(NamedTuple):
    """As `rbm.Params`, and U: [N_m, N_h], what a movie that was rated adds to the hidden biases."""

    W: Array
    b_m: Array
    b_h: Array
    U: Array


def init(key: Array, config: Config, known: Ratings, values: NDArray[np.int32]) -> Params:
    """Initialise as the RBM, with U = 0."""
    return Params(*rbm.init(key, config, known, values), jnp.zeros((config.num_items, config.num_hidden)))


def hidden_bias(read: Any, batch: Batch) -> Array:
    """b_h + U f_v of each user (Eq. 5.12), [B, N_h]; read: U [n, N_h], the rows of the movies of `batch.rated`.

    Differs: Eq. 5.14 lacks its sum over m, and names rows of U for what 5.12 makes columns.
    """
    shared = rbm.hidden_bias(read, batch)
    if batch.rated is None:
        return shared
    owner = batch.rated.owner
    return shared + jax.ops.segment_sum(read.U, owner, shared.shape[0], indices_are_sorted=True)


def loss(
    params: Params,
    example: tuple[Array, Array],
    rated: Array,
    key: Array,
    cd_steps: int,
    config: Config,
    mask: Array | None = None,
) -> Array:
    """`rbm.loss` of ONE user who rated the movies `rated`, int32[n] (past the last: padding): the specification."""
    require_whole(params)
    bias = params.b_h + jnp.sum(params.U.at[rated].get(mode="fill", fill_value=0), axis=0)
    return rbm.loss(params, example, key, cd_steps, bias, config, mask)


batch_loss = functools.partial(rbm.batch_loss, bias=hidden_bias)
score = functools.partial(rbm.score, bias=hidden_bias)


def gradient(weights: Params, batch: Batch, weight: Array, keys: Array, config: Config) -> tuple[None, Metrics, Any]:
    """Compute the Metrics of `batch_loss` and its gradient, in parts; that by U is Eq. 5.15."""
    metrics, by_bias, of_W, of_b_m = contrast(weights, batch, weight, keys, hidden_bias, config, covariance(config))
    assert batch.rated is not None
    owner, item, _ = batch.rated
    own = jnp.minimum(owner, by_bias.shape[0] - 1)
    of_U = (Outer(item, jnp.ones(item.shape, by_bias.dtype), own, by_bias),)
    return None, metrics, Params(of_W, of_b_m, jnp.sum(by_bias, axis=0), of_U)  # type: ignore[arg-type]


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows of W, b_m and U that a minibatch reads; b_h has a dense use."""
    assert batch.rated is not None
    return Params(*rbm.touched(batch, config), batch.rated.item)


def penalty(params: Gathered, batch: Batch, weight: Array, config: Config) -> Params:
    """½|row|², summed over uses: those of U by the users conditioned on them, all others as in `rbm.penalty`."""
    assert batch.rated is not None
    of_U = of_entries(weight, batch.rated) @ jnp.sum(jnp.square(rows_of(params).U), axis=1)
    return Params(*rbm.penalty(params, batch, weight, config), 0.5 * of_U)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over `Data` with `rated`."""
    per_rating = config.prior == "per-rating"
    return replace(
        rbm.program(config),
        loss=batch_loss,
        score=score,
        sparse=Sparse(touched, None if per_rating else gradient),
        decay=Decay("when-touched", penalty) if per_rating else Decay("per-row"),
    )


def predict(
    params: Params, data: Data, user: ArrayLike, item: ArrayLike, config: Config, exact: bool = False
) -> NDArray[np.float32]:
    """Predict as `rbm.predict`, given also which items the users of `data` rated: int [n], [n] -> [n, K].

    A new user needs no ratings: rated items are enough.
    """
    return rbm.predict(params, data, user, item, config, exact, hidden_bias)


def prepare(key: Array, data: Dataset, rated: Pairs, config: Config) -> TrainingSetup:
    """Set up what the engine trains, conditioned on the items of the training ratings and on `rated`."""
    params = init(key, config, data.train, data.catalogue.scale.level(data.train.stars))
    return TrainingSetup(program(config), params, *vectors.training_data(data, (data.train, rated)))


def predictor(params: Params, config: Config, users: KnownUsers, exact: bool = False) -> Predictor:
    """`rbm.predictor`, conditioned on the users' rated sets."""
    known = vectors.make_data(users.ratings, users.number, scale(config), rated=users.rated_sets)
    return lambda user, item: expected_stars(predict(params, known, user, item, config, exact), config)


exact_predictor = functools.partial(predictor, exact=True)


def fold_in(params: Params, config: Config, users: KnownUsers, decay: Mapping[str, float]) -> Predictor:
    """Fold in new users: no parameter is a user's own."""
    return predictor(params, config, users)


def shapes(config: Config) -> Any:
    """Return the parameters' shapes."""
    U = jax.ShapeDtypeStruct((config.num_items, config.num_hidden), jnp.float32)
    return Params._make((*rbm.shapes(config), U))


# Differs: the thesis does not say how U is trained; "thesis" takes the rate and decay of the other weights. "tuned": as
# in `rbm`, with U's rate and decay chosen likewise, given the test's rated items (RMSE .8605).
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    name: (replace(recipe, rate={**recipe.rate, "U": rate}, decay={**recipe.decay, "U": decay}), config)
    for (name, (recipe, config)), rate, decay in zip(rbm.RECIPES.items(), (1e-3, 5e-3), (1e-2, 20.0), strict=True)
}

CRBM = RatingModel(
    name="crbm", about="conditional RBM, which knows what a user rated", source="Mnih 2010, §5.2.2", config=Config,
    shapes=shapes, recipes=RECIPES, fitting=(BySGD(prepare),),
    capabilities=(
        PredictsRatings(predictor), PredictsExactly(exact_predictor), FoldsIn(fold_in),
        SimilarItems(rbm.item_vectors), UsesRatedItems(),
    ),
)  # fmt: skip
