"""Limits on what is read of a file that a user names.

A file that is not data gives a message instead of filling the memory. Limits are no part of how data are read
(`Reading`), since they decide nothing about what is read: a context variable holds them, which both commands set by
rare options.
"""

import contextlib
import contextvars
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

from jaxfit.errors import UserError
from jaxfit.recipe import option

Source = str | os.PathLike[str]

BUFFER = 1 << 17  # bytes decompressed at a time
SMALL = 1 << 26  # bytes that any compressed file may expand to
MAX_EVENTS = 1_900_000_000  # words of a text, or ratings: positions in padded copies of them have 32 bits


@dataclass(frozen=True)
class Limits:
    """How much is read of files, within `limited`."""

    max_expansion: int = option(
        100, "refuse compressed files that become larger than this; up to 64 MB are always read", "times their size"
    )
    max_line_mb: int = option(128, "refuse files with longer lines", "MB")

    def largest(self, compressed: int) -> int:
        """Return the number of bytes that a file of `compressed` bytes may become."""
        return max(SMALL, self.max_expansion * compressed)

    def require_expansion(self, size: int, compressed: int, kind: str, path: Source) -> None:
        """Raise a UserError where a file of this kind, of `compressed` bytes, becomes too many, `size` bytes."""
        if size > self.largest(compressed):
            what = f"the {kind} file becomes more than {self.max_expansion} times larger when it is read"
            raise UserError(what, path, "if it is what you want, give --max-expansion with a larger number")

    def require_line(self, size: int, where: str) -> None:
        """Raise a UserError for a line of too many bytes."""
        if size > self.max_line_mb << 20:
            do = "divide it into lines, or give --max-line-mb with a larger number"
            raise UserError(f"a line is longer than {self.max_line_mb} MB", where, do)


DEFAULT = Limits()
_limits: contextvars.ContextVar[Limits] = contextvars.ContextVar("limits")


def limits() -> Limits:
    """Return the limits in force."""
    return _limits.get(DEFAULT)


@contextlib.contextmanager
def limited(chosen: Limits) -> Iterator[None]:
    """Read files within these limits."""
    token = _limits.set(chosen)
    try:
        yield
    finally:
        _limits.reset(token)


def require_countable(number: int, what: str, where: Source) -> None:
    """Raise a UserError for more words or ratings than there can be.

    Args:
        what: their name, "words".
    """
    if number > MAX_EVENTS:
        raise UserError(f"more than {MAX_EVENTS:,} {what}", where, "positions have 32 bits: use a part of them")


class _Counted(io.RawIOBase):
    """A stream of bytes that counts those that are read."""

    def __init__(self, stream: Any):
        self.stream, self.count = stream, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.stream.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self.stream.seek(offset, whence)

    def tell(self) -> int:
        return self.stream.tell()

    def readinto(self, buffer: Any) -> int:
        data = self.stream.read(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)


class _Expanded(_Counted):
    """A decompressed stream, which raises a UserError once it has expanded too much."""

    def __init__(self, stream: Any, compressed: _Counted, kind: str, path: Source):
        super().__init__(stream)
        self.limits, self.compressed, self.kind, self.path = limits(), compressed, kind, path

    def readinto(self, buffer: Any) -> int:
        size = super().readinto(buffer)
        self.limits.require_expansion(self.count, self.compressed.count, self.kind, self.path)
        return size


@contextlib.contextmanager
def bounded(raw: IO[bytes], decompress: Callable[[Any], Any], kind: str, path: Source) -> Iterator[IO[bytes]]:
    """Decompress a stream by a function that opens it; reading more than `Limits` says raises a UserError."""
    compressed = _Counted(raw)
    with decompress(compressed) as stream:
        yield cast(IO[bytes], io.BufferedReader(_Expanded(stream, compressed, kind, path), BUFFER))
