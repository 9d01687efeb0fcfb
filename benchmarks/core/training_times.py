"""Times of a stored model's training: of all processes together, if some were interrupted, and of an epoch."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import record
from jaxfit.errors import UserError

EARLIER = "benchmark-seconds.txt"  # in the folder of an interrupted training: of all processes so far


@contextmanager
def timed(directory: Path) -> Iterator[None]:
    """Keep the seconds spent within if an error or a signal ends it and there is a training to resume."""
    begin = time.perf_counter()
    try:
        yield
    except BaseException:
        if directory.is_dir():
            with suppress(OSError, UserError):  # of a full disk: the error to show is that of the training
                record.write_text(directory / EARLIER, repr(earlier(directory) + time.perf_counter() - begin))
        raise


def earlier(directory: Path) -> float:
    """Return the seconds of earlier processes that trained the model, except those that were killed."""
    path = directory / EARLIER
    return float(path.read_text()) if path.exists() else 0.0


def of_epochs(lines: list[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds of training of all epochs that ended, in whichever process; empty if none did."""
    return {"train": sum(line["train_seconds"] for line in lines)} if lines else {}


def timing(lines: list[dict[str, Any]], history: list[dict[str, Any]]) -> dict[str, float]:
    """Compute speed and the time of an epoch from the lines of `timing.jsonl`, and of the journal.

    Speeds and times of a step are medians, so that pauses do not count; a line of a resumed epoch covers only its rest.
    """
    lines = [line for line in lines if line.get("steps", 0) > 0]
    if not lines or not history:
        return {}
    steps = history[-1]["step"] / (history[-1]["epoch"] + 1)  # of an epoch
    return {
        "seconds_per_epoch": steps * float(np.median([line["train_seconds"] / line["steps"] for line in lines])),
        "examples_per_second": float(np.median([line["examples_per_second"] for line in lines])),
        "compile_seconds": max(line["compile_seconds"] for line in lines),
    }
