"""A model card: `README.md` of a model's folder, for whoever finds it there.

It is written for people, who may change it: no program reads it, and the manifest does not list it.
"""

import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jaxfit import __version__
from jaxfit.registry import Record
from jaxfit.run_dir import manifest
from jaxfit.run_dir.atomic import replacing

SHOWN = ("format", "model", "config", "recipe", "finished", "environment")  # not under "Training", but elsewhere


def write(
    directory: Path,
    record: Record,
    info: Mapping[str, Any],
    sizes: Mapping[str, tuple[int, ...]],
    scores: Mapping[str, Mapping[str, Any]],
    shell: Iterable[str],
    python: Iterable[str],
) -> None:
    """Write the card of a trained model.

    Args:
        directory: The model's folder.
        record: What the model is.
        info: What `config.json` holds; mappings in it that are not `SHOWN`, as the data, get a section of their own.
        sizes: The shapes of its parameters.
        scores: Set of data ("test") -> names and values of scores on it.
        shell: Commands that use it.
        python: A program that loads and uses it.
    """
    sections = {name: value for name, value in info.items() if isinstance(value, Mapping) and name not in SHOWN}
    training = {name: value for name, value in info.items() if name not in (*SHOWN, *sections)}
    versions = {"jax-mnih": __version__, "python": platform.python_version(), **info.get("environment", {})}
    shapes = {name: " x ".join(f"{n:,}" for n in shape) for name, shape in sizes.items()}
    measures = dict.fromkeys(name for part in scores.values() for name in part)
    tables = {
        "Scores": {name: [part.get(name) for part in scores.values()] for name in measures},
        "Settings": info["config"],
        "Size of parameters": shapes,
        **{name.capitalize(): value for name, value in sections.items()},
        "Training": {**training, **{f"recipe: {name}": value for name, value in info.get("recipe", {}).items()}},
        "Versions": versions,
    }
    offers = "; ".join(capability.offers for capability in record.capabilities)
    text = [f"# {record.name}: {record.about}", f"Described in {record.source}. It has {offers}."]
    text += [f"```sh\n{_lines(shell)}```", f"```python\n{_lines(python)}```"]
    text += [
        f"## {title}\n\n{_table(values, scores if title == 'Scores' else [''])}"
        for title, values in tables.items()
        if values
    ]
    with replacing(directory / manifest.CARD) as aside:
        aside.write_text("\n\n".join(text) + "\n", encoding="utf-8")


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _table(values: Mapping[str, Any], columns: Iterable[str]) -> str:
    """A table; the values are lists of one for each column, or, in a table without titles of columns, single ones."""
    columns = list(columns)
    rows = [[name, *map(_cell, value if columns != [""] else [value])] for name, value in values.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in [["", *columns], ["---"] * (1 + len(columns)), *rows])


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value)) or "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    text = f"{value:.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
