"""One training at a time in a folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jaxfit.errors import UserError

_held: set[Path] = set()


@contextmanager
def locked(directory: Path, doing: str = "training there") -> Iterator[None]:
    """Lock a folder against trainings by other processes; it is made if need be, and removed if it stays empty.

    doing: what another process does that has locked it, for the message.

    The lock is on the folder itself: no file is left behind, and the system releases it when this process ends,
    however it ends. Within one process a folder may be locked several times over. A file system without locks
    prevents nothing.

    Raises:
        UserError: Another process has locked the folder.
    """
    place = directory.resolve()
    if os.name != "posix" or place in _held:
        yield
        return
    import fcntl

    there = directory.is_dir()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        what = f"cannot write: {error.strerror or error}"
        raise UserError(what, directory, "choose another folder") from error
    _held.add(place)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            advice = "wait for it, or choose another folder"
            raise UserError(f"another process is {doing}", directory, advice) from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        _held.discard(place)
        os.close(descriptor)
        if not there:
            with suppress(OSError):
                directory.rmdir()
