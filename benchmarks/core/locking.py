"""Locks between processes that share a folder of models or records."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jaxfit.errors import UserError


@contextmanager
def locked(path: Path, option: str, wait: bool = True) -> Iterator[None]:
    """Let one process at a time make or change a file or folder; another that wants it waits.

    Args:
        path: of the file or folder; the lock is a file in the same folder, with ".lock" after the name.
        option: the option of the command that names the folder where it is.
        wait: whether to wait for another process that has the lock.

    Raises:
        BlockingIOError: another process has the lock, and `wait` is False.
        UserError: the lock cannot be written.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system: do not work on one file in two processes there
        yield
        return
    lock = path.with_name(f"{path.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("w")
    except OSError as error:
        raise UserError(f"cannot write there: {error.strerror}", lock, f"choose another {option}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
