"""Trained models under a work folder: each is trained once, and found again by all that determines it."""

import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.core import record
from jaxfit.errors import UserError
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.journal import Journal

DONE = "benchmark.json"


class Made(NamedTuple):
    """What training a model took: seconds by what they went into; examples (words, ratings) of an epoch."""

    seconds: Mapping[str, float]
    examples: int


def folder(work: Path, data: str, label: str, identity: Mapping[str, Any]) -> Path:
    """Where the model of this identity, on this data set, is or will be."""
    text = json.dumps(identity, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return work / "models" / f"{data}-{label}-{digest}"


def is_there(directory: Path) -> bool:
    """Whether the model need not be trained any more."""
    return (directory / DONE).is_file()


def keep(
    directory: Path, label: str, identity: Mapping[str, Any], make: Callable[[], Made]
) -> dict[str, Any]:
    """What is known of a model: identity, times, commit, history; it is found, or made by `make` and kept."""
    with _locked(directory):
        if not is_there(directory):
            _make(directory, label, identity, make)
    return json.loads((directory / DONE).read_text())


def save(directory: Path, name: str, array: np.ndarray) -> None:
    """Keep an array with a model: it is there whole, or not at all."""
    with replacing(directory / f"{name}.npy") as path, path.open("wb") as file:
        np.save(file, array)


def _make(directory: Path, label: str, identity: Mapping[str, Any], make: Callable[[], Made]) -> None:
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        made = make()
    said = [str(warning.message) for warning in caught]
    seconds = time.perf_counter() - started
    info = {
        "label": label,
        "identity": identity,
        "seconds": {**made.seconds, "all": seconds},
        "history": Journal(directory).lines(),
        "timing": timing(Journal(directory).times(), made.examples),
        "warnings": said,
        "environment": record.environment(),
    }
    with replacing(directory / DONE) as path:
        path.write_text(json.dumps(info, indent=1))
    for line in said:
        print(f"  {label}: {line}", file=sys.stderr)
    print(f"  trained {label} in {seconds:.1f} s", file=sys.stderr, flush=True)


def timing(lines: list[dict[str, Any]], examples: int) -> dict[str, float]:
    """Speed from the lines of `timing.jsonl`, and from it the time of a whole epoch of so many examples.

    A median, so that no pause counts; of speeds, as the line of an epoch that was resumed is of its rest only.
    """
    speeds = [line["examples_per_second"] for line in lines if line.get("steps", 1) > 0]
    if not speeds:
        return {}
    speed = float(np.median(speeds))
    return {
        "seconds_per_epoch": examples / speed,
        "examples_per_second": speed,
        "compile_seconds": max(line["compile_seconds"] for line in lines),
    }


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One process at a time trains a model; another that wants it waits, then finds it."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system: do not train one model in two processes there
        yield
        return
    path = directory.with_name(f"{directory.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise UserError(f"cannot write there: {error.strerror}", path, "choose another --work") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
