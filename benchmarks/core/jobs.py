"""Trainings of a command side by side: several processes, each on a part of the cores, before anything is measured.

The models of most tables are too small for all cores of a CPU. Each process runs the same command, and trains in the
order of the rows what is not there and what no other one is training.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence

from benchmarks.core.store import Store
from benchmarks.core.table import Row
from jaxfit.devices.cores import NPROC, cores
from jaxfit.errors import UserError

HELPER = "--helper"  # hidden option of such a process, with its cores: 0,2


def check(number: int) -> None:
    """Raise UserError for more processes than cores, and on systems where they cannot tell who trains what."""
    if number > 1 and os.name != "posix":
        raise UserError("this system has no locks between trainings", "--jobs", "leave it out")
    if number > cores():
        raise UserError(f"{number} trainings at a time on {cores()} cores", "--jobs", f"give at most {cores()}")


def side_by_side(arguments: Sequence[str], number: int) -> None:
    """Run a command of `python -m benchmarks` so many times at once, each of which trains a part of its models.

    It returns when all have ended, in whatever way: what is missing is trained, or fails, when it is measured.
    """
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(cores()))
    processes = []
    try:
        for i in range(number):
            part = mine[i::number]
            words = [sys.executable, "-m", "benchmarks", *arguments, HELPER, ",".join(map(str, part))]
            environment = {**os.environ, NPROC: str(len(part))}
            processes.append(subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL))
        for process in processes:
            process.wait()
    finally:
        for process in processes:
            process.terminate()  # which saves its training; of no effect on one that has ended
        for process in processes:
            process.wait()


def train_free(store: Store, rows: Iterable[Row], part: str) -> None:
    """Train, on these cores alone, those models of some rows that no other process is training."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in part.split(",")})
    for row in rows:
        for spec in row.specs():
            if not store.is_there(spec) and not store.is_training(spec):
                store.get(spec)
