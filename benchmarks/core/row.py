"""A row of a record: what was measured of its models, and the models' descriptions."""

import sys
import time
from collections.abc import Iterable
from typing import Any

from benchmarks.core import record
from benchmarks.core.statistics import over_rounds
from benchmarks.core.store import Store, TrainedModel, validation
from benchmarks.core.table import Measured, Row, Table
from benchmarks.core.verdict import spread

IDENTITY = ("config", "recipe", "tree", "rated", "part", "group")  # parts of a model's identity that a record shows


def measure(table: Table, row: Row, store: Store) -> dict[str, Any]:
    """Measure a row with each seed."""
    start = time.perf_counter()
    per_seed = [row.measure(store, specs, "test") for specs in row.draws]
    needed = trained(table, row, store)
    models = unique(store.directory(spec).name for spec in needed)
    untrained = [store.identity(spec) for spec in row.specs() if spec not in needed]
    made = summarise(
        table, row, store, per_seed, ended(table, row, start), models, record.environment(), record.today()
    )
    return {**made, **({"not trained": untrained} if untrained else {})}


def trained(table: Table, row: Row, store: Store) -> list[Any]:
    """List the models of a row that must be trained before it is measured."""
    return [spec for spec in row.specs() if not table.timed or store.has_structure(spec)]


def ended(table: Table, row: Row, start: float) -> float:
    """Report that a row is done, and return the seconds since its start."""
    seconds = time.perf_counter() - start
    print(f"{table.name}: {', '.join(filter(None, row.label))} in {seconds:.1f} s", file=sys.stderr, flush=True)
    return seconds


def summarise(
    table: Table,
    row: Row,
    store: Store,
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
    units = table.resampled or store.resampled
    over = {"resampled": units} if any("interval" in cell for cell in cells.values()) else {}
    drawn = [measured[record.DRAWN] for measured in per_seed if record.DRAWN in measured]
    return {
        "label": list(row.label),
        "cells": cells,
        **over,
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


def unique(names: Iterable[str]) -> list[str]:
    """Return names without repetition, in order."""
    return list(dict.fromkeys(names))


def describe(model: TrainedModel, here: dict[str, Any]) -> dict[str, Any]:
    """Describe a model as a record does; of its environment, only what differs from that of its row, `here`."""
    info = model.info
    trained = info["environment"]
    return {
        "label": info["label"],
        "source": info["source"],
        **({"made_from": info["made_from"]} if info["made_from"] else {}),
        "commit": trained["commit"],
        "dirty": trained["dirty"],
        **({"date": info["date"]} if "date" in info else {}),  # of a model trained before dates were kept: none
        **{key: value for key in IDENTITY if (value := info["identity"].get(key)) is not None},
        **info.get("decided", {}),  # absent in models trained before this was kept
        **({} if "refit" in info["identity"] else validation(info["history"])),  # a refit has no validation
        **_to_four_digits(info["timing"]),
        "seconds": _to_four_digits(info["seconds"]),
        **({"warnings": info["warnings"]} if info["warnings"] else {}),
        # a model may be older than the row it serves
        "environment": {key: value for key, value in trained.items() if key not in here or here[key] != value},
    }


def _to_four_digits(values: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in values.items()}


def digest(spec: Any, store: Store) -> str:
    """Return the digest of all that determines a model but the source code."""
    return store.identifier(spec).rpartition("-")[2]
