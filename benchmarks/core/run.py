"""Run a table: its rows one by one, each recorded as it ends."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import markdown, record
from benchmarks.core.kept import Kept, comparable, identity, keep, recall, rows_of
from benchmarks.core.row import describe, digest, measure, trained, unique
from benchmarks.core.store import Store
from benchmarks.core.table import Row, Table, named
from benchmarks.core.verdict import verdicts

UNPUBLISHED = "not-for-publication"  # folder of records with text that may not be published
LEFT_OUT = "Words of the text are left out here, since not everyone may publish it."


def run_table(
    table: Table,
    store: Store,
    out: Path,
    seeds: int | None = None,
    only: str | None = None,
    command: str = "",
    missing: bool = False,
) -> dict[str, Any]:
    """Measure a table's rows, training what is not in the store, and record each row as it ends.

    Rows that an earlier run recorded stay until they are measured anew, as long as they are of the models
    that would be asked for now: of the same data, scale, recipe, configuration and seeds. Those of models that
    other source code trained stay, too, and the page says at which commit.

    Published figures that belong to one data set are left out beside others.

    Rows of a table with `kept` are made from the measurements kept beside its record.

    Where the terms of the data forbid publishing its text, the record has none; a second one that has it is written
    to the work folder, for those who have the data.

    Args:
        out: the folder of records.
        seeds: trainings of each model; None: as many as the table asks for.
        only: label of the rows to measure, as in `named`; all rows of a table that is measured together.
        command: the command that makes the table, for its page.
        missing: for a table with `kept`, whether kept seeds are not measured again and count in verdicts, whatever
            source code trained their models.
    """
    record.make_folder(out)
    path = out / file_name(table.name, store)
    record.read_table(path)  # an invalid record is an error now, not after the first row
    rows, published = table.rows(store.scale, seeds), table.published
    if table.published_data not in ("", store.name):
        rows, published = [replace(row, thesis={}) for row in rows], ""
    every = [spec for row in rows for spec in row.specs()]
    begin = {
        "table": table.name, "section": table.section, "title": table.title, "command": command,
        "data": store.describe(every), "scale": store.scale.name, "recipe": store.how(), "seeds": seeds,
        "columns": [column.recorded() for column in table.columns], "heads": list(table.heads), "note": table.note,
        **({"published": published} if published else {}),
    }  # fmt: skip
    current = {store.directory(spec).name for spec in every}
    kept = Kept(path, store.grouped) if table.kept else None
    result: dict[str, Any] = begin
    made: dict[tuple[str, ...], Any] = {}
    described: dict[str, Any] = {}
    measured = rows if table.together else named(rows, only)
    for row in measured:
        if kept is None:
            made[row.label] = measure(table, row, store)
            here = record.environment()
            specs = trained(table, row, store)
            described |= {store.directory(spec).name: describe(store.get(spec), here) for spec in specs}
        else:
            keep(table, row, store, kept, missing)
            made, described = rows_of(table, rows, store, kept)
        # of earlier runs, and of other processes that measure other rows meanwhile
        known, models = _earlier(record.read_table(path), begin, rows, store)
        known, models = known | made, models | described
        done = [known[r.label] for r in rows if r.label in known]
        complete = len(done) == len(rows) and row is measured[-1]  # until then, some rows are to be measured anew
        result = {
            **begin, "complete": complete, "rows": done,
            "models": {name: models[name] for row in done for name in row["models"]},
            "verdicts": _verdicts(table, store, rows, done, kept, missing) if complete else None,
        }  # fmt: skip
        for place, shown in _versions(path, result, store):
            names = [place.with_suffix(suffix).name for _, suffix in _pictures(table, complete)]
            page = markdown.page(shown, store.thesis_data, store.size(every), current, names)
            record.write(place, shown, page)
    for place, shown in _versions(path, result, store) if result.get("complete") else []:
        for draw, suffix in _pictures(table, True):
            draw(shown, place.with_suffix(suffix))
    return result


def missing_rows(table: Table, store: Store, out: Path, rows: list[Row], missing: bool) -> list[Row]:
    """Return those rows, with only those seeds, that `run_table` would measure.

    Args:
        missing: as in `run_table`.
    """
    if table.together:  # its trainings are timed, so that none may be done beforehand
        return []
    if not (missing and table.kept):
        return rows
    kept = Kept(out / file_name(table.name, store), store.grouped)

    def there(row: Row, specs: tuple[Any, ...]) -> bool:
        key = identity(row, specs, store)
        return bool(key[1]) and (kept.find(key) is not None or kept.find_elsewhere(table, key) is not None)

    found = [replace(row, draws=tuple(specs for specs in row.draws if not there(row, specs))) for row in rows]
    return [row for row in found if row.draws]


def _versions(path: Path, result: dict[str, Any], store: Store) -> list[tuple[Path, dict[str, Any]]]:
    """Return a record and its path; of text that may not be published, a version without and one with it."""
    public = result if store.quotable else record.without_text(result)
    if public == result:
        return [(path, result)]
    note = " ".join(filter(None, (result["note"], LEFT_OUT)))
    return [(path, {**public, "note": note}), (store.work / UNPUBLISHED / path.name, result)]


def _pictures(table: Table, complete: bool) -> list[tuple[Callable[[dict[str, Any], Path], None], str]]:
    """Return the functions that draw a record, and suffixes of their files; none before the record is complete."""
    made = [(draw, suffix) for draw, suffix in ((table.draw, ".png"), (table.explore, ".html")) if draw is not None]
    return made if complete else []


def _verdicts(
    table: Table,
    store: Store,
    rows: list[Row],
    done: list[dict[str, Any]],
    kept: Kept | None,
    missing: bool,
) -> list[dict[str, Any]] | None:
    """Judge the table's claims; None where a row is of models that other source code trained, unless `missing`.

    Figures of a table that is timed are all of the present source code.

    Args:
        done: the rows as recorded.
    """
    current = {store.directory(spec).name for row in rows for spec in row.specs()}
    if kept is None:
        of_present = all(current >= set(row["models"]) for row in done)
        judged = table.timed or (of_present and all(store.is_there(spec) for row in rows for spec in row.specs()))
    else:
        found = [kept.find(identity(row, specs, store)) for row in rows for specs in row.draws]
        there = [each for each in found if each is not None]  # nothing is kept of rows that early versions recorded
        judged = len(there) == len(found) and comparable(there)
        judged &= missing or all(current >= each.models.keys() for each in there)
        rows = [recall(row, kept) for row in rows]
    if not judged:
        return None
    on_test, on_valid = (table.claims(store, rows, part) if part in store.parts else [] for part in ("test", "valid"))
    return verdicts(on_test, on_valid)


def file_name(name: str, store: Store) -> str:
    """Return `<name>.<data>.<scale>.json`, with the recipe before the suffix unless it is the unchanged tuned one."""
    how = [] if store.how() == "tuned" else [store.how().replace(", ", ".").replace(" ", "-")]
    return ".".join([name, store.name, store.scale.name, *how, "json"])


def _earlier(
    before: dict[str, Any], begin: dict[str, Any], rows: list[Row], store: Store
) -> tuple[dict[tuple[str, ...], Any], dict[str, Any]]:
    """Find the rows of an earlier record that are of the models wanted now, with the same seeds, and its models."""
    if any(before.get(name) != begin[name] for name in ("data", "scale", "recipe", "columns")):
        return {}, {}
    wanted = {row.label: unique(digest(spec, store) for spec in row.specs()) for row in rows}
    known, models = {}, before["models"]
    for row in before["rows"]:
        label = tuple(row["label"])
        found = unique(_identity_digest(name, models[name]) for name in row["models"])
        if "environment" in row and wanted.get(label) == found:
            known[label] = _with_numbers(row)
            for name in row["models"]:  # in early records, models have no commit of their own
                trained = {**row["environment"], **models[name]["environment"]}
                models[name].setdefault("commit", trained["commit"])
                models[name].setdefault("dirty", trained["dirty"])
    return known, models


def _identity_digest(folder: str, model: dict[str, Any]) -> str:
    """Return the digest of all that determines a model but the source code, from its folder's name."""
    return folder.removesuffix(f"-{model.get('source')}").rpartition("-")[2]


def _with_numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Restore a stored row; figures that were not finite, which JSON cannot hold, become NaN."""
    cells = {}
    for name, cell in row["cells"].items():
        if record.TEXT in cell:
            cells[name] = cell
            continue
        mean, *values = (np.nan if value is None else value for value in (cell["mean"], *cell["values"]))
        cells[name] = {**cell, "mean": mean, "values": values}
    return {**row, "cells": cells}
