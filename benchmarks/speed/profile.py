"""`python -m benchmarks profile`: a trace of some steps of training, for TensorBoard or Perfetto."""

from pathlib import Path

import jax

from benchmarks.language.models import Shelf, Spec

STEPS = 20
MODELS = {
    "lbl": Spec("lbl"),
    "hlbl": Spec("hlbl"),
    "hlbl-x4": Spec("hlbl", tree=("random", 0.0, 4)),
}


def trace(name: str, shelf: Shelf, folder: Path) -> int:
    """Write a trace of STEPS steps of a model's training, compiled beforehand; returns how many it had."""
    trainer, _ = shelf.trainer(MODELS[name])
    run = trainer.epoch_run()
    first = min(1, trainer.steps - 1)
    last = min(first + STEPS, trainer.steps)
    run(0, first)
    with jax.profiler.trace(str(folder)):
        run(first, last)
    return last - first
