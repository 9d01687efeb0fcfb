"""Workloads that are fitted by sweeps over all parameters, such as alternating solutions, on one device."""

from typing import Any

import jax
import numpy as np

from benchmarks.core.timing import windowed
from benchmarks.workloads.setup import SweepsSetup

SWEEPS = 2  # after which parameters are compared with those of float64
PRECISIONS = ("float32",)  # in which exact solutions compute their matrix products, whatever JAX's default
REFUSED = "it runs on one device"


class SweepTimer:
    """Times whole sweeps, as `EpochTimer` does steps.

    Args:
        window: seconds for which sweeps are repeated at least; None: `timing.WINDOW`.
    """

    def __init__(self, setup: SweepsSetup, window: float | None = None):
        self.setup, self.window = setup, window
        self._sweep, (self._params, *self._rest) = program(setup)

    def rate(self) -> float:
        """Measure ratings per second, of which a sweep goes through all; the first call compiles."""
        return self.setup.num_ratings / float(np.mean(windowed(self._once, self.window)))

    def padding(self) -> float:
        """Return the numbers of the largest array of the data, one for each rating if nothing is padded, per rating."""
        return max(x.size for x in jax.tree.leaves(self.setup.data)) / self.setup.num_ratings

    def _once(self) -> None:
        self._params = jax.block_until_ready(self._sweep(self._params, *self._rest))


def program(setup: SweepsSetup) -> tuple[Any, tuple[Any, Any, jax.Array]]:
    """Return the compiled function that makes a sweep, and what it is called with: parameters, data and key."""
    return jax.jit(setup.sweeps.sweep), (setup.sweeps.params, setup.data, jax.random.key(0))


def swept(setup: SweepsSetup, params: Any, seed: int) -> tuple[float, Any]:
    """Make some sweeps; returns the objective after them, and the parameters."""
    sweep, (_, data, _) = program(setup)
    data, key = jax.device_get(data), jax.random.key(seed)  # where they lie now need not be where this computes
    for number in range(SWEEPS):
        params = sweep(params, data, jax.random.fold_in(key, number))
    return setup.sweeps.objective(params), params
