"""`python -m benchmarks speed`: how fast models train, beside peers and this machine's limits."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import benchmarks
from benchmarks.core import record
from jaxfit.cli import command
from jaxfit.errors import UserError

LONG = ("netflix",)  # many minutes: only when it is named


def names() -> list[str]:
    """What can be measured: one module `speed_<name>` each, whose `measure(peers)` returns figures."""
    modules = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name.removeprefix("speed_") for name in modules if name.startswith("speed_"))


def usual() -> list[str]:
    """What is measured when nothing is named."""
    return [name for name in names() if name not in LONG]


def run(chosen: list[str], peers: bool, out: Path) -> dict[str, Any]:
    """Measure, and record in `speed.json`; what was recorded of others before stays."""
    for name in chosen:
        if name not in names():
            raise UserError(f"no speed is measured of {name!r}", do=command.suggestion(name, names()))
    path = out / "speed.json"
    result = record.read(path) or {"figures": {}, "environment": {}}
    for name in chosen:
        result["figures"][name] = importlib.import_module(f"benchmarks.speed_{name}").measure(peers=peers)
        result["environment"][name] = record.environment()
        record.write(path, result, markdown(result))
    return {part: {name: result[part][name] for name in chosen} for part in ("figures", "environment")}


def flat(figures: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Nested figures as lines of a table."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{name} ")
        elif isinstance(value, float):
            yield f"{above}{name}", f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
        else:
            yield f"{above}{name}", str(value)


def markdown(result: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [
        "# speed",
        "",
        "Medians over turns in one run, so that what else the machine does hits all alike.",
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
