"""Tables and anchors for the templates of the page of all results."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple


class Link(NamedTuple):
    """A text that leads to an address."""

    text: str
    to: str


class Bar(NamedTuple):
    """An interval on a line from 0 to 100, and the band in which it is claimed to be."""

    low: float
    middle: float
    high: float
    band: tuple[float, float]


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: what is shown.
        value: the number by which its column is sorted; None: its text.
        links: shown in place of the text.
        bar: drawn in place of the text.
        mark: class of the style sheet.
    """

    text: str = ""
    value: float | None = None
    links: tuple[Link, ...] = ()
    bar: Bar | None = None
    mark: str = ""

    @property
    def key(self) -> str:
        """The number by which it is sorted, as a script reads it; empty if there is none."""
        if self.value is None or math.isnan(self.value):
            return ""
        return f"{self.value:.9g}".replace("inf", "Infinity")


class Grid(NamedTuple):
    """A table; with an anchor where it has a title."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    anchor: str = ""

    @property
    def numeric(self) -> list[bool]:
        """Whether each column has numbers, and so is aligned to the right."""
        return [any(row[column].key for row in self.rows) for column in range(len(self.heads))]


class Anchors:
    """Gives out the ids of a page, each once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, *words: str) -> str:
        """Return a new id made of words; the same sequence of calls gives the same ids."""
        name = ".".join(re.sub(r"[^a-z0-9.]+", "-", each.lower()).strip("-") for each in words)
        found, number = name, 1
        while found in self._taken:
            number += 1
            found = f"{name}-{number}"
        self._taken.add(found)
        return found
