"""The values in columns of files: ids, ratings and their scale, duplicates."""

import re
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from jaxcf.data.formats.bad_lines import LARGEST, are_ratings, rating_fault, rating_of
from jaxcf.data.formats.columns import Columns
from jaxcf.data.options import Reading
from jaxcf.data.ratings import Pairs, Ratings, RatingScale, chosen, counted, pair_keys, take
from jaxfit.errors import UserError
from jaxfit.files.large_arrays import filled, pieces
from jaxfit.wording import quantity

MAX_ID_CHARACTERS = 1000  # each id takes the memory of the longest
RATINGS_AT_ONCE = 1 << 22  # ratings whose pairs are compared
MAX_LEVELS = 1000  # a scale of more levels is taken as one without steps


def parse_scale(text: str | None) -> RatingScale | None:
    """Parse a scale given as LOW,HIGH,STEP, in stars; step 0 for any value in between; None if none is given."""
    if not text:
        return None
    try:
        low, high, step = (float(part) for part in text.split(","))
        steps = (high - low) / step if step else 1.0
    except ValueError:
        low = high = step = steps = np.nan
    whole = 0.5 < steps < np.inf and abs(steps - round(steps)) < 1e-4
    if not (-LARGEST <= low < high <= LARGEST and step >= 0 and whole):
        raise UserError(f"invalid scale {text!r}", "--scale", "give LOW,HIGH,STEP, for example 0.5,5,0.5")
    return RatingScale(low, high, step)


def scale_of(values: np.ndarray) -> RatingScale:
    """Return the scale from the lowest to the highest of some ratings, with the largest step that fits all of them.

    Scales of up to ten stars have steps of at most one star, since not every level need occur.
    """
    values = np.unique(np.asarray(values, np.float64))
    if len(values) == 0:
        raise ValueError("a scale needs at least one rating")
    low, high = float(values[0]), float(values[-1])
    if low == high:
        return RatingScale(low, high, 0.0)
    units = np.round((values - low) * 1e4).astype(np.int64)  # of a ten-thousandth, the smallest step detected
    step = int(np.gcd.reduce(units))
    if high - low <= 10:
        step = int(np.gcd(step, 10_000)) if step > 10_000 else step
    if np.abs(units / 1e4 - (values - low)).max() > 1e-6 or units[-1] // step >= MAX_LEVELS:
        return RatingScale(low, high, 0.0)
    return RatingScale(low, high, step / 1e4)


def indices(columns: Columns, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a column of ids as int32 indices into the distinct ids, and these, ascending.

    Raises UserError for a missing id, one that is too long, or one that is not of one line of text.
    """
    codes, texts = columns.codes[name], columns.texts[name]
    used = counted(codes, len(texts)) > 0  # a movie of the Netflix Prize may have an empty section
    blank = pc.equal(pc.utf8_trim(texts, "\0"), "")  # NumPy's text cannot end with a zero byte
    missing = used & blank.to_numpy(zero_copy_only=False)
    if missing.any():
        where = columns.locate(_first(missing, codes))
        raise UserError(f"the {name} is missing", where, "complete the line or remove it")
    long = used & pc.greater(pc.utf8_length(texts), MAX_ID_CHARACTERS).to_numpy(zero_copy_only=False)
    if long.any():
        what = f"the {name} is an id of more than {MAX_ID_CHARACTERS:,} characters"
        raise UserError(what, columns.locate(_first(long, codes)), "check the columns and the delimiter")
    broken = used & pc.match_substring_regex(texts, "[\\n\\r\\x00]").to_numpy(zero_copy_only=False)
    if broken.any():  # other programs read exported ids line by line, and NumPy's text drops zero bytes at its end
        where = columns.locate(_first(broken, codes))
        raise UserError(f"the {name} is an id with a line break or a zero byte", where, "take it out of the id")
    ids, positions = np.unique(_ids(texts.filter(pa.array(used))), return_inverse=True)
    index = np.zeros(len(texts), np.int32)
    index[used] = positions
    return chosen(index, codes), ids


def _first(which: np.ndarray, codes: np.ndarray) -> int:
    """Return the first place of a code for which `which` is true; there must be one."""
    found = ((piece.start, which[codes[piece]]) for piece in pieces(len(codes)))
    return next(begin + int(np.argmax(true)) for begin, true in found if true.any())


def _ids(texts: pa.Array) -> np.ndarray:
    """Return ids as int64 if printing the integers gives back every id; otherwise as text."""
    try:
        integers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        integers = None
    if integers is not None and integers.cast(pa.utf8()).equals(texts):
        return integers.to_numpy()
    return np.array(texts.to_pylist(), np.str_)


def stars_of(
    columns: Columns, scale: RatingScale | None, reading: Reading, kind: DTypeLike = np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """Return ratings, and the distinct ones as float64, ascending.

    Args:
        columns: the rows of files.
        scale: that of `reading`, or else that of training; None: not known yet.
        reading: gives the decimal sign.
        kind: the ratings' type.

    Raises:
        UserError: a rating is missing, not a finite number, too large, or off the scale.
    """
    decimal = reading.decimal
    codes, texts = columns.codes["stars"], columns.texts["stars"]
    numbers = np.array([rating_of(text, decimal) for text in texts.to_pylist()], np.float64)
    used = counted(codes, len(texts)) > 0
    bad = used & ~are_ratings(numbers, scale)
    if bad.any():
        row = _first(bad, codes)
        text, number = texts[codes[row]].as_py(), numbers[codes[row]]
        what, do = rating_fault(text, decimal, scale), "correct the line or remove it"
        if abs(number) <= LARGEST:
            do = "correct it, or " + ("give --scale" if reading.scale else "train with --scale LOW,HIGH,STEP")
        elif np.isnan(number) and re.fullmatch(r"[+-]?\d*,\d+", text):
            do = "if its comma is the decimal sign, give --decimal ,"
        raise UserError(str(what), columns.locate(row), do)
    return chosen(numbers.astype(kind), codes), np.unique(numbers[used])


def without_duplicates(
    ratings: Ratings,
    users: np.ndarray,
    items: np.ndarray,
    locate: Callable[[int], str],
    reading: Reading,
    counts: bool = False,
) -> tuple[Ratings, list[str]]:
    """Resolve repeated ratings of an item by the same user as `reading.duplicates` says; also return messages.

    Args:
        ratings: by indices of users and items.
        users: ids of the users.
        items: ids of the items.
        locate: row -> its file and line, for messages.
        reading: says how duplicates are resolved.
        counts: whether the ratings are counts, which can be added up.
    """
    number, repeated, first_row = len(ratings.user), 0, len(ratings.user)
    stars, out = ratings.stars, np.zeros(0, bool)  # out: whether a rating is left out, where some are
    for rows in _of_some_users(ratings.user, len(users)):
        keys = pair_keys(Pairs(ratings.user[rows], ratings.item[rows]), len(items))
        if np.all(np.diff(np.sort(keys))):
            continue
        _, first, pair, number_of = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        if not repeated:
            out = np.zeros(number, bool)
            if reading.duplicates in ("mean", "sum"):
                stars = filled(number, ratings.stars.dtype, ratings.stars.__getitem__)
        repeated += len(keys) - len(first)
        repeats = np.ones(len(keys), bool)
        repeats[first] = False
        first_row = min(first_row, int(rows[np.argmax(repeats)]))
        if reading.duplicates in ("mean", "sum"):
            total = np.bincount(pair, ratings.stars[rows])
            stars[rows] = (total / number_of if reading.duplicates == "mean" else total).astype(stars.dtype)[pair]
        last = np.zeros_like(first)
        last[pair] = np.arange(len(keys))
        out[rows] = True
        out[rows[first if reading.duplicates == "first" else last]] = False
    if not repeated:
        return ratings, []
    if reading.duplicates == "error":  # of the first line that repeats an earlier one
        user, item = users[ratings.user[first_row]], items[ratings.item[first_row]]
        what = f"user {user} has already rated item {item}"
        ways = "last, first, mean or sum" if counts else "last, first or mean"
        do = f"remove this rating ({quantity(repeated, 'repeated rating')} in all), or give --duplicates {ways}"
        raise UserError(what, locate(first_row), do)
    what = quantity(repeated, f"repeated {'count' if counts else 'rating'}")
    note = f"{what} of an item by the same user: --duplicates {reading.duplicates}"
    return take(ratings._replace(stars=stars), ~out), [note]


def _of_some_users(user: NDArray[np.int32], num_users: int) -> Iterator[NDArray[np.int64]]:
    """Yield, for one group of users after another, the ascending positions of their ratings.

    Groups have at most `RATINGS_AT_ONCE` ratings, but for a single user with more.
    """
    if len(user) <= RATINGS_AT_ONCE:
        yield np.arange(len(user))
        return
    ends = np.cumsum(counted(user, num_users))
    low = 0
    while low < num_users:
        before = ends[low - 1] if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + RATINGS_AT_ONCE, side="right")))
        yield np.concatenate(
            [piece.start + np.flatnonzero((low <= user[piece]) & (user[piece] < high)) for piece in pieces(len(user))]
        )
        low = high
