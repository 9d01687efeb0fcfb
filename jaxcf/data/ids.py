"""Ids of users and items, integers or text: ascending sets of them, and the positions of ids in these."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from jaxfit.errors import UserError

# Zeros at the end of a decimal number or of the seconds of a time, as Arrow prints them for its type: 12:00:00.000Z
_ZEROS = r"(?:(\.[0-9]*[1-9])0*|\.0+)(Z|[+-][0-9]+)?$"


def union(*ids: np.ndarray) -> np.ndarray:
    """Return the union of sets of ids, ascending; as text if any set is text."""
    if any(part.dtype.kind != "i" for part in ids):
        ids = tuple(part.astype(np.str_) for part in ids)
    return np.unique(np.concatenate(ids))


def as_text(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return ids or ratings of any type as text: floats that are whole as integers, if of 64 bits, NaN as missing.

    The text of an id does not depend on the other ids of the column.

    Raises:
        pa.ArrowException: values of this type have no text.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)  # as pandas writes a missing value
        whole = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), 2.0**63))
        if pc.all(whole).as_py():  # in a third of the time
            return column.cast(pa.int64()).cast(pa.utf8())
        integers = pc.if_else(whole, column, None).cast(pa.int64(), safe=False)
        return pc.if_else(whole, integers.cast(pa.utf8()), column.cast(pa.utf8()))
    text = column.cast(pa.utf8())
    if pa.types.is_temporal(column.type) or pa.types.is_decimal(column.type):
        text = pc.replace_substring_regex(text, _ZEROS, r"\1\2")
    return text


def trimmed(texts: pa.Array) -> pa.Array:
    """Return texts without blanks around, "" for missing ones."""
    return pc.fill_null(pc.utf8_trim_whitespace(texts), "")


def written(ids: ArrayLike) -> np.ndarray:
    """Return ids as training reads them from a table: an array of signed integers as it is, all else as text."""
    wanted = np.asarray(ids)
    if wanted.dtype.kind == "i":
        return wanted
    if wanted.dtype.kind == "U" and isinstance(ids, np.ndarray):
        return np.strings.strip(wanted)  # of the blanks that `trimmed` takes, and faster
    if wanted.dtype.kind == "U":
        wanted = np.asarray(ids, object)  # else a number beside text is printed as Python does
    try:
        texts = as_text(pa.array(wanted.reshape(-1)))
    except (pa.ArrowException, UnicodeError, OverflowError):  # ids of several types
        texts = pa.array([_one_as_text(id_) for id_ in wanted.reshape(-1).tolist()], pa.utf8())
    return np.array(trimmed(texts).to_pylist(), np.str_).reshape(wanted.shape)


def find(known: np.ndarray, ids: ArrayLike) -> NDArray[np.int32]:
    """Return the positions of ids among known ones, which are ascending; -1 for unknown ids.

    Ids match if training reads them alike from a table: 7 and 7.0 match `7`, as does " 7", but not `007`.
    """
    wanted, absent = written(ids), np.zeros((), bool)
    if len(known) == 0:
        return np.full(wanted.shape, -1, np.int32)
    if known.dtype.kind != "i":
        wanted = wanted.astype(np.str_)
    elif wanted.dtype.kind != "i":
        integers = [_integer(id_) for id_ in wanted.reshape(-1).tolist()]
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
    if isinstance(id_, Iterable) and not isinstance(id_, str | bytes) and getattr(id_, "shape", None) != ():
        raise UserError(f"several {side} are named", do="give one id at a time")
    return int(find(known, [id_])[0])


def _one_as_text(id_: Any) -> str | None:
    if type(id_) is int or (type(id_) is str and id_.isascii()):  # the usual ones, at once
        return str(id_)
    try:
        return as_text(pa.array([id_]))[0].as_py()
    except (pa.ArrowException, UnicodeError, OverflowError):
        return ascii(id_)  # which matches no id


def _integer(text: str) -> int | None:
    """Return the integer of 64 bits that is printed as this text, if there is one: no sign +, no leading zeros."""
    number = int(text) if re.fullmatch("0|-?[1-9][0-9]{0,18}", text) else None
    return number if number is None or -(2**63) <= number < 2**63 else None
