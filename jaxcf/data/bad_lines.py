"""Lines of files of ratings that cannot be read: what is wrong with one, and files without them (`--skip-bad`)."""

import functools
import io
import math
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow.csv as pcsv

from jaxcf.data.file_layout import Layout, Reading, kind_of_time, lines, to_number
from jaxfit.cli.input_files import Source
from jaxfit.errors import UserError

MISSING = frozenset(pcsv.ConvertOptions().null_values)  # what Arrow takes as a missing value
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
    """Read the lines of a file below line `skip` that have no fault; at most `reading.skip_bad` may have one.

    Raises:
        UserError: as `lines`; the first fault, if more lines have one.
    """
    numbers, texts, bad = [], [], 0
    for number, text in lines(path, reading.encoding, strict=False):
        if number <= skip:
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


def of_delimited(layout: Layout, reading: Reading, pairs: bool) -> Fault:
    """Return what finds the fault of a line of a delimited file; with `pairs`, only users and items are looked at."""
    of_values = of_values_in(reading, [name for name in layout.columns if not pairs or name in ("user", "item")])

    def fault(line: str) -> str | None:
        if wrong := layout.fault(line):
            return wrong
        if "\r" in line:
            return "the line has a carriage return inside"
        fields = layout.split(line)
        return of_values({name: fields[column] for name, column in layout.columns.items()})

    return fault


def of_values_in(reading: Reading, names: list[str]) -> Callable[[dict[str, str]], str | None]:
    """Return what finds the fault of a line's values: column name -> text."""
    first: list[str | None] = []  # of which kind the first time is

    @functools.lru_cache(maxsize=1 << 16)
    def fault_of(name: str, text: str) -> str | None:
        if text in MISSING or not text.strip().strip("\0"):
            return f"the {'rating' if name == 'stars' else name} is missing"
        if name == "stars":
            stars = to_number(text.replace(reading.decimal, "."))
            return None if stars is not None and math.isfinite(stars) else f"the rating {text!r} is not a finite number"
        return f"invalid time {text!r}" if name == "time" and kind_of_time(text) is None else None

    def fault(texts: dict[str, str]) -> str | None:
        for name in names:
            if wrong := fault_of(name, texts[name]):
                return wrong
        if "time" in names:
            kind = kind_of_time(texts["time"])
            if kind != (first or [kind])[0]:
                return f"the time {texts['time']!r} is a {kind}, other than the first one"
            first[:] = [kind]
        return None

    return fault
