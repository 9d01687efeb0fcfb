"""How a training is run, apart from what determines its result."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Run:
    """How a training is run: the number of devices changes its result within rounding, the rest not at all."""

    resume: bool = field(default=False, metadata={"help": "go on with the training in --out"})
    devices: int = field(
        default=1, metadata={"help": "devices to train on, of each process", "unit": "devices"}
    )
    max_minutes: float | None = field(
        default=None, metadata={"help": "stop after this time, resumable", "unit": "minutes"}
    )
    checkpoint_minutes: float = field(
        default=5.0, metadata={"help": "save within an epoch after this time", "unit": "minutes"}
    )
    show: bool = field(default=False, metadata={"help": "show progress on standard error"})
