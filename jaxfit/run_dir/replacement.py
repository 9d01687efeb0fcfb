"""A new model in place of an old one: trained in a folder beside it, whose place it takes when it has finished.

For `runs/lbl` that is `runs/.lbl.next`. Until then the old model can be used, and a training that fails, diverges or
is stopped has changed nothing of it. Only files that a training has written are ever removed. All of this is done
while the old model's folder is locked (`jaxfit.run_dir.lock`).
"""

import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from jaxfit.devices import distributed as processes
from jaxfit.errors import NoModel, UserError
from jaxfit.run_dir import atomic, manifest, metadata
from jaxfit.run_dir.lock import locked

_OWN = {
    metadata.CONFIG, metadata.PARAMETERS, manifest.NAME, manifest.JOURNAL, manifest.TIMES, manifest.CARD,
    manifest.SCORES,
}  # fmt: skip
_WRITTEN = re.compile(r"checkpoint-\d+|\..+\.(new|old|part)-\w+(\.lock)?")  # the latter by a writer that was killed


@contextmanager
def folder(
    directory: Path, model: str, files: Collection[str], *, overwrite: bool, resume: bool, resumable: bool
) -> Iterator[Path]:
    """Yield the folder to train in, locked: `directory`, or one beside it that takes its place after the training.

    Args:
        directory: the model's folder.
        model: the name of the model.
        files, overwrite, resume: as for `choose`.
        resumable: whether the engine trains the model.

    Raises:
        FolderTaken: There is a model that is neither to be resumed nor to be replaced.
        UserError: Another training runs there, or what is to be replaced is not, or not only, a model.
    """
    with locked(directory) if processes.leads() else nullcontext():
        new = directory
        if processes.leads():
            new = choose(directory, files, overwrite=overwrite, resume=resume)
        with processes.folder(new) as out, locked(out):
            metadata.require_free(out, model, resume=resume, resumable=resumable)
            if new == directory:
                yield out
                return
            try:
                try:
                    yield out
                except BaseException:
                    if not resumable:  # nothing goes on from it
                        shutil.rmtree(out, ignore_errors=True)
                    raise
                with suppress(NoModel):  # time ran out in a first stage
                    if metadata.read_info(out).get("finished", True):
                        put(out, directory)
            finally:
                drop_unsaved(out)


def choose(directory: Path, files: Collection[str], *, overwrite: bool, resume: bool) -> Path:
    """Return the folder to train a model in: `directory`, or one whose model is to replace what is there.

    A training that diverged is replaced without being asked for. With `resume`, what was begun goes on where it was;
    with `overwrite`, too, a replacement that has diverged, or was killed before it saved anything, begins anew.

    Args:
        directory: the model's folder.
        files: names of the files that the models of the package write in addition to those of the engine.
        overwrite: whether a model that is there is to be replaced.
        resume: whether to go on with a training.

    Raises:
        UserError: What is to be replaced is not, or not only, a model.
    """
    new = _beside(directory, "next")
    begun = _has_saved(new) and not _diverged(new)
    if resume and (begun or not (overwrite and new.is_dir())):  # else `new` has nothing to go on from
        return new if begun else directory
    if overwrite and not _has_model(directory) and directory.is_dir() and any(directory.iterdir()):
        raise UserError("the folder has files, but no model", directory, "choose another --out")
    if not (overwrite and _has_model(directory)) and not _diverged(directory):
        return directory
    if begun and not overwrite:
        what = "the training that is to replace this one has begun"
        do = f"add --resume to go on with it, or remove {new}, as --overwrite does"
        raise UserError(what, directory, do)
    if Path.cwd().is_relative_to(os.path.realpath(directory)):
        raise UserError("the current folder cannot be replaced", directory, "give the command elsewhere")
    _require_own(directory, files)
    if new.is_dir():
        _require_own(new, files)
        shutil.rmtree(new)
    return new


def put(new: Path, directory: Path) -> None:
    """Put a folder in the place of another, which is removed; a link to that stays."""
    directory, old = Path(os.path.realpath(directory)), _beside(directory, "replaced")
    shutil.rmtree(old, ignore_errors=True)  # of a run that was killed while it removed it
    if not directory.exists():
        os.replace(new, directory)
        return
    if atomic.exchange(new, directory):
        os.replace(new, old)
    else:
        os.replace(directory, old)
        os.replace(new, directory)
    shutil.rmtree(old)


def drop_unsaved(new: Path) -> None:
    """Remove the folder of a training that is to replace another, but has ended before it saved anything."""
    if not _has_saved(new):
        shutil.rmtree(new, ignore_errors=True)


def _beside(directory: Path, kind: str) -> Path:
    place = Path(os.path.realpath(directory))  # unlike `resolve`, also of links in a circle
    return place.with_name(f".{place.name}.{kind}")


def goes_on(work: Path, place: Path) -> bool:
    """Return whether a training in the folder `work`, for the folder `place`, has left anything to be resumed."""
    return _has_saved(work) or (work == place and _has_model(work))


def _has_saved(directory: Path) -> bool:
    return any(map(metadata.has_saved, metadata.stages(directory)))


def _has_model(directory: Path) -> bool:
    """Return whether a folder has a model, which may be damaged, or the first stage of one."""
    return any(map(metadata.has_model, metadata.stages(directory)))


def _infos(directory: Path) -> list[dict[str, Any]]:
    """Read `config.json` of a model and of the first stage of its training, where they are readable."""
    return [info for stage in metadata.stages(directory) if (info := metadata.readable_info(stage)) is not None]


def _diverged(directory: Path) -> bool:
    return any("diverged" in info for info in _infos(directory))


def _require_own(directory: Path, files: Collection[str]) -> None:
    """Raise a UserError where a folder holds anything but what a training writes."""
    stages = metadata.stages(directory)
    for path in sorted(path for stage in stages for path in stage.iterdir()):
        if path.name in _OWN or path.name in files or _WRITTEN.fullmatch(path.name):
            continue
        if path not in stages:
            what = "it is no part of the model that is to be replaced"
            raise UserError(what, path, "move it, or choose another --out")
