"""`run --dry-run`: what a table would cost, from some steps of each shape of model it trains."""

import resource
import sys
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np
from rich.table import Table as RichTable

from benchmarks.core.table import Table, named
from jaxfit.bucketing import Plan
from jaxfit.trainer import Trainer

STEPS = 50  # at least, and more where they take less than …
SECONDS = 0.3  # … in which short steps of a few ratings are told from noise
VALIDATION = 1 / 3  # of a training step's time for each event: the gradient costs twice the loss


class Shelf(Protocol):
    """What a projection needs of a shelf."""

    scale: Any
    unit: str  # of speeds
    stand_in: str  # what of a projection is not as in training

    def is_there(self, spec: Any) -> bool:
        """Whether the model need not be trained any more."""
        ...

    def below(self, spec: Any) -> Iterable[Any]:
        """Models that must be trained before this one."""
        ...

    def shape(self, spec: Any) -> Hashable:
        """Models of the same shape take the same time; None: those that no step-by-step training makes."""
        ...

    def trainer(self, spec: Any) -> tuple[Trainer, str]:
        """The training of a model of this shape, at its first step, and the model's name."""
        ...

    def validation(self) -> int:
        """How many words or ratings are scored after each epoch."""
        ...


@dataclass
class DryRun:
    """What tables would cost, one after another: what an earlier one trains, a later one finds."""

    models: set[Hashable] = field(default_factory=set)  # of the tables so far
    measured: dict[Hashable, dict[str, Any]] = field(default_factory=dict)  # of their shapes

    def project(self, table: Table, shelf: Shelf, seeds: int | None, only: str | None) -> dict[str, Any]:
        """Hours and memory that the table's models would take, those left out that are found; only: as `named`."""
        wanted: dict[Any, None] = {}

        def want(spec: Any) -> None:
            for other in shelf.below(spec):
                want(other)
            wanted[spec] = None

        for row in named(table.rows(shelf.scale, seeds), only):
            for spec in (spec for specs in row.draws for spec in specs):
                want(spec)
        stepped = [spec for spec in wanted if shelf.shape(spec) is not None]
        missing = [
            spec for spec in stepped
            if (shelf.unit, spec) not in self.models and not shelf.is_there(spec)
        ]  # fmt: skip
        self.models |= {(shelf.unit, spec) for spec in missing}
        shapes: dict[Hashable, list[Any]] = {}
        for spec in missing:
            shapes.setdefault((shelf.unit, shelf.shape(spec)), []).append(spec)
        new = [shape for shape in shapes if shape not in self.measured]
        for number, shape in enumerate(new, 1):
            started = time.perf_counter()
            self.measured[shape] = _measure(shapes[shape][0], shelf)
            seconds = time.perf_counter() - started
            said = f"  measured {self.measured[shape]['model']} in {seconds:.1f} s ({number} of {len(new)})"
            print(said, file=sys.stderr, flush=True)
        rows = [_for_all(self.measured[shape], len(specs)) for shape, specs in shapes.items()]
        return {
            "models": len(stepped),
            "found": len(stepped) - len(missing),
            "unit": shelf.unit,
            "stand_in": shelf.stand_in,
            "shapes": rows,
            "hours": sum(row["hours"] for row in rows),
            "memory_gb": max((row["memory_gb"] for row in rows), default=0.0),
        }


def _measure(spec: Any, shelf: Shelf) -> dict[str, Any]:
    """What the training of one model takes."""
    trainer, label = shelf.trainer(spec)
    laid = trainer.laid_out()
    epoch = _epoch_seconds(laid, trainer.epoch_run())
    whole = epoch * (1 + VALIDATION * shelf.validation() / trainer.events)
    return {
        "model": label,
        "seconds_per_step": epoch / trainer.steps,
        f"{shelf.unit}_per_second": trainer.events / epoch,
        "padding_ratio": _padding(trainer, laid),
        "minutes_per_epoch": whole / 60,
        "epochs": trainer.recipe.epochs,
        "compile_seconds": trainer.compile_seconds,
        "memory_gb": _peak_memory() / 1e9,
    }


def _for_all(one: dict[str, Any], models: int) -> dict[str, Any]:
    """The training of all models of one shape."""
    training = models * one["minutes_per_epoch"] * one["epochs"] / 60
    return {**one, "models": models, "hours": one["compile_seconds"] / 3600 + training}


def epoch_seconds(trainer: Trainer, turns: int) -> float:
    """How long an epoch takes, without validation and compilation: a median over turns of some steps each."""
    laid, run = trainer.laid_out(), trainer.epoch_run()
    return float(np.median([_epoch_seconds(laid, run) for _ in range(turns)]))


def _epoch_seconds(laid: Plan, run: Callable[[int, int], None]) -> float:
    """From some steps of each compiled program, weighed by how many steps of an epoch are its."""
    seconds = 0.0
    for room in {stretch.room for stretch in laid.stretches}:
        mine = [stretch for stretch in laid.stretches if stretch.room == room]
        begin, last = mine[0].begin, mine[0].end
        if begin + 1 < last:  # the first step of a program may be slow
            run(begin, begin := begin + 1)
        end, before, took = begin, time.perf_counter(), 0.0
        while took < SECONDS and end < last:
            run(end, end := min(last, end + STEPS))
            took = time.perf_counter() - before
        steps = sum(stretch.end - stretch.begin for stretch in mine)
        seconds += took / (end - begin) * steps
    return seconds


def _padding(trainer: Trainer, laid: Plan) -> float:
    """Room of all minibatches over the entries in it; 1 where examples are of one size."""
    if trainer.costs is None:
        return 1.0
    room = sum((stretch.end - stretch.begin) * float(np.sum(stretch.room)) for stretch in laid.stretches)
    return room / float(np.sum(trainer.costs, dtype=np.int64))


def _peak_memory() -> float:
    """Bytes in use at most, on the accelerator, or of this process where the CPU is the device."""
    stats = jax.devices()[0].memory_stats()
    if stats and "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def shown(name: str, projected: dict[str, Any]) -> RichTable:
    """The projection for people."""
    unit = projected["unit"]
    table = RichTable(
        "model", "models", f"{unit}/s", "padding", "min/epoch", "epochs at most", "hours", "memory so far, GB",
        title=f"{name}: {projected['models']} models, {projected['found']} of them trained already or counted above; "
        f"at most {projected['hours']:.2f} hours and {projected['memory_gb']:.1f} GB",
        title_justify="left",
        caption=f"{projected['stand_in']}padding: room of minibatches over what is in it",
    )  # fmt: skip
    for row in projected["shapes"]:
        table.add_row(
            row["model"], str(row["models"]), f"{row[f'{unit}_per_second']:,.0f}",
            f"{row['padding_ratio']:.2f}", f"{row['minutes_per_epoch']:.2f}",
            str(row["epochs"]), f"{row['hours']:.2f}", f"{row['memory_gb']:.2f}",
        )  # fmt: skip
    return table
