"""The record of a suite for people: one table and one picture of all workloads, then each workload's own tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import figure, record
from benchmarks.speed import page
from benchmarks.workloads.error import OF_LOSS, OF_STEPS

ABOUT = """\
Figures with brackets are medians over rounds, and their first and third quartile; in a round, a workload in each
precision and the device's limits are measured in turn. A share is of a limit, measured in the same rounds, that the
workload's formula asks for; what fits into a cache can come above the limit of large arrays. Errors are those of a few
steps, relative to float64 on a CPU: of their mean loss, and of how they move the parameters. suite.json has all
samples; `python -m benchmarks compare` compares such records, of one machine or of several."""
SHARE = "A share is of the limit for large arrays, which data in a cache can exceed."
PICTURE = "suite.png"
SHARES = ("share of the matrix rate", "share of the rate of rows", "share of the copy bandwidth")


def write(path: Path, result: Mapping[str, Any]) -> None:
    """Write a record, its page, and the picture of the shares beside it."""
    draw(result, path.with_name(PICTURE))
    record.write(path, dict(result), markdown(result))


def summary(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return one line for each workload and precision."""
    lines = {}
    for name, figures in result["figures"].items():
        for precision, row in figures["tables"]["training"].items():
            speed = next(column for column in row if column.endswith("/s"))
            bound = row.get("bound by")
            lines[f"{name}, {precision}"] = {
                "a second": row[speed], "of": speed.removesuffix("/s"),
                **({"bound by": bound, "share of it": row[f"share of the {bound}"]} if bound else {}),
                **{error: row[error] for error in (OF_LOSS, OF_STEPS) if error in row},
                "compilation, s": row["compilation, s"],
                "memory, GB": row["arguments, GB"] + row["temporaries, GB"],
            }  # fmt: skip
    return lines


def markdown(result: Mapping[str, Any]) -> str:
    """Write the page of a record."""
    lines = page.table(*page.cells(summary(result)))
    picture = f"![shares of the device's limits]({PICTURE})"
    return "\n".join(["# suite", "", ABOUT, "", *lines, "", picture, "", *page.sections(result)])


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Draw the share of each limit that workloads take; those without a formula are left out."""
    rows = {
        f"{name}, {precision}": row
        for name, figures in result["figures"].items()
        for precision, row in figures["tables"]["training"].items()
        if "bound by" in row
    }
    height = 0.8 / len(SHARES)
    with figure.panels(path, "Shares of the device's limits", figsize=(7, 1.5 + 0.45 * len(rows))) as ax:
        for number, share in enumerate(SHARES):
            values = [row[share]["median"] if share in row else 0.0 for row in rows.values()]
            ax.barh(np.arange(len(rows)) + number * height, values, height, label=share.removeprefix("share of the "))
        ax.set_yticks(np.arange(len(rows)) + height, list(rows))
        ax.invert_yaxis()
        ax.legend()
