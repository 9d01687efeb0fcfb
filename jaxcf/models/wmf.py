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
from jaxcf.data.ratings import Dataset, Pairs, Ratings, by_item, by_user
from jaxcf.models.pairwise import by_products
from jaxcf.solvers.sweeps import SweepRecipe
from jaxcf.solvers.tiles import Side, make_side, make_sides, row_sums, solve_in_parts
from jaxfit.draws import normal
from jaxfit.errors import UserError
from jaxfit.recipe import option
from jaxfit.registry import Cost

VALIDATED = 10  # places of the ranking that validation is by
CG_STEPS = 3  # for each user and item in a sweep
TINY = 1e-30  # in place of what is zero at the solution

Data = tuple[Sequence[Side], Sequence[Side]]  # the positives of all users, and those of all items, in parts
Half = Callable[[Sequence[Side], Array, Array, Array, Array], Array]  # parts, rows, others, λ, its exponent -> rows


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
    """X: [users, D], Y: [items, D] feature vectors, 0 for users and items without positives."""

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
    prior = config.decay * jnp.sum(p) ** config.exponent
    return jnp.sum(c * jnp.square(p - Y @ x)) + prior * jnp.sum(jnp.square(x))


def solve(sides: Sequence[Side], rows: Array, others: Array, decay: Array, exponent: Array) -> Array:
    """Return the vectors [rows, D] that minimise Eq. 3, those of the others given (Eq. 4 and 5).

    x_u = (YᵀY + Yᵀ (C_u - I) Y + λ I)⁻¹ Yᵀ C_u p_u, by Cholesky's decomposition. Sums over a user's positives are by
    tiles, whose padding is of zero vectors.

    Args:
        sides: the positives of the rows in parts, with c - 1 in place of stars.
        rows: vectors of the rows before; only their shape is read.
        others: [others, D].
        decay: λ.
        exponent: of the number of a row's positives, by which λ is multiplied.
    """
    return solve_in_parts(_solutions, sides, rows, others, decay, exponent)


@jax.jit
def _solutions(side: Side, rows: Array, others: Array, decay: Array, exponent: Array) -> Array:
    shared, identity = _gram(others), jnp.eye(others.shape[1], dtype=others.dtype)

    def chunk(part: Side) -> Array:
        with jax.named_scope("normal_equations"):
            vectors = others.at[part.other].get(mode="fill", fill_value=0)
            extra = part.stars[..., None] * vectors
            own = jnp.einsum("tld,tle->tde", extra, vectors, precision=jax.lax.Precision.HIGHEST)
            prior = _priors(part, others, decay, exponent)[:, None, None]
            A = shared[None] + row_sums(own, part) + prior * identity[None]
            right = row_sums(jnp.sum(extra + vectors, axis=1), part)
        with jax.named_scope("solution"):
            return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(A), True), right[..., None])[..., 0]

    return jax.lax.map(chunk, side)


def improve(sides: Sequence[Side], rows: Array, others: Array, decay: Array, exponent: Array) -> Array:
    """Return vectors [rows, D] nearer to those of `solve`, after CG_STEPS of conjugate gradients from the given ones.

    The matrix of a row's equations is only multiplied with vectors, at D operations for each positive in place of D².
    No step raises Eq. 3. Source: Takács, Pilászy and Tikk 2011, "Applications of the conjugate gradient method for
    implicit feedback collaborative filtering".

    Args:
        sides: as for `solve`, as are all others but `rows`.
        rows: the vectors to begin with.
        others: [others, D].
        decay: λ.
        exponent: of the number of a row's positives.
    """
    return solve_in_parts(_improvements, sides, rows, others, decay, exponent)


@jax.jit
def _improvements(side: Side, rows: Array, others: Array, decay: Array, exponent: Array) -> Array:
    shared = _gram(others)

    def chunk(part: Side) -> Array:
        vectors = others.at[part.other].get(mode="fill", fill_value=0)
        prior = _priors(part, others, decay, exponent)[:, None]

        def sums(weights: Array) -> Array:
            """Σ over a row's positives of a weight times the vector: [tiles, TILE] -> [rows, D]."""
            return row_sums(jnp.einsum("tl,tld->td", weights, vectors, precision=jax.lax.Precision.HIGHEST), part)

        def weighted(x: Array) -> Array:
            """(c - 1) x·y of each positive: [rows, D] -> [tiles, TILE]."""
            of_tiles = x.at[part.owner].get(mode="fill", fill_value=0)
            return part.stars * jnp.einsum("tld,td->tl", vectors, of_tiles, precision=jax.lax.Precision.HIGHEST)

        def of_all(x: Array) -> Array:
            """(YᵀY + λ n^ν I) x, [rows, D]: what all pairs have of the product of a row's matrix and its x."""
            return jnp.dot(x, shared, precision=jax.lax.Precision.HIGHEST) + prior * x

        x = rows.at[part.row].get(mode="fill", fill_value=0)
        rest = sums(1 + part.stars - weighted(x)) - of_all(x)
        direction, square = rest, jnp.sum(rest**2, axis=1)
        for _ in range(CG_STEPS):
            moved = of_all(direction) + sums(weighted(direction))
            step = square / jnp.maximum(jnp.sum(direction * moved, axis=1), TINY)
            x, rest = x + step[:, None] * direction, rest - step[:, None] * moved
            before, square = square, jnp.sum(rest**2, axis=1)
            direction = rest + (square / jnp.maximum(before, TINY))[:, None] * direction
        return x

    return jax.lax.map(chunk, side)


def _gram(others: Array) -> Array:
    """YᵀY, [D, D]: the equations of all pairs, as if none were a positive."""
    return jnp.einsum("nd,ne->de", others, others, precision=jax.lax.Precision.HIGHEST)


def _priors(part: Side, others: Array, decay: Array, exponent: Array) -> Array:
    """λ n^ν of each row of a chunk, [rows]; above 0 in rows of padding, too."""
    number = row_sums(jnp.sum(part.other < others.shape[0], axis=1, dtype=others.dtype), part)
    return decay * jnp.maximum(number, 1) ** exponent


def make_data(positives: Ratings, config: Config, half: Half) -> Data:
    """Put the positives on the device, user by user, and item by item, as `half` takes them."""
    weighted, D = _weighted(positives, config), config.num_features
    of_users, of_items = by_user(weighted, config.num_users), by_item(weighted, config.num_items)
    if half is improve:
        return make_sides(of_users, config.num_items, D), make_sides(of_items, config.num_users, D)
    return [make_side(of_users, config.num_items, D)], [make_side(of_items, config.num_users, D)]


def _weighted(positives: Ratings, config: Config) -> Ratings:
    """Return positives with c - 1 in place of their counts."""
    with np.errstate(over="ignore"):  # sweeps with it diverge, which is said there
        return positives._replace(stars=np.asarray(extra_confidence(positives.stars, config), np.float32))


def sweep(params: Params, data: Data, config: Config, half: Half) -> Params:
    """Make one sweep: all users given the items, then all items given the users. Neither half raises Eq. 3.

    half: `solve` or `improve`.
    """
    of_users, of_items = data
    prior = strength(config)
    X = half(of_users, params.X, params.Y, *prior)
    return Params(X, half(of_items, params.Y, X, *prior))


def strength(config: Config) -> tuple[Array, Array]:
    """Return λ and its exponent; raises UserError where λ is not above 0, and solutions are not determined."""
    if config.decay <= 0:
        raise UserError("exact solutions need a decay", "--decay", "give a decay above 0")
    return jnp.float32(config.decay), jnp.float32(config.exponent)


@jax.jit
def _products(X: Array, Y: Array, user: Array, item: Array) -> Array:
    return jnp.sum(X[user] * Y[item], axis=1)


@np.errstate(over="ignore", invalid="ignore")  # what is not finite has diverged
def objective(params: Params, positives: Ratings, config: Config) -> float:
    """Eq. 3, in float64, without visiting pairs that are no positives.

    Σ over all pairs of (x_u·y_i)², which is tr(XᵀX YᵀY), and over positives of c (1 - x_u·y_i)² - (x_u·y_i)².
    """
    X, Y = (np.asarray(rows, np.float64) for rows in params)
    products = np.asarray(_products(*params, positives.user, positives.item), np.float64)
    c = 1 + extra_confidence(np.asarray(positives.stars, np.float64), config)
    total = np.sum((X.T @ X) * (Y.T @ Y)) + np.sum(c * (1 - products) ** 2 - products**2)
    for rows, of in ((X, positives.user), (Y, positives.item)):
        number = np.bincount(of, minlength=len(rows)).astype(np.float64)
        total += config.decay * np.sum(number**config.exponent * np.sum(rows**2, axis=1))
    return float(total)


def prepare(half: Half, key: Array, data: Dataset, rated: Pairs, config: Config, recipe: SweepRecipe) -> Sweeps:
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
        make_data(train, config, half),
        sweep=lambda params, data, key: sweep(params, data, config, half),
        objective=lambda params: objective(params, train, config) / len(train.user),
        error=error,
        measure=(f"NDCG@{VALIDATED}", lambda error: 1 - error),
    )


def scorer(params: Params, config: Config, users: KnownUsers) -> Scorer:
    """Return the scorer of the users of training."""
    return by_products(params.X, params.Y)


def fold_in(params: Params, config: Config, users: KnownUsers, decay: Mapping[str, float]) -> Scorer:
    """Fold in new users, each at its best vector given the items' (Eq. 4); decay: not read, as Config has it."""
    side = make_side(by_user(_weighted(users.ratings, config), users.number), config.num_items, config.num_features)
    start = jnp.zeros((users.number, config.num_features))
    return by_products(solve([side], start, params.Y, *strength(config)), params.Y)


def item_vectors(params: Params, config: Config) -> NDArray[np.float32]:
    """Y, [items, D]."""
    return np.asarray(params.Y)


def factors(params: Params, config: Config, users: KnownUsers) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """X and Y."""
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
        BySweeps("cg", "alternating, a few steps of conjugate gradients", functools.partial(prepare, improve)),
        BySweeps("cholesky", "alternating exact solutions", functools.partial(prepare, solve), cost=cost),
    ),
    capabilities=(RanksItems(scorer), FoldsIn(fold_in), SimilarItems(item_vectors), HasFactors(factors)),
)  # fmt: skip
