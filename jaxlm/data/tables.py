"""Tables in text files: a row a line, its fields separated by tabs, commas, semicolons or blanks."""

import csv
import math
from collections.abc import Iterator
from typing import NamedTuple

from jaxfit.errors import UserError
from jaxfit.files.opening import Source
from jaxfit.recipe import FLOAT32_MAX
from jaxlm.data.files import Reading, read_lines

SEPARATORS = "\t,;"


class Row(NamedTuple):
    """A row of a table, and its file and line, for messages."""

    fields: list[str]
    where: str


def rows(path: Source, encoding: str = "utf-8") -> Iterator[Row]:
    """Read the rows of a table, without empty lines.

    Fields are separated by what the first line has: tabs, or else commas, semicolons, or blanks. Fields between commas
    or semicolons may be in quotation marks, as in CSV files; those between tabs are taken as they are.

    Raises:
        UserError: as `jaxlm.data.files.chunks`; a quotation mark is missing.
    """
    separator: str | None = None
    seen = False
    for number, line in enumerate(read_lines(path, Reading(encoding)), 1):
        if not line.strip():
            continue
        if not seen:
            seen, separator = True, next((mark for mark in SEPARATORS if mark in line), None)
        yield Row(_fields(line, separator, f"{path}, line {number}"), f"{path}, line {number}")


def _fields(line: str, separator: str | None, where: str) -> list[str]:
    if separator is None or separator == "\t":
        return [field.strip() for field in line.split(separator)]
    try:
        (fields,) = csv.reader([line], delimiter=separator, skipinitialspace=True, strict=True)
    except csv.Error as error:
        raise UserError(f"the fields cannot be told apart: {error}", where, "check its quotation marks") from None
    return [field.strip() for field in fields]


def require_number(text: str, what: str, where: str) -> float:
    """Return the number that a field holds, finite in float32.

    Raises:
        UserError: it holds none; the message names it by `what`: "the score".
    """
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if "_" in text or not abs(value) <= FLOAT32_MAX:
        raise UserError(f"{what} is not a number: {text!r}", where, "correct it, or leave the line out")
    return value
