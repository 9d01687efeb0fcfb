"""`python -m benchmarks profile`: a trace of some steps of training, for TensorBoard or Perfetto."""

from pathlib import Path

import jax

from jaxfit.trainer import Trainer

STEPS = 20


def trace(trainer: Trainer, folder: Path) -> int:
    """Write a trace of STEPS steps of a training, compiled beforehand; returns how many it had."""
    run = trainer.epoch_run()
    first = min(1, trainer.steps - 1)
    last = min(first + STEPS, trainer.steps)
    run(0, first)
    with jax.profiler.trace(str(folder)):
        run(first, last)
    return last - first
