"""Predictions for any number of pairs of user and item, by blocks of users whose known ratings are read once."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from jaxcf.data import user_batches
from jaxcf.data.user_batches import Data
from jaxcf.models.rbm.config import Config
from jaxfit.bucketing import capacity

USERS_AT_ONCE = 64


def distributions(
    distribution: Callable[..., Array],
    params: Any,
    data: Data,
    user: ArrayLike,
    item: ArrayLike,
    config: Config,
    *options: Any,
) -> NDArray[np.float32]:
    """Return the distribution over ratings of each pair: int [n], [n] -> [n, K].

    Args:
        distribution: of a model: (params, batch, config, *options) -> [entries, K] of the wanted pairs of a minibatch.
        params: the model's parameters.
        data: users' known ratings; a row of it is a user, in training or not.
        user: rows of `data`, -1 for a user without known ratings.
        item: items, -1 for one that is not in training.
        config: the model's Config.
        options: hashable, as the compiled program is made for them.
    """
    wanted, order = user_batches.queries(user, item, user_batches.num_users(data), config.num_items)
    data = user_batches.with_unknown_user(data)._replace(wanted=wanted)
    number = np.diff(np.asarray(wanted.offsets))
    asked = np.flatnonzero(number)
    at_once = min(USERS_AT_ONCE, 1 << max(0, len(asked) - 1).bit_length())
    visits = np.pad(asked, (0, -len(asked) % at_once), mode="edge") if len(asked) else asked
    entries = capacity(user_batches.costs(data), visits, at_once) if len(asked) else ()
    result = np.empty((len(order), config.num_values), np.float32)
    done = 0
    for block in visits.reshape(-1, at_once):
        end = min(done + int(number[block].sum()), len(order))
        users = jnp.asarray(block, jnp.int32)
        answers = _of_block(distribution, params, data, users, entries, config, options)
        result[order[done:end]] = np.asarray(answers)[: end - done]
        done = end
    return result


@functools.partial(jax.jit, static_argnames=("distribution", "entries", "config", "options"))
def _of_block(
    distribution: Callable[..., Array],
    params: Any,
    data: Data,
    user: Array,
    entries: tuple[int, ...],
    config: Config,
    options: tuple[Any, ...],
) -> Array:
    batch = user_batches.gather(data, user, entries, config.num_items, 1)
    return distribution(params, batch, config, *options)
