"""Ratings as indices of users and items, the catalogue of their ids, and data sets."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxcf.data.ids import find, find_one
from jaxfit.errors import NotInTraining
from jaxfit.files.large_arrays import empty, filled, pieces


class RatingScale(NamedTuple):
    """The possible ratings: low, low + step, …, high, in stars; with step 0 any value from low to high."""

    low: float
    high: float
    step: float

    @property
    def levels(self) -> int:
        """Return the number of possible ratings (K of §5.2); 0 for a scale without steps."""
        return round((self.high - self.low) / self.step) + 1 if self.step else 0

    def clip(self, stars: np.ndarray) -> np.ndarray:
        """Clip predictions to the ends of the scale."""
        return np.clip(stars, self.low, self.high)

    def contains(self, stars: ArrayLike) -> np.ndarray:
        """Return which values are ratings of the scale, up to rounding in float32."""
        rounding = 2.0**-24 * max(abs(self.low), abs(self.high))  # the largest error of float32
        margin = 1e-6 + rounding

        def contained(stars: NDArray[np.float64]) -> np.ndarray:
            inside = (stars >= self.low - margin) & (stars <= self.high + margin)
            if not self.step:
                return inside
            with np.errstate(over="ignore", invalid="ignore"):  # infinite ones are outside
                steps = (stars - self.low) / self.step
                return inside & (np.abs(steps - np.round(steps)) < 1e-4 + rounding / self.step)

        return _of_float64(contained, stars, np.bool_)

    def level(self, stars: ArrayLike) -> NDArray[np.int32]:
        """Return the levels of ratings: their positions on the scale, 0 for the lowest.

        A rating halfway between two levels has the higher one.
        """
        return _of_float64(lambda stars: np.floor((stars - self.low) / self.step + 0.5), stars, np.int32)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"all {self.low:g}"
        return f"{self.low:g} to {self.high:g}" + (f" in steps of {self.step:g}" if self.step else "")


class Ratings(NamedTuple):
    """Triples of user, item and stars, in the order of their files."""

    user: NDArray[np.int32]  # [N]
    item: NDArray[np.int32]  # [N]
    stars: NDArray[np.float32]  # [N]
    time: NDArray[np.int64] | None = None  # [N], seconds since 1970, if known


class Pairs(NamedTuple):
    """Pairs of user and item: who rated what, without the ratings."""

    user: NDArray[np.int32]  # [N]
    item: NDArray[np.int32]  # [N]


class Present(NamedTuple):
    """Which users and items occur in some ratings or pairs; the last element, at the index -1, is False."""

    user: NDArray[np.bool_]  # [num_users + 1]
    item: NDArray[np.bool_]  # [num_items + 1]


class Vectors(NamedTuple):
    """Ratings grouped by user: those of user i are at offsets[i] … offsets[i+1]-1, in the order of the files."""

    offsets: NDArray[np.int32]  # [num_users + 1]
    item: NDArray[np.int32]  # [N]
    stars: NDArray[np.float32]  # [N]


@dataclass(frozen=True)
class Catalogue:
    """The ids of users and items, indexed in ascending order, and the scale of their ratings."""

    users: np.ndarray  # ids, ascending: int64 if all are integers of 64 bits, otherwise str
    items: np.ndarray
    scale: RatingScale

    @property
    def num_users(self) -> int:
        """Return the number of users."""
        return len(self.users)

    @property
    def num_items(self) -> int:
        """Return the number of items."""
        return len(self.items)

    def user_index(self, ids: ArrayLike) -> NDArray[np.int32]:
        """Look up users by their ids (integers or text): int32 of the same shape, -1 for unknown ids."""
        return find(self.users, ids)

    def item_index(self, ids: ArrayLike) -> NDArray[np.int32]:
        """Look up items by their ids (integers or text): int32 of the same shape, -1 for unknown ids."""
        return find(self.items, ids)

    def one_user(self, user: Any) -> int:
        """Look up a user by its id, -1 for an unknown one; raises UserError for several."""
        return find_one(self.users, user, "users")

    def one_item(self, item: Any) -> int:
        """Look up an item by its id, -1 for an unknown one; raises UserError for several."""
        return find_one(self.items, item, "items")


class Dataset(NamedTuple):
    """Training, validation and test ratings in one catalogue; users and items of the test that it lacks are -1."""

    name: str
    train: Ratings
    valid: Ratings
    test: Ratings | None
    catalogue: Catalogue
    sha256: str  # of training and validation ratings and the catalogue (`digest`)
    note: str  # a description of the data, shown beside results


FEW = 1 << 20  # ratings that are sorted as fast as they are counted
EMPTY = Ratings(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))


def take(ratings: Ratings, which: np.ndarray) -> Ratings:
    """Return the ratings at the given positions, or where a mask is true."""
    which = np.asarray(which)
    time = None if ratings.time is None else _taken(ratings.time, which)
    user, item, stars = (_taken(column, which) for column in ratings[:3])
    return Ratings(user, item, stars, time)


def _taken(column: np.ndarray, which: np.ndarray) -> np.ndarray:
    if which.dtype != bool:
        return chosen(column, which)
    if len(which) != len(column):
        raise IndexError(f"a mask of {len(which)} elements for {len(column)}")
    taken, end = empty((int(np.count_nonzero(which)),), column.dtype), 0
    for piece in pieces(len(column)):
        some = column[piece][which[piece]]
        begin, end = end, end + len(some)
        taken[begin:end] = some
    return taken


def _of_float64(function: Callable[[NDArray[np.float64]], np.ndarray], values: ArrayLike, dtype: type) -> np.ndarray:
    """Return a function of values in float64, computed in pieces, as another type."""
    numbers = np.asarray(values)
    flat = numbers.reshape(-1)
    return filled(flat.size, dtype, lambda piece: function(flat[piece].astype(np.float64))).reshape(numbers.shape)


def chosen(values: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Return values[which], computed in pieces.

    Args:
        which: int[N].
    """
    return filled(len(which), values.dtype, lambda piece: values[which[piece]])


def counted(index: NDArray[np.int32], number: int = 0) -> NDArray[np.int64]:
    """Count how often each index occurs: int64 [number], or longer if an index is `number` or more."""
    counts = np.zeros(max(number, 1 + int(index.max(initial=-1))), np.int64)
    for piece in pieces(len(index)):  # NumPy copies indices to 64 bits
        counts += np.bincount(index[piece], minlength=len(counts))
    return counts


class Units(NamedTuple):
    """How ratings are standardized for models that depend on their units: (stars - mean) / unit."""

    mean: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, stars: NDArray[np.float32], scale: RatingScale) -> "Units":
        """Return the units of training ratings.

        The unit is a quarter of the scale: one star on 1 to 5 stars. Where it is less, as for counts, most of which are
        far below the highest one, the unit is twice the standard deviation, but at least a sixteenth of the scale,
        since single very high counts would make training diverge.
        """
        span, mean = scale.high - scale.low, np.mean(stars, dtype=np.float64)
        squares = sum(float(np.sum(np.square(stars[piece] - mean))) for piece in pieces(len(stars)))
        unit = min(span / 4, max(span / 16, 2 * math.sqrt(squares / len(stars))))
        return cls(float(mean), unit or 1.0)


def standardized(ratings: Ratings, units: Units) -> Ratings:
    """Return the ratings in these units, as float32."""
    mean, unit = np.float32(units.mean), np.float32(units.unit)

    def values(piece: slice) -> np.ndarray:
        return (np.asarray(ratings.stars[piece], np.float32) - mean) / unit

    return ratings._replace(stars=filled(len(ratings.stars), np.float32, values))


def join(*parts: Ratings) -> Ratings:
    """Concatenate ratings, with times if all parts have them."""
    some = [part for part in parts if len(part.user)] or [EMPTY]
    times = [part.time for part in some if part.time is not None]
    time = np.concatenate(times) if len(times) == len(some) else None
    user, item, stars = (np.concatenate([part[field] for part in some]) for field in range(3))
    return Ratings(user, item, stars, time)


def grouped(index: NDArray[np.int32], groups: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Group positions by an index: a stable sort in linear time.

    Returns:
        offsets, int32 [groups + 1], and order, int32 [N]: group g is order[offsets[g]:offsets[g+1]].
    """
    rows = np.arange(len(index), dtype=np.int32)
    if np.all(index[1:] >= index[:-1]):
        return np.searchsorted(index, np.arange(groups + 1)).astype(np.int32), rows
    if len(index) < FEW:
        order = np.argsort(index, kind="stable").astype(np.int32)
        return np.searchsorted(index[order], np.arange(groups + 1)).astype(np.int32), order
    import scipy.sparse  # here, as it takes a while

    shape = (groups, len(index))
    matrix = scipy.sparse.coo_array((np.ones(len(index), bool), (index, rows)), shape=shape).tocsr()
    return matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)


def by_user(ratings: Ratings, num_users: int) -> Vectors:
    """Group ratings by user."""
    offsets, order = grouped(ratings.user, num_users)
    return Vectors(offsets, chosen(ratings.item, order), chosen(ratings.stars, order))


def by_item(ratings: Ratings, num_items: int) -> Vectors:
    """Group ratings by item: `Vectors` with users and items exchanged."""
    return by_user(ratings._replace(user=ratings.item, item=ratings.user), num_items)


def rated_sets(*parts: Ratings | Pairs, num_users: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the set of items that each user rated in any of the parts, in linear time.

    Returns:
        offsets, int32 [num_users + 1], and items, int32 [N]: user i rated items[offsets[i]:offsets[i+1]],
        ascending and distinct.
    """
    import scipy.sparse  # here, as it takes a while

    num_items = 1 + max((int(part.item.max(initial=0)) for part in parts), default=0)
    sets = scipy.sparse.csr_array((num_users, num_items), dtype=bool)
    for part in parts:
        rated = np.ones(len(part.user), bool)
        sets = sets + scipy.sparse.coo_array((rated, (part.user, part.item)), shape=sets.shape).tocsr()
    return sets.indptr.astype(np.int32), sets.indices.astype(np.int32)


def pair_keys(pairs: Ratings | Pairs, num_items: int) -> NDArray[np.int64]:
    """Return an integer for each pair of user and item, different for different pairs: int64 [N]."""
    return pairs.user.astype(np.int64) * num_items + pairs.item


def relabel(ratings: Ratings, old: Catalogue, new: Catalogue) -> Ratings:
    """Replace the indices of one catalogue by those of another, -1 for users and items that the other one lacks."""
    user, item = new.user_index(old.users), new.item_index(old.items)
    return ratings._replace(user=chosen(user, ratings.user), item=chosen(item, ratings.item))


def present(catalogue: Catalogue, *parts: Ratings | Pairs) -> Present:
    """Return which users and items of a catalogue occur in some sets of ratings or pairs."""
    found = Present(np.zeros(catalogue.num_users + 1, bool), np.zeros(catalogue.num_items + 1, bool))
    for part in parts:
        for piece in pieces(len(part.user)):  # NumPy copies indices to 64 bits
            found.user[part.user[piece]] = True
            found.item[part.item[piece]] = True
    return found


def require_known(side: str, index: np.ndarray, ids: ArrayLike, trained: NDArray[np.bool_]) -> None:
    """Raise NotInTraining for ids that were not in training.

    Args:
        side: "user" or "item".
        index: their indices, -1 for ids that are not in the catalogue, [n].
        ids: [n].
        trained: which users or items were in training, as in `Present`.
    """
    unknown = ~trained[index]
    if unknown.any():
        names = list(dict.fromkeys(np.asarray(ids)[unknown].tolist()))
        others = len(names) - 1
        more = f", nor {'was 1 other' if others == 1 else f'were {others:,} others'}" if others else ""
        what = f"no {side} {names[0]!r} was in training{more}"
        raise NotInTraining(what, do="leave out what is unknown, or give known_only=False")


def digest(train: Ratings, valid: Ratings, catalogue: Catalogue) -> str:
    """Return the sha256 of the data that a model is trained on: training and validation ratings and the catalogue."""
    hashed = hashlib.sha256()
    for part in (train, valid):
        for array, kind in ((part.user, "<i4"), (part.item, "<i4"), (part.stars, "<f4")):
            hashed.update(np.ascontiguousarray(array, kind).data)
    for ids in (catalogue.users, catalogue.items):
        hashed.update("\n".join(map(str, ids.tolist())).encode() + b"\0")
    hashed.update(repr(tuple(map(float, catalogue.scale))).encode())
    return hashed.hexdigest()
