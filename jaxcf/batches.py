"""Plain batches of ratings for a user's own training loop: NumPy arrays of fixed shapes.

The models' `loss` of one example takes them under `jax.vmap`, `jax.grad` and `jax.jit`:

    batch = triples(ratings, config.units)                         # PMF: an example is a rating
    jax.vmap(pmf.loss, (None, 0, None))(params, batch, config)

    users = padded_users(ratings, num_users, num_items, scale)     # RBMs: an example is a user
    jax.vmap(rbm.loss, (None, 0, 0, None))(params, (users.item, users.value), keys, config)

    stars = (scale.low + scale.step * users.value - config.mean) / config.unit
    one = pmf.Batch(number, users.item, stars)
    rated = padded_sets(ratings, num_users=num_users, num_items=num_items)         # CPMF: likewise, with a rated set
    jax.vmap(cpmf.loss, (None, 0, 0, None))(params, one, rated, config)            # number: 0 … num_users - 1
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxcf.data.ratings import Pairs, Ratings, RatingScale, Units, by_user, rated_sets, standardized


class Triples(NamedTuple):
    """Ratings as PMF's losses take them."""

    user: NDArray[np.int32]  # [N]
    item: NDArray[np.int32]  # [N]
    stars: NDArray[np.float32]  # [N], standardized


class PaddedUsers(NamedTuple):
    """The ratings of each user in a row, padded to one width."""

    item: NDArray[np.int32]  # [users, width], `num_items` for padding, which losses leave out
    value: NDArray[np.int32]  # [users, width], the rating's level, numbered from 0; 0 for padding
    mask: NDArray[np.bool_]  # [users, width], False for padding


def triples(ratings: Ratings, units: Units) -> Triples:
    """Return ratings as PMF's losses take them, in their order.

    Args:
        ratings: of any integer and float types.
        units: `units` of the model's Config.
    """
    user, item, stars = standardized(ratings, units)[:3]
    return Triples(np.asarray(user, np.int32), np.asarray(item, np.int32), stars)


def padded_users(
    ratings: Ratings, num_users: int, num_items: int, scale: RatingScale, width: int | None = None
) -> PaddedUsers:
    """Return the ratings of users 0 … num_users - 1 as the one-example losses of RBMs take them.

    Args:
        ratings: of these users and of items 0 … num_items - 1.
        num_users: number of rows of the result.
        num_items: id of the item that pads rows.
        scale: of the ratings, with steps.
        width: maximum number of ratings of a user, of which the first are taken; None: the largest number that occurs.
    """
    offsets, item, stars = by_user(ratings, num_users)
    places, mask = _places(offsets, width)
    return PaddedUsers(_padded(item, num_items)[places], _padded(scale.level(stars), 0)[places], mask)


def padded_sets(*pairs: Ratings | Pairs, num_users: int, num_items: int, width: int | None = None) -> NDArray[np.int32]:
    """Return the items that each user rated in any of several sets, as conditional models take them.

    Args:
        pairs: the sets, of ratings or of pairs.
        num_users: number of rows of the result.
        num_items: id of the item that pads rows.
        width: as in `padded_users`.

    Returns:
        int32[users, width]: the distinct items of each user, ascending.
    """
    offsets, item = rated_sets(*pairs, num_users=num_users)
    return _padded(item, num_items)[_places(offsets, width)[0]]


def _places(offsets: NDArray[np.int32], width: int | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return positions of each list's entries [lists, width], -1 for padding, and which are real."""
    length = np.diff(offsets)
    place = np.arange(int(length.max(initial=0)) if width is None else width)
    mask = place < length[:, None]
    return np.where(mask, offsets[:-1, None] + place, -1), mask


def _padded(entries: NDArray[np.int32], padding: int) -> NDArray[np.int32]:
    """Append the padding, for position -1, and convert to int32."""
    return np.append(np.asarray(entries, np.int32), np.int32(padding))
