"""`python -m benchmarks report`: the pages that map tables to commands and recorded results."""

import json
from collections.abc import Mapping
from pathlib import Path

from benchmarks.core import record
from benchmarks.core.table import Table
from jaxfit.errors import UserError
from jaxfit.run_dir.atomic import replacing

# columns that a table is told by, which comes first in it: the measure, and digits after the point
BEST = {"perplexity": ("perplexity", 1), "test": ("test RMSE", 4), "valid": ("RMSE", 4)}
BEGIN, END = "<!-- results -->", "<!-- /results -->"


def write(folder: Path, tables: Mapping[str, Table]) -> Path:
    """Write `README.md` into the folder of records; returns its path."""
    lines = [
        "# Recorded results",
        "",
        "Each table and figure of the thesis, the command that makes it, its result. "
        "Written by `python -m benchmarks report`.",
        "",
        "| table | §  | what | data | scale | recipe | command | result |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, table in tables.items():
        records = sorted(folder.glob(f"{name}.*.json"))
        if not records:
            lines.append(
                f"| {name} | {table.section} | {table.title} | | | | `python -m benchmarks run {name}` | |"
            )
        for path in records:
            record = json.loads(path.read_text(encoding="utf-8"))
            state = "" if record["complete"] else " (not all rows)"
            lines.append(
                f"| {name} | {table.section} | {table.title} | {record['data']['name']} | {record['scale']} | "
                f"{record['recipe']} | `{record['command']}` | [{path.stem}]({path.stem}.md){state} |"
            )
    if (folder / "speed.json").is_file():
        lines.append(
            "| speed | | training speed | | | | `python -m benchmarks speed --peers` | [speed](speed.md) |"
        )
    path = folder / "README.md"
    with replacing(path) as part:
        part.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def fill(text: str, folder: Path, tables: Mapping[str, Table]) -> str:
    """A page, README.md, with the map of tables to commands and results in the place marked for it.

    Raises UserError where that place is not marked.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"there is no place between {BEGIN} and {END}", "README.md", "mark it")
    lines = ["| table | what | command | recorded |", "|---|---|---|---|"]
    for known, table in tables.items():
        results = [_result(path) for path in sorted(folder.glob(f"{known}.*.json"))]
        lines.append(
            f"| {known.removeprefix('table-').replace('-', ' ')} | {table.title} | `python -m benchmarks run {known}` "
            f"| {'<br>'.join(results) or 'not recorded yet'} |"
        )
    speed = f"[speed]({_here(folder)}/speed.md)" if (folder / "speed.json").is_file() else "not recorded yet"
    lines.append(f"| speed | Training speed | `python -m benchmarks speed --peers` | {speed} |")
    return "\n".join([before + BEGIN, "", *lines, "", END + after])


def _result(path: Path) -> str:
    """A link to a recorded table, and the best figure of a neural model or recommender in it."""
    result = json.loads(path.read_text(encoding="utf-8"))
    what = [result["data"]["name"], result["scale"]] + ["thesis"] * (result["recipe"] == "thesis")
    found = f"[{', '.join(what)}]({_here(path.parent)}/{path.stem}.md)"
    column = next((column["name"] for column in result["columns"] if column["name"] in BEST), "")
    rows = [row for row in result["rows"] if column in row["cells"] and "KN" not in row["label"][0]]
    if rows:
        measure, digits = BEST[column]
        best = min(rows, key=lambda row: row["cells"][column]["mean"])
        mean = record.number(best["cells"][column]["mean"], digits)
        found += f": {' '.join(filter(None, best['label']))}, {measure} {mean}"
    return found if result["complete"] else f"{found} (not all rows)"


def _here(folder: Path) -> str:
    """As seen from the project's folder."""
    return "/".join(folder.parts[-2:])
