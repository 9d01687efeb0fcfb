"""Arrays with an element for each word or rating: in memory or, where they are large, in memory-mapped files.

Where the files are, and how many elements make an array large, does not affect results: these are not arguments, but
set by `stored_in`, in a context variable. Without it, all arrays are in memory.

A file of an array has no name: the system frees it once nothing uses the array, or the process ends.
"""

import contextlib
import contextvars
import errno
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from jaxfit.errors import UserError
from jaxfit.files.opening import Source
from jaxfit.run_dir.atomic import DISK

PIECE = 1 << 22  # elements that are worked on at a time
ALIGNMENT = 64  # bytes: JAX on a CPU uses an array with this alignment without copying it


class Storage(NamedTuple):
    """Where large arrays are stored."""

    directory: Source  # of their files
    memory: int  # elements of the largest array that stays in memory


_storage: contextvars.ContextVar[Storage | None] = contextvars.ContextVar("storage", default=None)


@contextlib.contextmanager
def stored_in(directory: Source | None, memory: int) -> Iterator[None]:
    """Within this context, store arrays of more than `memory` elements in files in a folder; None: in memory."""
    token = _storage.set(None if directory is None else Storage(directory, memory))
    try:
        yield
    finally:
        _storage.reset(token)


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Return an uninitialised array in memory, or in a file where its first axis is long.

    `jax.device_put` may share its memory on a CPU: do not write to it afterwards.

    Raises:
        UserError: there is no room for the file.
    """
    storage, dtype = _storage.get(), np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if storage is None or shape[0] <= storage.memory:
        in_memory = np.empty(size + ALIGNMENT, np.uint8)
        begin = -in_memory.ctypes.data % ALIGNMENT
        return in_memory[begin : begin + size].view(dtype).reshape(shape)
    with _room_in(storage.directory), _temporary(storage.directory) as file:
        # the whole file: where a disk is full, writing to a map would end the process
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            for piece in pieces(size):
                file.write(bytes(_length(piece)))
            file.flush()
        return np.memmap(file, dtype, "r+", shape=shape)


def filled(number: int, dtype: DTypeLike, values: Callable[[slice], np.ndarray]) -> np.ndarray:
    """Return an array of `number` elements that is computed in pieces: values(piece) are those of a slice."""
    array = empty((number,), dtype)
    for piece in pieces(number):
        array[piece] = values(piece)
    return array


def pieces(number: int, size: int | None = None) -> Iterator[slice]:
    """Return slices that cover 0 … number - 1, of `size` elements each, by default `PIECE`; the last may be shorter."""
    size = size or PIECE
    return (slice(begin, min(begin + size, number)) for begin in range(0, number, size))


def shuffled(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return the rows of an array, [number, …], in random order; each part of `PIECE` rows or so is in memory once.

    Rows go to buckets at random, of which each is then put in random order, so that all orders are equally likely
    (Sandelius 1962, A simple randomization procedure).
    """
    buckets = max(1, -(-len(rows) // PIECE))
    drawn = filled(
        len(rows), np.uint16, lambda piece: generator.integers(buckets, size=_length(piece), dtype=np.uint16)
    )
    sizes = sum((np.bincount(drawn[piece], minlength=buckets) for piece in pieces(len(rows))), np.zeros(buckets, int))
    ends = np.cumsum(sizes)
    found, places = empty(rows.shape, rows.dtype), ends - sizes
    for piece in pieces(len(rows)):
        own = drawn[piece]
        by_bucket, counts = rows[piece][np.argsort(own, kind="stable")], np.bincount(own, minlength=buckets)
        for place, part in zip(places, np.split(by_bucket, np.cumsum(counts)[:-1]), strict=True):
            found[place : place + len(part)] = part
        places += counts
    for begin, end in zip(ends - sizes, ends, strict=True):
        found[begin:end] = generator.permutation(found[begin:end])
    return found


def _length(piece: slice) -> int:
    return piece.stop - piece.start


class Collector:
    """Collects elements in memory or, once there are many, in a file: a context manager, which closes the file.

    Raises UserError where there is no room for the file. The array stays valid after the context.
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
            with contextlib.suppress(OSError):  # which has been raised before
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
            array = np.concatenate([np.zeros(0, self.dtype), *self._held])
            self._held.clear()
            return array
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
        if error.errno == errno.ENOMEM:
            raise MemoryError from error
        if error.errno not in DISK:
            raise
        what = f"a temporary file of words or ratings cannot be written: {error.strerror}"
        raise UserError(what, directory, "free some disk space") from error
