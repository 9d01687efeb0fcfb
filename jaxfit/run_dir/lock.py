"""One training at a time in a folder."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jaxfit.errors import UserError

_held: dict[Path, tuple[int, int]] = {}  # of folders, without links in their names: descriptors and threads
_claims = threading.Lock()  # held while `_held` is read and changed


@contextmanager
def locked(directory: Path, doing: str = "training there") -> Iterator[None]:
    """Lock a folder against other trainings; it is made if need be, and removed if it stays empty.

    The lock is on the folder itself: no file is left behind, and the system releases it when this process ends,
    however it ends. One thread may lock a folder several times over. On a file system without locks, only
    other threads of this process are kept out.

    Args:
        directory: the folder.
        doing: what another process or thread does that has locked it, for the message.

    Returns:
        A context manager, in which the folder is locked.

    Raises:
        UserError: Another process or thread has locked the folder.
    """
    place = Path(os.path.realpath(directory))  # unlike `resolve`, also of links in a circle
    if os.name != "posix" or _held.get(place, (0, 0))[1] == threading.get_ident():
        yield
        return
    import fcntl

    with _claims:
        if place in _held:
            raise _taken("thread", doing, directory)
        there = os.path.isdir(directory)
        descriptor = _opened(directory)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise _taken("process", doing, directory) from None
        except OSError:  # a file system without locks
            pass
        _held[place] = descriptor, threading.get_ident()
    try:
        yield
    finally:
        with _claims:
            del _held[place]
            if not there:
                with suppress(OSError):
                    directory.rmdir()  # while it is locked: afterwards it may be another training's
            os.close(descriptor)


def _opened(directory: Path) -> int:
    """Open a folder, which is made if need be; return its descriptor."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise unwritable(error, directory, directory, "choose another folder") from error


def unwritable(error: OSError, path: Path, folder: Path, advice: str) -> UserError:
    """Return the error for a path that cannot be written, or whose folder is a file or a link to nowhere.

    Args:
        error: what writing raised.
        path: what was to be written.
        folder: the folder that `path` is in, or `path` itself.
        advice: what to do in other cases.
    """
    for place in (folder, *folder.parents):  # by functions that raise no error of their own
        if os.path.isfile(place):
            return UserError("it is a file, not a folder", place, "choose another folder")
        if os.path.islink(place) and not os.path.exists(place):
            return UserError("the link leads nowhere", place, "choose another folder")
    return UserError(f"cannot write: {error.strerror or error}", path, advice)


def _taken(other: str, doing: str, directory: Path) -> UserError:
    return UserError(f"another {other} is {doing}", directory, "wait for it, or choose another folder")


def require_there(path: Path) -> None:
    """Raise a UserError for a path in a folder that this process locked and that has since been removed or renamed.

    Args:
        path: a file or folder that is to be written.
    """
    folder = Path(os.path.realpath(path.parent)) if _held else path
    for place, (descriptor, _) in tuple(_held.items()):  # to which another thread may add
        if folder.is_relative_to(place) and not _is_at(descriptor, place):
            do = "if it was renamed, give --resume and its new name; else begin anew"
            raise UserError("the folder was removed or renamed during the training", place, do)


def _is_at(descriptor: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), place.stat())
    except OSError:
        return False
