"""Records of benchmarks: JSON, row by row, and a Markdown table for people.

Text of the data in a row, words and contexts, is in cells `{"text": …}` and under "text" in the row's "drawn", from
which figures are drawn: it is kept apart as the terms of some data sets forbid publishing it.
"""

import errno
import json
import os
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

from jaxfit.errors import UserError
from jaxfit.run_dir import json_text
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.provenance import environment as jaxfit_environment

RESULTS = Path(__file__).parents[1] / "results"
TEXT, DRAWN = "text", "drawn"
TABLE = (  # what the record of a table has
    "table", "section", "title", "command", "data", "scale", "recipe", "seeds", "columns", "heads", "note", "complete",
    "rows", "models",
)  # fmt: skip
ROW = ("label", "cells", "thesis", "seeds", "models")  # what each of its rows has
ADVICE = "remove it, or choose another --out"  # where a record cannot be read
OTHERS = "other environments"  # of a row whose seeds were measured in several


@cache
def commit() -> dict[str, Any]:
    """Return the commit of this code and whether tracked files differ from it; None where there is no repository."""

    def git(*arguments: str) -> str:
        run = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(run, capture_output=True, text=True, check=True, timeout=30).stdout.strip()

    try:
        top = git("rev-parse", "--show-toplevel")
        changed = git("-C", top, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!*results/*")
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(changed)}
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}


def environment() -> dict[str, Any]:
    """Describe the code, the packages and the machine that figures are made with."""
    return {**commit(), **jaxfit_environment()}


def today() -> str:
    """Return the date, by Coordinated Universal Time, as records have it: YYYY-MM-DD."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def read(path: Path) -> dict[str, Any] | None:
    """Read a record; None where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise UserError(f"not a record: {error}", path, ADVICE) from None
    if not isinstance(found, dict):
        raise UserError("not a record: it is no JSON object", path, ADVICE)
    return found


def read_table(path: Path) -> dict[str, Any]:
    """Read the record of a table; empty where there is none.

    Raises:
        UserError: it is not such a record, or a part is missing.
    """
    found = read(path)
    if found is None:
        return {}
    if lacking := [key for key in TABLE if key not in found]:
        raise UserError(f"not a table's record: it has no {', '.join(lacking)}", path, ADVICE)
    rows = found["rows"]
    if not (
        isinstance(rows, list) and all(isinstance(row, dict) for row in rows) and isinstance(found["models"], dict)
    ):
        raise UserError("not a table's record: rows or models are not what they should be", path, ADVICE)
    for row in rows:
        if lacking := [key for key in ROW if key not in row]:
            raise UserError(f"not a table's record: a row has no {', '.join(lacking)}", path, ADVICE)
        if unknown := [name for name in row["models"] if name not in found["models"]]:
            raise UserError(f"not a table's record: it does not describe the model {unknown[0]}", path, ADVICE)
    return found


def make_folder(folder: Path, option: str = "--out") -> None:
    """Make a folder for results before the work starts, so that an error shows at once.

    Args:
        folder: made with all folders above it.
        option: the option of the command that names it.

    Raises:
        UserError: it cannot be made or written to.
    """
    advice = f"choose another {option}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (FileExistsError, NotADirectoryError):
        file = next(path for path in (folder, *folder.parents) if path.exists())
        raise UserError("a file was given instead of a directory", file, advice) from None
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", folder, advice) from None


def environments(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the environments in which the seeds of a row were measured, that of the newest first."""
    return [row["environment"], *row.get(OTHERS, ())]


def without_text(result: dict[str, Any]) -> dict[str, Any]:
    """Return a record, or what there is of it so far, without text of the data."""
    rows = []
    for row in result["rows"]:
        cells = {name: cell for name, cell in row["cells"].items() if TEXT not in cell}
        drawn = {key: value for key, value in row.get(DRAWN, {}).items() if key != TEXT}
        rows.append({**row, "cells": cells, **({DRAWN: drawn} if DRAWN in row else {})})
    return {**result, "rows": rows}


def write(path: Path, record: dict[str, Any], markdown: str) -> None:
    """Write a record and, in the same folder, its Markdown table; each is replaced whole."""
    write_text(path, json_text.dumps(record, indent=1, ensure_ascii=False) + "\n")
    write_text(path.with_suffix(".md"), markdown)


def write_text(path: Path, text: str) -> None:
    """Write a file; it is replaced whole."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def number(value: float | None, digits: int | None = 1) -> str:
    """Format a figure to this number of decimals, or like 3.2e-05 where digits are None; the value None gives ""."""
    if value is None:
        return ""
    if digits is None:
        return f"{value:.1e}"
    return f"{value:,.0f}" if digits == 0 else f"{value:.{digits}f}"
