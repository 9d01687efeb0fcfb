"""A model card: `README.md` of a model's folder, for whoever finds it there, with the metadata that hubs read.

It is written for people, who may change it: no program here reads it, and the manifest does not list it. The scores
in it are also in `scores.json`, of which a card for a hub is made.
"""

import json
import math
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jaxfit import __version__
from jaxfit.devices import distributed as processes
from jaxfit.registry import Record
from jaxfit.run_dir import json_text, manifest
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.run import Trained

SHOWN = ("format", "model", "config", "recipe", "finished", "environment")  # not under "Training", but elsewhere
PROJECT = "jax-mnih"
Scores = Mapping[str, Mapping[str, Any]]  # set of data, as "test" -> names and values of scores on it


class About(NamedTuple):
    """What the package of a model says of it.

    Attributes:
        shell: commands that use it.
        python: a program that loads and uses it.
        task: of hubs' names of tasks, the one that fits; None where none does.
        tags: for hubs, besides the model's name.
        measures: name of a score (before any "@") -> hubs' name of the measure, for those that compare models.
        data: the name of the training data.
        limits: what it cannot do, and what its folder has of the data.
    """

    shell: list[str]
    python: list[str]
    task: str | None
    tags: tuple[str, ...]
    measures: Mapping[str, str]
    data: str
    limits: str


def write_after(
    text: Callable[..., str], trained: Trained[Any], out: Path, place: Path, scores: Scores | None = None
) -> None:
    """Write a model's card, if it is to have a new one: once it has been trained, and if a finished one has none.

    Args:
        text: `text` of the model's package.
        trained: the model.
        out: its folder.
        place: the folder in which the card's commands find the model.
        scores: on validation and test data; None: those recorded in training.
    """
    model = trained.model
    # nothing need be written for a training that had finished before, perhaps on a read-only disk
    new = bool(trained.seconds) or (not (out / manifest.CARD).exists() and os.access(out, os.W_OK))
    if model is not None and processes.leads() and model.info.get("finished", True) and new:
        scores = recorded(model.info) if scores is None else scores
        write(out, text(model, model.info, place, (), scores), scores)


def write(directory: Path, card: str, scores: Scores) -> None:
    """Write a card and its scores into a model's folder; the card last, as a folder that has one is complete."""
    with replacing(directory / manifest.SCORES) as aside:
        json_text.write(aside, scores)
    with replacing(directory / manifest.CARD) as aside:
        aside.write_text(card, encoding="utf-8", errors="backslashreplace")  # names of files need not be UTF-8


def scores_of(directory: Path, info: Mapping[str, Any]) -> Scores:
    """Return the scores of a model's folder, or, where it has none, the one that its training ended with."""
    try:
        found = json_text.read(directory / manifest.SCORES)
        if all(isinstance(part, dict) for part in found.values()):
            return found
    except (OSError, ValueError, AttributeError):  # older ones have no such file, and nothing depends on it
        pass
    return recorded(info)


def recorded(info: Mapping[str, Any]) -> Scores:
    """Return the validation score that `config.json` holds; an empty mapping for models without one."""
    found = {name.removeprefix("validation "): info[name] for name in info if name.startswith("validation ")}
    return {"validation": found} if found else {}


def recipe_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recipe of `config.json`, without the patience, which is not used, where the rate falls as a cosine."""
    recipe = info.get("recipe") or {}
    return {name: value for name, value in recipe.items() if not (name == "patience" and recipe.get("anneal"))}


def text(record: Record, info: Mapping[str, Any], sizes: Mapping[str, Any], scores: Scores, about: About) -> str:
    """Return the card of a trained model.

    Args:
        record: what the model is.
        info: what `config.json` holds; mappings in it that are not `SHOWN`, as the data, get a section of their own.
        sizes: the shapes of its parameters.
        scores: on validation and test data, as far as they are known.
        about: what its package says of it.
    """
    sections = {name: value for name, value in info.items() if isinstance(value, Mapping) and name not in SHOWN}
    training = {name: value for name, value in info.items() if name not in (*SHOWN, *sections)}
    versions = {PROJECT: __version__, "python": platform.python_version(), **info.get("environment", {})}
    shapes = {name: " x ".join(f"{n:,}" for n in shape) for name, shape in sizes.items()}
    measures = dict.fromkeys(name for part in scores.values() for name in part)
    tables = {
        "Scores": {name: [part.get(name) for part in scores.values()] for name in measures},
        "Settings": info["config"],
        "Size of parameters": shapes,
        **{name.capitalize(): value for name, value in sections.items()},
        "Training": {**training, **{f"recipe: {name}": value for name, value in recipe_of(info).items()}},
        "Versions": versions,
    }
    offers = "; ".join(capability.offers for capability in record.capabilities)
    parts = [_front_matter(record, scores, about), f"# {record.name}: {record.about}"]
    parts += [f"Described in {record.source}. It has {offers}.", f"It needs the Python project {PROJECT}:"]
    parts += [f"```sh\n{_lines(about.shell)}```", f"```python\n{_lines(about.python)}```"]
    parts += [f"## Intended use and limits\n\nFor research, teaching, and comparison with other models. {about.limits}"]
    parts += [
        f"## {title}\n\n{_table(values, scores if title == 'Scores' else [''])}"
        for title, values in tables.items()
        if values
    ]
    parts += [f"## Citation\n\n{record.source}; {PROJECT} {__version__}, whose `CITATION.cff` says how to cite it."]
    return "\n\n".join(parts) + "\n"


def _front_matter(record: Record, scores: Scores, about: About) -> str:
    """Return the metadata that hubs read, in YAML, of which JSON is a part; the model's author adds the licence."""
    task = about.task or "other"
    results = [
        {
            "task": {"type": task},
            "dataset": {"type": "other", "name": about.data, "split": part},
            "metrics": [
                {"type": about.measures[name.partition("@")[0]], "value": value, "name": name}
                for name, value in values.items()
                if name.partition("@")[0] in about.measures and isinstance(value, float) and math.isfinite(value)
            ],
        }
        for part, values in scores.items()
    ]
    results = [result for result in results if result["metrics"]]
    metadata = {
        "library_name": PROJECT,
        **({"pipeline_tag": about.task} if about.task else {}),
        "tags": [PROJECT, "jax", *about.tags, record.name],
        **({"model-index": [{"name": record.name, "results": results}]} if results else {}),
    }
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in metadata.items()]
    return "\n".join(["---", *lines, "---"])


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _table(values: Mapping[str, Any], columns: Iterable[str]) -> str:
    """Write a table; its values are lists of one for each column, or single ones if its columns have no titles."""
    columns = list(columns)
    rows = [[name, *map(_cell, value if columns != [""] else [value])] for name, value in values.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in [["", *columns], ["---"] * (1 + len(columns)), *rows])


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value)) or "none"
    if value is None or value != value:  # NaN: undefined
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = f"{value:.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
