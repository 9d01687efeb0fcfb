"""A training in a process of its own that can be killed.

It trains an hlbl over a learned tree, and so its bootstrap, in a folder, resuming what is there. When a moment comes
for the given time, it says so and waits to be killed; the delays are put into the program from outside.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import orbax.checkpoint as ocp

from jaxfit import fit
from jaxfit.recipe import Recipe
from jaxfit.run_dir import checkpoint, journal
from jaxfit.run_dir import metadata as model_directory
from jaxfit.run_dir.run import Run
from jaxlm.data.corpus import Corpus
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.models.hlbl.tree import TreeOptions
from jaxlm.training import train
from jaxlm.trees import build as trees

# 15 steps an epoch; the rate drops on the way
RECIPE = Recipe(
    optimizer="adam", batch_size=100, epochs=4, rate={"*": 0.1}, decay={"*": 0.02, "b": 0.0}, drops=(0.3, 0.1)
)
CONFIG = {"num_features": 6, "context_size": 2, "dropout": 0.1}
TREE = TreeOptions("adaptive", epsilon=0.3, copies=2)


def corpus() -> Corpus:
    """Draw a small text with little to learn, so that training overfits, and rates drop."""
    draw = np.random.default_rng(0)
    ids = [0]
    for step in draw.geometric(0.05, 1899):
        ids.append(int(ids[-1] + step) % 30)
    text = np.array(ids, np.int32)
    names = [f"w{i}" for i in range(29)]
    vocabulary = Vocabulary.from_words(names, dict.fromkeys(names, 1))
    return Corpus("counting", text[:1500], text[1500:], text[:0], vocabulary, "none", "a toy")


def main(folder: Path, come: Event, moment: str | None = None, count: int = 1) -> None:
    """Train; with a moment in small chunks and with many checkpoints, without one as anybody would.

    Args:
        folder: of the model.
        come: set when the moment comes.
        moment: a key of MOMENTS.
        count: which time it comes.
    """
    run = Run(resume=True)
    if moment:
        fit.CHUNK_SECONDS, fit.time = 1e-9, clock()  # one step a chunk
        run = Run(resume=True, checkpoint_minutes=2.5 / 60)
        MOMENTS[moment](count, come)
    _keep_last_checkpoints()
    train("hlbl", corpus(), folder, recipe=RECIPE, config=CONFIG, structure=TREE, run=run)


def clock() -> SimpleNamespace:
    """Return what takes the place of the module `time`: seconds that pass by being asked for, once or twice a chunk."""
    ticks = iter(range(10**9))
    return SimpleNamespace(monotonic=lambda: float(next(ticks)), perf_counter=time.perf_counter)


def _keep_last_checkpoints() -> None:
    """Copy the last checkpoint to `last`, where the finished training removes it."""
    drop = model_directory.drop_checkpoints

    def keep(directory: Path) -> None:
        if not (directory / "last").exists():
            shutil.copytree(checkpoint.every(directory)[-1], directory / "last")
        drop(directory)

    model_directory.drop_checkpoints = keep


def _in(
    owner: Any, name: str, of: Callable[..., bool] = lambda *_: True, then: Any = None
) -> Callable[[int, Event], None]:
    """Wait within the `count`th call of owner.name whose arguments are such; `then`: what to do there first."""

    def set_up(count: int, come: Event) -> None:
        real, seen = getattr(owner, name), []

        def call(*args: Any, **options: Any) -> Any:
            if of(*args):
                seen.append(1)
                if len(seen) == count:
                    if then:
                        then(real, *args, **options)
                    come.set()
                    time.sleep(60)
            return real(*args, **options)

        setattr(owner, name, call)

    return set_up


def _is_checkpoint(path: Path, *_: Any) -> bool:
    return Path(path).name.startswith("checkpoint-")


def _is_manifest(path: Path, *_: Any) -> bool:
    return path.name == "manifest.json" and path.parent.name.startswith(".checkpoint-")


def _begin(write: Callable[..., None], *args: Any, **options: Any) -> None:
    threading.Thread(target=write, args=args, kwargs=options, daemon=True).start()


def _remove_half(remove: Callable[..., None], path: Path) -> None:
    (path / "manifest.json").unlink()
    remove(path / "arrays" / "d")


MOMENTS: dict[str, Callable[[int, Event], None]] = {
    "chunk": _in(fit, "_check_finite"),
    "arrays": _in(ocp.Checkpointer, "save", then=_begin),
    "manifest": _in(Path, "write_text", _is_manifest),
    "rename": _in(os, "replace", lambda _, path: _is_checkpoint(path)),
    "pruning": _in(shutil, "rmtree", _is_checkpoint, then=_remove_half),
    "validation": _in(fit, "_end_epoch"),
    "journal": _in(journal.Journal, "time"),
    "tree": _in(trees, "log_odds"),
    "config": _in(model_directory, "write_info"),
}  # fmt: skip
