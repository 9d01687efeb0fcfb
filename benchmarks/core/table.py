"""What a table of the thesis is: its columns, rows and claims."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.core.store import Store
from benchmarks.core.verdict import Claim, Scores

# column -> figure; two: the first less the second; a list: of rounds of a timing, whose median is shown; text of the
# data; record.DRAWN: what figures are made of, in types of JSON. Of text, and of that, the first seed's is recorded.
Measured = Mapping[str, float | Scores | tuple[Scores, Scores] | list[float] | str | dict[str, Any]]


@dataclass(frozen=True)
class Column:
    """A column of figures, ours and the thesis'."""

    name: str
    title: str
    digits: int | None = 1  # after the point; None: figures of all orders of magnitude


@dataclass(frozen=True)
class Row:
    """A row: what names it, its models (one tuple for each seed), the thesis' figures."""

    label: tuple[str, ...]
    draws: tuple[tuple[Any, ...], ...]
    thesis: dict[str, float]  # or those of the publication that the table is of
    measure: Callable[[Any, tuple[Any, ...]], Measured]  # of the store and the models of a seed

    def specs(self) -> list[Any]:
        """Return the models of all seeds."""
        return [spec for specs in self.draws for spec in specs]


@dataclass(frozen=True)
class Table:
    """A table of the thesis, or of another publication."""

    store: type[Store]  # of its models
    name: str
    section: str
    title: str
    heads: tuple[str, ...]  # of the cells that name a row
    columns: tuple[Column, ...]
    rows: Callable[[Any, int | None], list[Row]]  # scale, and seeds where they are asked for
    note: str = ""
    # of the store, the rows, and the part of the data ("test" or "valid") that they are judged on
    claims: Callable[[Any, list[Row], str], list[Claim]] = lambda store, rows, part: []
    draw: Callable[[dict[str, Any], Path], None] | None = None  # a complete record, as a figure
    explore: Callable[[dict[str, Any], Path], None] | None = None  # … and as an interactive page
    together: bool = False  # all rows are measured at once, and none alone
    timed: bool = False  # only training is timed: models without a structure to learn need not be trained
    resampled: str = ""  # what its bootstrap is over, if not over what its store's is
    published: str = ""  # where the figures beside ours are from, if not from the thesis
    published_data: str = ""  # the only data beside which they are shown; if empty, they are beside all
    # what each seed scored is kept beside the record: of tables whose models take too long to train for one run, and
    # whose figures are numbers and scores
    kept: bool = False

    @property
    def units(self) -> str:
        """What its bootstrap is over."""
        return self.resampled or self.store.resampled

    def absent(self, result: dict[str, Any]) -> list[str]:
        """Return the labels of rows that the table has now and a record of it lacks."""
        scale = self.store.scales.get(result["scale"])
        if scale is None:  # of an earlier version
            return []
        recipe, _, _ = result["recipe"].partition(",")  # without the epochs of `Store.how`
        rows = self.rows(self.store.adjusted(scale, recipe), result["seeds"])
        recorded = {tuple(row["label"]) for row in result["rows"]}
        return [" ".join(filter(None, row.label)) for row in rows if row.label not in recorded]

    def state(self, result: dict[str, Any]) -> str:
        """Return what is said after a record's name where it lacks rows."""
        if not result["complete"]:
            return " (not all rows)"
        return " (rows were added since)" if self.absent(result) else ""


def seeded(seeds: int, *specs: Any) -> tuple[tuple[Any, ...], ...]:
    """Return the models of a row for each of so many seeds."""
    return tuple(tuple(spec.with_seed(seed) for spec in specs) for seed in range(1, 1 + seeds))


def named(rows: list[Row], only: str | None) -> list[Row]:
    """Find the rows with this label, or else those in whose label a word begins with it; all, where none is given."""
    text = re.compile(rf"(?<!\w){re.escape(only or '')}", re.IGNORECASE)
    labels = {id(row): " ".join(filter(None, row.label)) for row in rows}
    return [row for row in rows if labels[id(row)] == only] or [row for row in rows if text.search(labels[id(row)])]
