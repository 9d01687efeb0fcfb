"""Ids of users and items, integers or text: ascending sets of them, and the positions of ids in these."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxfit.errors import UserError


def union(*ids: np.ndarray) -> np.ndarray:
    """Return the union of sets of ids, ascending; as text if any set is text."""
    if any(part.dtype.kind != "i" for part in ids):
        ids = tuple(part.astype(np.str_) for part in ids)
    return np.unique(np.concatenate(ids))


def find(known: np.ndarray, ids: ArrayLike) -> NDArray[np.int32]:
    """Return the positions of ids among known ones, which are ascending; -1 for unknown ids.

    Integers and text match if they are written alike: 7 matches `7`, but not `007`. Floats that are whole, into which
    pandas converts integers, count as integers, also among objects of several types.
    """
    wanted, absent = np.asarray(ids), np.zeros((), bool)
    if wanted.dtype.kind in "fO":
        texts = [_text(id_) for id_ in wanted.reshape(-1).tolist()]
        wanted = np.array(texts, np.str_).reshape(wanted.shape)
    if len(known) == 0:
        return np.full(wanted.shape, -1, np.int32)
    if known.dtype.kind != "i":
        wanted = wanted.astype(np.str_)
    elif wanted.dtype.kind != "i":
        integers = [_integer(str(id_)) for id_ in wanted.reshape(-1).tolist()]
        absent = np.array([id_ is None for id_ in integers], bool).reshape(wanted.shape)
        wanted = np.array([id_ or 0 for id_ in integers], np.int64).reshape(wanted.shape)
    position = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found = (known[position] == wanted) & ~absent
    return np.where(found, position, -1).astype(np.int32)


def find_one(known: np.ndarray, id_: Any, side: str) -> int:
    """Return the position of an id among known ones, -1 for an unknown one; raises UserError for several.

    Args:
        known: as in `find`.
        id_: the id.
        side: "users" or "items".
    """
    if isinstance(id_, Iterable) and not isinstance(id_, str) and getattr(id_, "shape", None) != ():
        raise UserError(f"several {side} are named", do="give one id at a time")
    return int(find(known, [id_])[0])


def _text(id_: Any) -> str:
    """Return an id as text, a whole float as the integer that it is."""
    return str(int(id_) if isinstance(id_, float | np.floating) and id_.is_integer() else id_)


def _integer(text: str) -> int | None:
    """Return the integer of 64 bits that is printed as this text, if there is one: no sign +, no leading zeros."""
    number = int(text) if re.fullmatch("0|-?[1-9][0-9]{0,18}", text) else None
    return number if number is None or -(2**63) <= number < 2**63 else None
