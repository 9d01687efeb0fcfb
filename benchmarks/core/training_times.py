"""How long a stored model trained: all processes together, where some were interrupted, and an epoch of it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

EARLIER = "benchmark-seconds.txt"  # in the folder of a training that was interrupted: of all processes so far


@contextmanager
def timed(directory: Path) -> Iterator[None]:
    """Keep the seconds of what is done within if it ends by an error or a signal, and left a training to resume."""
    begin = time.perf_counter()
    try:
        yield
    except BaseException:
        if directory.is_dir():
            (directory / EARLIER).write_text(repr(earlier(directory) + time.perf_counter() - begin))
        raise


def earlier(directory: Path) -> float:
    """Return the seconds of earlier processes that trained the model, but for those that were killed."""
    path = directory / EARLIER
    return float(path.read_text()) if path.exists() else 0.0


def of_epochs(lines: list[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds of training of all epochs that ended, whichever process they were of; nothing without any."""
    return {"train": sum(line["train_seconds"] for line in lines)} if lines else {}


def timing(lines: list[dict[str, Any]], history: list[dict[str, Any]]) -> dict[str, float]:
    """Compute speed and the time of an epoch from the lines of `timing.jsonl`, and of the journal.

    Medians, so that no pause counts; of speeds and of times of a step, as the line of an epoch that was resumed is of
    its rest only.
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
