"""`suite --scaling`: how the speed of training grows with the number of devices.

Strong scaling splits a workload's minibatch over more devices, weak scaling gives each device as many examples as one
has alone. Numbers of devices are measured one after another, so that each has the memory to itself: on a machine whose
speed drifts, efficiencies include the drift.
"""

from dataclasses import replace
from typing import Any

import jax

from benchmarks.core import timing
from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import EpochTimer
from benchmarks.workloads.registry import Workload
from benchmarks.workloads.setup import Setup, set_up
from jaxfit.checks import check
from jaxfit.devices import sharding
from jaxfit.errors import UserError
from jaxfit.trainer import Trainer

STRONG, WEAK = "strong", "weak"


def numbers(most: int) -> list[int]:
    """Return 1, 2, 4, … devices, up to `most`.

    Raises:
        UserError: `most` is 1.
    """
    if most < 2:
        advice = "give --devices N; on a CPU, XLA_FLAGS=--xla_force_host_platform_device_count=N simulates N"
        raise UserError("scaling needs at least two devices", "--scaling", advice)
    return [1 << power for power in range(most.bit_length())]


def scaling(workload: Workload, unit: str, most: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Measure a workload on 1, 2, 4, … devices.

    Args:
        workload: as for one device.
        unit: of its events.
        most: maximum number of devices.
        seconds: minimum seconds of a sample.

    Returns:
        For each kind and number of devices: the minibatch, events per second, and the efficiency, which is
        rate / (devices × median rate of one device).

    Raises:
        UserError: the minibatch does not divide among the devices, or the model trains on one alone.
    """
    setup, rows, alone = set_up(workload), dict[str, dict[str, Any]](), 0.0
    assert isinstance(setup, Setup), "others run on one device"
    kinds = [(number, kind) for number in numbers(most) for kind in ((STRONG, WEAK) if number > 1 else ("",))]
    for number, _ in kinds:
        check(setup.program, workload.recipe(), sharding.make(number))
    for number, kind in kinds:
        batch = workload.batch_size * (number if kind == WEAK else 1)
        found = quartiles(_rates(setup, replace(workload, batch_size=batch), number, seconds))
        alone = alone or found["median"]
        rows[f"{kind}, {number} devices" if kind else "1 device"] = {
            "batch size": batch, f"{unit}/s": found,
            "efficiency": quartiles([rate / (number * alone) for rate in found["samples"]]),
        }  # fmt: skip
    return rows


def _rates(setup: Setup, workload: Workload, number: int, seconds: float) -> list[float]:
    """Measure events per second on `number` devices ROUNDS times, after a round to warm up."""
    key = jax.random.key(0)
    trainer = Trainer(setup.program, setup.init(key), setup.data, workload.recipe(), key, sharding.make(number))
    timer = EpochTimer(trainer, seconds)
    return [timer.rate() for _ in range(timing.ROUNDS + 1)][1:]
