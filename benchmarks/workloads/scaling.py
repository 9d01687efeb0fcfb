"""`suite --scaling`: how the speed of training grows with the number of devices.

Strong scaling splits a workload's minibatch over more devices, weak scaling gives each device as many examples as one
has alone. Numbers of devices are measured one after another, so that each has the memory to itself.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax

from benchmarks.core import timing
from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import EpochTimer
from benchmarks.workloads.registry import Workload
from benchmarks.workloads.setup import set_up
from jaxfit.devices import sharding
from jaxfit.errors import UserError
from jaxfit.trainer import Trainer

STRONG, WEAK = "strong", "weak"


def numbers(most: int) -> list[int]:
    """Return 1, 2, 4, … devices, up to `most`.

    Raises:
        UserError: there is but one.
    """
    if most < 2:
        advice = "give --devices N; on a CPU, XLA_FLAGS=--xla_force_host_platform_device_count=N simulates N"
        raise UserError("one device does not scale", "--scaling", advice)
    return [1 << power for power in range(most.bit_length())]


def scaling(workload: Workload, unit: str, most: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Measure a workload on 1, 2, 4, … devices.

    Args:
        workload: of one device.
        unit: of its events.
        most: devices.
        seconds: of a sample, at least.

    Returns:
        For each kind and number, its minibatch, its events per second, and its efficiency: these over the median of one
        device, times the number of devices.
    """
    setup, rows, alone = set_up(workload), dict[str, dict[str, Any]](), 0.0
    for number in numbers(most):
        for kind in (STRONG, WEAK) if number > 1 else ("",):
            batch = workload.batch_size * (number if kind == WEAK else 1)
            recipe, key = replace(workload, batch_size=batch).recipe(), jax.random.key(0)
            trainer = Trainer(setup.program, setup.init(key), setup.data, recipe, key, sharding.make(number))
            found = quartiles(samples(EpochTimer(trainer, seconds).rate))
            alone = alone or found["median"]
            rows[f"{kind}, {number} devices" if kind else "1 device"] = {
                "batch size": batch, f"{unit}/s": found,
                "efficiency": quartiles([rate / (number * alone) for rate in found["samples"]]),
            }  # fmt: skip
    return rows


def samples(rate: Callable[[], float]) -> list[float]:
    """Measure a rate as often as all that is measured in rounds, after one time to warm up."""
    return [rate() for _ in range(timing.ROUNDS + 1)][1:]
