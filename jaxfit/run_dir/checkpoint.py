"""Checkpoints: all that a training needs to go on as if it had never stopped, and finished parameters.

A checkpoint is a folder `checkpoint-00000042` with `arrays/` (written by Orbax), `state.json` (the training's
progress) and `manifest.json` (see `jaxfit.run_dir.manifest`), written aside and renamed, so that a kill leaves either
a whole checkpoint or none. The newest two remain: one damaged later is recognised by its manifest, and the one
before serves. Nothing is unpickled. JAX and Orbax are imported where arrays are read or written, not before.
"""

import errno
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxfit.devices import distributed as processes
from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays
from jaxfit.run_dir import atomic, json_text, manifest
from jaxfit.run_dir.arrays import read_safetensors
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.manifest import REPAIR, damage

if TYPE_CHECKING:
    import orbax.checkpoint as ocp

KEEP = 2
WEIGHTS = "model.safetensors"  # of a folder for a hub, in place of the parameters' folder beside it
OVERHEAD = 1 << 18  # bytes in addition to the arrays', an upper bound


def save(directory: Path, arrays: Any, state: dict[str, Any]) -> None:
    """Write the next checkpoint of a training, then remove all but the newest two.

    Of several processes only process 0 writes it.

    Raises:
        UserError: The disk is full; the older checkpoints are then still there.
    """
    if not processes.leads():
        return
    older = every(directory)
    path = directory / f"checkpoint-{_number(older[-1]) + 1 if older else 1:08d}"
    _write(path, arrays, state)
    for old in every(directory)[:-KEEP]:
        remove(old)


def write(path: Path, arrays: Any, state: dict[str, Any], ready: Callable[[], None] = lambda: None) -> None:
    """Write one folder of arrays with its state and manifest, in place of what is there.

    Of several processes process 0 writes it, and the others receive a copy.

    Args:
        path: the folder.
        arrays: a pytree of them.
        state: what `state` is to return.
        ready: called when all is written, just before it takes its place.
    """
    if processes.leads():
        _write(path, arrays, state, ready)
    processes.share(path)


def _write(path: Path, arrays: Any, state: dict[str, Any], ready: Callable[[], None] = lambda: None) -> None:
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    if processes.several():  # where Orbax writes arrays of JAX only if all processes have a part in them
        arrays = jax.tree.map(np.asarray, arrays)
    with replacing(path) as aside:
        # asked beforehand, since Orbax reports a full disk in pages of tracebacks from its threads
        if shutil.disk_usage(aside.parent).free < sum(leaf.nbytes for leaf in jax.tree.leaves(arrays)) + OVERHEAD:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        try:
            # random-looking floats do not compress, and trying takes most of the time
            handler = ocp.PyTreeCheckpointHandler(use_compression=False, multiprocessing_options=_alone())
            with ocp.Checkpointer(handler, multiprocessing_options=_alone()) as orbax:
                orbax.save(aside.absolute() / "arrays", arrays)
        except Exception as error:  # the writer wraps a full disk in errors of several types
            for number in atomic.DISK:
                if os.strerror(number) in str(error):
                    raise OSError(number, os.strerror(number)) from error
            raise
        json_text.write(aside / "state.json", state)
        manifest.write(aside)
        ready()


def _alone() -> "ocp.options.MultiprocessingOptions":
    # Of several processes one writes, and each reads what it wants; Orbax would have them wait for each other.
    import jax
    import orbax.checkpoint as ocp

    if not processes.several():
        return ocp.options.MultiprocessingOptions()
    me = jax.process_index()
    return ocp.options.MultiprocessingOptions(primary_host=me, active_processes={me}, barrier_sync_key_prefix=f"{me}")


def latest(directory: Path, *, warn: bool = True) -> Path | None:
    """Return the newest whole checkpoint, or None.

    Args:
        warn: whether to warn of every damaged one.
    """
    left = every(directory)
    while left:
        path = left.pop()
        problem = damage(path)
        if problem is None:
            return path
        if warn:
            rest = "; the checkpoint before it is used" if left else ""
            warnings.warn(f"{path} is damaged ({problem}){rest}", stacklevel=2)
    return None


def drop_after(path: Path) -> None:
    """Remove the checkpoints after `path`, which are damaged, so that new ones take their names."""
    for other in every(path.parent):
        if _number(other) > _number(path):
            remove(other)


def remove(path: Path) -> None:
    """Remove a checkpoint; of a link, the link alone."""
    path.unlink() if path.is_symlink() else shutil.rmtree(path)


def state(path: Path) -> dict[str, Any]:
    """Read the `state` given to `save`; a number that was not finite is None."""
    return json_text.read(path / "state.json")


def arrays(path: Path, like: Any) -> Any:
    """Read the arrays of a checkpoint, of the shapes and types of `like` (arrays or jax.ShapeDtypeStruct).

    Where `like` has a NumPy array, it is one; the others are on the default device.
    """
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    from jaxfit.devices.platform import default_device

    device = jax.sharding.SingleDeviceSharding(default_device())
    abstract = jax.tree.map(
        lambda x: x if isinstance(x, np.ndarray) else jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), like
    )
    try:
        with ocp.StandardCheckpointer(multiprocessing_options=_alone()) as orbax:
            return orbax.restore(path.absolute() / "arrays", abstract)
    except Exception as error:
        if (stop := _interruption(error)) is not None:  # the reader wraps it in an error of its own
            raise stop from None
        raise


def _interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interruption that an error was raised from, if any."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def load_model(path: Path, like: Any) -> Any:
    """Read a model's parameters, written by `write` or, beside `path`, in WEIGHTS; the model's folder must be whole.

    Raises:
        UserError: They are of other shapes than `like`, or not finite.
    """
    import jax
    import numpy as np

    from jaxfit.devices.platform import default_device

    weights = path.with_name(WEIGHTS)
    if weights.is_file() and not path.is_dir():
        stored = read_safetensors(weights, "damaged parameters", REPAIR)
        _require_shapes(path, stored, like)
        leaves = [stored[name].astype(leaf.dtype, copy=False) for name, leaf in named_arrays(like).items()]
        found = jax.device_put(jax.tree.unflatten(jax.tree.structure(like), leaves), default_device())
    else:
        _require_shapes(path, _stored(path), like)
        found = arrays(path, like)
    for name, value in named_arrays(found).items():
        if jax.numpy.issubdtype(value.dtype, jax.numpy.inexact) and not np.isfinite(np.asarray(value)).all():
            raise UserError(f"the model is damaged: its {name} has values that are not finite", path, REPAIR)
    return found


def _stored(path: Path) -> dict[str, Any]:
    """Read what is stored of each array by name: its shape and type."""
    import orbax.checkpoint as ocp

    with ocp.StandardCheckpointer(multiprocessing_options=_alone()) as orbax:
        return named_arrays(orbax.metadata(path.absolute() / "arrays").item_metadata.tree)


def _require_shapes(path: Path, named: Mapping[str, Any], like: Any) -> None:
    """Raise a UserError where stored arrays, by name, have other names or shapes than `like`."""
    stored, expected = ({name: tuple(x.shape) for name, x in part.items()} for part in (named, named_arrays(like)))
    for name in {**expected, **stored}:
        if stored.get(name) != expected.get(name):
            what = f"the parameter {name} has the shape {stored.get(name)}, by the configuration {expected.get(name)}"
            raise UserError(what, path, f"its files are not of the same model: {REPAIR}")


def require_same(stored: Mapping[str, Any], known: Mapping[str, Any], where: Path) -> None:
    """Raise a UserError that says what differs, unless `stored` has all that is `known` of a training."""
    for name, value in known.items():
        was, now = stored.get(name), json_text.plain(value)
        if was != now:
            raise UserError(
                f"this is of another training: {name} differs{json_text.difference(was, now)}", where,
                "give the data and the options of the first call, or choose another --out",
            )  # fmt: skip


def every(directory: Path) -> list[Path]:
    """List all checkpoints, whole or damaged, oldest first."""
    named = (p for p in directory.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", p.name))
    return sorted((p for p in named if p.is_dir()), key=_number)


def _number(path: Path) -> int:
    return int(path.name.rsplit("-", 1)[1])
