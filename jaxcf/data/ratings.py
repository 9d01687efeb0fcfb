"""Ratings as indices, who and what the indices stand for, and a data set of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from jaxcf.data.synthetic import Truth

# how an integer is written so that the same text comes back: no sign +, no leading zeros
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
INT64 = np.iinfo(np.int64)


class Scale(NamedTuple):
    """The ratings there can be: low, low + step, …, high, in stars; step 0: any value between."""

    low: float
    high: float
    step: float

    @property
    def levels(self) -> int:
        """How many ratings there can be (K of §5.2); 0 where any value between can be."""
        return round((self.high - self.low) / self.step) + 1 if self.step else 0

    def clip(self, stars: np.ndarray) -> np.ndarray:
        """Move predictions outside the scale to its nearer end."""
        return np.clip(stars, self.low, self.high)

    def contains(self, stars: ArrayLike) -> np.ndarray:
        """Tell which values are ratings of the scale, up to rounding in float32."""
        stars = np.asarray(stars, np.float64)
        inside = (stars >= self.low - 1e-6) & (stars <= self.high + 1e-6)
        if not self.step:
            return inside
        steps = (stars - self.low) / self.step
        return inside & (np.abs(steps - np.round(steps)) < 1e-4)

    def level(self, stars: ArrayLike) -> NDArray[np.int32]:
        """Number the ratings of the scale from 0 (its low end)."""
        return np.round((np.asarray(stars, np.float64) - self.low) / self.step).astype(np.int32)

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}" + (f" in steps of {self.step:g}" if self.step else "")


class Ratings(NamedTuple):
    """Triples of user, item and stars, in the order of their files."""

    user: NDArray[np.int32]  # [N]
    item: NDArray[np.int32]  # [N]
    stars: NDArray[np.float32]  # [N]
    time: NDArray[np.int64] | None = None  # [N], seconds since 1970, where it is known


class Pairs(NamedTuple):
    """Who rated what, without the ratings; all of them in the catalogue, where models are told of them."""

    user: NDArray[np.int32]  # [N]
    item: NDArray[np.int32]  # [N]


class Vectors(NamedTuple):
    """The ratings of each user: those of user i are at offsets[i] … offsets[i+1]-1, in the order of the files."""

    offsets: NDArray[np.int32]  # [num_users + 1]
    item: NDArray[np.int32]  # [N]
    stars: NDArray[np.float32]  # [N]


@dataclass(frozen=True)
class Catalogue:
    """Who and what the indices are: index i stands for the i-th id in ascending order; and the scale of ratings."""

    users: np.ndarray  # ids, ascending: int64 where all are integers that fit, else str
    items: np.ndarray
    scale: Scale

    @property
    def num_users(self) -> int:
        """How many users there are."""
        return len(self.users)

    @property
    def num_items(self) -> int:
        """How many items there are."""
        return len(self.items)

    def user_index(self, ids: ArrayLike) -> NDArray[np.int32]:
        """Look up users by their ids (integers or text): int32 of the same shape, -1 for the unknown."""
        return find(self.users, ids)

    def item_index(self, ids: ArrayLike) -> NDArray[np.int32]:
        """Look up items by their ids (integers or text): int32 of the same shape, -1 for the unknown."""
        return find(self.items, ids)


class Dataset(NamedTuple):
    """A data set as models take it; users and items of all its parts are in the catalogue."""

    name: str
    train: Ratings
    valid: Ratings
    test: Ratings | None
    catalogue: Catalogue
    sha256: str  # of training and validation ratings and the catalogue (`digest`)
    note: str  # what a reader of results should know of the data
    truth: Truth | None = None  # the model it was drawn from, where it was


EMPTY = Ratings(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))


def take(ratings: Ratings, which: np.ndarray) -> Ratings:
    """Take the ratings at some positions, or where a mask holds."""
    time = None if ratings.time is None else ratings.time[which]
    return Ratings(ratings.user[which], ratings.item[which], ratings.stars[which], time)


def join(*parts: Ratings) -> Ratings:
    """Put ratings one after another; times only where all parts have them."""
    kept = [part for part in parts if len(part.user)] or [EMPTY]
    times = [part.time for part in kept if part.time is not None]
    time = np.concatenate(times) if len(times) == len(kept) else None
    user, item, stars = (np.concatenate([part[field] for part in kept]) for field in range(3))
    return Ratings(user, item, stars, time)


def grouped(index: NDArray[np.int32], groups: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Sort positions by an index, keeping their order within each; in time linear in their number.

    Returns:
        int32 [groups + 1]: group g is at offsets[g] … offsets[g+1]-1 of the order; int32 [N]: the order.
    """
    rows = np.arange(len(index), dtype=np.int32)
    if np.all(index[1:] >= index[:-1]):
        return np.searchsorted(index, np.arange(groups + 1)).astype(np.int32), rows
    shape = (groups, len(index))
    matrix = scipy.sparse.coo_array((np.ones(len(index), bool), (index, rows)), shape=shape).tocsr()
    return matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)


def by_user(ratings: Ratings, num_users: int) -> Vectors:
    """Lay the ratings out user after user."""
    offsets, order = grouped(ratings.user, num_users)
    return Vectors(offsets, ratings.item[order], ratings.stars[order])


def by_item(ratings: Ratings, num_items: int) -> Vectors:
    """Lay the ratings out item after item: `Vectors` with users and items exchanged."""
    return by_user(ratings._replace(user=ratings.item, item=ratings.user), num_items)


def rated_sets(*parts: Ratings | Pairs, num_users: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Whom each user rated, in any of several sets; in time linear in their number.

    Returns:
        int32 [users + 1]: user i rated items offsets[i] … offsets[i+1]-1; int32 [N]: those, ascending, each once.
    """
    span = 1 + max((int(part.item.max(initial=0)) for part in parts), default=0)
    sets = scipy.sparse.csr_array((num_users, span), dtype=bool)
    for part in parts:
        there = np.ones(len(part.user), bool)
        sets = sets + scipy.sparse.coo_array((there, (part.user, part.item)), shape=sets.shape).tocsr()
    return sets.indptr.astype(np.int32), sets.indices.astype(np.int32)


def relabel(ratings: Ratings, old: Catalogue, new: Catalogue) -> Ratings:
    """Number users and items as another catalogue does; -1 for those it does not know."""
    user, item = new.user_index(old.users), new.item_index(old.items)
    return ratings._replace(user=user[ratings.user], item=item[ratings.item])


def union(*ids: np.ndarray) -> np.ndarray:
    """All of several sets of ids, ascending; text where any is text."""
    if any(part.dtype.kind != "i" for part in ids):
        ids = tuple(part.astype(np.str_) for part in ids)
    return np.unique(np.concatenate(ids))


def find(known: np.ndarray, ids: ArrayLike) -> NDArray[np.int32]:
    """Positions of ids among known ones, which are ascending; -1 for the unknown.

    Integers are found as the text they are written in, and text as an integer if it is one (`7`, not `007`).
    """
    wanted = np.asarray(ids)
    flat = wanted.reshape(-1)
    if known.dtype.kind == "i" and flat.dtype.kind == "i":
        absent = np.zeros(flat.shape, bool)
    elif known.dtype.kind == "i":
        whole = [_whole(str(id_)) for id_ in flat.tolist()]
        absent = np.array([id_ is None for id_ in whole], bool)
        flat = np.array([id_ or 0 for id_ in whole], np.int64)
    else:
        flat, absent = flat.astype(np.str_), np.zeros(flat.shape, bool)
    if len(known) == 0:
        return np.full(wanted.shape, -1, np.int32)
    place = np.minimum(np.searchsorted(known, flat), len(known) - 1)
    found = (known[place] == flat) & ~absent
    return np.where(found, place, -1).astype(np.int32).reshape(wanted.shape)


def digest(train: Ratings, valid: Ratings, catalogue: Catalogue) -> str:
    """The sha256 that results name: of what a model is trained on, not of the test."""
    hashed = hashlib.sha256()
    for part in (train, valid):
        for array, kind in ((part.user, "<i4"), (part.item, "<i4"), (part.stars, "<f4")):
            hashed.update(np.ascontiguousarray(array, kind).data)
    for ids in (catalogue.users, catalogue.items):
        hashed.update("\n".join(map(str, ids.tolist())).encode() + b"\0")
    hashed.update(repr(tuple(map(float, catalogue.scale))).encode())
    return hashed.hexdigest()


def _whole(text: str) -> int | None:
    number = int(text) if _WHOLE.fullmatch(text) else None
    return number if number is None or INT64.min <= number <= INT64.max else None
