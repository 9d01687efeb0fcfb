"""Arrays with an element for each word or rating: in memory or, where they are large, in memory-mapped files.

Which arrays are large is no part of how data are read, since it decides nothing about what is read: as the limits on
files (`jaxfit.files.limits`), it is held by a context variable. Without `stored_in`, all arrays are in memory.

A file of an array has no name: the system frees it once nothing uses the array, or the process ends.
"""

import contextlib
import contextvars
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from jaxfit.errors import UserError
from jaxfit.files.opening import Source

PIECE = 1 << 22  # elements that are worked on at a time


class Storage(NamedTuple):
    """Where arrays of more than so many elements are stored: in files in this folder."""

    directory: Source
    memory: int


_storage: contextvars.ContextVar[Storage | None] = contextvars.ContextVar("storage", default=None)


@contextlib.contextmanager
def stored_in(directory: Source | None, memory: int) -> Iterator[None]:
    """Within this context, store arrays of more than `memory` elements in files in a folder; None: in memory."""
    token = _storage.set(None if directory is None else Storage(directory, memory))
    try:
        yield
    finally:
        _storage.reset(token)


def empty(number: int, dtype: DTypeLike, *columns: int) -> np.ndarray:
    """Return an array of shape [number, *columns], of any values, in memory or in a file.

    Raises:
        UserError: there is no room for the file.
    """
    storage = _storage.get()
    if storage is None or number <= storage.memory:
        return np.empty((number, *columns), dtype)
    with _room_in(storage.directory), _temporary(storage.directory) as file:
        size = int(np.prod((number, *columns), dtype=np.int64)) * np.dtype(dtype).itemsize
        if hasattr(os, "posix_fallocate"):  # else a full disk would end the process when the array is written to
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        return np.memmap(file, dtype, "r+", shape=(number, *columns))


def filled(number: int, dtype: DTypeLike, values: Callable[[slice], np.ndarray], *columns: int) -> np.ndarray:
    """Return an array of shape [number, *columns] that is computed in pieces; values: of some of its elements."""
    array = empty(number, dtype, *columns)
    for piece in pieces(number):
        array[piece] = values(piece)
    return array


def pieces(number: int, size: int | None = None) -> Iterator[slice]:
    """Return consecutive slices of so many elements, of `size` each, but for the last; None: of `PIECE`."""
    size = size or PIECE
    return (slice(begin, min(begin + size, number)) for begin in range(0, number, size))


class Collector:
    """An array whose elements are appended, in memory until there are too many: a context, which ends with its file.

    Raises UserError where there is no room for the file.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype, self.number = np.dtype(dtype), 0
        self._held: list[np.ndarray] = []
        self._file: IO[bytes] | None = None
        self._storage = _storage.get()

    def __enter__(self) -> "Collector":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, values: np.ndarray) -> None:
        """Append elements, [k]."""
        self.number += len(values)
        self._held.append(np.asarray(values, self.dtype))
        if self._storage is None or (self._file is None and self.number <= self._storage.memory):
            return
        with _room_in(self._storage.directory):
            self._file = self._file or _temporary(self._storage.directory)
            for held in self._held:
                self._file.write(held.data)
        self._held.clear()

    def array(self) -> np.ndarray:
        """Return all elements, [number]; nothing is appended afterwards."""
        if self._file is None or self._storage is None:
            return np.concatenate(self._held) if self._held else np.zeros(0, self.dtype)
        with _room_in(self._storage.directory):
            self._file.flush()
            return np.memmap(self._file, self.dtype, "r+")


def _temporary(directory: Source) -> IO[bytes]:
    # a finished model's disk may be read-only
    elsewhere = os.path.isdir(directory) and not os.access(directory, os.W_OK)
    return tempfile.TemporaryFile(dir=None if elsewhere else directory)


@contextlib.contextmanager
def _room_in(directory: Source) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"a large array cannot be written: {error.strerror or error}"
        raise UserError(what, directory, "free some disk space") from None
