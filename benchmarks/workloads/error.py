"""How far training on this device departs from the same training in float64 on a CPU."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from benchmarks.core.timing import mean_score
from benchmarks.workloads.registry import Workload
from benchmarks.workloads.setup import Setup, set_up
from jaxfit.trainer import Trainer

STEPS, EXAMPLES, DATA, RATE = 10, 64, 100_000, 0.1  # of words or ratings; the rate moves what ten steps later compute


def errors(workload: Workload, precisions: Mapping[str, str]) -> dict[str, float | None]:
    """Return, for each precision, the relative error of the mean loss of STEPS steps of at most EXAMPLES examples.

    None for a model whose loss is drawn: in float64 it draws other numbers.

    Args:
        workload: of which the tables keep their sizes, so that sums are as long.
        precisions: by name, what `jax.default_matmul_precision` takes.
    """
    setup = set_up(replace(workload, batch_size=min(workload.batch_size, EXAMPLES)), DATA)
    recipe = replace(
        workload.recipe(), optimizer="sgd", batch_size=min(workload.batch_size, EXAMPLES), rate={"*": RATE},
        decay={"*": 0.0},
    )  # fmt: skip

    def loss(params: Any, step: int) -> float:
        trainer = Trainer(setup.program, params, setup.data, recipe, jax.random.key(0), None)
        trainer.step_key = jax.random.key(step)
        trainer.epoch_run()(0, STEPS)
        return mean_score(trainer)

    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        exact = _in_float64(setup)
        reference, other = loss(exact, 0), loss(exact, 1)
    if reference != other:
        return dict.fromkeys(precisions)
    found: dict[str, float | None] = {}
    for name, precision in precisions.items():
        with jax.default_matmul_precision(precision):
            found[name] = abs(loss(setup.init(jax.random.key(0)), 0) / reference - 1)
    return found


def _in_float64(setup: Setup) -> Any:
    """Return the initial parameters of float32, of which float64 has the same numbers."""
    with jax.enable_x64(False):
        params = jax.device_get(setup.init(jax.random.key(0)))
    return jax.tree.map(lambda x: np.asarray(x, np.float64), params)
