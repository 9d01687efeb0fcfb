"""One training at a time in a folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jaxfit.errors import UserError

_held: dict[Path, int] = {}  # folders, without links in their names, and their descriptors


@contextmanager
def locked(directory: Path, doing: str = "training there") -> Iterator[None]:
    """Lock a folder against trainings by other processes; it is made if need be, and removed if it stays empty.

    The lock is on the folder itself: no file is left behind, and the system releases it when this process ends,
    however it ends. Within one process a folder may be locked several times over. A file system without locks
    prevents nothing.

    Args:
        directory: the folder.
        doing: what another process does that has locked it, for the message.

    Returns:
        A context manager, in which the folder is locked.

    Raises:
        UserError: Another process has locked the folder.
    """
    place = Path(os.path.realpath(directory))  # unlike `resolve`, also of links in a circle
    if os.name != "posix" or place in _held:
        yield
        return
    import fcntl

    there = directory.is_dir()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        lost = directory.is_symlink() and not directory.exists()
        what = "the link leads nowhere" if lost else f"cannot write: {error.strerror or error}"
        file = next((path for path in (directory, *directory.parents) if path.is_file()), None)
        if file is not None:
            raise UserError("it is a file, not a folder", file, "choose another folder") from error
        raise UserError(what, directory, "choose another folder") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            advice = "wait for it, or choose another folder"
            raise UserError(f"another process is {doing}", directory, advice) from None
        except OSError:  # a file system without locks
            pass
        _held[place] = descriptor
        try:
            yield
        finally:
            del _held[place]
            if not there:
                with suppress(OSError):
                    directory.rmdir()  # while it is locked: afterwards it may be another training's
    finally:
        os.close(descriptor)


def require_there(path: Path) -> None:
    """Raise a UserError for a path in a folder that this process locked and that has since been removed or renamed.

    Args:
        path: a file or folder that is to be written.
    """
    folder = Path(os.path.realpath(path.parent)) if _held else path
    for place, descriptor in _held.items():
        if folder.is_relative_to(place) and not _is_at(descriptor, place):
            do = "if it was renamed, give --resume and its new name; else begin anew"
            raise UserError("the folder was removed or renamed during the training", place, do)


def _is_at(descriptor: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), place.stat())
    except OSError:
        return False
