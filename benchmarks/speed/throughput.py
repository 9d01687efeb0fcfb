"""Training speed of every model that the engine fits: events per second, limits, compilation, memory."""

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import MISSING, fields
from functools import partial
from typing import Any

import numpy as np

from benchmarks.core import timing
from benchmarks.core.statistics import quartiles
from benchmarks.core.store import Store
from benchmarks.core.timing import EpochTimer, interleaved
from benchmarks.measurement import compilation, limits
from benchmarks.measurement.memory import memory_in_use, peak_memory, restart_peak
from jaxfit.trainer import Trainer

START, MEMORY, TRAINING = "until the first step", "peak memory", "training"
LIMITS_THEN = f"{limits.LIMITS} in the rounds of first steps"
MEGA = "MB"
# Figures of a name: its "setting", "tables" and "curves", as `benchmarks.speed.page` shows them; "limits": title of a
# table -> title of the table of limits measured in its rounds, if not limits.LIMITS; "search": see `recommenders`.
Figures = dict[str, Any]


def measure(stores: Mapping[str, Store], compile_anew: bool = True) -> dict[str, Figures]:
    """Train some steps of each model, in alternating rounds with the limits of the device.

    Args:
        stores: a store for each model, by the model's name; the model has the size that is usual at the store's scale.
        compile_anew: whether to compile without the persistent cache, and to measure the time until the first step.

    Returns:
        For each model: words or ratings per second of an epoch without validation, and its share of the limits, by the
        model's formula; seconds until the first step; peak memory by phase.
    """
    trainers, figures = {}, {}
    for name, store in stores.items():
        trainers[name], figures[name] = _prepared(name, store, compile_anew)
        print(f"  prepared {name}", file=sys.stderr, flush=True)
    if compile_anew:
        starts, rates_then = _starts(trainers)
        for name, found in starts.items():
            figures[name]["tables"] |= {START: found, LIMITS_THEN: limits.table(rates_then)}
            figures[name]["limits"] = {START: LIMITS_THEN}
    timers = {name: EpochTimer(trainer, stores[name].scale.window) for name, trainer in trainers.items()}
    rates = interleaved({**limits.measures(), **{name: timer.rate for name, timer in timers.items()}})
    for name, store in stores.items():
        figures[name]["tables"] |= {
            TRAINING: {name: _training(rates, name, trainers[name], store)},
            limits.LIMITS: limits.table(rates),
        }
    return figures


def _prepared(name: str, store: Store, compile_anew: bool) -> tuple[Trainer, Figures]:
    """Prepare a training, and measure the memory of each phase, when nothing else is running."""
    spec, phases = store.example(name, store.scale), {}
    counted, before = restart_peak(), memory_in_use()
    trainer = store.trainer(spec)
    phases["preparation of the data"] = peak_memory()
    restart_peak()
    with compilation.cold() if compile_anew else nullcontext():
        timer = EpochTimer(trainer, store.scale.window)
    phases["compilation"] = peak_memory()
    restart_peak()
    timer.seconds()
    phases["training"] = peak_memory()
    takes = limits.cost(store.registered.get(name), trainer)
    figures: Figures = {
        "setting": {
            "model": store.title(spec),
            "data": store.describe()["note"],
            "options": _options(store, spec),
            "batch size": trainer.recipe.batch_size,
            "padding ratio": timer.padding(),
            "formula of an event": "no formula" if takes is None else takes.formula,
            "rounds": timing.ROUNDS,
            "seconds of a round": timing.WINDOW,
            "memory": counted,
        },
        "tables": {
            MEMORY: {
                phase: {MEGA: peak / 1e6, **({f"{MEGA} before the model": before / 1e6} if before else {})}
                for phase, peak in phases.items()
            }
        },
    }
    return trainer, figures


def _options(store: Store, spec: Any) -> list[str]:
    """List a model's options that are not zero, even those that other options make unused, and its optimizer."""
    identity, known = store.identity(spec), fields(store.registered.get(spec.model).config)
    usual = {field.name: field.default for field in known if field.default is not MISSING}
    options = {**usual, **identity["config"], "optimizer": identity["recipe"]["optimizer"]}
    return [f"{name} {value}" for name, value in options.items() if value]


def _starts(trainers: Mapping[str, Trainer]) -> tuple[dict[str, dict[str, dict[str, Any]]], dict[str, list[float]]]:
    """Measure seconds until the first step, and the limits of the device, in alternating rounds."""

    def first_step(trainer: Trainer) -> Callable[[], None]:
        run = trainer.epoch_run()
        return partial(run, 0, 1)

    rounds: list[dict[str, Any]] = []
    measured = limits.measures()
    for number in range(1, timing.ROUNDS + 1):
        rounds.append({})
        for name in timing.in_turn((*measured, *trainers), number):
            limit = measured.get(name)
            rounds[-1][name] = limit() if limit else compilation.starts(partial(first_step, trainers[name]))
        print(f"  compiled all: round {number} of {timing.ROUNDS}", file=sys.stderr, flush=True)
    starts = {
        name: {
            cache: {what: quartiles([found[name][cache][what] for found in rounds]) for what in seconds}
            for cache, seconds in rounds[0][name].items()
        }
        for name in trainers
    }
    return starts, {name: [found[name] for found in rounds] for name in measured}


def _training(rates: Mapping[str, list[float]], name: str, trainer: Trainer, store: Store) -> dict[str, Any]:
    """Return a model's rates, and their shares of the limits that were measured in the same rounds."""
    row: dict[str, Any] = {f"{store.event(name)}/s": quartiles(rates[name])}
    takes = limits.cost(store.registered.get(name), trainer)
    if takes is None:
        return row
    row |= {
        "operations of an event": takes.operations,
        "share of the matrix rate": share(rates, name, limits.OPERATIONS, takes.operations),
    }
    if takes.bytes:
        row |= {
            "bytes of an event": takes.bytes,
            "share of the copy bandwidth": share(rates, name, limits.COPY, takes.bytes),
        }
    return row


def share(rates: Mapping[str, list[float]], name: str, limit: str, work: float) -> dict[str, Any]:
    """Return the share of a limit that a rate uses, round by round, if an event takes `work`."""
    return quartiles(np.asarray(rates[name]) * work / np.asarray(rates[limit]))
