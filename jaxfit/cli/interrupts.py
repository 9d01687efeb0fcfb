"""Ctrl-C from a command's first moment to its last: one line, and exit status 130.

A KeyboardInterrupt that is raised while a module is imported may be lost: extensions in C swallow it, or make another
error of it. There, and where Python could only report it (in a callback from C), the process ends at once; nothing is
half-written then that a later command does not repair. Elsewhere Ctrl-C raises KeyboardInterrupt, as usual.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn


@contextmanager
def one_line(program: str, whole_process: bool) -> Iterator[None]:
    """Let Ctrl-C end the process in one line, within and, as its work is then done, not at all after.

    Of no effect unless it is the `whole_process` (a command that was started, not a call of its function), and where
    Ctrl-C is ignored.

    Args:
        program: The command's name, in the line.
        whole_process: Whether the process is to end afterwards.
    """
    if not whole_process or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    report = sys.unraisablehook

    def end() -> NoReturn:
        os.write(2, f"{program}: stopped by Ctrl-C\n".encode())
        os._exit(130)

    def press(signum: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                end()
            frame = frame.f_back
        raise KeyboardInterrupt

    def unraisable(what: Any) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            end()
        report(what)

    sys.unraisablehook = unraisable
    try:
        signal.signal(signal.SIGINT, press)
        yield
    except KeyboardInterrupt:
        end()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
