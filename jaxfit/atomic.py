"""Files and folders that are either there, whole, or not there at all."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jaxfit.errors import UserError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name beside `path` to write a file or a folder under; rename it to `path` when all went well.

    Raises UserError where the disk is full or may not be written; what stood at `path` before is then untouched.
    """
    aside = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield aside
        _sync(aside)
        if path.is_dir():
            if not aside.is_dir():
                raise IsADirectoryError(errno.EISDIR, "is a folder, not a file")
            shutil.rmtree(path)
        os.replace(aside, path)
    except OSError as error:
        raise UserError(
            f"cannot write: {error.strerror or error}", path, "free some space or choose another folder"
        ) from error
    finally:
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        elif aside.is_file():
            aside.unlink()


def _sync(path: Path) -> None:
    for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
