"""Warnings about ratings that were read without an error, and are probably not what the user meant."""

import warnings
from collections.abc import Mapping

import numpy as np

from jaxcf.data.ratings import Ratings, counted
from jaxfit.files import large_arrays

# of `look_swapped`
MIN_NUMBER = 200  # of users, and of items
MIN_ITEMS_PER_USER = 0.03
MIN_MEAN_RATINGS = 20  # of an item
FEW_RATINGS = 0.1  # of the mean number
MIN_USERS_OF_FEW, MAX_ITEMS_OF_FEW = 0.15, 0.03  # shares of users and of items that have so few ratings

MIN_COMPARED = 10  # ratings, of `warn_other_scale`


def look_swapped(user: np.ndarray, item: np.ndarray) -> bool:
    """Return whether ratings look as if the columns of users and items were exchanged.

    Published data have many items with few ratings, and hardly any users with few, as these are left out. Few means
    less than a tenth of the mean number: 20 % of the items and at most 1 % of the users of MovieLens have so few. The
    columns look swapped if at least 15 % of the "users" and at most 3 % of the "items" have so few, and if

    * there are at least 200 of each, and 3 "items" or more for 100 "users": in a small catalogue, such as one of jokes,
      every item has many ratings;
    * the mean "item" has 20 ratings or more, so that one with few could be recognised.

    Not every exchange can be detected: in parts of ratings, such as validation ratings, users may have few ratings.
    """
    users, items = (counts[counts > 0] for counts in (counted(user), counted(item)))
    if (
        min(len(users), len(items)) < MIN_NUMBER
        or len(items) < MIN_ITEMS_PER_USER * len(users)
        or items.mean() < MIN_MEAN_RATINGS
    ):
        return False
    of_users, of_items = (np.mean(counts < FEW_RATINGS * counts.mean()) for counts in (users, items))
    return bool(of_users >= MIN_USERS_OF_FEW and of_items <= MAX_ITEMS_OF_FEW)


def warn_swapped(ratings: Ratings, files: str) -> None:
    """Warn if the columns of a file without a header look swapped."""
    if look_swapped(ratings.user, ratings.item):
        warnings.warn(
            f"{files}: the columns of users and items look swapped: many of the first have few ratings, and none of "
            f"the second - if so, give --columns 2,1,3{'' if ratings.time is None else ',4'}",
            stacklevel=2,
        )


def warn_other_scale(what: str, stars: np.ndarray, training: np.ndarray) -> None:
    """Warn if most of some ratings lie outside the middle 80 % of the training ratings, as if on another scale.

    Of ratings like those of training, at most 20 % do. Of more than `PIECE` training ratings, every k-th is used.
    """
    if len(stars) < MIN_COMPARED or len(training) < MIN_COMPARED:
        return
    low, high = np.quantile(training[:: -(-len(training) // large_arrays.PIECE)], (0.1, 0.9))
    if np.mean((stars < low) | (stars > high)) > 0.5:
        warnings.warn(
            f"{what} look like ratings on another scale: most are outside {low:g} to {high:g}, where 80 % of the "
            "training ratings are - check the files and --columns",
            stacklevel=2,
        )


def warn_equal(values: np.ndarray, number: int) -> None:
    """Warn if all training ratings, of which `values` are the distinct ones, are equal."""
    if len(values) == 1 and number > 1:
        warnings.warn(
            f"all {number:,} training ratings are {values[0]:g}: nothing can be learned from them but that - check "
            "which column holds the ratings (--columns)",
            stacklevel=2,
        )


def warn_apart(what: str, ids: Mapping[str, np.ndarray], known: Mapping[str, np.ndarray], where: str) -> None:
    """Warn if none of some ids is among the known ones.

    Args:
        what: the ratings or pairs that have the ids, for the message.
        ids: "user", "item" or both -> the distinct ids that occur.
        known: the same -> those that should occur.
        where: where the known ids are from, for the message: "training".
    """
    apart = [side for side in ids if len(ids[side]) and not np.isin(_texts(ids[side]), _texts(known[side])).any()]
    if apart:
        examples = "; ".join(
            f"{side} {ids[side][0]} there" + (f", {known[side][0]} in {where}" if len(known[side]) else "")
            for side in apart
        )
        warnings.warn(
            f"no {' and no '.join(apart)} of {what} occurs in {where} ({examples}) - check the files and --columns",
            stacklevel=2,
        )


def _texts(ids: np.ndarray) -> np.ndarray:
    return ids.astype(np.str_)
