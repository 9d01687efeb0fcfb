"""`python -m benchmarks speed`: how fast models train, compared with peers and this machine's limits."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import registry
from benchmarks.core import record
from benchmarks.core.store import Store
from benchmarks.core.timing import cold_compilation
from benchmarks.speed import hlbl, lbl, netflix, recommenders, throughput
from jaxfit.devices.precision import full_precision
from jaxfit.errors import UserError, suggestion

# measured against other programs, if asked to; and against bare loops, or each other
PEERED: dict[str, Callable[[bool], dict[str, Any]]] = {
    "lbl": lbl.measure,
    **{name: partial(recommenders.measure, name) for name in recommenders.CASES},
}
ALONE = {"hlbl": hlbl.measure, "netflix": netflix.measure}
COMPARED = (*PEERED, *ALONE)
LONG = ("netflix",)  # many minutes: only when it is named
SCALE = "cpu"  # of models that are not compared


def names() -> list[str]:
    """List what can be measured: comparisons, and every model that is trained step by step."""
    return sorted({*COMPARED, *registry.engine_models()})


def usual() -> list[str]:
    """List what is measured when nothing is named."""
    return [name for name in names() if name not in LONG]


@full_precision()
def run(chosen: list[str], peers: bool, out: Path) -> dict[str, Any]:
    """Measure, and record in `speed.json`; what was recorded of others before stays."""
    for name in chosen:
        if name not in names():
            raise UserError(f"no speed is measured of {name!r}", do=suggestion(name, names()))
    path = out / "speed.json"
    result = record.read(path) or {"figures": {}, "environment": {}}
    with cold_compilation():
        for measured in _measured(chosen, peers):
            result["figures"] |= measured
            result["environment"] |= {name: record.environment() for name in measured}
            record.write(path, result, markdown(result))
    return {part: {name: result[part][name] for name in chosen} for part in ("figures", "environment")}


def _measured(chosen: list[str], peers: bool) -> Iterator[dict[str, Any]]:
    """Measure each comparison, then all other models in alternating rounds; yield figures as they come."""
    for name in chosen:
        if name in PEERED:
            yield {name: PEERED[name](peers)}
        elif name in ALONE:
            yield {name: ALONE[name]()}
    if others := [name for name in chosen if name not in COMPARED]:
        yield throughput.measure(stores(others))


def stores(models: Iterable[str]) -> dict[str, Store]:
    """Open, for each model, a store of the data that speed is measured on; nothing is written to it."""
    found = {name: registry.engine_models()[name] for name in models}
    made = {
        kind: kind(kind.speed_data(), kind.scales[SCALE], "tuned", Path(os.devnull)) for kind in set(found.values())
    }
    return {name: made[kind] for name, kind in found.items()}


def flat(figures: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Flatten nested figures into lines of a table."""
    for name, value in figures.items():
        if isinstance(value, Mapping) and "quartiles" in value:
            low, high = (_number(quartile) for quartile in value["quartiles"])
            yield f"{above}{name}", f"{_number(value['median'])} ({low} to {high})"
        elif isinstance(value, Mapping):
            yield from flat(value, f"{above}{name} ")
        elif isinstance(value, float):
            yield f"{above}{name}", _number(value)
        else:
            yield f"{above}{name}", str(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def markdown(result: dict[str, Any]) -> str:
    """Write the figures for people."""
    lines = [
        "# speed",
        "",
        "Medians over rounds in one run, so that what else the machine does hits all alike; quartiles in brackets.",
        "",
    ]
    for name, figures in result["figures"].items():
        where = result["environment"][name]
        lines += [f"## {name}", "", "| what | figure |", "|---|--:|"]
        lines += [f"| {what} | {value} |" for what, value in flat(figures)]
        lines += [
            "",
            f"At commit {where['commit']}, JAX {where['jax']}, {where['device']}, {where['cores']} cores.",
            "",
        ]
    return "\n".join(lines)  # fmt: skip
