"""The records of speed in a folder: a file for each name that was measured, `speed.NAME.json`.

Each has {"version", "figures": {NAME: …}, "environment": {NAME: …}}; read together, they are one such record.
"""

import sys
from pathlib import Path
from typing import Any

from benchmarks.core import record
from jaxfit.errors import UserError
from jaxfit.run_dir import json_text

PARTS = ("figures", "environment")
GPU = "gpu"  # subfolder of the project's records: what was measured on a GPU
VERSION = 4  # of what is measured: raised with every change, as figures of two versions cannot be compared


def read(folder: Path) -> dict[str, Any]:
    """Return the records of all names as one; files of other versions are left out, with a warning."""
    found: dict[str, Any] = {"version": VERSION, "figures": {}, "environment": {}}
    for each in sorted(folder.glob("speed.*.json")):
        one = record.read(each) or {}
        if not {*PARTS} <= one.keys():
            raise UserError("not a record of speed", each, "remove it, or choose another --out")
        if one.get("version") != VERSION:
            print(f"benchmarks: {each} is of another version of the benchmark: left out", file=sys.stderr)
            continue
        for part in PARTS:
            found[part] |= one[part]
    return found


def path(folder: Path, name: str) -> Path:
    """Return the file of a name."""
    return folder / f"speed.{name}.json"


def write(folder: Path, name: str, figures: dict[str, Any], environment: dict[str, Any]) -> None:
    """Write the file of one name; it is replaced whole."""
    one = {"version": VERSION, "figures": {name: figures}, "environment": {name: environment}}
    record.write_text(path(folder, name), json_text.dumps(one, indent=1, ensure_ascii=False) + "\n")
