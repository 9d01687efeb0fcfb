"""A model's folder as training sees it: whose it is, whether a training there can go on, what is written to it.

An *identity* is all that determines a trained model, as `config.json` keeps it: a training goes on only where
that is the same. The environment is kept beside it and is no part of it.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from jaxfit.errors import UserError
from jaxfit.run_dir import checkpoint
from jaxfit.run_dir.atomic import replacing

FORMAT = 1
CONFIG, PARAMETERS = "config.json", "parameters"


def read_info(directory: Path) -> dict[str, Any]:
    """What `config.json` of a model's folder holds; raises UserError where there is none or another format's."""
    try:
        info = json.loads((directory / CONFIG).read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError("no model here", directory, "name a folder that `train` wrote") from None
    except ValueError:
        raise UserError("not a model's configuration", directory / CONFIG, "train the model again") from None
    if info.get("format") != FORMAT:
        raise UserError(f"a model of format {info.get('format')}, not {FORMAT}", directory, "train it again")
    return info


def write_info(directory: Path, info: dict[str, Any]) -> None:
    """Write `config.json`, whole or not at all."""
    with replacing(directory / CONFIG) as aside:
        aside.write_text(json.dumps(info, indent=1) + "\n")


def begun(directory: Path) -> bool:
    """Whether there is anything of a training to go on with: a checkpoint, or the finished parameters."""
    return bool(checkpoint.every(directory)) or (directory / PARAMETERS).is_dir()


def earlier(directory: Path, known: dict[str, Any], resume: bool) -> dict[str, Any] | None:
    """The `config.json` of an earlier run of this training; None where there is nothing to go on with.

    Raises UserError where there is, but it is not to be resumed, and where it is of another training.
    """
    if not (directory / CONFIG).exists():
        return None
    found = read_info(directory)
    # one that has no recipe is not trained step by step, and is there at once; others may have been killed early
    if "recipe" in found and not begun(directory):
        return None
    if found["model"] != known["model"]:
        raise UserError(f"a model of kind {found['model']} is there", directory, "choose another --out")
    if not resume:
        advice = "add --resume to go on with it, or choose another --out"
        raise UserError("a training is there already", directory, advice)
    checkpoint.require_same(found, known, directory)
    return found


def drop_checkpoints(directory: Path) -> None:
    """Remove the checkpoints, of no use once training is done."""
    for path in checkpoint.every(directory):
        shutil.rmtree(path)
