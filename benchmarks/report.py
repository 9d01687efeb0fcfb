"""`python -m benchmarks report`: the page that maps tables to commands and recorded results."""

import json
from collections.abc import Mapping
from pathlib import Path

from benchmarks.table import Table
from jaxfit.atomic import replacing


def write(folder: Path, tables: Mapping[str, Table]) -> Path:
    """Write `README.md` into the folder of records; returns its path."""
    lines = [
        "# Recorded results",
        "",
        "Each table of the thesis, the command that makes it, its result. Written by `python -m benchmarks report`.",
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
