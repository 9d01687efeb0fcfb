"""Files and folders that are either there, whole, or not there at all."""

import errno
import glob
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jaxfit.errors import UserError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name beside `path` to write a file or a folder under; rename it to `path` when all went well.

    Raises UserError where the disk is full or may not be written; what stood at `path` before is then untouched.
    What killed writers of the same `path` left beside it is removed.
    """
    aside = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        yield aside
        _sync(aside)
        if path.is_dir():
            if not aside.is_dir():
                raise IsADirectoryError(errno.EISDIR, "is a folder, not a file")
            shutil.rmtree(path)
        os.replace(aside, path)
        _sync_names(path.parent)
    except OSError as error:
        raise UserError(
            f"cannot write: {error.strerror or error}", path, "free some space or choose another folder"
        ) from error
    finally:
        _remove(aside)


def _remove(path: Path) -> None:
    if path.is_file():
        path.unlink(missing_ok=True)
    for _ in range(20):  # threads of a writer that failed may go on for a moment
        if not path.exists():
            break
        shutil.rmtree(path, ignore_errors=True)
        time.sleep(0.01)


def _remove_leftovers(path: Path) -> None:
    for part in path.parent.glob(f".{glob.escape(path.name)}.part-*"):
        writer = part.name.rpartition("-")[2]
        # our own number: left by another process, before this one was given it
        if writer == str(os.getpid()) or (writer.isdigit() and not _runs(int(writer))):
            _remove(part)


def _runs(process: int) -> bool:
    if os.name != "posix":  # elsewhere the question would be a signal
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _sync_names(directory: Path) -> None:
    """Make renames in a folder outlast a loss of power, where the system can."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # file systems without it
            raise
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
