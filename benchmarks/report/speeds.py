"""Records of speed on the page of all results: figures by name, with their curves."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.core import record
from benchmarks.measurement import speed_record
from benchmarks.report.grid import Anchors, Cell, Grid, Link
from benchmarks.speed import page
from benchmarks.speed.throughput import TRAINING
from benchmarks.workloads import lowering, scorecard
from jaxfit.devices.cores import NPROC

RECORDS = {"speed": page.ABOUT, "suite": scorecard.ABOUT}  # files, and what their figures are
SAME, PADDING, MOST = ("data", "options", "batch size"), "padding ratio", 1.05  # in the settings of comparable speeds
LOWERED = "lower.*.json"  # files of programs for devices that were not there


class Figures(NamedTuple):
    """The figures of a name: a model, or a workload."""

    anchor: str
    name: str
    facts: list[tuple[str, str]]
    grids: list[Grid]
    repeated: list[Link]  # tables that another name has, too
    pictures: list[tuple[str, Path]]
    place: str


class Speeds(NamedTuple):
    """What is recorded of the speed of models, or of workloads.

    Attributes:
        anchor, title: of the section.
        folder: of these records, relative to that of all: empty, or ending in a slash.
        paths: of the records.
        about: what their figures are.
        summary: a table of all names, where there is one.
        pictures: of all names, with their titles.
        figures: of each name.
    """

    anchor: str
    title: str
    folder: str
    paths: list[Path]
    about: str
    summary: Grid | None
    pictures: list[tuple[str, Path]]
    figures: list[Figures]


def places(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield path and content of the records of speed in a folder: of models, workloads, programs for absent devices."""
    for each in (folder, folder / speed_record.GPU):
        if (models := speed_record.read(each))["figures"]:
            yield each / page.PAGE, models
    for path in [*folder.glob("suite.json"), *sorted(folder.glob(LOWERED))]:
        yield path, record.read(path) or {}


def speeds(path: Path, result: Mapping[str, Any], anchors: Anchors) -> Speeds:
    """Lay out a record of speed, or of a suite of workloads, which has a summary, or of compiled workloads."""
    on_gpu = path.parent.name == speed_record.GPU
    anchor, summary, pictures = anchors.new(path.stem, *[speed_record.GPU] * on_gpu), None, []
    title, place = path.stem.capitalize() + " on a GPU" * on_gpu, f"{speed_record.GPU}/" * on_gpu
    if path.match(LOWERED):
        grid = _grid("All workloads", result["workloads"], anchors.new(anchor, "all"))
        return Speeds(anchor, title, place, [path], lowering.described_by(result), grid, [], [])
    if path.stem == "suite":
        summary = _grid("All workloads", scorecard.summary(result), anchors.new(anchor, "all"))
        picture = path.with_name(scorecard.PICTURE)
        pictures = [("Shares of the device's limits", picture)] if picture.is_file() else []
    about = RECORDS[path.stem].replace("`", "")
    paths = [speed_record.path(path.parent, name) for name in result["figures"]] if path.name == page.PAGE else [path]
    return Speeds(anchor, title, place, paths, about, summary, pictures, list(_figures(path, anchor, result, anchors)))


def by_device(folder: Path) -> list[str]:
    """Return the lines of a table: how fast each model trains on a CPU and on a GPU, as recorded, and the ratio.

    If the two differ in data, options or padding, that is said in place of the ratio.
    """
    rows: dict[str, dict[str, Any]] = {}
    settings: dict[str, Mapping[str, Any]] = {}  # on a CPU
    for place in (folder, folder / speed_record.GPU):
        recorded = speed_record.read(place)
        for name, figures in recorded["figures"].items():
            trained = figures["tables"].get(TRAINING, {}).get(name)
            if not trained:
                continue
            where, (unit, rate) = recorded["environment"][name], next(iter(trained.items()))
            row = rows.setdefault(f"{name}, {unit}", {"CPU": None, "model of the CPU": None})
            platform, _, kind = where["device"].partition(": ")
            if platform == "cpu":
                threads = int(where.get(NPROC) or where["threads"])
                settings[name] = figures["setting"]
                row |= {"CPU": rate, "model of the CPU": f"{where['cpu']}, {threads} thread{'s' * (threads > 1)}"}
            else:
                row |= {"GPU": rate, "model of the GPU": kind}
                if row["CPU"] is not None:
                    differ = _differ(settings[name], figures["setting"])
                    row["GPU / CPU"] = differ or round(rate["median"] / row["CPU"]["median"], 2)
    return page.table(*page.cells(dict(sorted(rows.items()))))


def _differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Say in what, of all that both have, two settings differ that are not comparable; "" if they are."""
    found = [key for key in SAME if key in one and key in other and one[key] != other[key]]
    padding = sorted(setting.get(PADDING) or 1.0 for setting in (one, other))
    found += [PADDING] if padding[1] > MOST * padding[0] else []
    return f"other {' and '.join(found)}" if found else ""


def _figures(path: Path, anchor: str, result: Mapping[str, Any], anchors: Anchors) -> Iterator[Figures]:
    shown: dict[str, Link] = {}  # tables, and where they are: limits belong to several names
    for name, figures in result["figures"].items():
        own, grids, repeated = anchors.new(anchor, name), [], []
        for title, rows in figures["tables"].items():
            if str(rows) in shown:
                repeated.append(Link(title, shown[str(rows)].to))
                continue
            grid = _grid(title, rows, anchors.new(own, title))
            shown[str(rows)] = Link(title, f"#{grid.anchor}")
            grids.append(grid)
        facts = [(label, page.in_words(value)) for label, value in figures["setting"].items()]
        facts += [(f"searched of {program}", found["space"]) for program, found in figures.get("search", {}).items()]
        drawn = [(title, path.with_name(page.picture(name, title))) for title in figures.get("curves", {})]
        pictures = [(title, picture) for title, picture in drawn if picture.is_file()]
        yield Figures(own, name, facts, grids, repeated, pictures, page.place(result["environment"][name]))


def _grid(title: str, rows: Mapping[str, Mapping[str, Any]], anchor: str) -> Grid:
    heads, *texts = page.cells(rows)
    cells = [
        [Cell(contender), *(Cell(text, _value(row.get(head))) for head, text in zip(heads[1:], shown, strict=True))]
        for (contender, *shown), row in zip(texts, rows.values(), strict=True)
    ]
    return Grid(["name", *heads[1:]], cells, title, anchor)


def _value(figure: Any) -> float | None:
    """Return the number of a figure: the median of samples, infinite where a target was missed."""
    match figure:
        case {"median": None}:
            return float("inf")
        case {"median": median}:
            return median
        case bool():
            return None
        case int() | float():
            return figure
    return None
