"""The manifest of a folder: the sha256 and size of every file in it, written last, checked when it is read.

`manifest.json` of a checkpoint or of parameters lists all files below it. That of a finished model lists the files of
the model's folder and, for `parameters/`, the manifest there, which lists the rest. What a training writes for
itself (journals, checkpoints, the model it started from), the model card and names that begin with a dot belong to
neither.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jaxfit.errors import UserError
from jaxfit.run_dir import json_text

FORMAT = 1
NAME = "manifest.json"
CARD = "README.md"
UNLISTED = ("journal.jsonl", "timing.jsonl", CARD)  # people may change the model card


def write(directory: Path) -> None:
    """Write the manifest of all files in a folder and in those below it."""
    files = (p for p in directory.rglob("*") if p.is_file() and p != directory / NAME)
    json_text.write(directory / NAME, _manifest(directory, files))


def of_model(directory: Path, folders: Iterable[str]) -> dict[str, Any]:
    """Return the manifest of a model's folder; folders: those below it that have a manifest and belong to the model."""
    own = (p for p in directory.iterdir() if p.is_file() and not p.name.startswith(".") and p.name not in UNLISTED)
    below = (directory / name / NAME for name in folders)
    return _manifest(directory, [*(p for p in own if p.name != NAME), *(p for p in below if p.is_file())])


def damage(directory: Path) -> str | None:
    """What is wrong with a folder that has a manifest, in words; None where it is whole."""
    try:
        manifest = json.loads((directory / NAME).read_text(encoding="utf-8"))
        if manifest.get("format") != FORMAT:
            return f"its format is {manifest.get('format')}, this program reads {FORMAT}"
        # earlier versions wrote no sizes
        digests, sizes = dict(manifest["sha256"]), dict(manifest.get("size", {}))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return "its manifest is missing or malformed"
    for name, digest in digests.items():
        try:
            size = (directory / name).stat().st_size
            if sizes.get(name, size) != size or _sha256(directory / name) != digest:
                return f"{name} is missing or changed"
        except (OSError, ValueError):  # the latter for a name that cannot be one
            return f"{name} is missing or changed"
    return None


def require_whole(directory: Path) -> None:
    """Raise a UserError where a finished model's files are not those that its manifest lists.

    A folder without a manifest passes: earlier versions wrote one for the parameters alone.
    """
    problem = damage(directory) if (directory / NAME).exists() else None
    if problem is not None:
        raise UserError(f"the model is damaged: {problem}", directory, "train it again")


def _manifest(directory: Path, files: Iterable[Path]) -> dict[str, Any]:
    named = {p.relative_to(directory).as_posix(): p for p in files}
    return {
        "format": FORMAT,
        "sha256": {name: _sha256(named[name]) for name in sorted(named)},
        "size": {name: named[name].stat().st_size for name in sorted(named)},
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
