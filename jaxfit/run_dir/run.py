"""How a training is run, apart from what determines its result."""

from dataclasses import dataclass

from jaxfit.recipe import option


@dataclass(frozen=True)
class Run:
    """How a training is run: the number of devices changes its result within rounding, the rest not at all."""

    resume: bool = option(False, "go on with the training in --out")
    devices: int = option(1, "devices to train on, of each process", "devices")
    max_minutes: float | None = option(None, "stop after this time, resumable", "minutes")
    checkpoint_minutes: float = option(5.0, "save within an epoch after this time", "minutes")
    show: bool = option(False, "show progress on standard error")
