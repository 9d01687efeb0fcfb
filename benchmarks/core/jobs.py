"""Train a command's models in several processes, each on a part of the cores, before anything is measured.

The models of most tables are too small for all cores of a CPU. Each process runs the same command and trains, in the
order of the rows, the models that are missing and that no other process is training.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence

from benchmarks.core.store import Store
from benchmarks.core.table import Row
from jaxfit.devices.cores import NPROC, cores
from jaxfit.errors import UserError

HELPER = "--helper"  # hidden option of such a process; its value lists its cores: 0,2


def check(number: int) -> None:
    """Raise UserError for more processes than cores, and on systems without locks between trainings."""
    if number > 1 and os.name != "posix":
        raise UserError("this system has no locks between trainings", "--jobs", "leave it out")
    if number > cores():
        raise UserError(f"{number} trainings at a time on {_cores(cores())}", "--jobs", f"give at most {cores()}")


def _cores(number: int) -> str:
    return f"{number} core{'s' * (number != 1)}"


def side_by_side(arguments: Sequence[str], number: int) -> None:
    """Run a command of `python -m benchmarks` in `number` processes at once; each trains a part of its models.

    Return when all have ended, even by an error: a model that is then missing is trained, or fails, when it is
    measured.
    """
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(cores()))
    processes = []
    try:
        for i in range(number):
            part = mine[i::number]
            words = [sys.executable, "-m", "benchmarks", *arguments, HELPER, ",".join(map(str, part))]
            environment = {**os.environ, NPROC: str(len(part))}
            # a pipe ends with this process
            process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            processes.append(process)
        for process in processes:
            process.wait()
    finally:
        for process in processes:
            process.terminate()  # it saves its training; no effect on one that has ended
        for process in processes:
            process.wait()
            assert process.stdin is not None
            process.stdin.close()


def end_with_parent() -> None:
    """Let this process be stopped, as by SIGTERM, once its standard input ends: the one that started it is gone."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def train_free(store: Store, rows: Iterable[Row], part: str) -> None:
    """Train those models of some rows that no other process is training.

    Args:
        store: of the models.
        rows: in the order in which they are trained.
        part: the only cores to use: "0,2".
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in part.split(",")})
    for row in rows:
        for spec in row.specs():
            if not store.is_there(spec) and not store.is_training(spec):
                store.get(spec)
