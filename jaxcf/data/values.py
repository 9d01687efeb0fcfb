"""The values in columns of files: ids, ratings and their scale, duplicates."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jaxcf.data.file_layout import Reading
from jaxcf.data.parsing import Columns, dictionary_codes
from jaxcf.data.ratings import INTEGER, Ratings, Scale, pair_keys, take
from jaxfit.errors import UserError

MAX_LEVELS = 1000  # a scale of more levels is taken as one without steps


def parse_scale(text: str) -> Scale:
    """Parse a scale given as LOW,HIGH,STEP, in stars; step 0 for any value in between.

    Raises:
        UserError: if it is not a scale.
    """
    try:
        low, high, step = (float(part) for part in text.split(","))
        steps = (high - low) / step if step else 1.0
    except ValueError:
        low = high = step = steps = np.nan
    if not (low < high < np.inf and step >= 0 and abs(steps - round(steps)) < 1e-4):
        raise UserError(f"invalid scale {text!r}", "--scale", "give LOW,HIGH,STEP, for example 0.5,5,0.5")
    return Scale(low, high, step)


def scale_of(values: np.ndarray) -> Scale:
    """Return the scale from the lowest to the highest of some ratings, with the largest step that fits all of them.

    Scales of up to ten stars have steps of at most one star, since not every level need occur.
    """
    values = np.unique(np.asarray(values, np.float64))
    if len(values) == 0:
        raise ValueError("a scale needs at least one rating")
    low, high = float(values[0]), float(values[-1])
    if low == high:
        return Scale(low, high, 0.0)
    units = np.round((values - low) * 1e4).astype(np.int64)  # of a ten-thousandth, the smallest step detected
    step = int(np.gcd.reduce(units))
    if high - low <= 10:
        step = int(np.gcd(step, 10_000)) if step > 10_000 else step
    if np.abs(units / 1e4 - (values - low)).max() > 1e-6 or units[-1] // step >= MAX_LEVELS:
        return Scale(low, high, 0.0)
    return Scale(low, high, step / 1e4)


def indices(columns: Columns, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a column of ids as int32 indices into its distinct ids, and these, ascending.

    Raises:
        UserError: if an id is missing.
    """
    codes, texts = dictionary_codes(getattr(columns, name))
    ids, index = _ids(pc.utf8_trim_whitespace(texts))
    missing = (codes < 0) | (index[codes] < 0) if len(index) else codes < 0
    if missing.any():
        where = columns.locate(int(np.argmax(missing)))
        raise UserError(f"the {name} is missing", where, "complete the line or remove it")
    used = np.zeros(len(ids), bool)
    used[index[codes]] = True
    if not used.all():  # for example movies with an empty section in files of the Netflix Prize
        index, ids = (np.cumsum(used) - 1).astype(np.int32)[index], ids[used]
    return index[codes], ids


def _ids(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct ids, ascending, as integers if all are; and the index of each text, -1 for an empty one."""
    if len(texts) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int32)
    values: np.ndarray
    if pc.all(pc.match_substring_regex(texts, f"^{INTEGER}$")).as_py():
        try:
            values = texts.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:  # integers beyond 64 bits
            values = np.array(texts.to_pylist(), np.str_)
    else:
        values = np.array(texts.to_pylist(), np.str_)
    ids, index = np.unique(values, return_inverse=True)
    index = index.astype(np.int32)
    if ids.dtype.kind == "U" and ids[0] == "":
        return ids[1:], index - 1
    return ids, index


def stars_of(columns: Columns, scale: Scale | None) -> tuple[np.ndarray, np.ndarray]:
    """Return ratings as float32, and the distinct ones.

    Raises:
        UserError: if a rating is missing, not a finite number, or off the given scale.
    """
    codes, texts = dictionary_codes(columns.stars)
    # the last one is for code -1, a missing rating
    numbers = np.array([_number(text) for text in texts.to_pylist()] + [np.nan])
    bad = ~np.isfinite(numbers)
    if scale is not None:
        bad |= ~scale.contains(numbers)
    if bad[codes].any():
        row = int(np.argmax(bad[codes]))
        text, where = texts[codes[row]].as_py() if codes[row] >= 0 else "", columns.locate(row)
        if not text.strip():
            raise UserError("the rating is missing", where, "complete the line or remove it")
        if scale is not None and np.isfinite(numbers[codes[row]]):
            what = f"the rating {text} is off the scale of {scale}"
            raise UserError(what, where, "correct it, or give --scale")
        raise UserError(f"the rating {text!r} is not a finite number", where, "correct the line or remove it")
    return numbers.astype(np.float32)[codes], np.unique(numbers[:-1])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def without_duplicates(
    ratings: Ratings, users: np.ndarray, items: np.ndarray, locate: Callable[[int], str], reading: Reading
) -> tuple[Ratings, list[str]]:
    """Resolve repeated ratings of an item by the same user as `reading.duplicates` says.

    Returns:
        the ratings without duplicates, and messages for the user.

    Raises:
        UserError: if there are duplicates and the option makes them errors.
    """
    keys = pair_keys(ratings, len(items))
    ordered = np.sort(keys)
    repeated = int(np.count_nonzero(ordered[1:] == ordered[:-1]))
    if not repeated:
        return ratings, []
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    last = np.append(starts[1:], len(keys)) - 1
    if reading.duplicates == "error":
        repeats = np.ones(len(keys), bool)
        repeats[starts] = False
        row = int(order[repeats].min())  # the first line that repeats an earlier one
        user, item = users[ratings.user[row]], items[ratings.item[row]]
        what = f"user {user} has already rated item {item}"
        do = f"remove one of the ratings ({repeated} are repeated), or give --duplicates last, first or mean"
        raise UserError(what, locate(row), do)
    note = f"{repeated} repeated ratings of an item by the same user: --duplicates {reading.duplicates}"
    if reading.duplicates == "mean":
        sums = np.add.reduceat(ratings.stars[order].astype(np.float64), starts)
        stars = ratings.stars.copy()
        stars[order[last]] = sums / (last - starts + 1)
        ratings = ratings._replace(stars=stars)
    chosen = order[starts if reading.duplicates == "first" else last]
    return take(ratings, np.sort(chosen)), [note]
