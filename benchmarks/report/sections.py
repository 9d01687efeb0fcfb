"""A recorded table on the page of all results: its figures, its verdicts, its picture."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.core import markdown
from benchmarks.core.table import Table
from benchmarks.core.verdict import SEEDS
from benchmarks.report import provenance
from benchmarks.report.grid import Anchors, Bar, Cell, Grid

COMPARED = ("compared", "figure [95 % interval]", "claimed", "interval and claim", "holds")


class Verdict(NamedTuple):
    """A verdict, as recorded, and its comparisons."""

    anchor: str
    found: dict[str, Any]
    said: str  # remarks on seeds and validation
    comparisons: Grid


class Section(NamedTuple):
    """A recorded table."""

    anchor: str
    path: Path
    result: dict[str, Any]
    absent: list[str]  # rows that the table has now and the record lacks
    state: str  # remark after its name
    measured: Grid
    verdicts: list[Verdict] | None  # None: the claims are not judged
    picture: Path | None
    facts: list[tuple[str, str]]
    sources: tuple[Grid, Grid]  # of the rows, of the models

    @property
    def name(self) -> str:
        """Data, scale and recipe."""
        return f"{self.result['data']['name']}, {self.result['scale']}, {self.result['recipe']}"

    @property
    def not_judged(self) -> str:
        """Why there are no verdicts."""
        return markdown.why_not_judged(self.result)


def section(path: Path, result: dict[str, Any], table: Table, anchors: Anchors) -> Section:
    """Lay out a record of a table."""
    anchor, picture, verdicts = anchors.new(path.stem), path.with_suffix(".png"), result.get("verdicts")
    return Section(
        anchor,
        path,
        result,
        table.absent(result),
        table.state(result),
        Grid(markdown.header(result), list(_rows(result)), "Figures", anchors.new(anchor, "figures")),
        None if verdicts is None else [_verdict(found, anchor, anchors) for found in verdicts],
        picture if result["complete"] and picture.is_file() else None,
        provenance.facts(result, table.store.thesis_data),
        (
            provenance.rows(result, anchors.new(anchor, "rows")),
            provenance.models(result, anchors.new(anchor, "models")),
        ),
    )


def _rows(result: dict[str, Any]) -> Iterator[list[Cell]]:
    """Yield the cells of each row, which are sorted by the mean or the thesis' figure."""
    with_thesis = {name for row in result["rows"] for name in row["thesis"]}
    for row in result["rows"]:
        values: list[float | None] = [None] * len(row["label"])
        for column in result["columns"]:
            values.append(row["cells"].get(column["name"], {}).get("mean"))
            if column["name"] in with_thesis:
                values.append(row["thesis"].get(column["name"]))
        yield [Cell(text, value) for text, value in zip(markdown.cells(result, row), values, strict=True)]


def _verdict(found: dict[str, Any], anchor: str, anchors: Anchors) -> Verdict:
    test, validation = found["test"], found["validation"]
    said = []
    if test is None:
        said.append(f"There is no test; on validation: {validation['answer']}.")
    else:
        if test["seeds"] is not None:
            said.append(f"Seeds: {test['seeds']}{'' if test['seeds'] >= SEEDS else ', too few'}.")
        if validation is not None:
            said.append(f"On validation: {validation['answer']}.")
    return Verdict(anchors.new(anchor, found["claim"]), found, " ".join(said), _comparisons(test or validation))


def _comparisons(judged: dict[str, Any]) -> Grid:
    rows = [
        [
            Cell(one["label"]),
            Cell(markdown.shown(one), one["value"]),
            Cell(_range(one["claimed"], one["percent"])),
            Cell(value=one["value"], bar=bar, mark=one["holds"]),
            Cell(one["holds"], mark=one["holds"]),
        ]
        for one, bar in zip(judged["comparisons"], _bars(judged["comparisons"]), strict=True)
    ]
    return Grid(COMPARED, rows)


def _bars(comparisons: list[dict[str, Any]]) -> Iterator[Bar | None]:
    """Yield each comparison's interval, all on one scale, which spans the intervals and the claimed ranges.

    Yield None where a figure or an end of its interval is not finite.
    """
    ends = [end for one in comparisons for end in (*one["interval"], *one["claimed"]) if end is not None]
    if not ends:
        yield from (None for _ in comparisons)
        return
    margin = 0.05 * (max(ends) - min(ends)) or 1.0
    start, width = min(ends) - margin, max(ends) - min(ends) + 2 * margin
    for one in comparisons:
        figures = (one["interval"][0], one["value"], one["interval"][1])
        if None in figures:
            yield None
            continue
        low, middle, high = (100 * (x - start) / width for x in figures)
        least, most = one["claimed"]
        begin = 0.0 if least is None else 100 * (least - start) / width
        yield Bar(low, middle, high, (begin, 100.0 if most is None else 100 * (most - start) / width))


def _range(claimed: list[float | None], percent: bool) -> str:
    """Write the range in which a claim says that a figure lies."""
    least, most = (None if end is None else f"{end * (100 if percent else 1):g}" for end in claimed)
    unit = " %" if percent else ""
    if least is None or most is None:
        return f"below {most}{unit}" if least is None else f"above {least}{unit}"
    return f"{least} to {most}{unit}"
