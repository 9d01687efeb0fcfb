"""Ctrl-C, SIGTERM and SIGHUP from a command's first moment to its last: one line, and exit status 128 + the number.

An exception that is raised while a module is imported may be lost: extensions in C swallow it, or make another error
of it. There, and where Python could only report it (in a callback from C), the process ends at once; nothing is
half-written then that a later command does not repair. Elsewhere a signal raises a KeyboardInterrupt.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from jaxfit import signals


@contextmanager
def one_line(program: str, whole_process: bool) -> Iterator[None]:
    """Let a signal end the process in one line, within and, as its work is then done, not at all after.

    Of no effect unless it is the `whole_process` (a command that was started, not a call of its function), and for
    signals that are ignored.

    Args:
        program: The command's name, in the line.
        whole_process: Whether the process is to end afterwards.
    """
    if not whole_process:
        yield
        return
    report = sys.unraisablehook

    def end(number: int) -> NoReturn:
        os.write(2, f"{program}: stopped by {signals.called(number)}\n".encode())
        os._exit(128 + number)

    def receive(number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                end(number)
            frame = frame.f_back
        raise signals.Signalled(number)

    def unraisable(what: Any) -> None:
        if isinstance(what.exc_value, KeyboardInterrupt):
            end(signals.number_of(what.exc_value))
        report(what)

    sys.unraisablehook = unraisable
    try:
        with signals.handled(receive):
            yield
    except KeyboardInterrupt as stop:
        end(signals.number_of(stop))
    finally:
        for number in signals.SIGNALS:
            signal.signal(number, signal.SIG_IGN)
