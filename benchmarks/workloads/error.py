"""How far training on this device departs from the same training in float64 on a CPU."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from benchmarks.core.timing import mean_score
from benchmarks.workloads.registry import Workload
from benchmarks.workloads.setup import Setup, SweepsSetup, set_up
from benchmarks.workloads.sweeps import swept
from jaxfit.recipe import Recipe
from jaxfit.state import current
from jaxfit.trainer import Trainer

STEPS, EXAMPLES, DATA = 10, 64, 100_000  # steps; examples of a minibatch at most; words or ratings
RATE, RATE_OF_VISITS = 0.1, 1e-3  # learning rates: of a step by a minibatch's mean, of one by each rating
BLOCK = 1 << 22  # numbers that are compared at a time
OF_LOSS, OF_STEPS = "error of the loss", "error of the steps"


def errors(workload: Workload, precisions: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Return, for each precision, how far STEPS steps of at most EXAMPLES examples are from those in float64.

    OF_LOSS is the relative error of the mean of their losses, which are summed in float32 everywhere; OF_STEPS is the
    distance between the parameters after them, relative to how far the parameters moved. Models that draw random
    numbers have neither: a draw differs if its probability is within rounding of the uniform number, and then
    everything after it differs. In sweeps, a few replace the steps, and the objective the loss.

    Args:
        workload: its tables keep their sizes, so that sums are as long.
        precisions: name -> argument of `jax.default_matmul_precision`.

    Raises:
        ValueError: the steps diverge in float64.
    """
    workload = replace(workload, batch_size=min(workload.batch_size, EXAMPLES))
    setup = set_up(workload, DATA)
    run: Any = partial(swept, setup) if isinstance(setup, SweepsSetup) else partial(_stepped, setup, workload.recipe())

    def trained(params: Any, seed: int) -> tuple[float, list[np.ndarray]]:
        loss, params = run(params, seed)
        return loss, [np.asarray(x) for x in jax.tree.leaves(params)]

    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        exact = _in_float64(setup)
        loss, after = trained(exact, 0)
        draws = _distance(trained(exact, 1)[1], after) != 0
    moved, found = _distance(after, jax.tree.leaves(exact)), {}
    del exact  # tables can be as large as half of the memory
    if not np.isfinite(moved):
        raise ValueError(f"the steps of {workload.name} diverge in float64: lower their rate")
    if draws:
        return {name: {} for name in precisions}
    for name, precision in precisions.items():
        with jax.default_matmul_precision(precision):
            theirs, there = trained(setup.init(jax.random.key(0)), 0)
        found[name] = {OF_LOSS: abs(theirs / loss - 1), OF_STEPS: _distance(there, after) / moved}
    return found


def _stepped(setup: Setup, recipe: Recipe, params: Any, seed: int) -> tuple[float, Any]:
    """Take STEPS steps with a recipe's minibatches; return the mean of their losses, and the parameters after them."""
    rate = RATE if setup.program.visits is None else RATE_OF_VISITS
    recipe = replace(recipe, optimizer="sgd", rate={"*": rate}, decay={"*": 0.0})
    trainer = Trainer(setup.program, params, setup.data, recipe, jax.random.key(0), None)
    trainer.step_key = jax.random.key(seed)
    trainer.epoch_run()(0, STEPS)
    return mean_score(trainer), current(trainer.state)


def _distance(ones: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> float:
    """Return the Euclidean distance of two sets of parameters, summed in float64, BLOCK numbers at a time."""
    total = 0.0
    for one, other in zip(ones, others, strict=True):
        one, other = one.reshape(-1), other.reshape(-1)
        for at in range(0, len(one), BLOCK):
            difference = one[at : at + BLOCK].astype(np.float64) - other[at : at + BLOCK]
            total += float(difference @ difference)
    return math.sqrt(total)


def _in_float64(setup: Setup | SweepsSetup) -> Any:
    """Return the initial float32 parameters, converted to float64, which is exact."""
    with jax.enable_x64(False):
        params = jax.device_get(setup.init(jax.random.key(0)))
    return jax.tree.map(lambda x: np.asarray(x, np.float64), params)
