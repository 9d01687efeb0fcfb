"""Checkpoints: all that a training needs to go on as if it had never stopped, and finished models.

A checkpoint is a folder `checkpoint-00000042` with `arrays/` (written by Orbax), `state.json` (where training
stands) and `manifest.json` (a format version and the sha256 of every file), written aside and renamed, so that
a kill leaves either a whole checkpoint or none. The newest two are kept: a file torn later is recognised by its
sha256, and the one before serves. Nothing is unpickled.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from jaxfit import distributed as processes
from jaxfit.errors import UserError
from jaxfit.run_dir.atomic import replacing

FORMAT = 1
KEEP = 2
OVERHEAD = 1 << 18  # bytes beside those of the arrays, generously


def save(directory: Path, arrays: Any, state: dict[str, Any]) -> None:
    """Write the next checkpoint of a training, then drop all but the newest two.

    Of several processes only process 0 writes it. Raises UserError where the disk is full; the older checkpoints are
    then still there.
    """
    if not processes.leads():
        return
    older = every(directory)
    path = directory / f"checkpoint-{_number(older[-1]) + 1 if older else 1:08d}"
    _write(path, arrays, state)
    for old in every(directory)[:-KEEP]:
        shutil.rmtree(old)


def write(path: Path, arrays: Any, state: dict[str, Any]) -> None:
    """Write one folder of arrays with its state and manifest, aside and renamed.

    Of several processes process 0 writes it, and the others are given a copy.
    """
    if processes.leads():
        _write(path, arrays, state)
    processes.share(path)


def _write(path: Path, arrays: Any, state: dict[str, Any]) -> None:
    if processes.several():  # where Orbax writes arrays of JAX only if all processes have a part in them
        arrays = jax.tree.map(np.asarray, arrays)
    with replacing(path) as aside:
        _require_room(aside.parent, arrays)
        try:
            # random-looking floats do not compress, and trying takes most of the time
            handler = ocp.PyTreeCheckpointHandler(use_compression=False, multiprocessing_options=_alone())
            with ocp.Checkpointer(handler, multiprocessing_options=_alone()) as orbax:
                orbax.save(aside.absolute() / "arrays", arrays)
        except Exception as error:  # the writer wraps a full disk in errors of several kinds
            if "space left" in str(error):
                raise _disk_full() from error
            raise
        (aside / "state.json").write_text(json.dumps(state, indent=1))
        manifest = {"format": FORMAT, "sha256": _digests(aside)}
        (aside / "manifest.json").write_text(json.dumps(manifest, indent=1))


def _alone() -> ocp.options.MultiprocessingOptions:
    # Of several processes one writes, and each reads what it wants; Orbax would have them wait for each other.
    if not processes.several():
        return ocp.options.MultiprocessingOptions()
    me = jax.process_index()
    return ocp.options.MultiprocessingOptions(
        primary_host=me, active_processes={me}, barrier_sync_key_prefix=f"{me}"
    )


def _require_room(directory: Path, arrays: Any) -> None:
    # Asked beforehand, since the writer tells of a full disk in pages of tracebacks from its threads.
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(arrays))
    if shutil.disk_usage(directory).free < size + OVERHEAD:
        raise _disk_full()


def _disk_full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def latest(directory: Path) -> Path | None:
    """The newest intact checkpoint, or None where training never reached one.

    Warns of every damaged one that is passed over; raises UserError where all are damaged.
    """
    found = every(directory)
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


def drop_after(path: Path) -> None:
    """Remove the checkpoints after `path`, which are damaged: the next ones take their places."""
    for other in every(path.parent):
        if _number(other) > _number(path):
            shutil.rmtree(other)


def state(path: Path) -> dict[str, Any]:
    """Where the training stood: the `state` given to `save`."""
    return json.loads((path / "state.json").read_text())


def arrays(path: Path, like: Any) -> Any:
    """The arrays of a checkpoint, of the shapes and types of `like` (arrays or jax.ShapeDtypeStruct)."""
    device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), like)
    with ocp.StandardCheckpointer(multiprocessing_options=_alone()) as orbax:
        return orbax.restore(path.absolute() / "arrays", abstract)


def load_model(path: Path, like: Any) -> Any:
    """The parameters of a finished model, written by `write`; raises UserError where the folder is damaged."""
    problem = damage(path)
    if problem is not None:
        raise UserError(f"the model is damaged: {problem}", path, "train it again, or resume its training")
    _require_shapes(path, like)
    return arrays(path, like)


def _require_shapes(path: Path, like: Any) -> None:
    """Raise a UserError where stored arrays have other names or shapes than `like`."""
    with ocp.StandardCheckpointer(multiprocessing_options=_alone()) as orbax:
        stored = _shapes(orbax.metadata(path.absolute() / "arrays").item_metadata.tree)
    expected = _shapes(like)
    if stored != expected:
        names = [name for name in {**expected, **stored} if stored.get(name) != expected.get(name)]
        name = names[0]
        what = f"the parameter {name} has the shape {stored.get(name)}, by the configuration {expected.get(name)}"
        raise UserError(what, path, "train the model again")


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda leaf: hasattr(leaf, "shape"))
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): tuple(leaf.shape) for path, leaf in leaves
    }


def require_same(stored: Mapping[str, Any], known: Mapping[str, Any], where: Path) -> None:
    """Raise a UserError that says what differs, unless all that is `known` of a training is so in `stored`."""
    for name, value in known.items():
        was, now = stored.get(name), _plain(value)
        if was != now:
            raise UserError(
                f"this is of another training: {name} differs{_difference(was, now)}", where,
                "give the options of the first call, or choose another --out",
            )  # fmt: skip


def _plain(value: Any) -> Any:
    # as JSON gives it back
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _difference(was: Any, now: Any) -> str:
    if isinstance(was, dict) and isinstance(now, dict):
        names = [k for k in {**was, **now} if was.get(k) != now.get(k)]
        return f" in {', '.join(f'{k} ({was.get(k)} there, {now.get(k)} here)' for k in names)}"
    return f" ({was} there, {now} here)"


def every(directory: Path) -> list[Path]:
    """All checkpoints, whole or damaged, oldest first."""
    named = (p for p in directory.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", p.name))
    return sorted((p for p in named if p.is_dir()), key=_number)


def _number(path: Path) -> int:
    return int(path.name.rsplit("-", 1)[1])


def _digests(path: Path) -> dict[str, str]:
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.name != "manifest.json")
    return {str(p.relative_to(path)): _sha256(p) for p in files}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
