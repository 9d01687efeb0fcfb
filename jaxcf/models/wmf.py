"""Weighted matrix factorization of implicit data: how often a user took an item says how sure it is that they like it.

min Σ_ui c_ui (p_ui - x_u·y_i)² + λ (Σ_u |x_u|² + Σ_i |y_i|²)   over ALL pairs of user and item,

with the preference p_ui = 1 if the user took the item, otherwise 0, and the confidence c_ui = 1 + α r_ui in it, which
grows with the count r_ui. Given the items, the best vector of each user is a weighted ridge regression, and the
reverse: sweeps alternate. Of the pairs without a positive, all of confidence 1, a sweep needs the sum YᵀY alone, so
that its time is linear in the positives.

Source: Hu, Koren and Volinsky 2008, "Collaborative filtering for implicit feedback datasets", §4 (Eq. 2-6).
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf import ranking
from jaxcf.contract import BySweeps, FoldsIn, KnownUsers, RanksItems, RatingModel, Scorer, SimilarItems, Sweeps
from jaxcf.data.positives import FromRatings
from jaxcf.data.ratings import Dataset, Pairs, Ratings, by_item, by_user
from jaxcf.models.pairwise import rows_or_zeros
from jaxcf.solvers.sweeps import SweepRecipe
from jaxcf.solvers.tiles import Side, make_side, row_sums
from jaxfit.errors import UserError
from jaxfit.recipe import option
from jaxfit.registry import Cost

VALIDATED = 10  # places of the ranking that validation is by


@dataclass(frozen=True)
class Config(FromRatings):
    """What the model is, and how strong its prior is."""

    num_users: int = option(help="users", unit="users")
    num_items: int = option(help="items", unit="items")
    num_features: int = option(50, "feature vector dimensionality", "features", first=True)
    alpha: float = option(40.0, "how the confidence in a positive grows with its count", first=True)
    confidence: Literal["linear", "log"] = option("linear", "1 + alpha r (Eq. 2), or 1 + alpha log(1 + r / epsilon)")
    epsilon: float = option(
        1.0, "the count from which on log confidence grows slowly", only_with=("confidence", ("log",))
    )
    decay: float = option(1.0, "strength of the prior, λ, which must be above 0", first=True)
    prior: Literal["per-row", "per-positive"] = option(
        "per-row", "apply decay once per user or item (Eq. 3), or once per positive, so that it suits data of any size"
    )
    init_scale: float = option(0.1, "standard deviation of initial feature vectors")


class Params(NamedTuple):
    """X: [users, D], Y: [items, D] feature vectors, 0 for users and items without positives."""

    X: Array
    Y: Array


def init(key: Array, config: Config) -> Params:
    """Draw small Gaussian feature vectors (the paper does not say)."""
    key_X, key_Y = jax.random.split(key)
    D = config.num_features
    return Params(
        X=config.init_scale * jax.random.normal(key_X, (config.num_users, D)),
        Y=config.init_scale * jax.random.normal(key_Y, (config.num_items, D)),
    )


def extra_confidence(counts: Any, config: Config) -> Any:
    """Return c - 1 of counts r: α r (Eq. 2), or α log(1 + r / ε) (Eq. 6); 0 of 0."""
    xp = jnp if isinstance(counts, Array) else np
    return config.alpha * (counts if config.confidence == "linear" else xp.log1p(counts / config.epsilon))


def loss(x: Array, Y: Array, counts: Array, config: Config) -> Array:
    """Σ_i c_i (p_i - x·y_i)² + λ |x|², for ONE user: the specification.

    It is what Eq. 3 has of the user; the sum over users, and λ |y_i|² of each item, are Eq. 3.

    Args:
        x: the user's vector, [D].
        Y: the items' vectors, [items, D].
        counts: how often the user took each item, [items].
        config: α, the form of the confidence, and λ.
    """
    c, p = 1 + extra_confidence(counts, config), (counts > 0).astype(x.dtype)
    times = jnp.sum(p) if config.prior == "per-positive" else 1.0
    return jnp.sum(c * jnp.square(p - Y @ x)) + config.decay * times * jnp.sum(jnp.square(x))


@functools.partial(jax.jit, static_argnames=("num_rows", "prior"))
def solve(side: Side, others: Array, decay: Array, num_rows: int, prior: str = "per-row") -> Array:
    """Return the vectors [num_rows, D] that minimise Eq. 3, those of the others given (Eq. 4 and 5).

    x_u = (YᵀY + Yᵀ (C_u - I) Y + λ I)⁻¹ Yᵀ C_u p_u, by Cholesky's decomposition. Sums over a user's positives are by
    tiles, whose padding is of zero vectors.

    Args:
        side: the positives of the rows, with c - 1 in place of stars.
        others: [others, D].
        decay: λ.
        num_rows: users, or items.
        prior: as in Config; λ is multiplied by the row's number of positives, or not.
    """
    shared = jnp.einsum("nd,ne->de", others, others, precision=jax.lax.Precision.HIGHEST)
    identity = jnp.eye(others.shape[1], dtype=others.dtype)

    def chunk(rows: Array, part: Side) -> tuple[Array, None]:
        with jax.named_scope("normal_equations"):
            vectors = others.at[part.other].get(mode="fill", fill_value=0)
            extra = part.stars[..., None] * vectors
            own = jnp.einsum("tld,tle->tde", extra, vectors, precision=jax.lax.Precision.HIGHEST)
            times: Array = jnp.ones(part.row.shape, others.dtype)
            if prior == "per-positive":  # at least 1: also rows of padding have a solution
                number = row_sums(jnp.sum(part.other < others.shape[0], axis=1, dtype=others.dtype), part)
                times = jnp.maximum(number, 1)
            A = shared[None] + row_sums(own, part) + decay * times[:, None, None] * identity[None]
            right = row_sums(jnp.sum(extra + vectors, axis=1), part)
        with jax.named_scope("solution"):
            x = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(A), True), right[..., None])[..., 0]
        return rows.at[part.row].set(x, mode="drop"), None

    return jax.lax.scan(chunk, jnp.zeros((num_rows, others.shape[1]), others.dtype), side)[0]


def make_data(positives: Ratings, config: Config) -> tuple[Side, Side]:
    """Put the positives on the device, user by user, and item by item."""
    weighted = _weighted(positives, config)
    of_users = make_side(by_user(weighted, config.num_users), config.num_items, config.num_features)
    return of_users, make_side(by_item(weighted, config.num_items), config.num_users, config.num_features)


def _weighted(positives: Ratings, config: Config) -> Ratings:
    """Return positives with c - 1 in place of their counts."""
    return positives._replace(stars=np.asarray(extra_confidence(positives.stars, config), np.float32))


def sweep(params: Params, data: tuple[Side, Side], config: Config) -> Params:
    """Make one sweep: all users given the items, then all items given the users. Neither half raises Eq. 3."""
    of_users, of_items = data
    decay = _decay(config)
    X = solve(of_users, params.Y, decay, config.num_users, config.prior)
    return Params(X, solve(of_items, X, decay, config.num_items, config.prior))


def _decay(config: Config) -> Array:
    if config.decay <= 0:
        raise UserError("exact solutions need a decay", "--decay", "give a decay above 0")
    return jnp.float32(config.decay)


@jax.jit
def _products(X: Array, Y: Array, user: Array, item: Array) -> Array:
    return jnp.sum(X[user] * Y[item], axis=1)


def objective(params: Params, positives: Ratings, config: Config) -> float:
    """Eq. 3, in float64, without visiting pairs that are no positives.

    Σ over all pairs of (x_u·y_i)², which is tr(XᵀX YᵀY), and over positives of c (1 - x_u·y_i)² - (x_u·y_i)².
    """
    X, Y = (np.asarray(rows, np.float64) for rows in params)
    products = np.asarray(_products(*params, positives.user, positives.item), np.float64)
    c = 1 + extra_confidence(np.asarray(positives.stars, np.float64), config)
    total = np.sum((X.T @ X) * (Y.T @ Y)) + np.sum(c * (1 - products) ** 2 - products**2)
    for rows, of in ((X, positives.user), (Y, positives.item)):
        times = np.bincount(of, minlength=len(rows)) if config.prior == "per-positive" else 1.0
        total += config.decay * np.sum(times * np.sum(rows**2, axis=1))
    return float(total)


def prepare(key: Array, data: Dataset, rated: Pairs, config: Config, recipe: SweepRecipe) -> Sweeps:
    """Return the sweeps; validation is by NDCG of its positives among all items without one in training."""
    train, valid, sizes = data.train, data.valid, (config.num_users, config.num_items)

    def error(params: Params) -> float:
        found = ranking.recommended(by_products(*params), train, valid, *sizes, VALIDATED)
        if not len(found.users):
            raise UserError(
                "no validation positive is new to its user", "--valid", "give others than those of training"
            )
        return 1 - found.ndcg

    return Sweeps(
        init(key, config),
        make_data(train, config),
        sweep=lambda params, data, key: sweep(params, data, config),
        objective=lambda params: objective(params, train, config) / len(train.user),
        error=error,
        measure=(f"NDCG@{VALIDATED}", lambda error: 1 - error),
    )


@jax.jit
def _scores(X: Array, Y: Array, users: Array) -> Array:
    return jnp.einsum("nd,md->nm", rows_or_zeros(X, users), Y)


def by_products(X: Array, Y: Array) -> Scorer:
    """Return the scorer by x_u·y_i; users go in blocks whose sizes are powers of two."""

    def scorer(users: np.ndarray) -> NDArray[np.float32]:
        number = len(users)
        size = max(8, 1 << (number - 1).bit_length())
        padded = np.pad(np.asarray(users, np.int32), (0, size - number), constant_values=-1)
        return np.asarray(_scores(X, Y, padded))[:number]

    return scorer


def scorer(params: Params, config: Config, users: KnownUsers) -> Scorer:
    """Return the scorer of the users of training."""
    return by_products(params.X, params.Y)


def fold_in(params: Params, config: Config, users: KnownUsers, decay: Mapping[str, float]) -> Scorer:
    """Fold in new users, each at its best vector given the items' (Eq. 4); decay: not read, as Config has it."""
    side = make_side(by_user(_weighted(users.ratings, config), users.number), config.num_items, config.num_features)
    return by_products(solve(side, params.Y, _decay(config), users.number, config.prior), params.Y)


def item_vectors(params: Params, config: Config) -> NDArray[np.float32]:
    """Y, [items, D]."""
    return np.asarray(params.Y)


def shapes(config: Config) -> Params:
    """Return the parameters' shapes."""
    return jax.eval_shape(lambda: init(jax.random.key(0), config))


def cost(config: Config, num_positives: int) -> Cost:
    """Count what a positive takes in a sweep: its part of two systems of normal equations, and of solving all of them.

    It adds the product of a vector with itself, weighted, to the equations of its user and to those of its item, and
    the vector to their right sides; all D² numbers count, as products do not spare half of a symmetric result.
    """
    D = config.num_features
    rows = (config.num_users + config.num_items) / num_positives
    formula = (
        "2 · 2 (D² + D) operations of normal equations, and for each user and item D³ / 3 + 2 D² of its solution and "
        "2 D² of the product of all rows; 4 · 2 D bytes of rows read, and each row written once"
    )
    return Cost(4 * (D**2 + D) + rows * (D**3 / 3 + 4 * D**2), 2 * D, rows * D, formula)


# "thesis": what the paper says; it leaves λ and the start open. "tuned" was chosen by validation positives (ratings of
# at least 4 stars) of MovieLens 1M.
RECIPES: dict[str, tuple[SweepRecipe, dict[str, Any]]] = {
    "thesis": (SweepRecipe(epochs=10, patience=10), {"alpha": 40.0, "num_features": 50}),
    "tuned": (SweepRecipe(epochs=15, patience=3), {}),
}


MODEL = RatingModel(
    name="wmf", about="weighted matrix factorization of implicit data", source="Hu, Koren and Volinsky 2008, §4",
    config=Config, shapes=shapes, recipes=RECIPES,
    fitting=(BySweeps("als", "alternating exact solutions", prepare, cost=cost),),
    capabilities=(RanksItems(scorer), FoldsIn(fold_in), SimilarItems(item_vectors)),
)  # fmt: skip
