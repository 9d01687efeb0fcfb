"""Bias models: a rating is predicted by the mean plus a bias of its user, of its item, or of both.

Source: Mnih 2010, §5.4.5: PMF (Eq. 5.18-5.20) without feature vectors (its footnote 11). As the models are linear, the
posterior mode is the solution of a ridge regression, which is computed exactly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf.contract import ClosedForm, FoldsIn, HasFactors, KnownUsers, Predictor, PredictsRatings, RatingModel
from jaxcf.data.ratings import Ratings
from jaxcf.models.pairwise import by_pairs, rows_or_zeros
from jaxfit.errors import UserError
from jaxfit.recipe import option

TOLERANCE = 1e-10  # of conjugate gradients, relative to the right-hand side


@dataclass(frozen=True)
class Config:
    """What the model is, and how strong its priors are."""

    num_users: int = option(help="users", unit="users")
    num_items: int = option(help="items", unit="items")
    users: bool = option(True, "a bias for each user")
    items: bool = option(True, "a bias for each item")
    mean: float = option(0.0, "what every prediction starts from", "stars", low=-np.inf)
    prior: Literal["per-rating", "per-row"] = option("per-row", "apply decay once per rating, or once per user or item")
    decay_users: float = option(0.0, "strength of the prior of users")
    decay_items: float = option(0.0, "strength of the prior of items")


class Params(NamedTuple):
    """Biases in stars; 0 where the model has none, and without ratings.

    Attributes:
        b: [users].
        c: [items].
    """

    b: Array
    c: Array


def solve(ratings: Ratings, config: Config) -> Params:
    """Find the biases that minimise Σ ½ (R_ij - mean - b_i - c_j)² + ½ Σ_i s_i b_i² + ½ Σ_j s_j c_j², exactly.

    s_i is `decay_users`, times the user's number of ratings with the prior `per-rating`; likewise s_j. The users'
    biases are eliminated, and the items' found by conjugate gradients, in float64. Without decay, the biases are
    determined only up to a constant that is added to those of the users and subtracted from those of the items.
    Differs: the thesis approaches the same mode by stochastic gradients, and stops early.

    Raises:
        UserError: a decay is negative, or conjugate gradients do not converge.
    """
    if config.decay_users < 0 or config.decay_items < 0:
        raise UserError("a prior cannot be negative", "--decay-users, --decay-items", "give 0 or more")
    user, item, stars = ratings[:3]
    centred = stars.astype(np.float64) - config.mean
    B, y_b = _side(user, centred, config.num_users, config.decay_users, config.prior)
    C, y_c = _side(item, centred, config.num_items, config.decay_items, config.prior)
    b = y_b / B if config.users else np.zeros(config.num_users)
    c = y_c / C if config.items else np.zeros(config.num_items)
    if config.items and config.users:
        import scipy.sparse  # here, as it takes a while, and predictions do without it
        from scipy.sparse.linalg import LinearOperator, cg

        shape = (config.num_users, config.num_items)
        N = scipy.sparse.coo_array((np.ones(len(user)), (user, item)), shape=shape).tocsr()
        # (B N; Nᵀ C) (b; c) = (y_b; y_c), for c alone; scaled so that the diagonal is near 1
        half = 1 / np.sqrt(C)

        def product(z: NDArray[np.float64]) -> NDArray[np.float64]:
            z = np.ravel(z)
            return z - half * (N.T @ ((N @ (half * z)) / B))

        operator = LinearOperator((config.num_items,) * 2, matvec=product, dtype=np.float64)
        z, failed = cg(operator, half * (y_c - N.T @ (y_b / B)), rtol=TOLERANCE, maxiter=1000)
        if failed:
            raise UserError("the biases do not settle", "--decay-users, --decay-items", "give larger ones")
        c = half * z
        b = (y_b - N @ c) / B
    return Params(*jax.device_put((b.astype(np.float32), c.astype(np.float32))))


def _side(
    index: NDArray[np.int32], centred: NDArray[np.float64], number: int, decay: float, prior: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute for each user (or item) its diagonal entry, 1 where it has no ratings, and the sum of its ratings."""
    count = np.bincount(index, minlength=number).astype(np.float64)
    total = np.bincount(index, centred, minlength=number).astype(np.float64)
    diagonal = count + decay * (count if prior == "per-rating" else 1.0)
    return np.where(count > 0, diagonal, 1.0), total


def predict(params: Params, user: Array | np.ndarray, item: Array | np.ndarray, config: Config) -> Array:
    """Predict stars, [n], not clipped; an unknown user or item, -1, has bias 0.

    Args:
        user, item: int32[n].
    """
    return config.mean + rows_or_zeros(params.b, user) + rows_or_zeros(params.c, item)


def predictor(params: Params, config: Config, users: KnownUsers) -> Predictor:
    """Return the predictor for the users of training."""
    return by_pairs(predict, params, config)


def fold_in(params: Params, config: Config, users: KnownUsers, decay: Mapping[str, float]) -> Predictor:
    """Fold in new users: solve for their biases, with those of the items as they are."""
    if not config.users:
        return predictor(params, config, users)
    known = users.ratings
    own = replace(config, num_users=users.number, items=False, mean=0.0)
    rest = known.stars - predictor(params, config, users)(np.full(len(known.user), -1), known.item)
    b = solve(known._replace(stars=rest.astype(np.float32)), own).b
    return predictor(params._replace(b=b), config, users)


def factors(params: Params, config: Config, users: KnownUsers) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return (mean + b, 1) of each user and (1, c) of each item."""
    own, of_items = config.mean + np.asarray(params.b), np.asarray(params.c)
    return np.stack([own, np.ones_like(own)], axis=1), np.stack([np.ones_like(of_items), of_items], axis=1)


def shapes(config: Config) -> Any:
    """Return the parameters' shapes."""
    return Params._make(jax.ShapeDtypeStruct((n,), jnp.float32) for n in (config.num_users, config.num_items))


# "thesis": the decay of §5.4.2, as in updates per triple. "tuned" was chosen by validation ratings of MovieLens 1M.
RECIPES: dict[str, tuple[None, dict[str, Any]]] = {
    "thesis": (None, {"prior": "per-rating", "decay_users": 0.1, "decay_items": 0.1}),
    "tuned": (None, {"prior": "per-row", "decay_users": 5.0, "decay_items": 3.0}),
}


BIAS = RatingModel(
    name="bias", about="a bias for each user and each item", source="Mnih 2010, §5.4.5", config=Config, shapes=shapes,
    recipes=RECIPES, fitting=(ClosedForm(solve),), fixed={"users": True, "items": True},
    capabilities=(PredictsRatings(predictor), FoldsIn(fold_in), HasFactors(factors, "mean + b + c")),
)  # fmt: skip
USER_BIAS = replace(
    BIAS, name="user-bias", about="a bias for each user", fixed={"users": True, "items": False, "decay_items": 0.0}
)
ITEM_BIAS = replace(
    BIAS, name="item-bias", about="a bias for each item (the thesis' movie-bias)",
    fixed={"users": False, "items": True, "decay_users": 0.0},
)  # fmt: skip
