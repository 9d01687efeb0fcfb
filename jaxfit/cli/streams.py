"""Standard input, output and error of a command, which may be closed, full or gone."""

import io
import os
import sys
from typing import Any

from jaxfit.errors import UserError


class _Messages(io.FileIO):
    """A file that drops what it cannot take: a full log or a lost terminal is no reason to end a training."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def prepare() -> None:
    """Let messages on standard error never fail, and put an empty file in place of a stream that is closed.

    Otherwise the next file opened would get its descriptor, and what is printed would go into it. Standard output that
    is closed stays `None`.
    """
    closed = [number for number in range(3) if not _is_open(number)]
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if 0 in closed:
        sys.stdin = os.fdopen(0, closefd=False)
    encoding = sys.stderr.encoding if sys.stderr else None
    errors = io.BufferedWriter(_Messages(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(errors, encoding, "backslashreplace", line_buffering=True, write_through=True)


def require_output() -> None:
    """Raise a UserError where standard output is closed, so that results would be lost."""
    if sys.stdout is None:
        raise UserError("it is closed", "standard output", "send it to a file, or to /dev/null")


def escape() -> None:
    """Let standard output escape what its encoding lacks: a result or a file is not lost by a folder's name."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Write what standard output still holds; where it fails, drop that, so that it fails no more when Python ends."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
