"""Rating models as a regressor of scikit-learn: from pairs of a user and an item to stars.

estimator = RatingRegressor("pmf", num_features=20, random_state=0)
cross_validate(estimator, X, y, scoring="neg_root_mean_squared_error")  # X: users and items, [N, 2]; y: stars, [N]
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from jaxcf import api
from jaxcf.contract import PredictsRatings
from jaxcf.data.ids import written
from jaxcf.models import get, require
from jaxcf.recommender import Model
from jaxfit.errors import missing_package, value_errors
from jaxfit.recipe import INT32_MAX

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import (
        check_array,
        check_consistent_length,
        check_is_fitted,
        check_random_state,
        column_or_1d,
    )
except ImportError:
    raise ImportError(str(missing_package("scikit-learn 1.6", "jaxcf.sklearn", "topics"))) from None


class RatingRegressor(RegressorMixin, BaseEstimator):
    """Train a rating model on users, items and stars, and predict stars.

    X: ids of users and items, array or DataFrame [N, 2], as numbers or text; y: stars, [N]. A pair must occur only
    once, unless `options` has `duplicates`. A user or an item that was not in training is predicted without it, so that
    folds of a cross-validation, which may lack some, can be predicted. A model that is validated sets 5 % of its
    training ratings aside, as `jaxcf.train` does.

    Args:
        model: name of a rating model: bias, pmf, cpmf, rbm, ….
        num_features: feature vector dimensionality of a factorization, in place of the recipe's.
        num_hidden: number of hidden units of an RBM, in place of the recipe's.
        epochs: maximum number of epochs, in place of the recipe's.
        recipe: "tuned" or "thesis".
        solver: the way of fitting, for models that have several.
        options: further options of `jaxcf.train`, by name.
        random_state: the seed, a `RandomState`, or None for a seed drawn at random.

    Attributes:
        model_: the trained `jaxcf.recommender.Model`.
        catalogue_, config_, info_, known_, params_: its parts.
        n_features_in_: 2.
    """

    def __init__(
        self,
        model: str = "pmf",
        *,
        num_features: int | None = None,
        num_hidden: int | None = None,
        epochs: int | None = None,
        recipe: str = "tuned",
        solver: str | None = None,
        options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ):
        self.model = model
        self.num_features = num_features
        self.num_hidden = num_hidden
        self.epochs = epochs
        self.recipe = recipe
        self.solver = solver
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> RatingRegressor:
        """Train the model.

        Raises:
            ValueError: X does not have two columns, y has values that are not numbers, the model cannot be trained with
                these parameters, or it predicts no ratings.
        """
        users, items = self._ids(X)
        stars = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64), warn=True)
        check_consistent_length(users, stars)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = int(check_random_state(seed).randint(INT32_MAX))
        named = {name: getattr(self, name) for name in ("num_features", "num_hidden", "epochs")}
        given = {name: value for name, value in named.items() if value is not None} | dict(self.options or {})
        own = {"out", "resume", "progress", "seed", "recipe", "solver", "valid"} & given.keys()
        if own:
            raise ValueError(f"options has {', '.join(sorted(own))}: it is no further option of the model")
        with value_errors():
            require(get(self.model), PredictsRatings, "RatingRegressor")
            trained = api.train(
                self.model, {"user": users, "item": items, "stars": stars}, recipe=self.recipe, solver=self.solver,
                seed=int(seed), progress=False, **given,
            )  # fmt: skip
        self.catalogue_, self.config_, self.info_, self.known_ = (
            trained.catalogue, trained.config, trained.info, trained.known
        )  # fmt: skip
        self.params_ = jax.device_get(trained.params)
        self._model = trained
        self.n_features_in_ = 2
        return self

    def predict(self, X: Any) -> NDArray[np.float32]:
        """Return the stars of pairs of a user and an item, on the scale of the training ratings: [N]."""
        check_is_fitted(self)
        return self.model_.predict(*self._ids(X), known_only=False)

    @property
    def model_(self) -> Model:
        """The trained model, built from its parts, which alone are pickled."""
        check_is_fitted(self, "params_")
        if "_model" not in vars(self):  # it was unpickled
            record = get(self.info_["model"])
            self._model = Model(record, self.catalogue_, self.info_, self.params_, self.config_, self.known_)
        return self._model

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_model"}

    def _ids(self, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the ids of users and of items, each as integers or as text."""
        if hasattr(X, "iloc"):  # of pandas, whose columns have types of their own
            columns = [np.asarray(X.iloc[:, place]) for place in range(X.shape[1])] if len(X.shape) == 2 else []
        else:
            table = np.asarray(X)
            columns = list(table.T) if table.ndim == 2 else []
        if len(columns) == 2 and not len(columns[0]):
            raise ValueError("there are no ratings, or pairs, in X")
        if len(columns) != 2:
            raise ValueError(f"X has shape {np.shape(X)}: give users and items as two columns, [N, 2]")
        users, items = map(written, columns)
        return users, items
