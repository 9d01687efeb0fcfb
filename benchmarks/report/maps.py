"""Maps of tables to commands and recorded results, for the folder of records and for docs/, and a list of models."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.core import markdown, record
from benchmarks.core.table import Table
from benchmarks.measurement import speed_record
from benchmarks.speed import page
from jaxfit.errors import UserError
from jaxfit.registry import Record

# columns that sum up a table, by the first one that it has: the measure, and digits after the point
BEST = {"perplexity": ("test perplexity", 1), "test": ("test RMSE", 4), "accuracy": ("right answers, %", 1)}
# metrics of a record's models, epoch by epoch, that validation and test share; rows are chosen by them
VALIDATION = ("validation_perplexity", "validation_document_perplexity", "validation_rmse")
RESULTS, MODELS = "results", "models"  # places of pages that are written here
HEADING = "# Recorded results"  # begins the map of a folder of records


def write(folder: Path, tables: Mapping[str, Table]) -> Path:
    """Write `README.md` into the folder of records, and return its path.

    Raises:
        UserError: there is another `README.md`.
    """
    readme = folder / "README.md"
    if readme.exists() and not readme.read_text(encoding="utf-8", errors="replace").startswith(HEADING):
        raise UserError("this file is no map of recorded results", readme, "move it, or choose another --out")
    lines = [
        HEADING,
        "",
        "Each table and figure of the thesis, the command that makes it, its result. "
        "Written by `python -m benchmarks report`.",
        "",
        "| table | §  | what | data | scale | recipe | command | result |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, table in tables.items():
        begin = f"| {name} | {table.section} | {table.title} | "
        paths = sorted(folder.glob(f"{name}.*.json"))
        if not paths:
            lines.append(f"{begin}| | | `python -m benchmarks run {name}` | |")
        for path in paths:
            found = record.read_table(path)
            lines.append(
                f"{begin}{found['data']['name']} | {found['scale']} | {found['recipe']} | `{found['command']}` | "
                f"[{path.stem}]({path.stem}.md){table.state(found)} |"
            )
    for name, place, options in _speeds(folder):
        command = f"`python -m benchmarks speed {options}`"
        lines.append(f"| {name} | | training speed | | | | {command} | [{name}]({place}) |")
    record.write_text(readme, "\n".join([*lines, ""]))
    return readme


def fill(text: str, place: str, lines: Iterable[str]) -> str:
    """Return a page with these lines between `<!-- place -->` and `<!-- /place -->`.

    Raises:
        UserError: that place is not marked.
    """
    begin, end = f"<!-- {place} -->", f"<!-- /{place} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise UserError(f"there is no place between {begin} and {end}", "the page", "mark it")
    return "\n".join([before + begin, "", *lines, "", end + after])


def noted(lines: Iterable[str], page: str) -> list[str]:
    """Return lines of a table, and below it a note on its daggers, if it has any.

    Args:
        page: docs/fidelity.md as seen from the page.
    """
    found, where = list(lines), f"see [fidelity]({page}#older-intervals-of-texts)"
    note = f"{markdown.DAGGER} {markdown.NARROW.capitalize()}: {where}."
    return [*found, "", note] if any(markdown.DAGGER in line for line in found) else found


def list_of_models(models: Iterable[Record]) -> list[str]:
    """List each model, where it is described, and the command that trains it."""
    lines = ["| model | what | described in | command |", "|---|---|---|---|"]
    for model in models:
        program, _, _ = type(model).__module__.partition(".")
        lines.append(f"| {model.name} | {model.about} | {model.source} | `{program} train {model.name}` |")
    return lines


def results_map(folder: Path, tables: Mapping[str, Table], link: str) -> list[str]:
    """List tables, their commands, and what is recorded of them.

    Args:
        link: the folder as seen from the page.
    """
    lines = ["| table | what | command | recorded |", "|---|---|---|---|"]
    for known, table in tables.items():
        results = [_result(path, table, link) for path in sorted(folder.glob(f"{known}.*.json"))]
        lines.append(
            f"| {known.removeprefix('table-').replace('-', ' ')} | {table.title} | `python -m benchmarks run {known}` "
            f"| {'<br>'.join(results) or 'not recorded yet'} |"
        )
    found = [f"[{name}]({link}/{place})" for name, place, _ in _speeds(folder)]
    speed = ", ".join(found) or "not recorded yet"
    return [*lines, f"| speed | Training speed | `python -m benchmarks speed --peers` | {speed} |"]


def _speeds(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the pages of speed in a folder of records: name, page, and the command's options."""
    pages = ("speed", page.PAGE, "--peers"), ("speed on a GPU", f"{speed_record.GPU}/{page.PAGE}", "--quick --peers")
    yield from (found for found in pages if (folder / found[1]).is_file())


def _result(path: Path, table: Table, link: str) -> str:
    """Return a link to a recorded table, and the test's figure of the row that validation chooses."""
    result = record.read_table(path)
    what = [result["data"]["name"], result["scale"]] + [result["recipe"]] * (result["recipe"] != "tuned")
    found = f"[{', '.join(what)}]({link}/{path.stem}.md)"
    if (best := chosen(result)) is not None:
        row, column = best
        measure, digits = BEST[column]
        found += f": {' '.join(filter(None, row['label']))}, {measure} {figure(row, column, digits)}"
    return found + table.state(result)


def chosen(result: dict[str, Any]) -> tuple[dict[str, Any], str] | None:
    """Return the row of a record that validation chooses, and the column of the test; None where there is none."""
    column = next((column["name"] for column in result["columns"] if column["name"] in BEST), "")
    shown = [row for row in result["rows"] if column in row["cells"]]
    scored = [(score, row) for row in shown if (score := validation(row, result["models"])) is not None]
    return (min(scored, key=lambda one: one[0])[1], column) if column and scored else None


def figure(row: dict[str, Any], column: str, digits: int) -> str:
    """Write a cell's mean ± its margin, marked if that is a standard deviation or too narrow an interval."""
    cell = row["cells"][column]
    margin = markdown.margin(cell)
    former = row.get("resampled") == markdown.FORMER
    of = (f" {markdown.DAGGER}" if former else "") if "interval" in cell else " (sd)"
    spread = "" if margin is None else f" ± {record.number(margin, digits)}{of}"
    return f"{record.number(cell['mean'], digits)}{spread}"


def validation(row: dict[str, Any], models: dict[str, Any]) -> float | None:
    """Return the validation score of a row: its column's, or its models' mean at their best epochs, over seeds.

    None for models without epochs, such as n-grams and biases, and for those that validation measures in another way.
    """
    found = [min(models[name][kind]) for name in row["models"] for kind in VALIDATION if models[name].get(kind)]
    if not found:
        return None
    return row["cells"]["valid"]["mean"] if "valid" in row["cells"] else sum(found) / len(found)
