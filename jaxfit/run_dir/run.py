"""How a training is run, apart from what determines its result, and the outcome of a training."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from jaxfit.recipe import option, require_bounds

if TYPE_CHECKING:
    from jaxfit.fit import Fitted

AnyModel = TypeVar("AnyModel")

FROM_PYTHON = ("show", "on_epoch")  # fields of Run that are no options


@dataclass(frozen=True)
class Run:
    """How a training is run.

    Devices, split tables, streamed data and threads change its result by rounding, `max_minutes` by stopping before the
    end; the rest changes nothing.
    """

    resume: bool = option(False, "go on with the training in --out", first=True)
    devices: int = option(1, "devices to train on, of each process", "devices")
    row_shards: int = option(
        1, "split the rows of large tables over groups of so many devices, in place of a copy on each", "devices"
    )
    stream: bool = option(False, "keep the data in the host's memory; a device receives its part of each minibatch")
    threads: int = option(
        0, "threads of a CPU; 0: one, if the model's steps are too small to be shared, else one for each core",
        "threads", low=0,
    )  # fmt: skip
    max_minutes: float | None = option(None, "stop after this time, resumable", "minutes")
    checkpoint_minutes: float = option(5.0, "save within an epoch after this time", "minutes")
    show: bool = option(False, "show progress on standard error")
    on_epoch: Callable[[dict[str, Any]], None] | None = None  # from Python alone: called with each line of the journal

    def __post_init__(self) -> None:
        require_bounds(self)


class Trained(NamedTuple, Generic[AnyModel]):
    """A trained model and how its training went.

    Attributes:
        model: as loading its folder gives it.
        fitted: how the engine trained it; None for another way of fitting, or where the training had finished before.
        seconds: by phase, of this run; {} where the training had finished before.
        stopped: "done" or "max-minutes".
    """

    model: AnyModel
    fitted: "Fitted | None"
    seconds: dict[str, float]
    stopped: str = "done"

    @property
    def events_per_second(self) -> float | None:
        """Events that the engine trained on per second."""
        fitted = self.fitted
        return fitted.events / fitted.train_seconds if fitted and fitted.train_seconds else None
