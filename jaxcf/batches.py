"""Plain batches of ratings for a user's own training loop: NumPy arrays of fixed shapes.

The models' `loss` of one example takes them under `jax.vmap`, `jax.grad` and `jax.jit`:

    batch = triples(ratings, config.mean)                          # PMF: an example is a rating
    jax.vmap(pmf.loss, (None, 0, None))(params, batch, config)

    users = padded_users(ratings, num_users, num_items, scale)     # RBMs: an example is a user
    each = jax.vmap(rbm.loss, (None, 0, 0, None, None, None))
    each(params, (users.item, users.value), keys, 1, params.b_h, config)

    one = pmf.Batch(number, users.item, scale.low + scale.step * users.value - config.mean)
    rated = padded_sets(ratings, num_users=num_users, num_items=num_items)         # CPMF: likewise, with a rated set
    jax.vmap(cpmf.loss, (None, 0, 0, None))(params, one, rated, config)            # number: 0 … num_users - 1
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxcf.data.ratings import Pairs, Ratings, Scale, by_user, rated_sets


class Triples(NamedTuple):
    """Ratings: user int32[N], item int32[N], stars float32[N], the mean taken off."""

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    stars: NDArray[np.float32]


class PaddedUsers(NamedTuple):
    """The ratings of each user in a row, padded to one width.

    Attributes:
        item: int32[users, width], `num_items` for padding, which losses leave out.
        value: int32[users, width], the rating numbered from 0, 0 for padding.
        mask: bool[users, width], False for padding.
    """

    item: NDArray[np.int32]
    value: NDArray[np.int32]
    mask: NDArray[np.bool_]


def triples(ratings: Ratings, mean: float) -> Triples:
    """Return ratings as PMF's losses take them, in their order; mean: `pmf.Config.mean`, in stars."""
    stars = np.asarray(ratings.stars, np.float32) - np.float32(mean)
    return Triples(np.asarray(ratings.user, np.int32), np.asarray(ratings.item, np.int32), stars)


def padded_users(
    ratings: Ratings, num_users: int, num_items: int, scale: Scale, width: int | None = None
) -> PaddedUsers:
    """Return the ratings of users 0 … num_users - 1 as RBMs' one-example losses take them.

    Args:
        ratings: of any users and items of these numbers.
        num_users: rows of the result.
        num_items: the item of padding.
        scale: of ratings, with steps.
        width: ratings of a user at most; by default as many as the user with the most has. Of longer lists the first
            are taken.
    """
    offsets, item, stars = by_user(ratings, num_users)
    at, mask = _places(offsets, width)
    if not len(item):
        return PaddedUsers(np.full(at.shape, num_items, np.int32), np.zeros(at.shape, np.int32), mask)
    value = np.where(mask, scale.level(stars)[at], 0).astype(np.int32)
    return PaddedUsers(np.where(mask, item[at], num_items).astype(np.int32), value, mask)


def padded_sets(*pairs: Ratings | Pairs, num_users: int, num_items: int, width: int | None = None) -> NDArray[np.int32]:
    """Return the items that each user rated in any of some sets, as conditional models take them: int32[users, width].

    `num_items` is padding; width: as in `padded_users`.
    """
    offsets, item = rated_sets(*pairs, num_users=num_users)
    at, mask = _places(offsets, width)
    return np.where(mask, item[at] if len(item) else 0, num_items).astype(np.int32)


def _places(offsets: NDArray[np.int32], width: int | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return positions of each list's entries [lists, width], 0 for padding, and which are real."""
    length = np.diff(offsets)
    place = np.arange(int(length.max(initial=0)) if width is None else width)
    mask = place[None] < length[:, None]
    return np.where(mask, offsets[:-1, None] + place[None], 0), mask
