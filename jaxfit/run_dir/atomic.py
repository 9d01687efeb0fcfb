"""Write files and folders completely or not at all.

What is written lies beside its place under a name of its own, `.NAME.new-TOKEN`, until it is complete. Its writer holds
a lock on `.NAME.new-TOKEN.lock` meanwhile, so that another process, on any machine that shares the file system, can
distinguish what a killed writer left from what is still being written.
"""

import ctypes
import errno
import glob
import gzip
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO

from jaxfit.errors import UserError
from jaxfit.run_dir.lock import require_there, unwritable

NEW, OLD, LOCK = ".new-", ".old-", ".lock"
# errors of a disk that is full or may not be written
DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG, errno.EIO}
ABANDONED_SECONDS = 24 * 3600.0  # age of a leftover whose writer cannot be asked for, as there are no locks
SWAP_SECONDS = 1.0  # how long to wait for a writer that is just between its two renames
LATE_SECONDS = 0.5  # how long threads of a library whose writing failed may go on making files
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE and AT_FDCWD of Linux


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name beside `path` to write a file or a folder under; put it in place of `path` when all went well.

    A reader finds what was at `path` before or what is written, at any moment. Leftovers of killed writers of the same
    `path` are removed. Files get the permissions that the umask grants, also those that a library made readable by
    their owner only.

    Raises:
        UserError: The disk is full or may not be written; what was at `path` before is then untouched. Something other
            than a file or a folder is there, such as a device. Its folder is a file, or a link to nowhere.
    """
    _require_replaceable(path)
    token = uuid.uuid4().hex[:12]
    new, old = (path.with_name(f".{path.name}{kind}{token}") for kind in (NEW, OLD))
    lock = new.with_name(new.name + LOCK)
    descriptor, late = None, LATE_SECONDS
    try:
        require_there(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        recover(path)
        remove_leftovers(path.parent, glob.escape(path.name))
        descriptor = _lock(lock, create=True)
        yield new
        for made in sorted([new, *new.rglob("*")], reverse=True):  # what is in a folder before the folder
            if made.is_file() and descriptor is not None:  # the lock was made with the umask
                made.chmod(stat.S_IMODE(os.fstat(descriptor).st_mode))
            if made.is_file() or os.name == "posix":  # elsewhere a folder cannot be opened
                _sync(made)
        require_there(path)
        if path.is_dir():
            if not new.is_dir():
                raise IsADirectoryError
            if not exchange(new, path):
                os.replace(path, old)
                os.replace(new, path)
        else:
            os.replace(new, path)
        if os.name == "posix":
            _sync(path.parent)  # renames outlast a loss of power
        late = 0.0
    except IsADirectoryError as error:
        raise UserError("a directory was given instead of a file", path, "name a file") from error
    except OSError as error:
        require_there(path)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = f"{'free some space' if full else 'check the permissions'} or choose another place"
        if error.errno == errno.ENAMETOOLONG:  # with what is added while it is written
            advice = "choose a shorter name"
        raise unwritable(error, path, path.parent, advice) from error
    finally:
        if os.path.exists(old) and not os.path.exists(path):  # stopped between the two renames
            os.replace(old, path)
        _remove(old)
        _remove(new, late)
        with suppress(OSError):
            lock.unlink(missing_ok=True)
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """Open a file that is put in place of `path`, as by `replacing`; it is gzipped if the name ends in `.gz`."""
    with replacing(path) as aside, open(aside, "wb") as raw:
        # without name and time, so that equal content gives equal bytes
        zipped = gzip.GzipFile("", "wb", 6, raw, mtime=0) if path.suffix == ".gz" else nullcontext(raw)
        with zipped as file:
            yield file


def _require_replaceable(path: Path) -> None:
    """Raise a UserError for what is neither a file nor a folder, and for any name in /dev, also where root may."""
    if (os.path.exists(path) and not (path.is_file() or path.is_dir())) or os.path.abspath(path.parent) == "/dev":
        raise UserError("a device cannot be replaced by a file", path, "name a file")


def recover(path: Path) -> None:
    """Put back what was at `path`, if a writer was killed between moving it aside and putting the new in place.

    Only file systems without an exchange of names have such a moment. Of no effect where `path` is there.
    """
    deadline = time.monotonic() + SWAP_SECONDS
    while not os.path.exists(path):
        found = path.parent.glob(f".{glob.escape(path.name)}{OLD}*")
        old = min(found, key=_age, default=None)
        if old is None:
            return
        lock = old.with_name(old.name.replace(OLD, NEW) + LOCK)
        if _abandoned(lock) or time.monotonic() > deadline:
            with suppress(OSError):  # another process was first, or we may only read
                os.replace(old, path)
            return
        time.sleep(0.01)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two names at once, where the system and the file system can."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # not Linux
        return False
    return call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0


def _lock(path: Path, *, create: bool) -> int | None:
    """Lock a file and return its descriptor; None where there are no locks, or another process holds it.

    A file that is created is waited for: `_abandoned` of another process may hold it for an instant, and may remove it.
    """
    try:
        import fcntl
    except ImportError:  # not POSIX
        return None
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if create else fcntl.LOCK_NB))
        except OSError:
            os.close(descriptor)
            return None
        if not create or _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _abandoned(lock: Path) -> bool:
    """Return whether a lock file is there whose owner is gone."""
    try:
        descriptor = _lock(lock, create=False)
    except OSError:
        return False
    if descriptor is None:
        return False
    os.close(descriptor)
    return True


def remove_leftovers(folder: Path, name: str) -> None:
    """Remove what killed writers left in a folder, their locks last.

    Args:
        folder: where they wrote.
        name: a pattern, as of `glob`, of the names of what they wrote.
    """
    done = set()
    for kind in (NEW, OLD, ".part-"):  # the last as earlier versions named it
        for leftover in folder.glob(f".{name}{kind}*"):
            lock = leftover.with_name(leftover.name.replace(OLD, NEW) + LOCK)
            if not leftover.name.endswith(LOCK) and (_abandoned(lock) or _age(leftover) > ABANDONED_SECONDS):
                _remove(leftover)
                done.add(lock)
    for lock in folder.glob(f".{name}{NEW}*{LOCK}"):
        # without what it guards it may have been made this moment, and be locked the next
        if _abandoned(lock) and (lock in done or _age(lock) > SWAP_SECONDS):
            with suppress(OSError):  # of a folder that may only be read
                lock.unlink(missing_ok=True)


def _age(path: Path) -> float:
    """Return the seconds since a file or folder was made or renamed."""
    try:
        return time.time() - path.lstat().st_ctime
    except OSError:
        return 0.0


def _remove(path: Path, late: float = 0.0) -> None:
    """Remove a file or a folder; a folder again, when it reappears within `late` seconds."""
    if os.path.isfile(path) or os.path.islink(path):  # what a link points to stays
        with suppress(OSError):
            path.unlink(missing_ok=True)
    if not os.path.exists(path):
        return
    tries, gone = 20, time.monotonic()
    while tries and (os.path.exists(path) or time.monotonic() - gone < late):
        if os.path.exists(path):
            shutil.rmtree(path, ignore_errors=True)
            tries, gone = tries - 1, time.monotonic()
        time.sleep(0.01)


def _sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk, where the file system can."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # some file systems cannot; of a folder that others own it is not ours
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF):
            raise
    finally:
        os.close(descriptor)
