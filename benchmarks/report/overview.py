"""Overviews on the page of all results: what is recorded and what is not yet, and every verdict."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.core import markdown
from benchmarks.core.store import Store
from benchmarks.core.table import Table
from benchmarks.report import fidelity, maps
from benchmarks.report.grid import Anchors, Cell, Grid, Link
from benchmarks.report.sections import COMPARED, Section

TESTS = "tiny"  # a scale for the tests, which is never recorded
MISSING = "not yet"
ANY = "any scale"


def recorded(sections: Iterable[Section]) -> Grid:
    """List the records: what validation chooses in each, its figure on the test, and how many claims hold."""
    rows = []
    for section in sections:
        result, best = section.result, maps.chosen(section.result)
        row, measure, figure = Cell(), Cell(), Cell()
        if best is not None:
            (chosen, column), (what, digits) = best, maps.BEST[best[1]]
            row, measure = Cell(" ".join(filter(None, chosen["label"]))), Cell(what)
            figure = Cell(maps.figure(chosen, column, digits), chosen["cells"][column]["mean"])
        count = Counter(verdict.found["answer"] for verdict in section.verdicts or ())
        said = [Cell(str(count[answer]), count[answer]) if section.verdicts else Cell() for answer in fidelity.ANSWERS]
        about = map(Cell, (result["data"]["name"], result["scale"], _recipe(section)))
        rows.append([_link(section), *about, row, measure, figure, *said, Cell(result["title"])])
    heads = ("table", "data", "scale", "recipe", "chosen by validation", "measure", "figure")
    return Grid((*heads, *fidelity.ANSWERS, "what"), rows)


def verdicts(sections: Iterable[Section]) -> Grid:
    """List every verdict, with the comparison that decides it."""
    rows = []
    for section in sections:
        for verdict in section.verdicts or ():
            found = verdict.found
            judged = found["test"] or found["validation"]
            one = fidelity.decisive(judged["comparisons"])
            drawn = verdict.comparisons.rows[judged["comparisons"].index(one)]
            rows.append(
                [
                    Cell(found["answer"], mark=found["answer"]),
                    Cell(links=(Link(found["claim"], f"#{verdict.anchor}"),)),
                    Cell(one["label"]),
                    *drawn[1:-1],
                    Cell(links=(Link(f"{section.result['table']}, {section.name}", f"#{section.anchor}"),)),
                    Cell(markdown.section(found["section"])),
                ]
            )
    return Grid(("answer", "claim", "decisive comparison", *COMPARED[1:-1], "record", "section"), rows)


def _link(section: Section) -> Cell:
    return Cell(links=(Link(section.result["table"], f"#{section.anchor}"),))


def _recipe(section: Section) -> str:
    return section.result["recipe"] + section.state


def missing(sections: Iterable[Section], tables: Mapping[str, Table], anchors: Anchors) -> list[Grid]:
    """Say for each table on which data and at which scales it is recorded, and where not yet.

    There is a grid for each sort of data. Its columns are each scale with its own data set, then all data sets that are
    recorded at a scale, then those that have no record at any scale.
    """
    known = [(section.result, Link(_recipe(section), f"#{section.anchor}")) for section in sections]
    grids = []
    for store in dict.fromkeys(table.store for table in tables.values()):
        names = {name: table for name, table in tables.items() if table.store is store}
        columns = _columns(store, [result for result, _ in known if result["table"] in names])
        rows = []
        for name, table in names.items():
            cells = [Cell(name), Cell(table.title)]
            for scale, data in columns:
                at = (name, scale, data)
                links = tuple(link for result, link in known if _of(result) == at)
                cells.append(Cell(links=links) if links else Cell(MISSING, mark="missing"))
            rows.append(cells)
        heads = ("table", "what", *(f"{data}, {scale}" for scale, data in columns))
        grids.append(Grid(heads, rows, store.chapters.capitalize(), anchors.new(store.chapters)))
    return grids


def absent(sections: Iterable[Section]) -> Grid:
    """List the records that lack rows, and which."""
    heads = ("table", "data", "scale", "recipe", "rows")
    lacking = [section for section in sections if section.absent]
    about = [(one.result["data"]["name"], one.result["scale"], one.result["recipe"]) for one in lacking]
    rows = [[_link(one), *map(Cell, (*said, ", ".join(one.absent)))] for one, said in zip(lacking, about, strict=True)]
    return Grid(heads, rows)


def _columns(store: type[Store], results: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """List scales with data sets: their own, those of records, and those data sets that have no record at any."""
    own = [(name, scale.data) for name, scale in store.scales.items() if name != TESTS]
    found = dict.fromkeys([*own, *(_of(result)[1:] for result in results)])
    seen = {data for _, data in found} | {store.scales[TESTS].data}
    return [*found, *((ANY, data) for data in store.data_sets if data not in seen)]


def _of(result: dict[str, Any]) -> tuple[str, str, str]:
    """Return table, scale and data set of a record."""
    return result["table"], result["scale"], result["data"]["name"]
