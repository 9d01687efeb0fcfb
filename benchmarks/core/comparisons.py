"""Comparisons of a table's rows, seed by seed, as its claims make them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.core.table import Measured, Row
from benchmarks.core.verdict import BELOW, Comparison, Scores


def relative(one: Any, other: Any) -> Any:
    """Compute the share by which a figure is above another."""
    return one / other - 1


class Comparisons:
    """The rows of a table, and their columns on a part of the data, seed by seed.

    A row is named by the first two cells of its label, or by its only one.
    """

    def __init__(self, store: Any, rows: Sequence[Row], part: str):
        self.store, self.part = store, part
        self.rows = {self.name(row): row for row in rows}
        self._known: dict[tuple[str, int], Measured] = {}

    def name(self, row: Row) -> str:
        """Return the name of a row."""
        return " ".join(filter(None, row.label[:2]))

    def seeds(self, names: Iterable[str]) -> int:
        """Return with how many seeds rows are compared."""
        return max(len(self.rows[name].draws) for name in names)

    def measured(self, name: str, draw: int = 0) -> Measured:
        """Return the columns of a row for a seed; what does not depend on seeds has the same ones for all."""
        row = self.rows[name]
        assert draw < len(row.draws) or len(row.draws) == 1, f"{name} has no seed of this number"
        key = name, draw % len(row.draws)
        if key not in self._known:
            self._known[key] = row.measure(self.store, row.draws[key[1]], self.part)
        return self._known[key]

    def scores(self, name: str, column: str, draw: int) -> Scores:
        """Return the scores of a row in a column, for a seed."""
        found = self.measured(name, draw)[column]
        assert isinstance(found, Scores)
        return found

    def compare(
        self,
        label: str,
        figures: Sequence[tuple[str, str]],
        claimed: tuple[float, float] = BELOW,
        quantity: Callable[..., Any] = lambda one, other: one - other,
        percent: bool = False,
    ) -> Comparison:
        """Compare figures of the table, each given by its row's name and its column, with as many seeds as they have.

        Args:
            label: what is compared.
            figures: names of rows, and their columns.
            claimed: the range's ends.
            quantity: function of the figures; `relative` is shown in %.
            percent: whether another quantity than `relative` is shown in %, too.
        """
        seeds = self.seeds(name for name, _ in figures)
        draws = [[self.scores(name, column, draw) for name, column in figures] for draw in range(seeds)]
        return Comparison(label, draws, claimed, quantity, percent or quantity is relative)

    def pair(self, one: str, other: str, column: str = "perplexity", **options: Any) -> Comparison:
        """Compare one column of two rows.

        Args:
            options: options of `compare`.
        """
        return self.compare(f"{one} and {other}", ((one, column), (other, column)), **options)
