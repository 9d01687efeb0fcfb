"""What a rating model is to the rest of the package: a record that says how it is fitted and what it can do.

A model's file ends with a `RatingModel`; the registry (`jaxcf.models`) names it in one line. Commands, training,
loading and benchmarks read the record and nothing else. This module does not import JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxcf.data.positives import positives
from jaxcf.data.ratings import Catalogue, Dataset, Pairs, Ratings, RatingScale, Units
from jaxfit.errors import UserError, require_fields
from jaxfit.recipe import require_bounds
from jaxfit.registry import Cost, Record

if TYPE_CHECKING:
    import jax

# fields of a Config, where it has them, that the data decide
FROM_DATA = ("num_users", "num_items", "mean", "unit", "num_values", "low", "step")
NO_PAIRS = Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32))

# Users and items as indices, int32[n] each, -1 for an unknown one -> expected stars, float32[n], not clipped.
Predictor = Callable[[np.ndarray, np.ndarray], np.ndarray]
# Users as indices, int32[n], -1 for an unknown one -> what items are ranked by, higher first, float32[n, items].
Scorer = Callable[[np.ndarray], np.ndarray]


class KnownUsers(NamedTuple):
    """Users 0 … number - 1, their known ratings, and pairs of users and further items whose ratings are not known."""

    number: int
    ratings: Ratings
    rated: Pairs = NO_PAIRS
    rated_only: bool = False  # models that use rated items condition on `rated` alone, not on the items of `ratings`

    @property
    def rated_sets(self) -> tuple[Ratings | Pairs, ...]:
        """The sets of pairs whose union is what models that use rated items condition on."""
        return (self.rated,) if self.rated_only else (self.ratings, self.rated)

    def with_rated(self, pairs: Pairs, only: bool = False) -> KnownUsers:
        """Return the same users with further rated pairs; with `only`, with these in place of all others."""
        if only:
            return self._replace(rated=pairs, rated_only=True)
        return self._replace(rated=Pairs(*map(np.concatenate, zip(self.rated, pairs, strict=True))))


# Ways of fitting


class TrainingSetup(NamedTuple):
    """What the engine trains: the program, the parameters before training, training and validation data."""

    program: Any
    params: Any
    train: Any
    valid: Any


@dataclass(frozen=True)
class BySGD:
    """Fitting by the engine's stochastic gradient descent.

    Attributes:
        prepare: (key, data, rated, config) -> the setup; key: for the initial parameters; rated: `KnownUsers.rated`.
    """

    prepare: Callable[[jax.Array, Dataset, Pairs, Any], TrainingSetup]
    name: str = "sgd"


@dataclass(frozen=True)
class ClosedForm:
    """Fitting by one exact computation.

    Attributes:
        solve: (training ratings, config) -> parameters.
    """

    solve: Callable[[Ratings, Any], Any]
    name: str = "closed-form"


class Sweeps(NamedTuple):
    """A fit by sweeps, before the first sweep.

    Attributes:
        sweep: (params, data, key) -> params. A pure function that JAX can trace: it reads the ratings from data alone,
            so that it can be compiled for their shapes, and draws what is random from the key.
        mean_after: number of sweeps after which the mean parameters of all later sweeps are validated and returned, as
            for posterior samples; infinite: the parameters of the sweep with the lowest validation error are returned.
        remedy: what to do about a sweep that is not finite.
    """

    params: Any  # a pytree of arrays
    data: Any  # a pytree of arrays: the training ratings as sweeps read them
    sweep: Callable[[Any, Any, jax.Array], Any]
    objective: Callable[[Any], float]  # params -> what sweeps minimise, per rating, or another number to journal
    error: Callable[[Any], float]  # params -> validation error, by default mean squared error in stars²
    mean_after: float = np.inf
    measure: tuple[str, Callable[[float], float]] = ("RMSE", math.sqrt)  # what is shown: its name, error -> value
    remedy: str = "give another --decay"


@dataclass(frozen=True)
class BySweeps:
    """Fitting by sweeps over all parameters: alternating exact solutions, Gibbs sampling.

    Attributes:
        name: as in `--solver NAME`.
        about: a phrase for the help.
        prepare: (key, data, rated, config, recipe) -> the sweeps; the driver (`jaxcf.solvers.sweeps`) makes at most
            `recipe.epochs` of them, stops after `recipe.patience` without improvement, and keeps the best parameters.
        uses: the fields of the recipe that have an effect.
        cost: (config, number of training ratings) -> the least that a rating costs in a sweep; None without a formula.
    """

    name: str
    about: str
    prepare: Callable[[jax.Array, Dataset, Pairs, Any, Any], Sweeps]
    uses: tuple[str, ...] = ("epochs", "patience")
    cost: Callable[[Any, int], Cost] | None = None


Fitting = BySGD | ClosedForm | BySweeps


# Capabilities: what some models can do and others cannot. `offers` says it in messages.


@dataclass(frozen=True)
class PredictsRatings:
    """The model predicts stars for its training users, from their known ratings and, where present, rated pairs."""

    offers: ClassVar[str] = "predictions of ratings"
    predictor: Callable[[Any, Any, KnownUsers], Predictor]  # (params, config, users) -> Predictor


@dataclass(frozen=True)
class RanksItems:
    """The model ranks items for its training users by what they took: its scores are not stars, and have no RMSE.

    It is a model of implicit data: its ratings are positives with counts (`RatingModel.taken`).
    """

    offers: ClassVar[str] = "rankings of items"
    scorer: Callable[[Any, Any, KnownUsers], Scorer]  # (params, config, users) -> Scorer


@dataclass(frozen=True)
class PredictsExactly:
    """The model predicts exactly, for any users, where its other predictions are an approximation."""

    offers: ClassVar[str] = "exact predictions in addition to approximate ones"
    predictor: Callable[[Any, Any, KnownUsers], Predictor]


@dataclass(frozen=True)
class FoldsIn:
    """The model predicts for users that were not in training; all parameters but theirs stay as they are."""

    offers: ClassVar[str] = "predictions for new users"
    # (params, config, users, decay) -> Predictor, or the Scorer of a model that RanksItems; decay: of the recipe, by
    # parameter
    predictor: Callable[[Any, Any, KnownUsers, Mapping[str, float]], Any]


@dataclass(frozen=True)
class TakesNewItems:
    """The model takes items that were not in training, from their ratings by training users.

    Attributes:
        extend: (params, config, place, ratings, num_items, decay) -> parameters and Config of `num_items` items; place:
            int32[old items], the index that each old item gets; ratings: of the new items, by training users.
    """

    offers: ClassVar[str] = "a way to take new items"
    extend: Callable[[Any, Any, NDArray[np.int32], Ratings, int, Mapping[str, float]], tuple[Any, Any]]


@dataclass(frozen=True)
class SimilarItems:
    """The model has item vectors that are close in angle for items that are alike."""

    offers: ClassVar[str] = "item vectors"
    vectors: Callable[[Any, Any], NDArray[np.float32]]  # (params, config) -> [items, …]


@dataclass(frozen=True)
class HasFactors:
    """Predictions, or scores, for training users are inner products of factors of users and items.

    Attributes:
        factors: (params, config, users) -> [users, D], [items, D], with biases and units included.
        formula: the prediction, or score, in terms of the parameters, as the help shows it.
    """

    offers: ClassVar[str] = "factors of users and items (export --format numpy)"
    factors: Callable[[Any, Any, KnownUsers], tuple[NDArray[np.float32], NDArray[np.float32]]]
    formula: str


@dataclass(frozen=True)
class UsesRatedItems:
    """The model conditions on which items a user rated, even where the ratings are not known (`rated_sets`)."""

    offers: ClassVar[str] = "a use for rated items"


@dataclass(frozen=True, kw_only=True, eq=False)
class RatingModel(Record):
    """A model of ratings, or of implicit data; the data determine the fields of its Config that are in FROM_DATA.

    Attributes:
        shapes: config -> the parameters' shapes, as `jax.ShapeDtypeStruct`s.
        fitting: the ways in which it can be fitted, the first by default.
        fixed: fields of Config whose values define this model.
    """

    package = "jaxcf.models"
    shapes: Callable[[Any], Any]
    fitting: tuple[Fitting, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def solver(self, name: str | None = None) -> Fitting:
        """Return the way of fitting of this name, by default the first; raises UserError for an unknown one."""
        for fitting in self.fitting:
            if name in (None, fitting.name):
                return fitting
        known = ", ".join(fitting.name for fitting in self.fitting)
        raise UserError(f"{self.name} has no solver {name!r}", "--solver", f"choose from {known}")

    @property
    def needs_levels(self) -> bool:
        """Whether ratings must be of a few fixed values."""
        return "num_values" in self.config.__dataclass_fields__

    @property
    def implicit(self) -> bool:
        """Whether it is a model of implicit data: it ranks items, and predicts no ratings."""
        return self.capability(RanksItems) is not None

    def takes_counts(self, positive: float | None) -> bool:
        """Return whether the values of its ratings are counts, not stars.

        Args:
            positive: the field of this name of its Config.
        """
        return self.implicit and positive is None

    def taken(self, ratings: Ratings, positive: float | None) -> Ratings:
        """Return ratings as the model takes them: for implicit data the positives, by `positive` of its Config."""
        return positives(ratings, positive) if self.implicit else ratings

    def units(self, stars: NDArray[np.float32], scale: RatingScale, chosen: Mapping[str, Any]) -> Units:
        """Return the units of training ratings.

        Args:
            stars: [N].
            chosen: fields of Config; only `subtract_mean` is read.
        """
        found = Units.of(stars, scale)
        return found if chosen.get("subtract_mean", True) else found._replace(mean=0.0)

    def configure(self, catalogue: Catalogue, units: Units, chosen: Mapping[str, Any]) -> Any:
        """Return the Config of the chosen fields, those that define this model, and those that the data determine.

        Args:
            catalogue: gives the numbers of users and items, and the scale.
            units: of the training ratings.
            chosen: fields of Config by name. `num_values`, for models that need levels, are the number of levels, at
                equal distances from the lowest rating to the highest; by default that of the scale.

        Raises:
            UserError: a chosen field is not one of the Config, or a value is out of bounds.
        """
        known, scale = self.config.__dataclass_fields__, catalogue.scale
        require_fields(chosen, known)
        levels = chosen.get("num_values", scale.levels)
        step = scale.step if levels == scale.levels else (scale.high - scale.low) / max(1, levels - 1)
        sizes = (catalogue.num_users, catalogue.num_items, *units, levels, scale.low, step)
        decided = {name: value for name, value in zip(FROM_DATA, sizes, strict=True) if name in known}
        config = self.config(**{**chosen, **self.fixed, **decided})
        require_bounds(config)
        return config
