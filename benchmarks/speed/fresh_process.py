"""One training in a process of its own: from its start, through imports and reading prepared ratings, to the result.

The process imports what the program needs and no more.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.speed.programs import trial
from jaxcf.data.ratings import Catalogue, Dataset, Ratings, RatingScale

PARTS, COLUMNS = ("train", "valid", "test"), ("user", "item", "stars")


class Seconds(NamedTuple):
    """What a process spent its time on, in seconds, and the test RMSE of what it trained.

    Attributes:
        start: the interpreter's, and imports.
        reading: the ratings, from a file.
        preparation: of data and model; compilation, which begins when a model is built, is not included.
        training: without compilation.
        compilation: tracing, lowering, compiling or reading from the cache.
        total: all, to the trained model.
    """

    start: float
    reading: float
    preparation: float
    training: float
    compilation: float
    total: float
    rmse: float


def write(data: Dataset, path: Path) -> None:
    """Write prepared ratings: what every program reads."""
    assert data.test is not None
    parts = zip(PARTS, (data.train, data.valid, data.test), strict=True)
    columns = {f"{part} {name}": getattr(ratings, name) for part, ratings in parts for name in COLUMNS}
    sizes = np.array([data.catalogue.num_users, data.catalogue.num_items])
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, sizes=sizes, scale=np.array(data.catalogue.scale), **columns)


def _read(path: str) -> Dataset:
    with np.load(path) as file:
        train, valid, test = (Ratings(*(file[f"{part} {name}"] for name in COLUMNS)) for part in PARTS)
        users, items = (np.arange(size) for size in file["sizes"])
        catalogue = Catalogue(users, items, RatingScale(*file["scale"].tolist()))
    return Dataset("ratings", train, valid, test, catalogue, "", "")


def measure(program: str, model: str, data: Path, options: dict[str, Any], cache: Path) -> Seconds:
    """Train once in a new process.

    Args:
        program: "jaxcf" or a peer's name.
        model: of jaxcf.
        data: prepared ratings, as `write` leaves them.
        options: of the program's `start`.
        cache: the folder of JAX's persistent compilation cache; an empty one is a cold cache.

    Raises:
        RuntimeError: the process failed.
    """
    environment = os.environ | {
        "JAX_ENABLE_COMPILATION_CACHE": "true", "JAX_COMPILATION_CACHE_DIR": str(cache.resolve()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }  # fmt: skip
    arguments = [json.dumps([program, model, str(data.resolve()), options]), repr(time.time())]
    command = [sys.executable, "-m", "benchmarks.speed.fresh_process", *arguments]
    root = Path(__file__).parents[2]  # the package is not installed
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{program} failed with {options}:\n{done.stderr}")
    return Seconds(*json.loads(done.stdout.splitlines()[-1]))


def train(name: str, model: str, path: str, options: dict[str, Any], *, began: float) -> Seconds:
    """Train with the arguments of `measure`, in a process that began at this time, in seconds since 1970."""
    program = _program(name, model)
    imported = time.time()
    data = _read(path)
    assert data.test is not None
    read = time.time()
    start = program.prepare(data)
    prepared = time.time()
    made = trial(start, options, data, data.test)
    return Seconds(
        imported - began, read - imported, prepared - read + made.preparation, made.training, made.compilation,
        prepared - began + made.preparation + made.training + made.compilation, made.rmse,
    )  # fmt: skip


def _program(name: str, model: str) -> Any:
    """Import a program."""
    if name == "jaxcf":
        from benchmarks.speed import own

        return own.program(model)
    from benchmarks.speed.peers import load
    from benchmarks.speed.peers.factorizers import PEERS

    load(PEERS[name].package)
    return PEERS[name]


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    print("\n" + json.dumps(train(*job, began=float(sys.argv[2]))))
