"""What a table of the thesis is, and how one is run: row by row, each recorded as it ends."""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.core import record

Measured = dict[str, float]  # column -> figure
IDENTITY = ("config", "recipe", "tree", "rated", "part", "group")  # what of it a record says of a model


class Trained(Protocol):
    """What a table needs of a trained model: its folder, and what is known of it (`benchmarks.core.store`)."""

    directory: Path
    info: dict[str, Any]


class Shelf(Protocol):
    """What a table needs of a shelf: of language models (`benchmarks.language.models`), or of recommenders."""

    thesis: str  # what the thesis' figures are of
    name: str  # of the data
    scale: Any
    recipe: str

    def get(self, spec: Any) -> Trained:
        """The trained model."""
        ...

    def directory(self, spec: Any) -> Path:
        """Where it is or will be."""
        ...

    def describe(self) -> dict[str, Any]:
        """The data as a record names it."""
        ...

    def size(self) -> str:
        """How much data there is, in words."""
        ...

    def scores(self, history: list[dict[str, Any]]) -> dict[str, list[float]]:
        """A model's validation, epoch by epoch, as a record names it."""
        ...


@dataclass(frozen=True)
class Column:
    """A column of figures; the thesis' own stand beside ours."""

    name: str
    title: str
    digits: int = 1


@dataclass(frozen=True)
class Row:
    """A row: what names it, its models (one tuple for each seed), the thesis' figures."""

    label: tuple[str, ...]
    draws: tuple[tuple[Any, ...], ...]
    thesis: dict[str, float]
    measure: Callable[[Any, tuple[Any, ...]], Measured]


@dataclass(frozen=True)
class Table:
    """A table of the thesis."""

    name: str
    section: str
    title: str
    heads: tuple[str, ...]  # of the cells that name a row
    columns: tuple[Column, ...]
    rows: Callable[[Any, int | None], list[Row]]  # scale, and seeds where they are asked for
    note: str = ""
    conclude: Callable[[list[dict[str, Any]]], dict[str, Any]] = lambda rows: {}
    draw: Callable[[dict[str, Any], Path], None] | None = None  # a complete record, as a figure


def named(rows: list[Row], only: str | None) -> list[Row]:
    """The rows in whose label a word begins with this text; all, where none is given."""
    text = re.compile(rf"(?<!\w){re.escape(only or '')}", re.IGNORECASE)
    return [row for row in rows if text.search(" ".join(row.label))]


def run(
    table: Table,
    shelf: Shelf,
    out: Path,
    seeds: int | None = None,
    only: str | None = None,
    command: str = "",
    each: Callable[[dict[str, Any]], None] = lambda row: None,
) -> dict[str, Any]:
    """Measure a table's rows, training what is not on the shelf, and record each row as it ends.

    Rows that an earlier run recorded stay until they are measured anew, as long as they are of the models
    that would be asked for now: of the same data, scale, recipe and configuration. only: as in `named`.
    """
    path = out / file_name(table.name, shelf)
    begin = {
        "table": table.name, "section": table.section, "title": table.title, "command": command,
        "data": shelf.describe(), "scale": shelf.scale.name, "recipe": shelf.recipe, "seeds": seeds,
        "columns": [vars(column) for column in table.columns], "heads": list(table.heads), "note": table.note,
    }  # fmt: skip
    same = ("data", "scale", "recipe", "seeds", "columns")
    before = record.read(path) or {}
    rows = table.rows(shelf.scale, seeds)
    known, models = {}, {}
    if all(before.get(name) == begin[name] for name in same):
        wanted = {row.label: _models(row, shelf) for row in rows}
        stored = {tuple(row["label"]): row for row in before["rows"] if "environment" in row}
        known = {label: row for label, row in stored.items() if row["models"] == wanted.get(label)}
        models = before["models"]
    result: dict[str, Any] = begin
    for row in named(rows, only):
        known[row.label] = _measure(table, row, shelf)
        used = (shelf.get(spec) for specs in row.draws for spec in specs)
        models |= {model.directory.name: describe_model(model, shelf) for model in used}
        each(known[row.label])
        kept = [known[r.label] for r in rows if r.label in known]
        done = len(kept) == len(rows)
        result = {
            **begin, "complete": done, "rows": kept,
            "models": {name: models[name] for row in kept for name in row["models"]},
            "answers": table.conclude(kept) if done else {},
        }  # fmt: skip
        picture = path.with_suffix(".png") if table.draw is not None and done else None
        record.write(path, result, markdown(result, shelf, picture))
    if result.get("complete") and table.draw is not None:
        table.draw(result, path.with_suffix(".png"))
    return result


def file_name(name: str, shelf: Shelf) -> str:
    """`<name>.<data>.<scale>.json`, with the recipe where it is the thesis'."""
    recipe = "" if shelf.recipe == "tuned" else f".{shelf.recipe}"
    return f"{name}.{shelf.name}.{shelf.scale.name}{recipe}.json"


def _measure(table: Table, row: Row, shelf: Shelf) -> dict[str, Any]:
    start = time.perf_counter()
    per_seed = [row.measure(shelf, specs) for specs in row.draws]
    cells = {}
    for column in table.columns:
        values = [measured[column.name] for measured in per_seed if column.name in measured]
        if values:
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            cells[column.name] = {"mean": float(np.mean(values)), "sd": spread, "values": values}
    seconds = time.perf_counter() - start
    print(
        f"{table.name}: {', '.join(filter(None, row.label))} in {seconds:.1f} s", file=sys.stderr, flush=True
    )
    return {
        "label": list(row.label),
        "cells": cells,
        "thesis": row.thesis,
        "seeds": [specs[0].seed for specs in row.draws if specs],
        "seconds": seconds,
        "models": _models(row, shelf),
        "environment": record.environment(),
    }


def _models(row: Row, shelf: Shelf) -> list[str]:
    """The folders of a row's models, whose names hold digests of all that determines them."""
    return list(dict.fromkeys(shelf.directory(spec).name for specs in row.draws for spec in specs))


def describe_model(model: Trained, shelf: Shelf) -> dict[str, Any]:
    """A model as a record holds it."""
    info, here = model.info, record.environment()
    return {
        "label": info["label"],
        **{key: info["identity"][key] for key in IDENTITY if key in info["identity"]},
        **shelf.scores(info["history"]),
        **info["timing"],
        "seconds": info["seconds"],
        "warnings": info["warnings"],
        # a model may be older than the row it serves
        "environment": {key: value for key, value in info["environment"].items() if here[key] != value},
    }


def paired(rows: list[dict[str, Any]], column: str) -> tuple[list[str], list[str]]:
    """All pairs of rows: those closer than two standard errors of their difference, seed by seed, and, of the
    others, those whose order is the reverse of the thesis'. Of rows of one seed nothing is known.
    """
    unresolved, reverse = [], []
    for one, other in combinations(rows, 2):
        difference = np.subtract(*(row["cells"][column]["values"] for row in (one, other)))
        if len(difference) < 2:
            continue
        pair = "/".join(row["label"][1] for row in (one, other))
        if abs(difference.mean()) < 2 * np.std(difference, ddof=1) / len(difference) ** 0.5:
            unresolved.append(pair)
        elif difference.mean() * (one["thesis"][column] - other["thesis"][column]) < 0:
            reverse.append(pair)
    return unresolved, reverse


def header(result: dict[str, Any]) -> list[str]:
    """Titles of all columns, the thesis' figures beside ours."""
    titles = list(result["heads"])
    for column in result["columns"]:
        titles.append(column["title"])
        if any(column["name"] in row["thesis"] for row in result["rows"]):
            titles.append("thesis")
    return titles


def cells(result: dict[str, Any], row: dict[str, Any]) -> list[str]:
    """A row as text, mean ± standard deviation where there are several seeds."""
    shown = list(row["label"])
    for column in result["columns"]:
        digits, ours = column["digits"], row["cells"].get(column["name"])
        text = "" if ours is None else record.number(ours["mean"], digits)
        if ours is not None and ours["sd"] is not None:
            text += f" ± {record.number(ours['sd'], max(digits, 1))}"
        shown.append(text)
        if any(column["name"] in r["thesis"] for r in result["rows"]):
            shown.append(record.number(row["thesis"].get(column["name"]), digits))
    return shown


def markdown(result: dict[str, Any], shelf: Shelf, picture: Path | None = None) -> str:
    """The table for people, below its figure where it has one."""
    titles, data = header(result), result["data"]
    lines = [
        f"# {result['table']}: {result['title']}",
        "",
        f"Mnih 2010, §{result['section']}; the thesis' figures are of {shelf.thesis}.",
        f"Data: {data['name']} ({data['note']}), {shelf.size()}; scale {result['scale']}, recipe {result['recipe']}.",
        "" if result["complete"] else "\n**Not all rows have been run yet.**",
        *([] if picture is None else [f"![{result['title']}]({picture.name})", ""]),
        "| " + " | ".join(titles) + " |",
        "|" + "|".join(["---"] * len(result["heads"]) + ["--:"] * (len(titles) - len(result["heads"]))) + "|",
        *("| " + " | ".join(cells(result, row)) + " |" for row in result["rows"]),
        "",
    ]
    lines += [f"- {question}: {said(answer)}" for question, answer in result["answers"].items()]
    lines += ["", result["note"]] if result["note"] else []
    places = "; ".join(dict.fromkeys(_place(row["environment"]) for row in result["rows"]))
    return "\n".join([*lines, "", f"`{result['command']}` at {places}.", ""])


def _place(where: dict[str, Any]) -> str:
    """Where a row was measured, and by which code."""
    return (
        f"commit {where['commit']}{' with changes' if where['dirty'] else ''}, Python {where['python']}, "
        f"JAX {where['jax']}, {where['device']} ({where['cores']} cores)"
    )


def said(answer: Any) -> str:
    """An answer in words."""
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return ", ".join(answer) or "none" if isinstance(answer, list) else str(answer)
