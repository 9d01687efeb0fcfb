"""PMF's posterior mode by alternating exact solves: given the items, each user's best vector is a ridge regression.

The objective is that of `pmf`, Σ ½ e² and the priors (Eq. 5.16-5.21), under either meaning of the prior. The
normal equations of users, or of items, are laid out by `jaxcf.solvers.tiles`.
"""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf.contract import Sweeps
from jaxcf.data.ratings import Ratings, by_item, by_user, standardized
from jaxcf.solvers import products
from jaxcf.solvers.tiles import Side, make_side, row_sums
from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays, per_parameter
from jaxfit.registry import Cost

BLOCK = 1 << 20  # ratings whose errors are summed at a time
# decay of new users and items where the recipe has none, so that their best vectors are determined
FOLD_IN_DECAY = 1e-2

Config = Any  # `pmf.Config`: num_users, num_items, biases, mean, unit and prior are read


def make_data(ratings: Ratings, config: Config) -> tuple[Side, Side]:
    """Put the ratings on the device, user by user, and item by item."""
    ratings = standardized(ratings, config.units)
    of_users = make_side(by_user(ratings, config.num_users), config.num_items, config.num_features)
    return of_users, make_side(by_item(ratings, config.num_items), config.num_users, config.num_features)


@functools.partial(jax.jit, static_argnames=("num_rows", "config"))
def solve(
    side: Side, others: Array, biases: Array, decay: Array, bias_decay: Array, num_rows: int, config: Config
) -> tuple[Array, Array]:
    """Return the vectors [num_rows, D] and biases [num_rows] that minimise the objective, given those of the others.

    For users: the minimum of Σ_j ½ (R_ij - c_j - U_i·V_j - b_i)² + ½ s λ_U |U_i|² + ½ s λ_b b_i² over U_i and b_i
    jointly, with s the number of the user's ratings (prior `per-rating`) or 1 (`per-row`), from its normal equations by
    Cholesky decomposition. Rows without ratings are at the prior's mean, 0.

    The bias is eliminated from the equations, so that matrices are D x D: for D = 128, D + 1 rows would take two tiles
    of an accelerator.

    Args:
        side: the standardized ratings of the rows.
        others: [others, D].
        biases: [others].
        decay: λ of the vectors.
        bias_decay: λ of the biases.
        num_rows: number of users, or of items.
        config: of the model.
    """
    D = others.shape[1]

    def chunk(tables: tuple[Array, Array], part: Side) -> tuple[tuple[Array, Array], None]:
        vectors = others.at[part.other].get(mode="fill", fill_value=0)
        real = (part.other < others.shape[0]).astype(vectors.dtype)
        target = part.stars
        if config.biases:
            target = target - biases.at[part.other].get(mode="fill", fill_value=0)
        total = functools.partial(row_sums, part=part)
        with jax.named_scope("normal_equations"):
            gram = total(jnp.einsum("tld,tle->tde", vectors, vectors, precision=jax.lax.Precision.HIGHEST))
            right = total(jnp.sum(target[..., None] * vectors, axis=1))
            count = total(jnp.sum(real, axis=1))
            times = count if config.prior == "per-rating" else jnp.ones_like(count)
            ridge, bias_ridge = (jnp.where(count > 0, times * each, 1.0) for each in (decay, bias_decay))
            A = gram + ridge[:, None, None] * jnp.eye(D)[None]
        rows, offsets = tables
        with jax.named_scope("solution"):
            factor = jnp.linalg.cholesky(A), True
            if config.biases:
                # [A s; sᵀ n] [x; b] = [right; t]: x = A⁻¹ right - b A⁻¹ s, where s sums vectors, and t targets
                s, t = total(jnp.sum(vectors, axis=1)), total(jnp.sum(target, axis=1))
                both = jax.scipy.linalg.cho_solve(factor, jnp.stack([right, s], axis=2))
                of_right, of_s = both[..., 0], both[..., 1]
                pivot = count + bias_ridge - jnp.sum(s * of_s, axis=1)
                # where rounding takes away all of it, not finite, as a decomposition of the whole would be
                b = (t - jnp.sum(s * of_right, axis=1)) / jnp.where(pivot > 0, pivot, jnp.nan)
                x = of_right - b[:, None] * of_s
                offsets = offsets.at[part.row].set(b, mode="drop")
            else:
                x = jax.scipy.linalg.cho_solve(factor, right[..., None])[..., 0]
        return (rows.at[part.row].set(x, mode="drop"), offsets), None

    start = jnp.zeros((num_rows, D), others.dtype), jnp.zeros(num_rows, others.dtype)
    return jax.lax.scan(chunk, start, side)[0]


def sweep(params: Any, data: tuple[Side, Side], config: Config, decay: Mapping[str, float]) -> Any:
    """Make one sweep: all users given the items, then all items given the users. The objective cannot increase.

    Args:
        decay: λ of each parameter, as in a recipe.

    Raises:
        UserError: a λ is not above 0; fewer ratings than features then do not determine a vector.
    """
    U, V, b, c = strengths(params, config, decay)
    of_users, of_items = data
    config = replace(config, mean=0.0, unit=1.0)  # so that data of different units share a compiled program
    users, user_biases = solve(of_users, params.V, params.c, U, b, config.num_users, config)
    items, item_biases = solve(of_items, users, user_biases, V, c, config.num_items, config)
    return params._replace(U=users, V=items, b=user_biases, c=item_biases)


def sweeps(params: Any, ratings: Ratings, valid: Ratings, config: Config, decay: Mapping[str, float]) -> Sweeps:
    """Return the alternating solutions as `jaxcf.solvers.sweeps` makes them; nothing in them is random."""
    return Sweeps(
        params,
        make_data(ratings, config),
        sweep=lambda params, data, key: sweep(params, data, config, decay),
        objective=lambda params: objective(params, ratings, config, decay) / len(ratings.user),
        error=lambda params: squares(params, valid, config) / len(valid.user),
    )


def cost(config: Config, num_ratings: int) -> Cost:
    """Count what a rating takes in a sweep: its part of two systems of normal equations, and of solving all of them.

    A rating adds the product of a vector with itself to the equations of its user, and to those of its item; all D²
    numbers count, as products of matrices do not spare half of a symmetric result. The right side is added to, too,
    and with biases the sum of vectors: m = 1 or 2 vectors.
    """
    D, m = config.num_features, 1 + config.biases
    rows = (config.num_users + config.num_items) / num_ratings
    formula = (
        "2 · 2 (D² + m D) operations of normal equations, m = 2 with biases and 1 without, and for each user and item "
        "D³ / 3 + 2 m D² of its solution; 4 · 2 (D + m - 1) bytes of rows read, and each row written once"
    )
    numbers = D + config.biases
    return Cost(4 * (D**2 + m * D) + rows * (D**3 / 3 + 2 * m * D**2), 2 * numbers, rows * numbers, formula)


def strengths(params: Any, config: Config, decay: Mapping[str, float], fallback: float | None = None) -> list[Array]:
    """Return the decay of each parameter, in their order.

    A decay that is not above 0 is replaced by `fallback`.

    Raises:
        UserError: without a fallback, a decay is not above 0.
    """
    values = _values(params, decay)
    if fallback is not None:
        values = np.where(values > 0, values, fallback)
    elif np.any(values[: 4 if config.biases else 2] <= 0):
        raise UserError("exact solutions need a decay", "--decay", "give every parameter a decay above 0")
    return [jnp.float32(value) for value in values]


def _values(params: Any, decay: Mapping[str, float]) -> NDArray[np.float64]:
    return np.array(per_parameter(named_arrays(params), decay, "--decay"))


def fold_in_users(
    ratings: Ratings, number: int, params: Any, config: Config, decay: Mapping[str, float]
) -> tuple[Array, Array]:
    """Return vectors [number, D] and biases [number] of new users 0 … number - 1, all else as it was trained."""
    U, _, b, _ = strengths(params, config, decay, FOLD_IN_DECAY)
    vectors = by_user(standardized(ratings, config.units), number)
    side = make_side(vectors, config.num_items, config.num_features, few_sizes=True)
    return solve(side, params.V, params.c, U, b, number, replace(config, mean=0.0, unit=1.0))


def fold_in_items(
    ratings: Ratings, number: int, params: Any, config: Config, decay: Mapping[str, float]
) -> tuple[Array, Array]:
    """Return vectors [number, D] and biases [number] of new items: `fold_in_users` with users and items exchanged."""
    _, V, _, c = strengths(params, config, decay, FOLD_IN_DECAY)
    vectors = by_item(standardized(ratings, config.units), number)
    side = make_side(vectors, config.num_users, config.num_features, few_sizes=True)
    return solve(side, params.U, params.b, V, c, number, replace(config, mean=0.0, unit=1.0))


def objective(params: Any, ratings: Ratings, config: Config, decay: Mapping[str, float]) -> float:
    """Compute Σ ½ e² + ½ Σ s λ |row|², in squared units of `config`: what PMF minimises under the prior of `config`."""
    total = 0.5 * squares(params, ratings, config) / config.unit**2
    index = (ratings.user, ratings.item) * 2
    for rows, of, strength in zip(params, index, _values(params, decay).tolist(), strict=True):
        square = np.square(np.asarray(rows, np.float64)).reshape(rows.shape[0], -1).sum(axis=1)
        uses = np.bincount(of, minlength=len(square)) if config.prior == "per-rating" else 1.0
        total += 0.5 * strength * float(np.sum(uses * square))
    return total


def squares(params: Any, ratings: Ratings, config: Config) -> float:
    """Compute Σ e² in squared stars, of predictions that are not clipped."""
    total = 0.0
    for at in range(0, len(ratings.user), BLOCK):
        user, item, stars = (x[at : at + BLOCK] for x in ratings[:3])
        predicted = config.mean + config.unit * products.of_pairs(params.U, params.V, user, item)
        if config.biases:
            predicted += config.unit * (params.b[user] + params.c[item])
        total += float(np.sum(np.square(np.asarray(stars - predicted, np.float64))))
    return total
