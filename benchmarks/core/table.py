"""What a table of the thesis is, and how one is run: row by row, each recorded as it ends."""

import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import markdown, record
from benchmarks.core.kept import Kept, Key, Measurement, comparable
from benchmarks.core.statistics import over_rounds
from benchmarks.core.store import Store, TrainedModel
from benchmarks.core.verdict import Claim, Scores, spread, verdicts

# column -> figure; two: the first less the second; a list: of rounds of a timing, whose median is shown; text of the
# data; record.DRAWN: what figures are made of, in types of JSON. Of text, and of that, the first seed's is recorded.
Measured = Mapping[str, float | Scores | tuple[Scores, Scores] | list[float] | str | dict[str, Any]]
UNPUBLISHED = "not-for-publication"  # folder of records with text that may not be published
LEFT_OUT = "Words of the text are left out here, since not everyone may publish it."
IDENTITY = ("config", "recipe", "tree", "rated", "part", "group")  # what of it a record says of a model


@dataclass(frozen=True)
class Column:
    """A column of figures, ours and the thesis'."""

    name: str
    title: str
    digits: int | None = 1  # after the point; None: figures of all orders of magnitude


@dataclass(frozen=True)
class Row:
    """A row: what names it, its models (one tuple for each seed), the thesis' figures."""

    label: tuple[str, ...]
    draws: tuple[tuple[Any, ...], ...]
    thesis: dict[str, float]  # or those of the publication that the table is of
    measure: Callable[[Any, tuple[Any, ...]], Measured]  # of the store and the models of a seed

    def specs(self) -> list[Any]:
        """Return the models of all seeds."""
        return [spec for specs in self.draws for spec in specs]


@dataclass(frozen=True)
class Table:
    """A table of the thesis, or of another publication."""

    store: type[Store]  # of its models
    name: str
    section: str
    title: str
    heads: tuple[str, ...]  # of the cells that name a row
    columns: tuple[Column, ...]
    rows: Callable[[Any, int | None], list[Row]]  # scale, and seeds where they are asked for
    note: str = ""
    # of the store, the rows, and the part of the data ("test" or "valid") that they are judged on
    claims: Callable[[Any, list[Row], str], list[Claim]] = lambda store, rows, part: []
    draw: Callable[[dict[str, Any], Path], None] | None = None  # a complete record, as a figure
    explore: Callable[[dict[str, Any], Path], None] | None = None  # … and as an interactive page
    together: bool = False  # all rows are measured at once, and none alone
    published: str = ""  # where the figures beside ours are from, if not from the thesis
    # what each seed scored is kept beside the record: of tables whose models take too long to train for one run, and
    # whose figures are numbers and scores
    kept: bool = False


def seeded(seeds: int, *specs: Any) -> tuple[tuple[Any, ...], ...]:
    """Return the models of a row for each of so many seeds."""
    return tuple(tuple(spec.with_seed(seed) for spec in specs) for seed in range(1, 1 + seeds))


def named(rows: list[Row], only: str | None) -> list[Row]:
    """Find the rows with this label, or else those in whose label a word begins with it; all, where none is given."""
    text = re.compile(rf"(?<!\w){re.escape(only or '')}", re.IGNORECASE)
    labels = {id(row): " ".join(filter(None, row.label)) for row in rows}
    return [row for row in rows if labels[id(row)] == only] or [row for row in rows if text.search(labels[id(row)])]


def run(
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
    that would be asked for now: of the same data, scale, recipe and configuration. Those of models that other source
    code trained stay, too, and the page says at which commit. only: as in `named`; all rows of a table that is measured
    together.

    Of a table with `kept`, rows are made from what is kept beside its record. missing: seeds that are kept are not
    measured anew, whatever source code trained their models, and the claims are judged all the same.

    Where the terms of the data forbid publishing its text, the record has none; a second one that has it is written
    to the work folder, for those who have the data.
    """
    path = out / file_name(table.name, store)
    rows = table.rows(store.scale, seeds)
    every = [spec for row in rows for spec in row.specs()]
    begin = {
        "table": table.name, "section": table.section, "title": table.title, "command": command,
        "data": store.describe(every), "scale": store.scale.name, "recipe": store.how(), "seeds": seeds,
        "columns": [vars(column) for column in table.columns], "heads": list(table.heads), "note": table.note,
        **({"published": table.published} if table.published else {}),
    }  # fmt: skip
    current = {store.directory(spec).name for spec in every}
    known, models = _earlier(record.read(path) or {}, begin, rows, store)
    kept = Kept(path) if table.kept else None
    result: dict[str, Any] = begin
    measured = rows if table.together else named(rows, only)
    for row in measured:
        if kept is None:
            known[row.label] = _measure(table, row, store)
            here = record.environment()
            models |= {store.directory(spec).name: _describe(store.get(spec), store, here) for spec in row.specs()}
        else:
            _keep(table, row, store, kept, missing)
            made, described = _from_kept(table, rows, store, kept)
            known, models = known | made, models | described
        done = [known[r.label] for r in rows if r.label in known]
        complete = len(done) == len(rows) and row is measured[-1]  # until then, some rows are to be measured anew
        result = {
            **begin, "complete": complete, "rows": done,
            "models": {name: models[name] for row in done for name in row["models"]},
            "verdicts": _verdicts(table, store, rows, kept, missing) if complete else None,
        }  # fmt: skip
        for place, shown in _versions(path, result, store):
            names = [place.with_suffix(suffix).name for _, suffix in _pictures(table, complete)]
            page = markdown.page(shown, store.thesis_data, store.size(every), current, names)
            record.write(place, shown, page)
    for place, shown in _versions(path, result, store) if result.get("complete") else []:
        for draw, suffix in _pictures(table, True):
            draw(shown, place.with_suffix(suffix))
    return result


def _versions(path: Path, result: dict[str, Any], store: Store) -> list[tuple[Path, dict[str, Any]]]:
    """Return where a record goes; with text that may not be published, two of them, of which the second has it."""
    public = result if store.quotable else record.without_text(result)
    if public == result:
        return [(path, result)]
    note = " ".join(filter(None, (result["note"], LEFT_OUT)))
    return [(path, {**public, "note": note}), (store.work / UNPUBLISHED / path.name, result)]


def _pictures(table: Table, complete: bool) -> list[tuple[Callable[[dict[str, Any], Path], None], str]]:
    """Return what draws the figures of a record, and the ends of their names; none before the record is complete."""
    made = [(draw, suffix) for draw, suffix in ((table.draw, ".png"), (table.explore, ".html")) if draw is not None]
    return made if complete else []


def _verdicts(
    table: Table, store: Store, rows: list[Row], kept: Kept | None, missing: bool
) -> list[dict[str, Any]] | None:
    """Judge the table's claims; None where a row is of models that other source code trained, unless `missing`."""
    if kept is None:
        judged = all(store.is_there(spec) for row in rows for spec in row.specs())
    else:
        found = [kept.find(_key(row, specs, store)) for row in rows for specs in row.draws]
        there = [each for each in found if each is not None]  # of rows recorded before anything was kept, nothing is
        current = {store.directory(spec).name for row in rows for spec in row.specs()}
        judged = len(there) == len(found) and comparable(there)
        judged &= missing or all(current >= each.models.keys() for each in there)
        rows = [_recalling(row, kept) for row in rows]
    if not judged:
        return None
    on_test, on_valid = (table.claims(store, rows, part) if part in store.parts else [] for part in ("test", "valid"))
    return verdicts(on_test, on_valid)


def _key(row: Row, specs: tuple[Any, ...], store: Store) -> Key:
    """Return by what a seed of a row is kept: its label, and the digests of all that determines its models."""
    return row.label, tuple(_digest(spec, store) for spec in specs)


def _digest(spec: Any, store: Store) -> str:
    return store.identifier(spec).rpartition("-")[2]


def _recalling(row: Row, kept: Kept) -> Row:
    """Return a row whose measure gives what is kept."""

    def measure(store: Store, specs: tuple[Any, ...], part: str = "test") -> Measured:
        found = kept.find(_key(row, specs, store))
        assert found is not None
        return found.parts[part]

    return replace(row, measure=measure)


def file_name(name: str, store: Store) -> str:
    """`<name>.<data>.<scale>.json`, with the recipe where it is not the tuned one as it is."""
    how = [] if store.how() == "tuned" else [store.how().replace(", ", ".").replace(" ", "-")]
    return ".".join([name, store.name, store.scale.name, *how, "json"])


def _earlier(
    before: dict[str, Any], begin: dict[str, Any], rows: list[Row], store: Store
) -> tuple[dict[tuple[str, ...], Any], dict[str, Any]]:
    """Find the rows of an earlier record that are of the models wanted now, and its models."""
    if any(before.get(name) != begin[name] for name in ("data", "scale", "recipe", "seeds", "columns")):
        return {}, {}
    wanted = {row.label: _unique(_digest(spec, store) for spec in row.specs()) for row in rows}
    known, models = {}, before["models"]
    for row in before["rows"]:
        label = tuple(row["label"])
        found = _unique(_identity_digest(name, models[name]) for name in row["models"])
        if "environment" in row and wanted.get(label) == found:
            known[label] = _with_numbers(row)
            for name in row["models"]:  # records of before models had a commit of their own
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


def _measure(table: Table, row: Row, store: Store) -> dict[str, Any]:
    start = time.perf_counter()
    per_seed = [row.measure(store, specs) for specs in row.draws]
    models = _unique(store.directory(spec).name for spec in row.specs())
    return _row(table, row, per_seed, _ended(table, row, start), models, record.environment(), record.today())


def _keep(table: Table, row: Row, store: Store, kept: Kept, missing: bool) -> None:
    """Measure the seeds of a row, or those that are missing, each of which is kept as it ends."""
    for specs in row.draws:
        key, start = _key(row, specs, store), time.perf_counter()
        if missing and kept.find(key) is not None:
            continue
        measure: Callable[..., Measured] = row.measure
        parts: dict[str, Any] = {part: measure(store, specs, part=part) for part in store.parts}
        # environments whole, as the row may be put together on another machine
        models = {store.directory(spec).name: _describe(store.get(spec), store, {}) for spec in specs}
        seconds = _ended(table, row, start)
        kept.add(key, Measurement(parts, models, record.environment(), record.today(), seconds))


def _from_kept(
    table: Table, rows: list[Row], store: Store, kept: Kept
) -> tuple[dict[tuple[str, ...], Any], dict[str, Any]]:
    """Put together the rows all seeds of which are kept, and their models."""
    known: dict[tuple[str, ...], Any] = {}
    models: dict[str, Any] = {}
    for row in rows:
        found = [kept.find(_key(row, specs, store)) for specs in row.draws]
        there = [each for each in found if each is not None]
        if len(there) < len(found):
            continue
        newest = max(there, key=lambda each: each.date)
        names = _unique(name for each in there for name in each.models)
        per_seed, seconds = [each.parts["test"] for each in there], sum(each.seconds for each in there)
        known[row.label] = _row(table, row, per_seed, seconds, names, dict(newest.environment), newest.date)
        for each in there:
            models |= each.models
    return known, models


def _ended(table: Table, row: Row, start: float) -> float:
    seconds = time.perf_counter() - start
    print(f"{table.name}: {', '.join(filter(None, row.label))} in {seconds:.1f} s", file=sys.stderr, flush=True)
    return seconds


def _row(
    table: Table,
    row: Row,
    per_seed: list[Measured],
    seconds: float,
    models: list[str],
    environment: dict[str, Any],
    date: str,
) -> dict[str, Any]:
    """Return a row as a record has it."""
    cells = {}
    for column in table.columns:
        values: list[Any] = [measured[column.name] for measured in per_seed if column.name in measured]
        if values:
            cells[column.name] = _cell(values)
    drawn = [measured[record.DRAWN] for measured in per_seed if record.DRAWN in measured]
    return {
        "label": list(row.label),
        "cells": cells,
        **({record.DRAWN: drawn[0]} if drawn else {}),
        "thesis": row.thesis,
        "seeds": [specs[0].seed for specs in row.draws if specs],
        "seconds": seconds,
        "models": models,
        "environment": environment,
        "date": date,
    }


def _cell(values: list[Any]) -> dict[str, Any]:
    """Summarise what was measured with each seed: figures, rounds of a timing, or text of the data."""
    if isinstance(values[0], str):
        return {record.TEXT: values[0]}
    if isinstance(values[0], list):
        return over_rounds([sample for value in values for sample in value])
    return spread(values)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _describe(model: TrainedModel, store: Store, here: dict[str, Any]) -> dict[str, Any]:
    """Describe a model; its environment is what differs from that of its row, `here`."""
    info = model.info
    trained = info["environment"]
    return {
        "label": info["label"],
        "source": info["source"],
        **({"made_from": info["made_from"]} if info["made_from"] else {}),
        "commit": trained["commit"],
        "dirty": trained["dirty"],
        **({"date": info["date"]} if "date" in info else {}),  # of a model trained before dates were kept: none
        **{key: info["identity"][key] for key in IDENTITY if key in info["identity"]},
        **store.scores(info["history"]),
        **info["timing"],
        "seconds": info["seconds"],
        "warnings": info["warnings"],
        # a model may be older than the row it serves
        "environment": {key: value for key, value in trained.items() if key not in here or here[key] != value},
    }
