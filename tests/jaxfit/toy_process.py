"""One of two processes that train the toy: `python toy_process.py PORT ME FOLDER TROUBLE`.

Each trains on one device, one step a chunk, resuming what is there. With TROUBLE yes, process 1 gets a Ctrl-C in its
5th chunk, is then given something else to train than process 0, and is killed in its 9th chunk. With TROUBLE no, data
stay in the host's memory. With TROUBLE split, the two share the rows of the table, and their clocks differ, by which
epochs are worth saving; before that, they begin with different parameters.
"""

import math
import os
import signal
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

import toy
from jaxfit import fit
from jaxfit.cli.command import run
from jaxfit.cli.parser import Parser
from jaxfit.devices import distributed as processes
from jaxfit.devices import sharding as mesh
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe
from jaxfit.trainer import Trainer

RECIPE = Recipe(optimizer="adam", batch_size=16, epochs=3, rate={"*": 0.02, "a": 0.01}, decay={"*": 0.3, "a": 0.1})


def train(directory: Path, devices: Any, what: str = "toy", seed: int = 0, stream: bool = False) -> fit.Fitted:
    """Train the toy, with draws in it; seed: of the initial parameters."""
    data = toy.data(jax.random.key(1))
    return fit.fit(
        toy.program(by_rows=True, noise=0.1), toy.init(jax.random.key(seed)), data, data, recipe=RECIPE,
        key=jax.random.key(2), directory=directory, mesh=devices, stream=stream, resume=True, identity={"model": what},
    )  # fmt: skip


def main(port: str, me: str, folder: str, trouble: str) -> int:
    """Train as a command does, and keep the parameters."""
    processes.join(processes.Join(f"localhost:{port}", 2, int(me)))
    fit.CHUNK_SECONDS = 1e-9  # 7 steps an epoch
    fit.SAVING_SHARE = math.inf if trouble != "split" or me == "0" else 1e-9  # every best epoch is saved, or none

    def work(_: Any) -> None:
        with processes.folder(Path(folder)) as place:
            assert (place == Path(folder)) == processes.leads()
            if trouble == "yes":
                get_into_trouble(place, int(me))
            devices = mesh.make(1, row_shards=2 if trouble == "split" else 1)
            if trouble == "split":
                try:
                    train(place, devices, seed=int(me))
                except UserError as error:
                    print(error, file=sys.stderr, flush=True)
            fitted = train(place, devices, stream=trouble == "no")
            if processes.leads():
                np.savez(Path(folder) / "parameters.npz", **fitted.params._asdict())

    def build() -> Parser:
        parser = Parser("toy")
        parser.set_defaults(run=work)
        return parser

    return run("toy", build, [])


def get_into_trouble(place: Path, me: int) -> None:
    """Try all that may happen to process 1, and what process 0 says of it."""
    real, chunks = fit._check_finite, []

    def check(trainer: Trainer, directory: Path | None) -> None:
        chunks.append(trainer.progress.at)
        for count, sent in ((5, signal.SIGINT), (9, signal.SIGKILL)):
            if me == 1 and len(chunks) == count:
                os.kill(os.getpid(), sent)
        real(trainer, directory)

    fit._check_finite = check
    try:
        train(place, mesh.make(1))
    except fit.Interrupted:
        print("stopped at step", chunks[-1], file=sys.stderr)
    try:
        train(place, mesh.make(1), what=f"toy {me}")
    except UserError as error:
        print(error, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
