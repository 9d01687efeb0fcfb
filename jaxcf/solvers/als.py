"""PMF's posterior mode by alternating exact solves: given the items, each user's best vector is a ridge regression.

The objective is that of `pmf`, Σ ½ e² and the priors (Eq. 5.16-5.21), under either meaning of the prior. The
normal equations of a row (a user, or an item) are sums over its ratings. Ratings are laid out row after row and cut
into tiles of `TILE`, the last of a row filled up with zeros; a chunk of whole rows has a bounded number of tiles, and
a sweep goes through all chunks in one compiled loop, whose memory does not grow with the ratings.
"""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf.contract import Sweeps
from jaxcf.data.ratings import Ratings, Vectors, by_item, by_user, standardized
from jaxfit.bucketing import capacity_step
from jaxfit.devices.platform import at_once
from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays, per_parameter
from jaxfit.registry import Cost

TILE = 32  # ratings
CHUNK_TILES, CHUNK_ROWS = 1024, 256  # at most, on a CPU; on an accelerator, memory decides
BLOCK = 1 << 20  # ratings whose errors are summed at a time
# decay of new users and items where the recipe has none, so that their best vectors are determined
FOLD_IN_DECAY = 1e-2

Config = Any  # `pmf.Config`: num_users, num_items, biases, mean, unit and prior are read


class Side(NamedTuple):
    """The ratings of all users (or items), cut into tiles, in chunks."""

    row: Array  # int32[chunks, rows], the users of a chunk, past the end for padding
    owner: Array  # int32[chunks, tiles], the place in `row` that a tile belongs to
    other: Array  # int32[chunks, tiles, TILE], the items rated, past the end for padding
    stars: Array  # float32[chunks, tiles, TILE], standardized


def make_data(ratings: Ratings, config: Config) -> tuple[Side, Side]:
    """Put the ratings on the device, user by user, and item by item."""
    ratings = standardized(ratings, config.units)
    of_users = make_side(by_user(ratings, config.num_users), config.num_items, config)
    return of_users, make_side(by_item(ratings, config.num_items), config.num_users, config)


def make_side(vectors: Vectors, num_others: int, config: Config) -> Side:
    """Cut the rows of `standardized` ratings into tiles, and put rows into chunks; rows without ratings are in none."""
    offsets, other, stars = vectors
    length = np.diff(offsets)
    rows = np.flatnonzero(length)
    tiles = -(-length[rows] // TILE)
    # a matrix is held for each tile and each row; `capacity_step`, so that data of nearly equal size share a program
    held = (config.num_features + 2) ** 2
    most = max(at_once(capacity_step(tiles.sum()), held, CHUNK_TILES), int(tiles.max(initial=1)))
    most_rows = at_once(capacity_step(len(rows)), held, CHUNK_ROWS)
    starts = _chunk_starts(tiles, most, most_rows)
    chunks = len(starts) - 1
    chunk = np.repeat(np.arange(chunks), np.diff(starts))  # of each row
    place = np.arange(len(rows)) - starts[chunk]
    before = np.concatenate([[0], np.cumsum(tiles)])
    first = before[:-1] - before[starts[chunk]]  # a row's first tile, in its chunk
    row = np.full((chunks, most_rows), len(length), np.int32)
    row[chunk, place] = rows
    owner = np.full((chunks, most), most_rows, np.int32)
    of_tile = np.arange(before[-1]) - np.repeat(before[starts[chunk]], tiles)
    owner[np.repeat(chunk, tiles), of_tile] = np.repeat(place, tiles)
    within = np.arange(len(other)) - np.repeat(offsets[rows], length[rows])
    at = np.repeat((chunk * most + first) * TILE, length[rows]) + within
    others = np.full(chunks * most * TILE, num_others, np.int32)
    values = np.zeros(chunks * most * TILE, np.float32)
    others[at], values[at] = other, stars
    shape = (chunks, most, TILE)
    return Side(*jax.device_put((row, owner, others.reshape(shape), values.reshape(shape))))


def _chunk_starts(tiles: np.ndarray, most: int, most_rows: int) -> np.ndarray:
    """Return the first row of each chunk, with at most `most` tiles and `most_rows` rows in each; then their number."""
    ends, starts = np.cumsum(tiles), [0]
    while starts[-1] < len(tiles):
        used = ends[starts[-1] - 1] if starts[-1] else 0
        fits = int(np.searchsorted(ends, used + most, side="right"))
        starts.append(min(fits, starts[-1] + most_rows))
    return np.array(starts)


@functools.partial(jax.jit, static_argnames=("num_rows", "config"))
def solve(
    side: Side, others: Array, biases: Array, decay: Array, bias_decay: Array, num_rows: int, config: Config
) -> tuple[Array, Array]:
    """Return the vectors [num_rows, D] and biases [num_rows] that minimise the objective, those of the others given.

    For users: the minimum of Σ_j ½ (R_ij - c_j - U_i·V_j - b_i)² + ½ s λ_U |U_i|² + ½ s λ_b b_i² over U_i and
    b_i jointly, with s the number of the user's ratings (prior `per-rating`) or 1 (`per-row`), from its normal
    equations by Cholesky's decomposition. Rows without ratings are at the prior's mean, 0.

    The bias is eliminated from the equations, so that matrices are D x D: for D = 128, D + 1 rows would take two tiles
    of an accelerator.
    """
    D = others.shape[1]

    def chunk(tables: tuple[Array, Array], part: Side) -> tuple[tuple[Array, Array], None]:
        vectors = others.at[part.other].get(mode="fill", fill_value=0)
        real = (part.other < others.shape[0]).astype(vectors.dtype)
        target = part.stars
        if config.biases:
            target = target - biases.at[part.other].get(mode="fill", fill_value=0)

        def total(of_tiles: Array) -> Array:
            return jax.ops.segment_sum(of_tiles, part.owner, part.row.shape[0], indices_are_sorted=True)

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
    """Make one sweep: all users given the items, then all items given the users. The objective cannot rise.

    decay: λ of each parameter, as in a recipe. Raises UserError where one is not above 0: then a user's best vector
    is not determined by fewer ratings than features.
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

    One that is not above 0 is replaced by `fallback`, or without it raises UserError.
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
    side = make_side(by_user(standardized(ratings, config.units), number), config.num_items, config)
    return solve(side, params.V, params.c, U, b, number, replace(config, mean=0.0, unit=1.0))


def fold_in_items(
    ratings: Ratings, number: int, params: Any, config: Config, decay: Mapping[str, float]
) -> tuple[Array, Array]:
    """Return vectors [number, D] and biases [number] of new items: `fold_in_users` with users and items exchanged."""
    _, V, _, c = strengths(params, config, decay, FOLD_IN_DECAY)
    side = make_side(by_item(standardized(ratings, config.units), number), config.num_users, config)
    return solve(side, params.U, params.b, V, c, number, replace(config, mean=0.0, unit=1.0))


def objective(params: Any, ratings: Ratings, config: Config, decay: Mapping[str, float]) -> float:
    """Σ ½ e² + ½ Σ s λ |row|², in squared units of `config`: what PMF minimises, under the prior of `config`."""
    total = 0.5 * squares(params, ratings, config) / config.unit**2
    index = (ratings.user, ratings.item) * 2
    for rows, of, strength in zip(params, index, _values(params, decay).tolist(), strict=True):
        square = np.square(np.asarray(rows, np.float64)).reshape(rows.shape[0], -1).sum(axis=1)
        uses = np.bincount(of, minlength=len(square)) if config.prior == "per-rating" else 1.0
        total += 0.5 * strength * float(np.sum(uses * square))
    return total


def squares(params: Any, ratings: Ratings, config: Config) -> float:
    """Σ e² in squared stars, of predictions that are not clipped."""
    total = 0.0
    for at in range(0, len(ratings.user), BLOCK):
        user, item, stars = (x[at : at + BLOCK] for x in ratings[:3])
        predicted = config.mean + config.unit * jnp.sum(params.U[user] * params.V[item], axis=1)
        if config.biases:
            predicted += config.unit * (params.b[user] + params.c[item])
        total += float(np.sum(np.square(np.asarray(stars - predicted, np.float64))))
    return total
