"""JSON as everything here writes it: a number that JSON has no word for (infinite, undefined) is null."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SHOWN = 20  # letters of a long value in a message, at its beginning and at its end


def dumps(value: Any, **options: Any) -> str:
    """Return a value as JSON text; options are those of `json.dumps`."""
    return json.dumps(plain(value), allow_nan=False, **options)


def write(path: Path, value: Any) -> None:
    """Write a value to a file that people may read, too."""
    path.write_text(dumps(value, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Any:
    """Return what a file holds; raises OSError, or ValueError for what is no JSON text or no regular file."""
    if path.exists() and not path.is_file():  # a named pipe would be waited for
        raise ValueError("it is no regular file")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def difference(was: Any, now: Any) -> str:
    """Return in words how two values of JSON's types differ, for the end of a sentence.

    Names whose values differ alike, such as two of one digest, are named together.
    """
    if isinstance(was, dict) and isinstance(now, dict):
        names: dict[str, list[str]] = {}
        for name, then, here in _differing(was, now):
            names.setdefault(_both(then, here), []).append(name)
        return f" in {', '.join(' and '.join(alike) + both for both, alike in names.items())}"
    return _both(was, now)


def _differing(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the names whose values differ, with both values; of what is nested "reading.lower"."""
    for name in {**was, **now}:
        then, here = was.get(name), now.get(name)
        numbers = any(isinstance(each, dict) and _by_parameter(each) for each in (then, here))
        if isinstance(then, dict) and isinstance(here, dict) and not numbers:
            yield from ((f"{name}.{inner}", *both) for inner, *both in _differing(then, here))
        elif then != here:
            yield name, then, here


def _both(was: Any, now: Any) -> str:
    return f" ({_shown(was)} there, {_shown(now)} here)"


def _shown(value: Any) -> str:
    """Return numbers by parameter as an option has them (0.01,b=0.1), of a long text its beginning and its end.

    Of a sha256 it is the beginning alone.
    """
    if isinstance(value, dict) and _by_parameter(value):
        return ",".join(f"{v}" if k == "*" else f"{k}={v}" for k, v in value.items())
    text = str(value)
    if re.fullmatch("[0-9a-f]{64}", text):
        return text[:8]
    return text if len(text) <= 2 * SHOWN else f"{text[:SHOWN]}…{text[-SHOWN:]}"


def _by_parameter(values: Mapping[str, Any]) -> bool:
    """Return whether values are numbers by parameter."""
    return bool(values) and all(isinstance(value, int | float) for value in values.values())


def plain(value: Any) -> Any:
    """Return a value as reading its JSON text gives it back: lists for tuples, text for keys, null for NaN."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
