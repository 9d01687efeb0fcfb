"""The manifest of a folder: the sha256 and size of every file in it, written last, checked before it is read.

`manifest.json` of a checkpoint or of parameters lists all files below it. That of a model lists the model's files and,
for `parameters/`, the manifest there, which lists the rest. What a training writes for itself (checkpoints, times, the
model it started from), the model card and its scores belong to neither. The journal, on which no prediction depends,
is listed apart: it is checked where it is shown.

Reading all files of a large model takes longer than what it is loaded for. Sizes are always checked; the files
themselves once: the user's cache folder remembers that a model's files were found whole, by their sizes, times of
change and inodes. `verify` has them read in any case.
"""

import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from jaxfit.errors import UserError
from jaxfit.process import user_cache
from jaxfit.run_dir import json_text

FORMAT = 1
NAME = "manifest.json"
# advice on a damaged model
REPAIR = "give its training command again, with --resume or, where it has no such option, --overwrite"
CARD, SCORES = "README.md", "scores.json"
JOURNAL, TIMES = "journal.jsonl", "timing.jsonl"
JOURNAL_DAMAGE = "it is missing or changed: what is shown of the epochs may be wrong"
MAX_REMEMBERED = 10_000  # states of models' files that were found whole
SETTLED_NS = 2_000_000_000  # age of the newest change: until then another one might have the same time
_MALFORMED = (OSError, ValueError, TypeError, KeyError, AttributeError)


def write(directory: Path) -> None:
    """Write the manifest of all files in a folder and in those below it."""
    json_text.write(directory / NAME, _manifest(directory, _all(directory)))


def of_model(directory: Path, files: Collection[str], folders: Iterable[str]) -> dict[str, Any]:
    """Return the manifest of a model's folder.

    Args:
        directory: the folder.
        files: names of the model's files; those that are there are listed.
        folders: those below it that have a manifest and belong to the model.
    """
    own = [directory / name for name in files]
    own += [directory / name / NAME for name in folders]
    listed = _manifest(directory, filter(Path.is_file, own))
    journal = of_journal(directory)
    return listed if journal is None else listed | {"journal": journal}


def of_journal(directory: Path) -> dict[str, Any] | None:
    """Return the size and sha256 of a model's journal, as manifests and checkpoints list them; None without one."""
    path = directory / JOURNAL
    return {"size": path.stat().st_size, "sha256": _sha256(path)} if path.is_file() else None


def damage(directory: Path) -> str | None:
    """Say what is wrong with a folder of which `write` has listed all files; return None where it is whole."""
    try:
        listed = _listed(directory)
        more = [name for p in _all(directory) if (name := p.relative_to(directory).as_posix()) not in listed]
    except _MALFORMED:
        return "its manifest is missing or malformed"
    if more:
        return f"{more[0]} is not in its manifest"
    return _changed(directory, listed, read=True)


def model_damage(directory: Path, files: Collection[str], *, verify: bool = False) -> str | None:
    """Say what is wrong with a model's folder; return None where it is whole.

    Args:
        directory: the folder.
        files: names of files that must be listed where they are there.
        verify: whether to read all files, also if they were found whole before and have not changed since.
    """
    try:
        listed = _listed(directory)
    except _MALFORMED:
        return "its manifest is missing or malformed"
    for part in [name.removesuffix(NAME) for name in listed if name.endswith(f"/{NAME}")]:
        try:
            listed |= {part + name: value for name, value in _listed(directory / part).items()}
        except _MALFORMED:
            return f"{part}{NAME} is missing or malformed"
    for name in files:
        if name not in listed and (directory / name).exists():
            return f"{name} is not in its manifest"
    sizes = _changed(directory, listed, read=False)
    if sizes is not None:
        return sizes
    mark = _mark(directory, listed)
    if mark is not None and not verify and os.path.exists(mark):  # unlike `Path.exists`, also where it may not look
        return None
    problem = _changed(directory, listed, read=True)
    if mark is not None and problem is None:
        _remember(mark)
    return problem


def journal_damage(directory: Path) -> str | None:
    """Say what is wrong with a model's journal, or None; lines may have been added since the model was written."""
    try:
        expected = json_text.read(directory / NAME).get("journal")
        if expected is None:  # of earlier versions, or of a training that has only begun
            return None
        if (directory / JOURNAL).exists() and not (directory / JOURNAL).is_file():
            raise ValueError("it is no regular file")
        with (directory / JOURNAL).open("rb") as file:
            start = file.read(expected["size"])
        if len(start) == expected["size"] and hashlib.sha256(start).hexdigest() == expected["sha256"]:
            return None
    except FileNotFoundError as error:
        if error.filename == str(directory / NAME):
            return None
    except _MALFORMED:
        pass
    return JOURNAL_DAMAGE


def file_is_whole(directory: Path, name: str) -> bool:
    """Return whether a file has the size and the sha256 that the manifest of its folder lists."""
    try:
        return _changed(directory, {name: _listed(directory)[name]}, read=True) is None
    except _MALFORMED:
        return False


def require_whole(directory: Path, files: Collection[str], *, verify: bool = False) -> None:
    """Raise a UserError where a model's files are not those that its manifest lists; as `model_damage`."""
    problem = model_damage(directory, files, verify=verify)
    if problem is not None:
        raise UserError(f"the model is damaged: {problem}", directory, REPAIR)


def _manifest(directory: Path, files: Iterable[Path]) -> dict[str, Any]:
    named = {p.relative_to(directory).as_posix(): p for p in files}
    return {
        "format": FORMAT,
        "sha256": {name: _sha256(named[name]) for name in sorted(named)},
        "size": {name: named[name].stat().st_size for name in sorted(named)},
    }


def _all(directory: Path) -> list[Path]:
    """List all files in a folder and below it, but its manifest."""
    return [p for p in directory.rglob("*") if p.is_file() and p != directory / NAME]


def _listed(directory: Path) -> dict[str, tuple[str, int | None]]:
    """Read what a manifest lists: name -> sha256 and size, None as earlier versions wrote none; raises `_MALFORMED`."""
    manifest = json_text.read(directory / NAME)
    sizes = dict(manifest.get("size", {}))
    listed = {name: (digest, sizes.get(name)) for name, digest in manifest["sha256"].items()}
    if manifest.get("format") != FORMAT or not listed:
        raise ValueError
    return listed


def _changed(directory: Path, listed: dict[str, tuple[str, int | None]], *, read: bool) -> str | None:
    """Say which file is the first that is not as listed.

    Args:
        read: whether files are read, or only their sizes.
    """
    for name, (digest, size) in listed.items():
        try:
            status = (directory / name).stat()
            if not stat.S_ISREG(status.st_mode) or size not in (None, status.st_size):
                return f"{name} is missing or changed"
            if read and _sha256(directory / name) != digest:
                return f"{name} is missing or changed"
        except (OSError, ValueError):  # the latter for a name that cannot be one
            return f"{name} is missing or changed"
    return None


def _mark(directory: Path, listed: Iterable[str]) -> Path | None:
    """Return the path that is a file once files in this state were found whole; None where they have just changed."""
    digest, newest = hashlib.sha256(), 0
    try:
        for name in (NAME, *listed):
            found = (directory / name).stat()
            newest = max(newest, found.st_mtime_ns, found.st_ctime_ns)
            state = (name, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_dev, found.st_ino)
            digest.update(repr(state).encode())
    except (OSError, ValueError):
        return None
    settled = time.time_ns() - newest > SETTLED_NS
    return user_cache.folder() / "whole" / digest.hexdigest()[:32] if settled else None


def _remember(mark: Path) -> None:
    """Make an empty file, and forget the oldest of too many; without a cache folder nothing is remembered."""
    with suppress(OSError):
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch()
        known = os.listdir(mark.parent)
        if len(known) > MAX_REMEMBERED:
            oldest = sorted((mark.parent / name for name in known), key=lambda p: p.stat().st_mtime)
            for path in oldest[: MAX_REMEMBERED // 2]:
                path.unlink()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
