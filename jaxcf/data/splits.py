"""Splits of ratings into training, validation and test, of exact sizes and drawn by key.

The same key and the same ratings in the same order give the same split on every machine. The parts of a split keep
the order of the ratings.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from jaxcf.data.ratings import EMPTY, Catalogue, Dataset, Ratings, digest, present, relabel, take
from jaxfit.devices.precision import full_float32
from jaxfit.errors import UserError
from jaxfit.files.large_arrays import filled
from jaxfit.minibatches.bucketing import capacity_step
from jaxfit.wording import quantity

LATEST = 9  # held-out ratings per user in the Netflix Prize


class Split(NamedTuple):
    """A partition of ratings."""

    train: Ratings
    valid: Ratings
    test: Ratings


class HeldOut(NamedTuple):
    """A split by users: training ratings of some users, and two halves of the ratings of the held-out ones."""

    train: Ratings  # of the other users
    known: Ratings  # ratings of held-out users that a model may be given
    queried: Ratings  # ratings of held-out users to predict


def _bits(key: jax.Array, number: int) -> NDArray[np.uint32]:
    """Draw `number` random words of 32 bits: the first of a few more, as JAX compiles a program for each length."""
    return np.asarray(jax.random.bits(key, (capacity_step(number),)))[:number]


@full_float32()
def random_parts(key: jax.Array, counts: Sequence[int]) -> NDArray[np.int32]:
    """Assign sum(counts) elements to parts at random: int32 part numbers, part i exactly counts[i] times."""
    drawn = _bits(key, sum(counts))
    ends = np.cumsum(counts)[:-1]
    ends = ends[ends < len(drawn)]
    least = np.partition(drawn, ends)[ends] if len(ends) else drawn[:0]  # of the ranks from each end on
    part = filled(len(drawn), np.int32, lambda piece: np.searchsorted(least, drawn[piece], side="left"))
    for value in np.unique(least):  # of equal numbers, the first have the lower ranks
        equal = np.flatnonzero(drawn == value)
        ranks = np.count_nonzero(drawn < value) + np.arange(len(equal))
        part[equal] = np.searchsorted(ends, ranks, side="right")
    return part


def groups(key: jax.Array, total: int, number: int = 5) -> NDArray[np.int32]:
    """Assign `total` elements to groups at random: int32 [total]; group sizes differ by at most one.

    Used for the groups of users in Figure 5.5, and for the folds of `kfold`.
    """
    return random_parts(key, [total // number + (i < total % number) for i in range(number)])


def random(key: jax.Array, ratings: Ratings, valid: float = 0.0, test: float = 0.1) -> Split:
    """Split ratings at random; the sizes are the shares of all ratings, rounded to whole numbers.

    Raises:
        UserError: if a share is negative, or no training ratings are left.
    """
    total = len(ratings.user)
    counts = [round(valid * total), round(test * total)]
    if valid < 0 or test < 0 or sum(counts) >= total:
        shares = f"shares of {valid:g} for validation and {test:g} for test"
        what = f"{quantity(total, 'rating')} cannot be split with {shares}"
        raise UserError(what, None, "give non-negative shares that leave some ratings for training")
    part = random_parts(key, [total - sum(counts), *counts])
    return Split(*(take(ratings, part == i) for i in range(3)))


def kfold(key: jax.Array, ratings: Ratings, folds: int = 5) -> Iterator[tuple[Ratings, Ratings]]:
    """Yield training and test ratings of each fold; each rating is in one test set, of sizes that differ by at most 1.

    Raises:
        UserError: if there are fewer than two folds, or fewer ratings than folds.
    """
    total = len(ratings.user)
    if not 2 <= folds <= total:
        what = f"{quantity(total, 'rating')} cannot be split into {folds} folds"
        raise UserError(what, None, f"give 2 to {total} folds" if total > 1 else "give at least two ratings")
    part = groups(key, total, folds)
    return ((take(ratings, part != i), take(ratings, part == i)) for i in range(folds))


def of_fold(name: str, train: Ratings, test: Ratings, catalogue: Catalogue, test_ids: bool = False) -> Dataset:
    """Return a data set that knows only the users and items of the training ratings; others of the test are -1.

    The scale of ratings is that of the catalogue, which has all of them.

    Args:
        test_ids: whether users and items that only the test has are known, too, as in `reading.read_dataset`.
    """
    found = present(catalogue, train, *([test] if test_ids else []))
    known = Catalogue(catalogue.users[found.user[:-1]], catalogue.items[found.item[:-1]], catalogue.scale)
    train, test = (relabel(part, catalogue, known) for part in (train, test))
    return Dataset(name, train, EMPTY, test, known, digest(train, EMPTY, known), name)


@full_float32()
def thesis(key: jax.Array, ratings: Ratings) -> Split:
    """Hold out each user's nine latest ratings, as the Netflix Prize did (Mnih 2010, §5.4.1, footnote 8).

    Of users with fewer than 18 ratings the latest half is held out, rounded down. Each held-out rating goes to
    validation with probability 1/3, otherwise to test. Ratings at the same time are ordered as in the file.

    Raises:
        UserError: if the ratings have no times.
    """
    if ratings.time is None:
        what = "the thesis' split holds out the latest ratings, but these ratings have no times"
        raise UserError(what, None, "give a file with time stamps, or split at random")
    order = np.lexsort((ratings.time, ratings.user))  # stable: ties in file order
    user, counts = ratings.user[order], np.bincount(ratings.user)
    from_end = np.cumsum(counts)[user] - 1 - np.arange(len(order))
    out = np.zeros(len(order), bool)
    out[order] = from_end < np.minimum(counts // 2, LATEST)[user]
    valid = np.zeros(len(order), bool)
    number = int(np.count_nonzero(out))
    valid[out] = np.asarray(jax.random.randint(key, (capacity_step(number),), 0, 3))[:number] == 0
    return Split(take(ratings, ~out), take(ratings, valid), take(ratings, out & ~valid))


@full_float32()
def users(key: jax.Array, ratings: Ratings, share: float = 0.1) -> HeldOut:
    """Hold out a share of the users, rounded to a whole number; half of the ratings of each are known.

    Users with fewer than two ratings stay in training. Of an odd number of ratings, the larger half is known.

    Raises:
        UserError: if no users would be held out, or none left, or there are too few users with two ratings.
    """
    user_key, half_key = jax.random.split(key)
    counts = np.bincount(ratings.user)
    eligible = np.flatnonzero(counts >= 2)
    total = int(np.count_nonzero(counts))
    number, most = round(share * total), min(len(eligible), total - 1)
    if not most:
        what = "no user can be held out: that takes one with two ratings, and another to train on"
        raise UserError(what, None, "give more ratings, or split at random")
    if not 0 < number <= most:
        what = f"a share of {share:g} of the users is {number} of {total}"
        raise UserError(what, None, f"give a share that holds out {'1' if most == 1 else f'1 to {most}'} of them")
    held_out = eligible[random_parts(user_key, [len(eligible) - number, number]) == 1]
    out = np.isin(ratings.user, held_out)
    rows = np.flatnonzero(out)
    order = np.lexsort((_bits(half_key, len(rows)), ratings.user[rows]))
    user = ratings.user[rows[order]]
    first = np.searchsorted(user, user)  # position of the user's first rating
    queried = np.zeros(len(out), bool)
    queried[rows[order]] = np.arange(len(rows)) - first < counts[user] // 2
    return HeldOut(take(ratings, ~out), take(ratings, out & ~queried), take(ratings, queried))


def carve(key: jax.Array, data: Dataset, share: float = 0.05) -> Dataset:
    """Set a random share of the training ratings aside as validation ratings: at least one, if there are several."""
    number = len(data.train.user)
    split = random(key, data.train, test=max(share, 1 / number) if number > 1 else share)
    return data._replace(train=split.train, valid=split.test, sha256=digest(split.train, split.test, data.catalogue))
