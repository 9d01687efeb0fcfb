"""Workloads that are fitted by sweeps over all parameters, such as alternating solutions, on one device."""

from typing import Any

import jax
import numpy as np

from benchmarks.core.timing import windowed
from benchmarks.workloads.setup import SweepsSetup

SWEEPS = 2  # after which parameters are compared with those in float64
PRECISIONS = ("float32",)  # in which exact solutions compute their matrix products, whatever JAX's default
REFUSED = "it runs on one device"


class SweepTimer:
    """Timer of whole sweeps, as `EpochTimer` is of steps.

    Args:
        window: minimum seconds for which sweeps are repeated; None: `timing.WINDOW`.
    """

    def __init__(self, setup: SweepsSetup, window: float | None = None):
        self.setup, self.window = setup, window
        self._sweep, (self._params, *self._rest) = program(setup)

    def rate(self) -> float:
        """Measure ratings per second, where a sweep goes through all ratings; the first call compiles."""
        return self.setup.num_ratings / float(np.mean(windowed(self._once, self.window)))

    def padding(self) -> float:
        """Return the size of the largest array of the data over the number of ratings: 1 if nothing is padded."""
        return max(x.size for x in jax.tree.leaves(self.setup.data)) / self.setup.num_ratings

    def _once(self) -> None:
        self._params = jax.block_until_ready(self._sweep(self._params, *self._rest))


def program(setup: SweepsSetup) -> tuple[Any, tuple[Any, Any, jax.Array]]:
    """Return the compiled function that makes a sweep, and what it is called with: parameters, data and key."""
    return jax.jit(setup.sweeps.sweep), (setup.sweeps.params, setup.data, jax.random.key(0))


def swept(setup: SweepsSetup, params: Any, seed: int) -> tuple[float, Any]:
    """Make SWEEPS sweeps; return the objective after them, and the parameters."""
    sweep, (_, data, _) = program(setup)
    data, key = jax.device_get(data), jax.random.key(seed)  # they may be on another device than this computation
    for number in range(SWEEPS):
        params = sweep(params, data, jax.random.fold_in(key, number))
    return setup.sweeps.objective(params), params
