"""What models share whose prediction for a user and an item depends on that pair alone."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from jaxcf.contract import Predictor, Scorer
from jaxfit.files.large_arrays import pieces

PAIRS_AT_ONCE = 1 << 18  # predicted by one call of a compiled program, at most
FEW_USERS = 8  # fewer than these are scored pair by pair


@functools.partial(jax.jit, static_argnames=("predict", "config"))
def _predict(predict: Any, params: Any, user: jax.Array, item: jax.Array, mean: Any, config: Any) -> jax.Array:
    return predict(params, user, item, replace(config, mean=mean))


def by_pairs(predict: Any, params: Any, config: Any) -> Predictor:
    """Return the predictor of a model's `predict(params, user, item, config)`.

    Models whose configurations differ only in the mean share a compiled program. Pairs are predicted in blocks whose
    sizes are powers of two.
    """

    mean, any_mean = np.float32(config.mean), replace(config, mean=0.0)

    def predictor(user: np.ndarray, item: np.ndarray) -> NDArray[np.float32]:
        number = len(user)
        size = min(PAIRS_AT_ONCE, max(128, 1 << (number - 1).bit_length()))
        blocks = [
            np.pad(np.asarray(ids, np.int32), (0, -number % size), constant_values=-1).reshape(-1, size)
            for ids in (user, item)
        ]
        stars = [_predict(predict, params, *block, mean, any_mean) for block in zip(*blocks, strict=True)]
        return np.concatenate([*stars, np.zeros(0, np.float32)])[:number]

    return predictor


def by_stars(predictor: Predictor, num_items: int) -> Scorer:
    """Return the scorer that ranks items by the stars that are predicted."""
    items = np.arange(num_items, dtype=np.int32)

    def scorer(users: np.ndarray) -> NDArray[np.float32]:
        stars = predictor(np.repeat(users, num_items), np.tile(items, len(users)))
        return np.asarray(stars).reshape(len(users), num_items)

    return scorer


@jax.jit
def _scores(X: jax.Array, Y: jax.Array, users: jax.Array) -> jax.Array:
    return jnp.einsum("nd,md->nm", rows_or_zeros(X, users), Y)


def by_products(X: Any, Y: Any) -> Scorer:
    """Return the scorer by x_u·y_i, with arrays [users, D] and [items, D]; scores of an unknown user, -1, are 0.

    Users are scored in blocks whose sizes are powers of two.
    """
    of_users, of_items = jnp.asarray(X), jnp.asarray(Y)

    def scorer(users: np.ndarray) -> NDArray[np.float32]:
        number = len(users)
        size = max(8, 1 << (number - 1).bit_length())
        padded = np.pad(np.asarray(users, np.int32), (0, size - number), constant_values=-1)
        return np.asarray(_scores(of_users, of_items, padded))[:number]

    return scorer


def by_factors(factors: Callable[[], tuple[NDArray[np.float32], NDArray[np.float32]]], pairs: Scorer) -> Scorer:
    """Return the scorer by inner products of factors, which for many users is faster than pair by pair.

    Args:
        factors: () -> factors of users, [users, D], and of items, [items, D]; called once, when FEW_USERS or more users
            are to be scored.
        pairs: the scorer pair by pair, for so few users that the factors of all users would take longer, and for the
            user -1.
    """
    products = functools.cache(lambda: by_products(*factors()))

    def scorer(users: np.ndarray) -> NDArray[np.float32]:
        if len(users) < FEW_USERS:
            return pairs(users)
        scores, others = products()(users), np.asarray(users) < 0
        if others.any():
            scores = np.where(others[:, None], pairs(np.full(1, -1, np.int32)), scores)
        return scores

    return scorer


def rows_or_zeros(table: jax.Array, index: jax.Array | np.ndarray) -> jax.Array:
    """Return rows of a table, zeros for the index -1."""
    known = jnp.where(jnp.asarray(index) < 0, table.shape[0], index)
    return table.at[known].get(mode="fill", fill_value=0)


def used_rows(index: NDArray[np.int32], number: int) -> NDArray[np.bool_]:
    """Return which of `number` rows training ratings use: bool [number].

    Args:
        index: [N], the row of each training rating.
        number: number of rows.
    """
    used = np.zeros(number, bool)
    for piece in pieces(len(index)):  # NumPy copies indices to 64 bits
        used[index[piece]] = True
    return used


def zero_unrated(table: jax.Array, rated: jax.Array) -> jax.Array:
    """Set rows that no rating uses, and that training would never change, to the prior's mean, zero.

    Args:
        table: [rows, D].
        rated: bool[rows].
    """
    return jnp.where(rated[:, None], table, 0.0)
