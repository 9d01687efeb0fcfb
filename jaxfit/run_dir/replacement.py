"""A new model in place of an old one: trained in a folder beside it, whose place it takes when it has finished.

For `runs/lbl` that is `runs/.lbl.next`. Until then the old model can be used, and a training that fails, diverges or
is stopped has changed nothing of it.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from jaxfit.errors import UserError
from jaxfit.run_dir import atomic, checkpoint, manifest, metadata


def choose(directory: Path, *, overwrite: bool, resume: bool) -> Path:
    """Return the folder to train a model in: `directory`, or one whose model is to replace what is there.

    A training that diverged is replaced without being asked for. With `resume`, what was begun goes on where it was.

    Args:
        directory: The model's folder.
        overwrite: Whether a model that is there is to be replaced.
        resume: Whether to go on with a training.

    Raises:
        UserError: What is to be replaced is not, or not only, a model.
    """
    new = directory.resolve().with_name(f".{directory.resolve().name}.next")
    if resume:
        return new if new.is_dir() else directory
    if overwrite:
        _require_model_alone(directory)
    if not (overwrite and _infos(directory)) and not _diverged(directory):
        return directory
    if new.is_dir():
        if not overwrite and not _diverged(new):
            raise UserError("a training is there already", new, "add --resume to go on with it, or --overwrite")
        shutil.rmtree(new)
    return new


def put(new: Path, directory: Path) -> None:
    """Put a folder in the place of another, which is removed; a link to that stays."""
    directory = directory.resolve()
    if not directory.exists():
        os.replace(new, directory)
        return
    if not atomic.exchange(new, directory):
        old = new.with_name(f"{new.name}.old")
        os.replace(directory, old)
        os.replace(new, directory)
        new = old
    shutil.rmtree(new)


def _infos(directory: Path) -> list[dict[str, Any]]:
    """`config.json` of a model and of those in its folder, such as the one that its tree is built from."""
    found = []
    for path in [*directory.glob(metadata.CONFIG), *directory.glob(f"*/{metadata.CONFIG}")]:
        try:
            found.append(metadata.read_info(path.parent))
        except UserError:
            continue
    return found


def _diverged(directory: Path) -> bool:
    return any("diverged" in info for info in _infos(directory))


def _require_model_alone(directory: Path) -> None:
    """Raise a UserError where a folder holds anything but a model."""
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    if not _infos(directory):
        raise UserError("the folder has files, but no model", directory, "choose another --out")
    if Path.cwd().is_relative_to(directory.resolve()):
        raise UserError("the current folder cannot be replaced", directory, "give the command elsewhere")
    own = {metadata.PARAMETERS, *(p.name for p in checkpoint.every(directory)), *manifest.UNLISTED, manifest.NAME}
    own |= {path.parent.name for path in directory.glob(f"*/{metadata.CONFIG}")}
    listed = manifest.listed(directory)  # nothing, for a model that has not finished: its files are not known
    for path in sorted(directory.iterdir()):
        if path.name not in own | listed and not path.name.startswith(".") and (path.is_dir() or listed):
            raise UserError(
                "it is no part of the model that is to be replaced", path, "move it, or choose another --out"
            )
