"""`run --dry-run`: what a table would cost, from some steps of each shape of model it trains."""

import sys
import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table as RichTable

from benchmarks.core.row import trained
from benchmarks.core.store import Store
from benchmarks.core.table import Row, Table
from benchmarks.core.timing import EpochTimer
from benchmarks.measurement.memory import peak_memory
from jaxfit.cli import compilation_cache

WINDOW = 0.3  # seconds for which each program's steps are timed: a projection need not be precise
VALIDATION = 1 / 3  # time of an event relative to training: the gradient costs twice the loss


@dataclass
class DryRun:
    """Projected costs of tables, one after another: models of an earlier table count as found in a later one."""

    models: set[Hashable] = field(default_factory=set)  # missing models of the tables so far
    measured: dict[Hashable, dict[str, Any]] = field(default_factory=dict)  # shape -> measurements

    def project(self, table: Table, store: Store, rows: Iterable[Row]) -> dict[str, Any]:
        """Project hours and memory of the models of a table's rows, except those that are found."""
        wanted: dict[Any, None] = {}

        def want(spec: Any) -> None:
            for other in store.below(spec):
                want(other)
            wanted[spec] = None

        for row in rows:
            for spec in trained(table, row, store):
                want(spec)
        stepwise = [spec for spec in wanted if store.stepwise(spec)]
        missing = [spec for spec in stepwise if spec not in self.models and not store.is_there(spec)]
        self.models |= set(missing)
        shapes: dict[Hashable, list[Any]] = {}
        for spec in missing:
            shapes.setdefault(store.shape(spec), []).append(spec)
        new = [shape for shape in shapes if shape not in self.measured]
        for number, shape in enumerate(new, 1):
            started = time.perf_counter()
            self.measured[shape] = _measure(shapes[shape][0], store)
            seconds = time.perf_counter() - started
            said = f"  measured {self.measured[shape]['model']} in {seconds:.1f} s ({number} of {len(new)})"
            print(said, file=sys.stderr, flush=True)
        projected = []
        for shape, specs in shapes.items():
            one = self.measured[shape]
            training = len(specs) * one["minutes_per_epoch"] * one["epochs"] / 60
            projected.append({**one, "models": len(specs), "hours": one["compile_seconds"] / 3600 + training})
        return {
            "models": len(stepwise),
            "found": len(stepwise) - len(missing),
            "substitutes": store.substitutes,
            "shapes": projected,
            "hours": sum(each["hours"] for each in projected),
            "memory_gb": max((each["memory_gb"] for each in projected), default=0.0),
        }


@compilation_cache.disabled()
def _measure(spec: Any, store: Store) -> dict[str, Any]:
    trainer = store.trainer(spec)
    timer = EpochTimer(trainer, WINDOW)
    epoch = timer.seconds()
    whole = epoch * (1 + VALIDATION * store.num_valid / trainer.events)
    return {
        "model": store.title(spec),
        "seconds_per_step": epoch / trainer.steps,
        "events": store.event(spec.model),
        "events_per_second": trainer.events / epoch,
        "padding_ratio": timer.padding(),
        "minutes_per_epoch": whole / 60,
        "epochs": trainer.recipe.epochs,
        "compile_seconds": trainer.compile_seconds,
        "memory_gb": peak_memory() / 1e9,
    }


def shown(name: str, projected: dict[str, Any]) -> RichTable:
    """Show the projection for people."""
    table = RichTable(
        "model", "models", "speed", "padding", "min/epoch", "epochs at most", "hours", "memory so far, GB",
        title=f"{name}: {projected['models']} models, {projected['found']} of them trained already or counted above; "
        f"at most {projected['hours']:.2f} hours and {projected['memory_gb']:.1f} GB",
        title_justify="left",
        caption=f"{projected['substitutes']}padding: capacity of minibatches over what is in it",
    )  # fmt: skip
    for row in projected["shapes"]:
        table.add_row(
            row["model"], str(row["models"]), f"{row['events_per_second']:,.0f} {row['events']}/s",
            f"{row['padding_ratio']:.2f}", f"{row['minutes_per_epoch']:.2f}",
            str(row["epochs"]), f"{row['hours']:.2f}", f"{row['memory_gb']:.2f}",
        )  # fmt: skip
    return table
