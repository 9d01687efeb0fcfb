"""Weighted matrix factorization of implicit data: how often a user took an item says how sure it is that they like it.

min Σ_ui c_ui (p_ui - x_u·y_i)² + λ (Σ_u |x_u|² + Σ_i |y_i|²)   over ALL pairs of user and item,

with the preference p_ui = 1 if the user took the item, otherwise 0, and the confidence c_ui = 1 + α r_ui in it, which
grows with the count r_ui. Given the items, the best vector of each user is a weighted ridge regression, and the
reverse: sweeps alternate. Of the pairs without a positive, all of confidence 1, a sweep needs the sum YᵀY alone, so
that its time is linear in the positives.

Source: Hu, Koren and Volinsky 2008, "Collaborative filtering for implicit feedback datasets", §4 (Eq. 2-6). A prior
that grows with the number n of a row's positives, λ n^ν, is as in Rendle, Krichene, Zhang and Koren 2022, "Revisiting
the performance of iALS on item recommendation benchmarks".
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf import ranking
from jaxcf.contract import (
    BySweeps,
    FoldsIn,
    HasFactors,
    KnownUsers,
    RanksItems,
    RatingModel,
    Scorer,
    SimilarItems,
    Sweeps,
)
from jaxcf.data.positives import FromRatings
from jaxcf.data.ratings import Dataset, Pairs, Ratings, Vectors, by_item, by_user
from jaxcf.models.pairwise import by_products
from jaxcf.solvers import products
from jaxcf.solvers.implicit_als import improve, solve
from jaxcf.solvers.sweeps import SweepRecipe
from jaxcf.solvers.tiles import Side, make_side, make_sides
from jaxfit.draws import normal
from jaxfit.errors import UserError
from jaxfit.recipe import option
from jaxfit.registry import Cost

VALIDATED = 10  # places of the ranking that validation is by

Data = tuple[Sequence[Side], Sequence[Side]]  # the positives of all users, and those of all items, in parts
Half = Callable[[Sequence[Side], Array, Array, Array, Array], Array]  # parts, rows, others, λ, its exponent -> rows
LayOut = Callable[[Vectors, int, int], Sequence[Side]]  # positives by row, number of others, D -> their parts


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
    exponent: float = option(
        0.0, "of the number n of a user's or item's positives: its prior is decay n^exponent (0: Eq. 3)", high=1.0
    )
    init_scale: float = option(0.1, "standard deviation of initial feature vectors")

    def __post_init__(self) -> None:
        if self.confidence == "log" and self.epsilon <= 0:
            raise UserError("log confidence needs an epsilon above 0", f"--epsilon {self.epsilon:g}", "give 1")


class Params(NamedTuple):
    """Feature vectors, 0 for users and items without positives.

    Attributes:
        X: [users, D].
        Y: [items, D].
    """

    X: Array
    Y: Array


def init(key: Array, config: Config) -> Params:
    """Draw small Gaussian feature vectors (the paper does not say)."""
    key_X, key_Y = jax.random.split(key)
    D = config.num_features
    return Params(
        X=config.init_scale * normal(key_X, (config.num_users, D)),
        Y=config.init_scale * normal(key_Y, (config.num_items, D)),
    )


def extra_confidence(counts: Any, config: Config) -> Any:
    """Return c - 1 of counts r, of any shape: α r (Eq. 2), or α log(1 + r / ε) (Eq. 6); 0 for r = 0."""
    xp = jnp if isinstance(counts, Array) else np
    return config.alpha * (counts if config.confidence == "linear" else xp.log1p(counts / config.epsilon))


def loss(x: Array, Y: Array, counts: Array, config: Config) -> Array:
    """Compute Σ_i c_i (p_i - x·y_i)² + λ n^ν |x|², for ONE user: the specification; n: the number of its positives.

    These are the terms of Eq. 3 that depend on the user; summed over users, with λ n^ν |y_i|² of each item, they are
    Eq. 3 (where ν = 0).

    Args:
        x: the user's vector, [D].
        Y: the items' vectors, [items, D].
        counts: how often the user took each item, [items].
        config: α and the form of the confidence; λ, `decay`; ν, `exponent`.
    """
    c, p = 1 + extra_confidence(counts, config), (counts > 0).astype(x.dtype)
    prior = config.decay * jnp.sum(p) ** config.exponent
    return jnp.sum(c * jnp.square(p - Y @ x)) + prior * jnp.sum(jnp.square(x))


def make_data(positives: Ratings, config: Config, lay_out: LayOut) -> Data:
    """Put the positives on the device, user by user, and item by item.

    Args:
        lay_out: `in_one_part` for `solve`, `make_sides` for `improve`.
    """
    weighted, D = _weighted(positives, config), config.num_features
    of_users, of_items = by_user(weighted, config.num_users), by_item(weighted, config.num_items)
    return lay_out(of_users, config.num_items, D), lay_out(of_items, config.num_users, D)


def in_one_part(vectors: Vectors, num_others: int, num_features: int) -> list[Side]:
    """Lay out the positives of all rows in one part."""
    return [make_side(vectors, num_others, num_features)]


def _weighted(positives: Ratings, config: Config) -> Ratings:
    """Return positives with c - 1 in place of their counts."""
    with np.errstate(over="ignore"):  # sweeps with it diverge, which is said there
        return positives._replace(stars=np.asarray(extra_confidence(positives.stars, config), np.float32))


def sweep(params: Params, data: Data, config: Config, half: Half) -> Params:
    """Make one sweep: all users given the items, then all items given the users. Neither half increases Eq. 3.

    Args:
        half: `solve` or `improve`.
    """
    of_users, of_items = data
    prior = strength(config)
    X = half(of_users, params.X, params.Y, *prior)
    return Params(X, half(of_items, params.Y, X, *prior))


def strength(config: Config) -> tuple[Array, Array]:
    """Return λ and its exponent; raises UserError for λ <= 0, with which solutions are not determined."""
    if config.decay <= 0:
        raise UserError("exact solutions need a decay", "--decay", "give a decay above 0")
    return jnp.float32(config.decay), jnp.float32(config.exponent)


@np.errstate(over="ignore", invalid="ignore")  # what is not finite has diverged
def objective(params: Params, positives: Ratings, config: Config) -> float:
    """Compute Eq. 3 in float64, without visiting pairs that are no positives.

    It is the sum over all pairs of (x_u·y_i)², which is tr(XᵀX YᵀY), the sum over positives of
    c (1 - x_u·y_i)² - (x_u·y_i)², and the priors.
    """
    X, Y = (np.asarray(rows, np.float64) for rows in params)
    predicted = np.asarray(products.of_pairs(*params, positives.user, positives.item), np.float64)
    c = 1 + extra_confidence(np.asarray(positives.stars, np.float64), config)
    total = np.sum((X.T @ X) * (Y.T @ Y)) + np.sum(c * (1 - predicted) ** 2 - predicted**2)
    for rows, of in ((X, positives.user), (Y, positives.item)):
        number = np.bincount(of, minlength=len(rows)).astype(np.float64)
        total += config.decay * np.sum(number**config.exponent * np.sum(rows**2, axis=1))
    return float(total)


def prepare(
    half: Half, lay_out: LayOut, key: Array, data: Dataset, rated: Pairs, config: Config, recipe: SweepRecipe
) -> Sweeps:
    """Return the sweeps; the validation measure is the NDCG of validation positives among items new to their users."""
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
        make_data(train, config, lay_out),
        sweep=lambda params, data, key: sweep(params, data, config, half),
        objective=lambda params: objective(params, train, config) / len(train.user),
        error=error,
        measure=(f"NDCG@{VALIDATED}", lambda error: 1 - error),
        remedy="give another --decay, or a smaller --alpha",
    )


def scorer(params: Params, config: Config, users: KnownUsers) -> Scorer:
    """Return the scorer of the users of training."""
    return by_products(params.X, params.Y)


def fold_in(params: Params, config: Config, users: KnownUsers, decay: Mapping[str, float]) -> Scorer:
    """Fold in new users, each with its best vector given the items' (Eq. 4).

    Args:
        decay: not read; the Config has it.
    """
    vectors = by_user(_weighted(users.ratings, config), users.number)
    side = make_side(vectors, config.num_items, config.num_features, few_sizes=True)
    start = jnp.zeros((users.number, config.num_features))
    return by_products(solve([side], start, params.Y, *strength(config)), params.Y)


def item_vectors(params: Params, config: Config) -> NDArray[np.float32]:
    """Return Y, [items, D]."""
    return np.asarray(params.Y)


def factors(params: Params, config: Config, users: KnownUsers) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return X and Y."""
    return np.asarray(params.X), np.asarray(params.Y)


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


# "thesis": what the paper says; it leaves λ and the start open. "tuned" was chosen by validation ratings of at least 4
# stars of MovieLens 1M; its prior grows with the positives, so that it suits data of other sizes, too.
RECIPES: dict[str, tuple[SweepRecipe, dict[str, Any]]] = {
    "thesis": (SweepRecipe(epochs=10, patience=10), {"alpha": 40.0}),
    "tuned": (SweepRecipe(epochs=15, patience=3), {"alpha": 2.0, "decay": 3.0, "exponent": 0.5}),
}


MODEL = RatingModel(
    name="wmf", about="weighted matrix factorization of implicit data", source="Hu, Koren and Volinsky 2008, §4",
    config=Config, shapes=shapes, recipes=RECIPES,
    fitting=(
        BySweeps(
            "cg", "alternating, a few steps of conjugate gradients", functools.partial(prepare, improve, make_sides)
        ),
        BySweeps("cholesky", "alternating exact solutions", functools.partial(prepare, solve, in_one_part), cost=cost),
    ),
    capabilities=(RanksItems(scorer), FoldsIn(fold_in), SimilarItems(item_vectors), HasFactors(factors, "X·Y")),
)  # fmt: skip
