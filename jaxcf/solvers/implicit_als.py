"""Alternating solutions of weighted matrix factorization: the users' vectors given the items', and the reverse.

They minimise Eq. 3 of Hu, Koren and Volinsky 2008 (`jaxcf.models.wmf`) over ALL pairs of user and item. Of the pairs
without a positive, all of confidence 1, a solution needs the sum YᵀY alone: time is linear in the positives.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from jaxcf.solvers.tiles import Side, row_sums, solve_in_parts

CG_STEPS = 3  # for each row in a sweep
TINY = 1e-30  # in place of what is zero at the solution


def solve(sides: Sequence[Side], rows: Array, others: Array, decay: Array, exponent: Array) -> Array:
    """Return the vectors [rows, D] that minimise Eq. 3 given those of the other side (Eq. 4 and 5).

    x_u = (YᵀY + Yᵀ (C_u - I) Y + λ n_u^ν I)⁻¹ Yᵀ C_u p_u, by Cholesky decomposition, where n_u is the number of the
    row's positives. Sums over positives are by tiles, whose padding is zero vectors.

    Args:
        sides: the positives of the rows in parts, with c - 1 in place of stars.
        rows: previous vectors of the rows; only their shape is read.
        others: vectors of the other side, [others, D].
        decay: λ.
        exponent: ν.
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
    """Return vectors [rows, D] nearer to those of `solve`, by CG_STEPS of conjugate gradients from the given ones.

    The matrix of a row's equations is only multiplied by vectors, at D operations for each positive in place of D². No
    step increases Eq. 3. Source: Takács, Pilászy and Tikk 2011, "Applications of the conjugate gradient method for
    implicit feedback collaborative filtering".

    Args:
        sides: as in `solve`.
        rows: vectors to start from, [rows, D].
        others: as in `solve`.
        decay: λ.
        exponent: ν.
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
            """Compute (YᵀY + λ n^ν I) x, [rows, D]: the part of all pairs in the product of a row's matrix and x."""
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
    """Compute λ n^ν of each row of a chunk, [rows]; it is above 0 in rows of padding, too."""
    number = row_sums(jnp.sum(part.other < others.shape[0], axis=1, dtype=others.dtype), part)
    return decay * jnp.maximum(number, 1) ** exponent
