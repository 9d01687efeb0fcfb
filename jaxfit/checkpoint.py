"""Checkpoints: all that a training needs to go on as if it had never stopped, and finished models.

A checkpoint is a folder `checkpoint-00000042` with `arrays/` (written by Orbax), `state.json` (where training
stands) and `manifest.json` (a format version and the sha256 of every file), written aside and renamed, so that
a kill leaves either a whole checkpoint or none. The newest two are kept: a file torn later is recognised by its
sha256, and the one before serves. Nothing is unpickled.
"""

import errno
import hashlib
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from jaxfit.atomic import replacing
from jaxfit.errors import UserError

FORMAT = 1
KEEP = 2


def save(directory: Path, arrays: Any, state: dict[str, Any]) -> Path:
    """Write the next checkpoint of a training, then drop all but the newest two.

    Raises UserError where the disk is full; the older checkpoints are then still there.
    """
    numbers = [_number(path) for path in _all(directory)]
    path = directory / f"checkpoint-{max(numbers, default=0) + 1:08d}"
    write(path, arrays, state)
    for old in _all(directory)[:-KEEP]:
        shutil.rmtree(old)
    return path


def write(path: Path, arrays: Any, state: dict[str, Any]) -> None:
    """Write one folder of arrays with its state and manifest, aside and renamed."""
    with replacing(path) as aside:
        try:
            with ocp.StandardCheckpointer() as orbax:
                orbax.save(aside.absolute() / "arrays", arrays)
        except Exception as error:  # the writer wraps a full disk in errors of several kinds
            if "space left" in str(error):
                raise OSError(errno.ENOSPC, "No space left on device") from error
            raise
        (aside / "state.json").write_text(json.dumps(state, indent=1))
        manifest = {"format": FORMAT, "sha256": _digests(aside)}
        (aside / "manifest.json").write_text(json.dumps(manifest, indent=1))


def latest(directory: Path) -> Path | None:
    """The newest intact checkpoint, or None where training never reached one.

    Warns of every damaged one that is passed over; raises UserError where all are damaged.
    """
    found = _all(directory)
    for path in reversed(found):
        problem = damage(path)
        if problem is None:
            return path
        warnings.warn(f"{path} is damaged ({problem}); the checkpoint before it is used", stacklevel=2)
    if found:
        raise UserError("every checkpoint is damaged", directory, "remove the folder and train again")
    return None


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, in words; None where it is whole."""
    try:
        manifest = json.loads((path / "manifest.json").read_text())
    except (OSError, ValueError):
        return "its manifest is missing or torn"
    if manifest.get("format") != FORMAT:
        return f"its format is {manifest.get('format')}, this program reads {FORMAT}"
    digests = _digests(path)
    for name, digest in manifest["sha256"].items():
        if digests.get(name) != digest:
            return f"{name} is missing or changed"
    return None


def state(path: Path) -> dict[str, Any]:
    """Where the training stood: the `state` given to `save`."""
    return json.loads((path / "state.json").read_text())


def arrays(path: Path, like: Any) -> Any:
    """The arrays of a checkpoint, of the shapes and types of `like` (arrays or jax.ShapeDtypeStruct)."""
    device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), like)
    with ocp.StandardCheckpointer() as orbax:
        return orbax.restore(path.absolute() / "arrays", abstract)


def load_model(path: Path, like: Any) -> Any:
    """The parameters of a finished model, written by `write`; raises UserError where the folder is damaged."""
    problem = damage(path)
    if problem is not None:
        raise UserError(f"the model is damaged: {problem}", path, "train it again, or resume its training")
    return arrays(path, like)


def _all(directory: Path) -> list[Path]:
    return sorted((p for p in directory.glob("checkpoint-*") if p.is_dir()), key=_number)


def _number(path: Path) -> int:
    return int(path.name.rsplit("-", 1)[1])


def _digests(path: Path) -> dict[str, str]:
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.name != "manifest.json")
    return {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
