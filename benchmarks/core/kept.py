"""Measurements of a table's models, seed by seed, kept in a file beside its record.

A verdict compares the models' scores on each unit of the test, whereas a record has only their mean. As scores are
kept, rows and seeds can be trained on different days and machines, and a trained model may be deleted. The rows of such
a table, and its verdicts, are made from what is kept.
"""

import base64
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import record
from benchmarks.core.locking import locked
from benchmarks.core.row import describe, digest, ended, summarise, unique
from benchmarks.core.store import Store
from benchmarks.core.table import Measured, Row, Table
from benchmarks.core.verdict import Scores
from jaxfit.errors import UserError
from jaxfit.run_dir import json_text

FOLDER = "measurements"  # beside the records
COMPRESSED = "zlib85:"  # prefix of the text of numbers, compressed, in base 85
EARLIER = "zlib:"  # … in base 64; still earlier versions did not compress, and had no prefix
FINISH: Mapping[str, Callable[[Any], Any]] = {"exp": np.exp, "sqrt": np.sqrt, "same": np.positive}
Key = tuple[
    tuple[str, ...], tuple[str, ...]
]  # label of a row, digests of all that determines its models except the source
Parts = Mapping[str, Mapping[str, Any]]  # part of the data -> column -> a number, scores, or two of them


@dataclass(frozen=True)
class Measurement:
    """What was measured of one seed of a row, and where.

    Attributes:
        parts: the columns by part of the data.
        models: descriptions of the models, by the names of their folders, which end with the source code's fingerprint.
        environment: where they were measured, in the form of a record.
        date, seconds: when (YYYY-MM-DD), and how long it took, training included.
    """

    parts: Parts
    models: Mapping[str, Any]
    environment: Mapping[str, Any]
    date: str
    seconds: float

    def names(self) -> list[str]:
        """Return the names of the models, seeds included."""
        return sorted(model["label"] for model in self.models.values())


class Kept:
    """Measurements by a row's label and models, read from a file; each new one is written to it.

    Args:
        path: of the table's record, which is of one table, data set, scale and recipe.
        grouped: function that adds kept scores up to the present units, if those have become larger since.
    """

    def __init__(self, path: Path, grouped: Callable[[Scores], Scores] = lambda scores: scores):
        self.path, self.grouped = path.parent / FOLDER / path.name, grouped
        self._rows = self._stored()

    def _stored(self) -> dict[Key, Measurement]:
        """Read the file, which need not exist yet."""
        before = record.read(self.path) or {"counts": [], "rows": []}
        try:
            decode = partial(_decode, counts=[_array(text) for text in before["counts"]], grouped=self.grouped)
            return {(tuple(row["label"]), tuple(row["identities"])): _read(row, decode) for row in before["rows"]}
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"not a table's measurements: {error!r}", self.path, "restore it, or remove it") from None

    def find(self, key: Key) -> Measurement | None:
        """Return the measurement of a seed of a row; None if it is not kept."""
        return self._rows.get(key)

    def find_elsewhere(self, table: Table, key: Key) -> Measurement | None:
        """Find a measurement of the same models by another table of the same data, scale and recipe.

        The other table has all columns of this one. If all of these depend on a row's first model only, the other
        models of the row may differ. Rows without models are not found, as nothing tells them apart but their labels.
        """
        if not key[1]:
            return None
        names, ending = [column.name for column in table.columns], self.path.name.removeprefix(table.name)
        number = 1 if all(column.first for column in table.columns) else None
        for path in sorted(self.path.parent.glob(f"*{ending}")):
            for (_, identities), found in Kept(self.path.parents[1] / path.name, self.grouped)._rows.items():
                same = identities[:number] == key[1][:number]
                if same and all(columns.keys() >= set(names) for columns in found.parts.values()):
                    parts = {part: {name: columns[name] for name in names} for part, columns in found.parts.items()}
                    return replace(found, parts=parts, models=dict(list(found.models.items())[:number]))
        return None

    def add(self, key: Key, found: Measurement) -> None:
        """Keep the measurement of a seed of a row, in place of an earlier one, and write the file.

        The earlier one may be of models with other recipes, but with the same names and seeds. What other processes
        have kept since the file was read stays: one process at a time reads and writes it.
        """
        with locked(self.path, "--out"):
            self._add(key, found)

    def _add(self, key: Key, found: Measurement) -> None:
        names = found.names()
        before = {one: self._rows.get(one, each) for one, each in self._stored().items()}  # here, in float64
        self._rows = {one: each for one, each in before.items() if one[0] != key[0] or each.names() != names}
        self._rows[key] = found
        counts: dict[str, int] = {}  # text of an array of counts -> its index; most scores share one
        encode = partial(_encode, counts=counts)
        rows = [
            {"label": list(label), "identities": list(identities), **vars(each), "parts": _coded(each.parts, encode)}
            for (label, identities), each in self._rows.items()
        ]
        compact = partial(json_text.dumps, ensure_ascii=False, separators=(",", ":"))
        lines = ",\n".join(map(compact, rows))  # a line for each seed of a row
        record.write_text(self.path, f'{{"counts": {compact(list(counts))},\n"rows": [\n{lines}\n]}}\n')


def comparable(measurements: Iterable[Measurement]) -> bool:
    """Return whether all scores of a column and a part of the data are of the same number of units."""
    units: dict[tuple[str, str], set[int]] = {}
    for found in measurements:
        for part, columns in found.parts.items():
            for name, value in columns.items():
                scores = [
                    each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Scores)
                ]
                units.setdefault((part, name), set()).update(len(each.total) for each in scores)
    return all(len(numbers) < 2 for numbers in units.values())


def identity(row: Row, specs: tuple[Any, ...], store: Store) -> Key:
    """Return the key under which a seed of a row is kept: its label, and the digests of its models."""
    return row.label, tuple(digest(spec, store) for spec in specs)


def recall(row: Row, kept: Kept) -> Row:
    """Return the row with a `measure` that returns what is kept."""

    def measure(store: Store, specs: tuple[Any, ...], part: str) -> Measured:
        found = kept.find(identity(row, specs, store))
        assert found is not None
        return found.parts[part]

    return replace(row, measure=measure)


def keep(table: Table, row: Row, store: Store, kept: Kept, missing: bool) -> None:
    """Measure the seeds of a row, and keep each measurement as soon as it is made.

    Args:
        missing: whether to measure only seeds that neither this table nor another one has kept, and rows without
            models, which take little time.
    """
    for specs in row.draws:
        key, start = identity(row, specs, store), time.perf_counter()
        if missing and key[1] and kept.find(key) is not None:
            continue
        if missing and (there := kept.find_elsewhere(table, key)) is not None:
            kept.add(key, there)
            continue
        parts: dict[str, Any] = {part: row.measure(store, specs, part) for part in store.parts}
        # whole environments, as the row may be put together on another machine
        models = {store.directory(spec).name: describe(store.get(spec), {}) for spec in specs}
        seconds = ended(table, row, start)
        kept.add(key, Measurement(parts, models, record.environment(), record.today(), seconds))


def rows_of(
    table: Table, rows: list[Row], store: Store, kept: Kept
) -> tuple[dict[tuple[str, ...], Any], dict[str, Any]]:
    """Put together the rows with all seeds kept, and the descriptions of their models.

    The environment of a row is that of its newest seed; those of other seeds, where they differ, are beside it.
    """
    known: dict[tuple[str, ...], Any] = {}
    models: dict[str, Any] = {}
    for row in rows:
        found = [kept.find(identity(row, specs, store)) for specs in row.draws]
        there = [each for each in found if each is not None]
        if len(there) < len(found):
            continue
        newest = max(there, key=lambda each: each.date)
        names = unique(name for each in there for name in each.models)
        per_seed, seconds = [each.parts["test"] for each in there], sum(each.seconds for each in there)
        made = summarise(table, row, store, per_seed, seconds, names, dict(newest.environment), newest.date)
        others: list[Mapping[str, Any]] = []
        for each in there:
            if each.environment not in (newest.environment, *others):
                others.append(each.environment)
        known[row.label] = {**made, **({record.OTHERS: others} if others else {})}
        for each in there:
            models |= each.models
    return known, models


def _read(row: Mapping[str, Any], decode: Callable[[Any], Any]) -> Measurement:
    fields = {name: row[name] for name in ("models", "environment", "date", "seconds")}
    return Measurement(_coded(row["parts"], decode), **fields)


def _coded(parts: Parts, code: Callable[[Any], Any]) -> dict[str, dict[str, Any]]:
    return {part: {name: code(value) for name, value in columns.items()} for part, columns in parts.items()}


def _encode(value: Any, counts: dict[str, int]) -> Any:
    """Return a measured figure in types of JSON.

    Scores are compressed float32 in base 85, as digits would take twice as long a text; their counts are an index in
    `counts`, to which new ones are added.
    """
    if isinstance(value, tuple):
        return [_encode(scores, counts) for scores in value]
    if not isinstance(value, Scores):
        return float(value)
    (finish,) = (name for name, function in FINISH.items() if function is value.finish)
    count = counts.setdefault(_text(value.count), len(counts))
    return {"total": _text(value.total), "count": count, "finish": finish, "seeded": value.seeded}


def _decode(value: Any, counts: Sequence[np.ndarray], grouped: Callable[[Scores], Scores]) -> Any:
    if isinstance(value, list):
        return tuple(_decode(scores, counts, grouped) for scores in value)
    if not isinstance(value, dict):
        return float("nan") if value is None else float(value)
    return grouped(Scores(_array(value["total"]), counts[value["count"]], FINISH[value["finish"]], value["seeded"]))


def _text(array: np.ndarray) -> str:
    packed = zlib.compress(array.astype("<f4").tobytes(), 9)
    return COMPRESSED + base64.b85encode(packed).decode("ascii")


def _array(text: str) -> np.ndarray:
    if text.startswith(COMPRESSED):
        data = zlib.decompress(base64.b85decode(text.removeprefix(COMPRESSED)))
    else:
        data = base64.b64decode(text.removeprefix(EARLIER))
        data = zlib.decompress(data) if text.startswith(EARLIER) else data
    return np.frombuffer(data, "<f4").astype(np.float64)
