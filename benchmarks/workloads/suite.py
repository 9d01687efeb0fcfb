"""`python -m benchmarks suite`: training speed of the standard workloads here, and its share of the device's limits.

All samples of a workload, of every precision of its matrix products, and of the device's limits are taken in turn.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from benchmarks import registry
from benchmarks.core import record, timing
from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import EpochTimer, interleaved
from benchmarks.measurement import compilation, limits, machine, sensors
from benchmarks.measurement.memory import peak_memory, restart_peak
from benchmarks.workloads import scaling, scorecard, sweeps
from benchmarks.workloads.error import errors
from benchmarks.workloads.lowering import Devices, lowered
from benchmarks.workloads.registry import PRECISIONS, VERSION, WORKLOADS, Words, Workload
from benchmarks.workloads.setup import Setup, SweepsSetup, set_up
from jaxfit.devices import sharding
from jaxfit.errors import UserError
from jaxfit.registry import Cost
from jaxfit.trainer import Trainer

Figures = dict[str, Any]  # as in `benchmarks.speed.throughput`
SWEPT = {"cpu": ("float32",), "gpu": ("float32", "tf32", "bfloat16"), "tpu": ("float32", "bfloat16x3", "bfloat16")}
WINDOW, QUICK = 5.0, 1.0  # minimum seconds of a sample
TRAINING = "training"
# Shares of a limit that is taken to bind. Below, most time goes elsewhere; above, the data are in a cache.
BINDING = (0.5, 1.1)


def swept(asked: Sequence[str] | None = None) -> Sequence[str]:
    """Return the precisions that are asked for, or by default those that are usual on this platform.

    Raises:
        UserError: the platform has no matrix products in one of them.
    """
    platform, square = jax.default_backend(), jax.ShapeDtypeStruct((8, 8), jnp.float32)
    usual = SWEPT.get(platform, ("float32",))
    for name in asked or ():
        try:
            jax.jit(partial(jnp.dot, precision=PRECISIONS[name])).lower(square, square).compile()
        except (ValueError, RuntimeError):
            what = f"a {platform.upper()} has no matrix products in {name}"
            raise UserError(what, "--dtype", f"choose others, such as {', '.join(usual)}") from None
    return asked or usual


def run(
    names: Sequence[str],
    precisions: Sequence[str],
    seconds: float,
    batch_size: int | None,
    devices: int,
    out: Path,
    scaled: bool = False,
) -> dict[str, Any]:
    """Measure workloads one after the other, each in rounds, and record them in `suite.json`.

    Args:
        names: of the workloads.
        precisions: among PRECISIONS.
        seconds: of a sample, at least.
        batch_size: for workloads with minibatches, in place of their own; None for their own.
        devices: number of devices over which minibatches are split.
        out: the folder of the record; what it has of other workloads of the same version stays.
        scaled: whether to measure on one device, and how the speed grows up to `devices` of them.

    Returns:
        The record: version, figures and environment by workload.

    Raises:
        UserError: a workload that runs on one device is to be split over several; the record cannot be written, or its
            file is something else.
    """
    alone = [name for name in names if WORKLOADS[name].on_one_device]
    if devices > 1 and alone:
        raise UserError(f"{alone[0]} cannot be split: {sweeps.REFUSED}", "--devices", "measure it without")
    mesh, path = sharding.make(devices), out / "suite.json"
    if scaled:
        scaling.numbers(devices)
        mesh = None
    record.make_folder(out)
    result = _recorded(path)
    for name in names:
        workload, tables = WORKLOADS[name], dict[str, Any]()
        if batch_size is not None and workload.batch_size:
            workload = replace(workload, batch_size=batch_size)
        if scaled:
            with jax.default_matmul_precision(PRECISIONS[precisions[0]]):
                tables[f"scaling, {precisions[0]}"] = scaling.scaling(workload, _unit(workload), devices, seconds)
        figures = measure(workload, precisions, mesh, seconds)
        figures["tables"] |= tables
        figures["limits"] = dict.fromkeys(tables, "none")  # of the limits was measured in its rounds
        result["figures"][name] = figures
        result["environment"][name] = machine.environment(peers=False)
        scorecard.write(path, result)
        print(f"  measured {name}", file=sys.stderr, flush=True)
    return {**result, **{part: {name: result[part][name] for name in names} for part in ("figures", "environment")}}


def _recorded(path: Path) -> dict[str, Any]:
    """Return what is recorded of workloads of this version, to which others are added.

    Raises:
        UserError: something else is recorded there.
    """
    version = f"workloads {VERSION}"
    found = record.read(path)
    try:
        if found is not None and found["version"] == version:
            scorecard.markdown(found)  # as after each measurement
            return found
    except (KeyError, TypeError, AttributeError):
        raise UserError("not a record of the suite", path, "remove it, or choose another --out") from None
    return {"version": version, "figures": {}, "environment": {}}


def measure(workload: Workload, precisions: Sequence[str], mesh: Mesh | None, seconds: float) -> Figures:
    """Measure one workload in each precision."""
    precisions = sweeps.PRECISIONS if workload.on_one_device else precisions
    wrong = errors(workload, {name: PRECISIONS[name] for name in precisions})  # first: it takes the most memory
    setup = set_up(workload)
    timer, takes = _timer(workload, setup, mesh, seconds)
    programs = {name: _compiled(workload, setup, name, mesh) for name in precisions}
    counted = restart_peak()
    multiply = limits.measures(limits.OPERATIONS)[limits.OPERATIONS]
    with sensors.watched() as seen:
        rates = interleaved({
            **limits.measures(limits.COPY, limits.GATHER, limits.SCATTER),
            **{_product(name): _under(name, multiply) for name in precisions},
            **{name: _under(name, timer.rate) for name in precisions},
        })  # fmt: skip
    peak = peak_memory()
    rows = {
        name: {f"{_unit(workload)}/s": quartiles(rates[name]), **_shares(rates, name, takes), **wrong[name]}
        | programs[name]
        | {"peak memory, GB": peak / 1e9}
        for name in precisions
    }
    return {
        "setting": {
            "model": workload.model, "stresses": workload.about, "data": str(workload.data),
            **({"batch size": workload.batch_size} if workload.batch_size else {}),
            "config": str(dict(workload.config)),
            "optimizer": workload.solver if isinstance(setup, SweepsSetup) else workload.optimizer,
            "devices": sharding.shards(mesh), "padding ratio": timer.padding(),
            "formula of an event": "none" if takes is None else takes.formula,
            "rounds": timing.ROUNDS, "seconds of a sample": seconds, "memory": counted,
        },
        "tables": {
            TRAINING: rows, limits.LIMITS: _limits(rates, precisions),
            **({"sensors": {"GPU": {what: quartiles(samples) for what, samples in seen.items()}}} if seen else {}),
        },
    }  # fmt: skip


def _timer(
    workload: Workload, setup: Setup | SweepsSetup, mesh: Mesh | None, seconds: float
) -> tuple[EpochTimer | sweeps.SweepTimer, Cost | None]:
    """Return the timer of a workload's rate, and the cost of an event."""
    if isinstance(setup, SweepsSetup):
        return sweeps.SweepTimer(setup, seconds), setup.cost
    key = jax.random.key(0)
    trainer = Trainer(setup.program, setup.init(key), setup.data, workload.recipe(), key, mesh)
    return EpochTimer(trainer, seconds), limits.cost(registry.models()[workload.model][1], trainer)


def _unit(workload: Workload) -> str:
    return "words" if isinstance(workload.data, Words) else "ratings"


def _product(precision: str) -> str:
    return f"{limits.OPERATIONS}, {precision}"


def _under(precision: str, function: Callable[[], float]) -> Callable[[], float]:
    """Return a function that computes its matrix products in a precision."""

    def within() -> float:
        with jax.default_matmul_precision(PRECISIONS[precision]):
            return function()

    return within


def _compiled(workload: Workload, setup: Setup | SweepsSetup, precision: str, mesh: Mesh | None) -> dict[str, Any]:
    """Compile the loop of training steps, or a sweep, ahead of time: seconds, memory, digest of the program."""
    each = tuple(jax.local_devices()[:1] if mesh is None else mesh.devices.flat)
    with jax.default_matmul_precision(PRECISIONS[precision]), compilation.cold(), compilation.recorded() as spans:
        program = lowered(workload, Devices(each, mesh), setup).compile()
    taken = {
        what: sum(end - begin for event in events for begin, end in spans.get(event, ()))
        for what, events in (("lowering, s", compilation.LOWERING), ("compilation, s", compilation.COMPILATION))
    }
    memory = program.memory_analysis()
    return {
        **taken,
        "temporaries, GB": memory.temp_size_in_bytes / 1e9, "arguments, GB": memory.argument_size_in_bytes / 1e9,
        "program": digest(program.as_text()),
    }  # fmt: skip


def digest(text: str) -> str:
    """Hash a compiled program's text, without its metadata on the source code: 16 hexadecimal digits."""
    bare = re.sub(r", metadata=\{[^}]*\}", "", text)
    return hashlib.sha256(bare.encode()).hexdigest()[:16]


def _shares(rates: Mapping[str, Sequence[float]], name: str, takes: Cost | None) -> dict[str, Any]:
    """Return the shares of the device's limits that a rate takes, and which of them is the largest, round by round."""
    if takes is None:
        return {}
    each = {what: np.asarray(samples) for what, samples in rates.items()}
    found = {"matrix rate": each[name] * takes.operations / each[_product(name)]}
    if takes.bytes:  # of gathers and scatters each number counts as read and as written, as in the limits
        seconds = 8 * takes.read / each[limits.GATHER] + 8 * takes.added / each[limits.SCATTER]
        found["rate of rows"] = each[name] * seconds
        found["copy bandwidth"] = each[name] * takes.bytes / each[limits.COPY]
    shares = {f"share of the {what}": quartiles(of_rounds) for what, of_rounds in found.items()}
    bound = max(found, key=lambda what: float(np.median(found[what])))
    of = {"matrix rate": [_product(name)], "rate of rows": [limits.GATHER, limits.SCATTER]}.get(bound, [limits.COPY])
    low, high = BINDING
    binding = {"binding limits": of} if low <= float(np.median(found[bound])) <= high else {}
    return {**shares, "bound by": bound, **binding}


def _limits(rates: Mapping[str, Sequence[float]], precisions: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the limits as a table, with one of matrix products for each precision."""
    plain = {name: limits.ABOUT[name] for name in (limits.COPY, limits.GATHER, limits.SCATTER)}
    about = {**{_product(name): limits.ABOUT[limits.OPERATIONS] for name in precisions}, **plain}
    return {
        name: {limits.GIGA: quartiles([rate / 1e9 for rate in rates[name]]), "of": what} for name, what in about.items()
    }
