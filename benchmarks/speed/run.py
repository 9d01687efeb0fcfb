"""`python -m benchmarks speed`: how fast models train, compared with peers and this machine's limits."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import jax

from benchmarks import registry
from benchmarks.core import record, timing
from benchmarks.core.store import Store
from benchmarks.measurement import compilation, machine, speed_record
from benchmarks.speed import (
    hlbl,
    netflix,
    outputs,
    page,
    plain_steps,
    recommenders,
    sweeps,
    throughput,
    topics,
    vectors,
)
from benchmarks.speed.throughput import Figures
from jaxfit.devices.cores import NPROC, chosen_threads, use_threads
from jaxfit.devices.precision import full_precision
from jaxfit.errors import UserError, suggestion

# measured beside other programs if asked to; the names in ALONE, beside bare loops or each other
PEERED: dict[str, Callable[[bool], Figures]] = {
    **{name: partial(plain_steps.measure, name) for name in plain_steps.CASES},
    **{name: partial(recommenders.measure, name) for name in recommenders.CASES},
    **{name: partial(vectors.measure, name) for name in vectors.CASES},
    **{name: partial(sweeps.measure, name) for name in sweeps.CASES},
    **{name: partial(topics.measure, name) for name in topics.CASES},
}
NETFLIX = {f"netflix-{model}": model for model in netflix.MODELS}
ALONE: dict[str, Callable[[], Figures]] = {
    "hlbl": hlbl.measure,
    "outputs": outputs.measure,
    **{name: partial(netflix.measure, model) for name, model in NETFLIX.items()},
}
LONG = tuple(NETFLIX)  # many minutes: only when one is named
LONG_COMPARISONS = (*recommenders.CASES, *topics.CASES, "hlbl")  # quick runs measure only their training
SCALE = "cpu"  # of the models


def names() -> list[str]:
    """List what can be measured: comparisons, and every model that is trained step by step."""
    return sorted({*PEERED, *ALONE, *registry.engine_models()})


def usual() -> list[str]:
    """List what is measured when nothing is named."""
    return [name for name in names() if name not in LONG]


@full_precision()
def run(chosen: list[str], peers: bool, out: Path, quick: bool = False) -> dict[str, Any]:
    """Measure speeds; record each name in `speed.NAME.json`, and show all records in `speed.md`.

    Args:
        chosen: the names to measure.
        peers: whether to measure other programs, too.
        out: the folder of the records; a GPU's go to a subfolder if these are the project's own.
        quick: whether to measure fewer and shorter rounds, with the persistent compilation cache, and to leave out what
            takes long: the time until the first step, and the comparisons of LONG_COMPARISONS.

    Returns:
        The benchmark's version, and the figures and environment of each chosen name.

    Raises:
        UserError: a name is not one of `names`, or records cannot be written or read.
    """
    for name in chosen:
        if name not in names():
            raise UserError(f"no speed is measured of {name!r}", do=suggestion(name, names()))
    here = chosen
    if not chosen_threads() and (single := [name for name in chosen if _on_one_thread(name)]):  # as the commands do
        if single == chosen:
            use_threads(1)
        else:
            _measure_aside(single, peers, out, quick)
            here = [name for name in chosen if name not in single]
    # only now: asking for the device starts JAX, which fixes its number of threads
    if out == record.RESULTS and jax.default_backend() == "gpu":
        out /= speed_record.GPU
    record.make_folder(out)
    speed_record.read(out)  # an invalid record is an error now: after each measurement, all are read
    begun: dict[str, Figures] = {}
    with timing.quick() if quick else nullcontext(), nullcontext() if quick else compilation.cold():
        for name, figures in _measured(here, peers, quick):
            begun[name] = merged(begun[name], figures) if name in begun else figures
            speed_record.write(out, name, begun[name], machine.environment(peers))
            page.write(out, begun[name], name)
            print(f"  measured {name}", file=sys.stderr, flush=True)
    result = speed_record.read(out)
    return {**result, **{part: {name: result[part][name] for name in chosen} for part in ("figures", "environment")}}


def _measure_aside(chosen: list[str], peers: bool, out: Path, quick: bool) -> None:
    """Measure in a process with one thread, as the number of threads is fixed for a process."""
    options = ["--out", str(out), *["--peers"] * peers, *["--quick"] * quick]
    command = [sys.executable, "-m", "benchmarks", "speed", *chosen, *options]
    if status := subprocess.run(command, env={**os.environ, NPROC: "1"}, stdout=subprocess.DEVNULL).returncode:
        raise SystemExit(status)


def _on_one_thread(name: str) -> bool:
    """Return whether the commands train a model on one thread of a CPU."""
    model = NETFLIX.get(name, name)
    store = registry.engine_models().get(model)
    if store is None:
        return False
    about = store.registered.get(model)
    recipe, _ = about.recipe("tuned")
    return recipe.batch_size <= about.one_thread_up_to


def _measured(chosen: list[str], peers: bool, quick: bool) -> Iterator[tuple[str, Figures]]:
    """Measure all models in alternating rounds, then each comparison; yield figures as they come."""
    if models := [name for name in chosen if name in registry.engine_models()]:
        yield from throughput.measure(stores(models), compile_anew=not quick).items()
    for name in chosen:
        if quick and name in LONG_COMPARISONS:
            continue
        if name in PEERED:
            yield name, PEERED[name](peers)
        elif name in ALONE:
            yield name, ALONE[name]()


def merged(one: Figures, other: Figures) -> Figures:
    """Join the figures of a name that were measured one after the other, table by table."""
    parts = ("setting", "tables", "curves", "limits", "search")
    joined: Figures = {p: {**one.get(p, {}), **other.get(p, {})} for p in parts if p in one or p in other}
    for title in one["tables"].keys() & other["tables"].keys():
        joined["tables"][title] = {**one["tables"][title], **other["tables"][title]}
    return joined


def stores(models: Iterable[str]) -> dict[str, Store]:
    """Open, for each model, a store of the data that speed is measured on; nothing is written to it."""
    found = {name: registry.engine_models()[name] for name in models}
    made = {
        kind: kind(kind.speed_data(), kind.scales[SCALE], "tuned", Path(os.devnull)) for kind in set(found.values())
    }
    return {name: made[kind] for name, kind in found.items()}
