"""The conditional restricted Boltzmann machine: which items a user rated shifts the biases of its hidden units.

Source: Mnih 2010, §5.2.2 (Eq. 5.12-5.15), §5.4.4. All else is as in `rbm`, whose functions serve both models. The rated
items are part of the data, and may differ between training and prediction: those of the training ratings alone (the
thesis' CRBM1), those of validation and test ratings as well (CRBM2), or any pairs of user and movie.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf.contract import BySGD, FoldsIn, PredictsExactly, PredictsRatings, SimilarItems, TrainingSetup, UsesRatedItems
from jaxcf.data import user_batches
from jaxcf.data.ratings import Dataset, Pairs, Ratings
from jaxcf.data.user_batches import Batch
from jaxcf.models.rbm import model as rbm
from jaxcf.models.rbm.config import Config, decay_share
from jaxcf.models.rbm.prediction import exact_predictor, fold_in, predictor
from jaxfit.program import Program
from jaxfit.recipe import Recipe
from jaxfit.registry import Cost
from jaxfit.tables import require_whole


class Params(NamedTuple):
    """U: [N_m, N_h], what each rated movie adds to the hidden biases; the rest as in `rbm.Params`."""

    W: Array
    b_m: Array
    b_h: Array
    U: Array


def init(key: Array, config: Config, known: Ratings, values: NDArray[np.int32]) -> Params:
    """Initialise as the RBM, with U = 0."""
    return Params(*rbm.init(key, config, known, values), jnp.zeros((config.num_items, config.num_hidden)))


def loss(
    params: Params, example: tuple[Array, Array], rated: Array, key: Array, config: Config, *, cd_steps: int = 1
) -> Array:
    """Compute `rbm.loss` for ONE user who rated the movies `rated`: the specification.

    Args:
        rated: int32[n]; movies past the last are padding.
    """
    require_whole(params)
    bias = params.b_h + jnp.sum(params.U.at[rated].get(mode="fill", fill_value=0), axis=0)
    return rbm.loss(params, example, key, config, cd_steps=cd_steps, bias=bias)


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows of W, b_m and U that a minibatch reads; b_h has a dense use."""
    assert batch.rated is not None
    return Params(*rbm.touched(batch, config), batch.rated.item)


def program(config: Config, share: float = 1.0) -> Program:
    """Return the model as the engine sees it, over `Data` with `rated`."""
    return rbm.program(config, touched, share)


def prepare(key: Array, data: Dataset, rated: Pairs, config: Config) -> TrainingSetup:
    """Set up what the engine trains, conditioned on the items of the training ratings and on `rated`."""
    params = init(key, config, data.train, config.scale.level(data.train.stars))
    trained = program(config, decay_share(data, config))
    return TrainingSetup(trained, params, *user_batches.training_data(data, config.scale, (data.train, rated)))


def shapes(config: Config) -> Params:
    """Return the parameters' shapes."""
    U = jax.ShapeDtypeStruct((config.num_items, config.num_hidden), jnp.float32)
    return Params._make((*rbm.shapes(config), U))


def cost(config: Config, costs: NDArray[np.int64]) -> Cost:
    """Count what a rating takes: as for the RBM, and reading and updating the rows of U of its user's rated items."""
    plain, H = rbm.cost(config, costs), config.num_hidden
    known, rated = costs[:, 0].sum(), costs[:, 1].sum()
    numbers = H * float(rated / known)
    formula = f"{plain.formula}; 2 N_h operations for each rated item, whose row of U is read and written"
    return Cost(plain.operations + 2 * numbers, plain.read + numbers, plain.added + numbers, formula)


# Differs: the thesis names no rate or decay for U itself; "thesis" takes those of the weights (§5.4.2). "tuned": as in
# `rbm`; U's rate and decay were chosen with its former recipe, given the test's rated items.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    name: (replace(recipe, rate={**recipe.rate, "U": rate}, decay={**recipe.decay, "U": decay}), config)
    for (name, (recipe, config)), rate, decay in zip(rbm.RECIPES.items(), (1e-3, 5e-3), (1e-2, 20.0), strict=True)
}

CRBM = replace(
    rbm.RBM, name="crbm", about="conditional RBM, which knows what a user rated", source="Mnih 2010, §5.2.2",
    shapes=shapes, recipes=RECIPES, fitting=(BySGD(prepare),),
    capabilities=(
        PredictsRatings(partial(predictor, conditional=True)),
        PredictsExactly(partial(exact_predictor, conditional=True)),
        FoldsIn(partial(fold_in, conditional=True)),
        SimilarItems(rbm.item_vectors),
        UsesRatedItems(),
    ),
    cost=cost,
)  # fmt: skip
