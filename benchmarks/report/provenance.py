"""Where the figures of a recorded table are from: data, code, machine, and the models with their training."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.core import markdown, record
from benchmarks.core.row import IDENTITY
from benchmarks.core.store import VALIDATION
from benchmarks.report.grid import Cell, Grid
from jaxfit.run_dir.provenance import VARIABLES

UNKNOWN = "not recorded"
DIGITS = {"validation_rmse": 4}  # after the point, where they are not 1
OF_MODEL = (*IDENTITY, "warnings")
COMMIT = 12  # digits that are shown; the record has all


def facts(result: dict[str, Any], thesis_data: str) -> list[tuple[str, str]]:
    """Describe the data of the figures, and the command that made them.

    Args:
        thesis_data: the data of the thesis' figures.
    """
    data, over = result["data"], markdown.units(result["rows"])
    seeds = sorted({len(row["seeds"]) for row in result["rows"]})
    sizes = ", ".join(f"{what} {_count(data[what])}" for what in data if what not in ("name", "sha256", "note"))
    return [
        ("data", f"{data['name']}: {data['note']}"),
        ("size", sizes),
        ("sha256 of the data", data["sha256"]),
        ("scale", result["scale"]),
        ("recipe", result["recipe"]),
        ("seeds of a row", " or ".join(map(str, seeds))),
        *([("bootstrap over", over)] if over else []),
        ("figures beside ours", markdown.source(result, thesis_data)),
        ("command", result["command"]),
    ]


def _count(value: Any) -> str:
    return (
        f"({', '.join(f'{part} {size:,}' for part, size in value.items())})"
        if isinstance(value, dict)
        else f"{value:,}"
    )


def rows(result: dict[str, Any], anchor: str) -> Grid:
    """List, for each row, seeds, models, and when, where and by which code it was measured."""
    found = []
    for row in result["rows"]:
        where, models = record.environments(row), [result["models"][name] for name in row["models"]]
        found.append(
            [
                Cell(", ".join(filter(None, row["label"]))),
                Cell(", ".join(map(str, row["seeds"]))),
                Cell(", ".join(dict.fromkeys(markdown.title(model) for model in models))),
                Cell("; ".join(dict.fromkeys(map(_commit, where)))),
                Cell(row.get("date", UNKNOWN)),
                Cell("; ".join(dict.fromkeys(map(_place, where)))),
            ]
        )
    heads = ("row", "seeds", "models", "measured at commit", "date", "with")
    return Grid(heads, found, "Where each row is from", anchor)


def models(result: dict[str, Any], anchor: str) -> Grid:
    """List the models; those that differ only in their seeds share a line."""
    where = {name: row["environment"] for row in reversed(result["rows"]) for name in row["models"]}
    alike: dict[str, list[dict[str, Any]]] = {}
    for name, model in result["models"].items():
        trained = {**where[name], **model["environment"], **model}  # older records have a commit in the environment
        same = [markdown.title(model), *(model.get(key) for key in (*OF_MODEL, "source", "date")), _commit(trained)]
        alike.setdefault(json.dumps(same), []).append(trained)
    heads = ("model", "seeds", "trained at commit", "source", "date", "configuration", "recipe", "of")
    return Grid(
        (*heads, "passes", "metric", "validation", "seconds"),
        [_models(each) for each in alike.values()], "Models", anchor,
    )  # fmt: skip


def _models(each: list[dict[str, Any]]) -> list[Cell]:
    """Return the cells of models that differ only in their seeds."""
    first = each[0]
    kind = next((key for key in first if key.startswith(VALIDATION) and first[key]), None)
    passes = [] if kind is None else [len(model[kind]) for model in each]
    best = [] if kind is None else [min(model[kind]) for model in each]
    seconds = [model["seconds"]["all"] for model in each]
    others = {
        key: first[key] for key in OF_MODEL if key not in ("config", "recipe") and first.get(key) not in (None, [])
    }
    return [
        Cell(markdown.title(first)),
        Cell(", ".join(filter(None, (model["label"].partition("-seed")[2] for model in each)))),
        Cell(_commit(first)),
        Cell(first.get("source", UNKNOWN)),
        Cell(first.get("date", UNKNOWN)),
        Cell(_fields(first.get("config"))),
        Cell(_fields(first.get("recipe"))),
        Cell(_fields(others)),
        _numbers(passes, 0),
        Cell((kind or "").removeprefix(VALIDATION).replace("_", " ")),
        _numbers(best, DIGITS.get(kind or "", 1)),
        _numbers(seconds, 0),
    ]


def _numbers(values: Sequence[float], digits: int) -> Cell:
    """Return a cell with numbers, each once, sorted by the first."""
    texts = dict.fromkeys(record.number(value, digits) for value in values)
    return Cell(", ".join(texts), values[0] if values else None)


def _commit(where: dict[str, Any]) -> str:
    return f"{(where['commit'] or UNKNOWN)[:COMMIT]}{' with changes' if where['dirty'] else ''}"


def _place(where: dict[str, Any]) -> str:
    precision = where["matmul_precision"] or "default"
    variables = "".join(f", {name} {where[name]}" for name in VARIABLES if where.get(name))
    return (
        f"Python {where['python']}, JAX {where['jax']}, jaxlib {where['jaxlib']}, {where['devices']} × "
        f"{where['device']} ({where['cores']} cores), matrix precision {precision}"
        f"{variables}"
    )


def _fields(values: Mapping[str, Any] | None) -> str:
    """Write fields with their values."""
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}" for name, value in (values or {}).items()
    )
