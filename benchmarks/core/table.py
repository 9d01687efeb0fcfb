"""A table of the thesis: its columns, rows and claims."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.core.store import Store
from benchmarks.core.verdict import Claim, Scores

# column -> a figure; two scores: the first less the second; a list: rounds of a timing, whose median is shown; or text
# of the data. record.DRAWN -> what pictures are drawn from, in types of JSON. Of text and pictures, the first seed's
# are recorded.
Measured = Mapping[str, float | Scores | tuple[Scores, Scores] | list[float] | str | dict[str, Any]]


@dataclass(frozen=True)
class Column:
    """A column of figures, ours and the thesis'."""

    name: str
    title: str
    digits: int | None = 1  # after the point; None: figures of all orders of magnitude
    first: bool = False  # whether it depends on the first of a row's models only

    def recorded(self) -> dict[str, Any]:
        """Return what a record has of the column."""
        return {"name": self.name, "title": self.title, "digits": self.digits}


@dataclass(frozen=True)
class Row:
    """A row: its label, its models (one tuple for each seed), and the thesis' figures."""

    label: tuple[str, ...]
    draws: tuple[tuple[Any, ...], ...]
    thesis: dict[str, float]  # or the figures of another publication
    measure: Callable[[Any, tuple[Any, ...], str], Measured]  # takes the store, a seed's models, a part of the data

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
    rows: Callable[[Any, int | None], list[Row]]  # takes the scale, and the number of seeds if one is given
    note: str = ""
    # takes the store, the rows, and the part of the data ("test" or "valid") that they are judged on
    claims: Callable[[Any, list[Row], str], list[Claim]] = lambda store, rows, part: []
    draw: Callable[[dict[str, Any], Path], None] | None = None  # draws a complete record as a picture
    explore: Callable[[dict[str, Any], Path], None] | None = None  # … and as an interactive page
    together: bool = False  # all rows are measured at once, and none alone
    timed: bool = False  # only training is timed: models without a structure to learn need not be trained
    resampled: str = ""  # units that its bootstrap is over, if not its store's
    published: str = ""  # where the figures beside ours are from, if not from the thesis
    published_data: str = ""  # the only data set beside which they are shown; empty: all
    # whether each seed's scores are kept beside the record: for tables whose models take too long to train in one run,
    # and whose figures are numbers and scores
    kept: bool = False

    @property
    def units(self) -> str:
        """The units that its bootstrap is over."""
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
        """Return the remark that follows the name of a record that lacks rows; empty for others."""
        if not result["complete"]:
            return " (not all rows)"
        return " (rows were added since)" if self.absent(result) else ""


def seeded(seeds: int, *specs: Any) -> tuple[tuple[Any, ...], ...]:
    """Return the models of a row for each of the seeds 1 … `seeds`."""
    return tuple(tuple(spec.with_seed(seed) for spec in specs) for seed in range(1, 1 + seeds))


def named(rows: list[Row], only: str | None) -> list[Row]:
    """Find the rows with this label, or else those in whose label a word begins with it; all, where none is given."""
    text = re.compile(rf"(?<!\w){re.escape(only or '')}", re.IGNORECASE)
    labels = {id(row): " ".join(filter(None, row.label)) for row in rows}
    return [row for row in rows if labels[id(row)] == only] or [row for row in rows if text.search(labels[id(row)])]
