"""A model's folder in the format that model hubs accept: a card, JSON, text and safetensors; it contains no pickles.

It is a model's folder with its arrays in other files: `model.safetensors` in place of `parameters/`, and
`NAME.safetensors` in place of each `NAME.npz`. Loading it gives the same model. Paths of the machine
that the model was trained on are reduced to file names.
"""

import os
import shlex
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays
from jaxfit.run_dir import card, json_text, manifest
from jaxfit.run_dir.arrays import read_npz, to_safetensors
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.card import Scores
from jaxfit.run_dir.checkpoint import WEIGHTS
from jaxfit.run_dir.manifest import REPAIR
from jaxfit.run_dir.metadata import CONFIG, PARAMETERS, read_info


def export(
    directory: Path,
    out: Path,
    files: Collection[str],
    params: Any,
    card_of: Callable[[Mapping[str, Any], Scores], str],
) -> None:
    """Write the folder for a hub.

    Args:
        directory: the model's folder, which was found whole.
        out: the folder to write, new or empty.
        files: names of the files that the models of the package write in addition to those of the engine.
        params: the parameters of a model that has `parameters/`.
        card_of: (what `config.json` is to hold, scores) -> the card.

    Raises:
        UserError: The training has not finished, or the folder has files.
    """
    info = without_directories(read_info(directory))
    if not info.get("finished", True):
        raise UserError("the model's training has not finished", directory, "go on with it by --resume")
    require_empty(out)
    written: list[str] = []
    with replacing(out) as aside:
        aside.mkdir()
        if _has(directory, PARAMETERS) or _has(directory, WEIGHTS):
            (aside / WEIGHTS).write_bytes(to_safetensors(named_arrays(params)))
            written.append(WEIGHTS)
        for name in files:
            if name.endswith(".npz") and (_has(directory, name) or _has(directory, _safetensors_name(name))):
                (aside / _safetensors_name(name)).write_bytes(
                    to_safetensors(read_npz(directory / name, "damaged", REPAIR))
                )
                written.append(_safetensors_name(name))
            elif not name.endswith(".npz") and _has(directory, name):
                (aside / name).write_bytes((directory / name).read_bytes())
                written.append(name)
        json_text.write(aside / CONFIG, info)
        json_text.write(aside / manifest.NAME, manifest.of_model(aside, [CONFIG, *written], []))
        scores = card.scores_of(directory, info)
        card.write(aside, card_of(info, scores), scores)


def require_empty(out: Path) -> None:
    """Raise a UserError unless a folder that is to be written is new or empty."""
    if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
        raise UserError("the folder has files" if out.is_dir() else "it is not a folder", out, "name a new one: --out")


def download(out: Path) -> tuple[Path, list[str]]:
    """Return the folder that a model has once it is downloaded from a hub, and the command that downloads it."""
    name = Path(os.path.abspath(out)).name
    return Path(name), [f"hf download {shlex.quote(f'OWNER/{name}')} --local-dir {shlex.quote(name)}"]


def without_directories(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `config.json` holds with paths reduced to file names; the configuration and recipe have none."""
    found = {name: value if name in ("config", "recipe") else _file_names(value) for name, value in info.items()}
    if "environment" in found:
        found["environment"] = {name: value for name, value in found["environment"].items() if name != "XLA_FLAGS"}
    return found


def _file_names(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _file_names(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_file_names(part) for part in value]
    return value.replace("\\", "/").rstrip("/").rpartition("/")[2] if isinstance(value, str) else value


def _has(directory: Path, name: str) -> bool:
    return (directory / name).exists()


def _safetensors_name(name: str) -> str:
    return str(Path(name).with_suffix(".safetensors"))
