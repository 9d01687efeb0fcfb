"""What was measured of a table's models, seed by seed, kept in a file beside its record.

A verdict compares what models scored on each unit of the test, of which a record has only the mean. With that kept,
rows and seeds can be trained on different days and machines: where a trained model is gone, what it scored is not.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import record
from benchmarks.core.verdict import Scores
from jaxfit.errors import UserError
from jaxfit.run_dir import json_text

FOLDER = "measurements"  # beside the records
FINISH: Mapping[str, Callable[[Any], Any]] = {"exp": np.exp, "sqrt": np.sqrt, "same": np.positive}
Key = tuple[tuple[str, ...], tuple[str, ...]]  # label of a row, digests of its models' identities


class Kept:
    """Measurements of a table's rows by label and models; of each, the columns by part of the data.

    Args:
        path: of the table's record.
        begin: what the measurements are of, as in the record: data, columns. Others that the file has are dropped.
    """

    def __init__(self, path: Path, begin: Mapping[str, Any]):
        self.path = path.parent / FOLDER / path.name
        self.begin = json.loads(json_text.dumps({name: begin[name] for name in ("table", "data", "columns")}))
        before = record.read(self.path) or {}
        same = all(before.get(name) == value for name, value in self.begin.items())
        try:
            self.rows: dict[Key, dict[str, Any]] = {
                (tuple(row["label"]), tuple(row["identities"])): {**row, "parts": _decoded(row["parts"])}
                for row in (before["rows"] if same else ())
            }
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"not a table's measurements: {error!r}", self.path, "remove it") from None

    def parts(self, key: Key) -> Mapping[str, Mapping[str, Any]] | None:
        """Return what was measured of a row's models, columns by part; None where that is not kept."""
        return self.rows[key]["parts"] if key in self.rows else None

    def models(self, key: Key) -> dict[str, Any]:
        """Return the descriptions of a row's models as they were trained, by folder."""
        return self.rows[key]["models"]

    def add(self, key: Key, parts: Mapping[str, Mapping[str, Any]], models: Mapping[str, Any]) -> None:
        """Keep what was measured of a row's models, and write the file.

        What was measured on other units is dropped, as it could not be compared.
        """
        units = {part: _units(columns.values()) for part, columns in parts.items()}
        self.rows = {
            other: row for other, row in self.rows.items()
            if all(_units(columns.values()) <= units.get(part, set()) for part, columns in row["parts"].items())
        }  # fmt: skip
        self.rows[key] = {"label": list(key[0]), "identities": list(key[1]), "models": dict(models), "parts": parts}
        rows = [{**row, "parts": _encoded(row["parts"])} for row in self.rows.values()]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(self.path, json_text.dumps({**self.begin, "rows": rows}, indent=1, ensure_ascii=False) + "\n")


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


def _units(values: Iterable[Any]) -> set[int]:
    """Return the numbers of units that scores are of."""
    return {len(scores.total) for value in values for scores in _each(value) if isinstance(scores, Scores)}


def _encoded(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {part: {name: _encode(value) for name, value in columns.items()} for part, columns in parts.items()}


def _decoded(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {part: {name: _decode(value) for name, value in columns.items()} for part, columns in parts.items()}


def _encode(value: Any) -> Any:
    """Return a measured figure in types of JSON: scores as float32, in base64, as text of digits is twice as long."""
    if isinstance(value, tuple):
        return [_encode(scores) for scores in value]
    if not isinstance(value, Scores):
        return float(value)
    finish = next(name for name, function in FINISH.items() if function is value.finish)
    return {"total": _text(value.total), "count": _text(value.count), "finish": finish, "seeded": value.seeded}


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(scores) for scores in value)
    if not isinstance(value, dict):
        return float("nan") if value is None else float(value)
    return Scores(_array(value["total"]), _array(value["count"]), FINISH[value["finish"]], value["seeded"])


def _text(array: np.ndarray) -> str:
    return base64.b64encode(array.astype("<f4").tobytes()).decode("ascii")


def _array(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64)
