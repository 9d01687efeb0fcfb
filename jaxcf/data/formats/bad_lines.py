"""Lines of files of ratings that cannot be read: what is wrong with one, and files without them (`--skip-bad`)."""

import contextlib
import functools
import io
import math
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
from numpy.typing import ArrayLike

from jaxcf.data.formats.file_layout import Layout, lines, to_number
from jaxcf.data.options import Reading
from jaxcf.data.ratings import RatingScale
from jaxfit.errors import UserError
from jaxfit.files.opening import Source

MISSING = frozenset(pcsv.ConvertOptions().null_values)  # what Arrow takes as a missing value, of ratings and times
LARGEST = 1e12  # rating, in magnitude: its ten-thousandths fit 64 bits, and float32 holds it
_INVALID = re.compile("[\udc80-\udcff]")  # bytes that are invalid in the encoding, as `lines` keeps them

Fault = Callable[[str], str | None]  # what is wrong with a line, if something is


class Kept(NamedTuple):
    """The lines of a file that can be read."""

    path: Source
    numbers: np.ndarray  # of the lines, from 1
    texts: list[str]
    notes: tuple[str, ...]  # how many lines are left out, and why the first of them is

    def stream(self) -> io.BytesIO:
        """Return the lines as a file in UTF-8."""
        return io.BytesIO("".join(f"{text}\n" for text in self.texts or [""]).encode())

    def locate(self, row: int) -> str:
        """Return file and line of a row."""
        return f"{self.path}, line {self.numbers[row]}"


def kept(path: Source, skip: int, reading: Reading, fault: Fault) -> Kept:
    """Read the lines of a file that have no fault, apart from a header in line `skip`; `reading.skip_bad` may have one.

    Raises:
        UserError: as `lines`; if more lines have a fault, the first one.
    """
    numbers, texts, bad = [], [], 0
    for number, text in lines(path, reading.encoding, strict=False):
        if number == skip:
            continue
        invalid = f"the line is not valid {reading.encoding}" if _INVALID.search(text) else None
        wrong = invalid or fault(text)
        if not wrong:
            numbers.append(number)
            texts.append(text)
            continue
        if not bad:
            first, where = wrong, f"{path}, line {number}"
        bad += 1
    if bad > reading.skip_bad:
        do = f"correct it: {bad} lines cannot be read, and --skip-bad {reading.skip_bad} leaves fewer out"
        raise UserError(first, where, do)
    left_out = f"{bad:,} of the lines cannot be read and are left out; the first: {first} ({where})" if bad else ""
    return Kept(path, np.array(numbers, np.int64), texts, (left_out,) if left_out else ())


def kind_of_time(text: str) -> str | None:
    """Return what a text is as a time for Arrow: a number, a date or a date with a zone; None if it is no time."""
    if (number := to_number(text)) is not None:
        return "number" if math.isfinite(number) else None
    for zone, kind in ((None, "date"), ("UTC", "date with a zone")):
        with contextlib.suppress(pa.ArrowInvalid):
            pa.scalar(text.strip()).cast(pa.timestamp("ns" if "." in text else "s", zone))
            return kind
    return None


def rating_of(text: str, decimal: str) -> float:
    """Return the rating that a text is; NaN if it is none, as one with a point where commas are decimal signs."""
    number = to_number(text.replace(decimal, ".")) if decimal == "." or "." not in text else None
    return np.nan if number is None else number


def are_ratings(numbers: ArrayLike, scale: RatingScale | None) -> np.ndarray:
    """Return which numbers can be ratings: finite, not too large, and on the scale, if one is given."""
    small = np.abs(numbers) <= LARGEST
    return small if scale is None else small & scale.contains(numbers)


def rating_fault(text: str, decimal: str, scale: RatingScale | None) -> str | None:
    """Return what is wrong with a rating, if something is."""
    text, number = text.strip(), rating_of(text, decimal)
    if are_ratings(number, scale):
        return None
    if not text or text in MISSING:
        return "the rating is missing"
    if LARGEST < abs(number) < np.inf:
        return f"the rating {text} is too large"
    if np.isfinite(number):
        return f"the rating {text} is off the scale of {scale}"
    if decimal != "." and "." in text:
        return f"the rating {text!r} has a point, but the decimal sign is a comma"
    return f"the rating {text!r} is not a finite number"


def of_delimited(layout: Layout, reading: Reading, names: list[str], scale: RatingScale | None) -> Fault:
    """Return what finds the fault of a line of a delimited file.

    Args:
        names: the columns that are looked at.
    """
    of_values = of_values_in(names, reading, scale)

    def fault(line: str) -> str | None:
        if wrong := layout.fault(line):
            return wrong
        fields = layout.split(line)
        return of_values({name: fields[layout.columns[name]] for name in names})

    return fault


def of_values_in(
    names: list[str], reading: Reading, scale: RatingScale | None
) -> Callable[[dict[str, str]], str | None]:
    """Return what finds the fault of a line's values: column name -> text."""
    first: list[str | None] = []  # of which kind the first time is

    @functools.lru_cache(maxsize=1 << 16)
    def fault_of(name: str, text: str) -> str | None:
        if name == "stars":
            return rating_fault(text, reading.decimal, scale)
        if not text.strip().strip("\0") or (name == "time" and text in MISSING):
            return f"the {name} is missing"
        return f"invalid time {text!r}" if name == "time" and kind_of_time(text) is None else None

    def fault(texts: dict[str, str]) -> str | None:
        for name in names:
            if wrong := fault_of(name, texts[name]):
                return wrong
        if "time" in names:
            kind = kind_of_time(texts["time"])
            if kind != (first or [kind])[0]:
                return f"the time {texts['time']!r} is a {kind}, and the first one is a {first[0]}"
            first[:] = [kind]
        return None

    return fault
