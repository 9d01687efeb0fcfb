"""Splits of ratings into training, validation and test, exact and drawn by key.

The same key and the same ratings in the same order give the same split, on every machine. Each part keeps the
order of the ratings.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from jaxcf.data.ratings import Dataset, Ratings, digest, take
from jaxfit.errors import UserError

LATEST = 9  # ratings of a user that the Netflix Prize held out


class Split(NamedTuple):
    """Three parts of ratings, which together are all of them."""

    train: Ratings
    valid: Ratings
    test: Ratings


class HeldOut(NamedTuple):
    """Users left out of training, and the two halves of their ratings."""

    train: Ratings  # of the other users
    known: Ratings  # what may be told of the held-out users
    queried: Ratings  # what is asked of them
    users: NDArray[np.int32]  # the held-out ones, ascending


def deal(key: jax.Array, counts: Sequence[int]) -> NDArray[np.int32]:
    """Deal sum(counts) things out at random: int32, each its part's number, part i exactly counts[i] times."""
    order = np.argsort(_bits(key, sum(counts)), kind="stable")
    part = np.empty(len(order), np.int32)
    part[order] = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return part


def random(key: jax.Array, ratings: Ratings, valid: float = 0.0, test: float = 0.1) -> Split:
    """Split ratings at random: exactly the nearest whole number to each share of all.

    Raises:
        UserError: shares that are negative or leave no training ratings.
    """
    total = len(ratings.user)
    counts = [round(valid * total), round(test * total)]
    if valid < 0 or test < 0 or sum(counts) >= total:
        what = f"shares of {valid:g} for validation and {test:g} for test will not do for {total} ratings"
        raise UserError(what, None, "give shares that are not negative and leave some for training")
    part = deal(key, [total - sum(counts), *counts])
    return Split(*(take(ratings, part == i) for i in range(3)))


def kfold(key: jax.Array, ratings: Ratings, folds: int = 5) -> Iterator[tuple[Ratings, Ratings]]:
    """Training and test ratings of each fold: every rating is in one test, and tests differ by at most one in size.

    Raises:
        UserError: fewer than two folds, or more than ratings.
    """
    total = len(ratings.user)
    if not 2 <= folds <= total:
        raise UserError(f"{folds} folds will not do for {total} ratings", None, f"give from 2 to {total}")
    part = deal(key, _even(total, folds))
    return ((take(ratings, part != i), take(ratings, part == i)) for i in range(folds))


def thesis(key: jax.Array, ratings: Ratings) -> Split:
    """The Netflix Prize's split: a user's nine latest ratings are held out (Mnih 2010, §5.4.1, footnote 8).

    Of a user with fewer than 18 ratings in total half are, the latest (rounded down, so that at least half
    are trained on). Each of those goes to validation with probability 1/3, else to test. Of ratings at the same
    time, the later in the file counts as later.

    Raises:
        UserError: ratings without times.
    """
    if ratings.time is None:
        do = "give a file with time stamps, or split at random"
        raise UserError("the thesis' split takes the latest ratings, and these have no times", None, do)
    order = np.lexsort((ratings.time, ratings.user))  # stable: ties by file order
    counts = np.bincount(ratings.user)
    from_end = np.cumsum(counts)[ratings.user[order]] - 1 - np.arange(len(order))
    out = np.zeros(len(order), bool)
    out[order] = from_end < np.minimum(counts // 2, LATEST)[ratings.user[order]]
    chosen = np.asarray(jax.random.randint(key, (int(out.sum()),), 0, 3)) == 0
    valid = np.zeros(len(order), bool)
    valid[out] = chosen
    return Split(take(ratings, ~out), take(ratings, valid), take(ratings, out & ~valid))


def users(key: jax.Array, ratings: Ratings, share: float = 0.1) -> HeldOut:
    """Leave out a share of the users, to the nearest whole number; half of what each has rated is known.

    Users with fewer than two ratings stay in training. Of an odd number of ratings, one more is known.

    Raises:
        UserError: a share that leaves no users out, or none in.
    """
    who, half = jax.random.split(key)
    counts = np.bincount(ratings.user)
    able = np.flatnonzero(counts >= 2)
    total = int(np.count_nonzero(counts))
    number = round(share * total)
    if not 0 < number <= min(len(able), total - 1):
        what = f"a share of {share:g} of the users is {number} of {total}"
        raise UserError(what, None, "choose one that leaves some users with two ratings out and some in")
    left = able[deal(who, [len(able) - number, number]) == 1]
    out = np.isin(ratings.user, left)
    rows = np.flatnonzero(out)
    order = np.lexsort((_bits(half, len(rows)), ratings.user[rows]))
    mine = ratings.user[rows[order]]
    first = np.searchsorted(mine, mine)  # where its user's begin
    queried = np.zeros(len(out), bool)
    queried[rows[order]] = np.arange(len(rows)) - first < counts[mine] // 2
    return HeldOut(
        take(ratings, ~out), take(ratings, out & ~queried), take(ratings, queried), left.astype(np.int32)
    )


def groups(key: jax.Array, num_users: int, number: int = 5) -> NDArray[np.int32]:
    """Put users into groups of equal size at random (Figure 5.5): int32 [num_users]; sizes differ by at most one."""
    return deal(key, _even(num_users, number))


def carve(key: jax.Array, data: Dataset, share: float = 0.05) -> Dataset:
    """Take a data set's validation ratings out of its training ratings, at random."""
    split = random(key, data.train, test=share)
    return data._replace(
        train=split.train, valid=split.test, sha256=digest(split.train, split.test, data.catalogue)
    )


def _bits(key: jax.Array, count: int) -> np.ndarray:
    return np.asarray(jax.random.bits(key, (count,)))


def _even(total: int, parts: int) -> list[int]:
    return [total // parts + (i < total % parts) for i in range(parts)]
