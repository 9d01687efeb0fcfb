"""Popularity: items are ranked by how many users took them, the same for every user: a baseline for all rankings.

It is the model of implicit data without preferences of users, with which Hu, Koren and Volinsky 2008, §6, compare
theirs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf.contract import ClosedForm, FoldsIn, HasFactors, KnownUsers, RanksItems, RatingModel, Scorer
from jaxcf.data.positives import FromRatings
from jaxcf.data.ratings import Ratings
from jaxfit.recipe import option


@dataclass(frozen=True)
class Config(FromRatings):
    """What the model is."""

    num_items: int = option(help="items", unit="items")


class Params(NamedTuple):
    """positives: [items], the number of users who took each item."""

    positives: Array


def solve(positives: Ratings, config: Config) -> Params:
    """Count the users who took each item, whatever their counts."""
    number = np.bincount(positives.item, minlength=config.num_items)
    return Params(jax.device_put(number.astype(np.float32)))


def scorer(params: Params, config: Config, users: KnownUsers) -> Scorer:
    """Return the scorer of any users."""
    scores = np.asarray(params.positives)
    return lambda users: np.broadcast_to(scores, (len(users), config.num_items))


def fold_in(params: Params, config: Config, users: KnownUsers, decay: Mapping[str, float]) -> Scorer:
    """Return the scorer of new users, which is that of all."""
    return scorer(params, config, users)


def factors(params: Params, config: Config, users: KnownUsers) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return 1 for each user, and the number of users who took each item."""
    return np.ones((users.number, 1), np.float32), np.asarray(params.positives)[:, None]


def shapes(config: Config) -> Any:
    """Return the parameters' shapes."""
    return Params._make([jax.ShapeDtypeStruct((config.num_items,), jnp.float32)])


MODEL = RatingModel(
    name="popularity", about="popularity of items, the same for all users, on implicit data",
    source="Hu, Koren and Volinsky 2008, §6", config=Config, shapes=shapes,
    recipes={"thesis": (None, {}), "tuned": (None, {})}, fitting=(ClosedForm(solve),),
    capabilities=(RanksItems(scorer), FoldsIn(fold_in), HasFactors(factors, "positives")),
)  # fmt: skip
