"""Conditional PMF's data on the device, and minibatches of users, ratings and rated sets end to end."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf.data.ratings import Pairs, Ratings, by_user, rated_sets, take
from jaxcf.models.pmf import Config
from jaxfit.bucketing import spread
from jaxfit.shuffle import permutation


class Rated(NamedTuple):
    """Sets of items, one a user: user i has rated item[offsets[i]] … item[offsets[i+1]-1].

    offsets: int32[users + 1]; item: int32[entries].
    """

    offsets: Array
    item: Array


class Data(NamedTuple):
    """Ratings user after user, and the rated sets that they are conditioned on.

    offsets: int32[users + 1], user i has ratings offsets[i] … offsets[i+1]-1; item: int32[N]; stars: float32[N].
    """

    offsets: Array
    item: Array
    stars: Array
    rated: Rated


class Batch(NamedTuple):
    """A minibatch of users, their ratings and rated sets end to end.

    user: int32[B]; owner: int32[n], which of them a rating belongs to; item: int32[n], past the end for padding;
    stars: float32[n], the mean taken off; whose: int32[m], which of them a rated item belongs to; rated: int32[m],
    past the end for padding; share: float32[m], 1 / the size of the set, 0 for padding.
    """

    user: Array
    owner: Array
    item: Array
    stars: Array
    whose: Array
    rated: Array
    share: Array


def make_rated(*pairs: Ratings | Pairs, config: Config) -> Rated:
    """Put the union of sets of rated pairs on the device; stars are not read."""
    offsets, item = rated_sets(*pairs, num_users=config.num_users)
    item = item if len(item) else np.array([config.num_items])  # nothing can be gathered from an empty array
    return Rated(jnp.asarray(offsets), jnp.asarray(item, jnp.int32))


def make_data(ratings: Ratings, rated: Rated, config: Config) -> Data:
    """Put the ratings on the device, user after user, each user's in an order drawn once by a fixed key.

    Blocks are cut from that order: in the order of files, which is often that of time, they would be less alike.
    """
    order = np.asarray(permutation(jax.random.key(0), len(ratings.user)))
    offsets, item, stars = by_user(take(ratings, order), config.num_users)
    at, ids = jnp.asarray(offsets, jnp.int32), jnp.asarray(item, jnp.int32)
    return Data(at, ids, jnp.asarray(stars, jnp.float32), rated)


def gather(data: Data, index: Array, capacity: tuple[int, int], config: Config) -> Batch:
    """Gather the users `index` int32[B]; capacity: of their ratings, and of their rated sets."""
    owner, at, real = spread(data.offsets, index, capacity[0])
    item = jnp.where(real, data.item.at[at].get(mode="fill"), config.num_items)
    stars = jnp.where(real, data.stars.at[at].get(mode="fill") - config.mean, 0.0)
    whose, at, real = spread(data.rated.offsets, index, capacity[1])
    rated = jnp.where(real, data.rated.item.at[at].get(mode="fill"), config.num_items)
    size = data.rated.offsets[index + 1] - data.rated.offsets[index]
    share = jnp.where(real, 1 / jnp.maximum(size, 1).at[whose].get(mode="clip"), 0.0)
    return Batch(index, owner, item, stars, whose, rated, share)


def costs(data: Data) -> NDArray[np.int64]:
    """Count the ratings, and the rated items, of each user: int[users, 2]."""
    return np.stack([np.diff(np.asarray(x)) for x in (data.offsets, data.rated.offsets)], axis=1)


def num_users(data: Data) -> int:
    """Count the users of the data, with ratings or without."""
    return data.offsets.shape[0] - 1


def num_ratings(data: Data) -> int:
    """Count the ratings of the data."""
    return data.item.shape[0]
