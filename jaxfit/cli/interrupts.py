"""Ctrl-C, SIGTERM and SIGHUP from a command's first moment to its last: one line, and exit status 128 + the number.

An exception that is raised while a module is imported may be lost: extensions in C swallow it, or make another error
of it. There, and where Python could only report it (in a callback from C), the process ends at once; nothing is
half-written then that a later command does not repair. Elsewhere a signal raises a KeyboardInterrupt.

Python handles a signal between two instructions of its main thread. Where that waits for a pipe, another thread wakes
it; where it stays in C, as when XLA compiles, that thread ends the process after `PATIENCE` seconds. Not in training,
where the state is to be saved.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from jaxfit.cli import streams
from jaxfit.process import signals

PATIENCE = 3.0


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
    streams.prepare()
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
        with signals.handled(receive), _watched(end):
            yield
    except KeyboardInterrupt as stop:
        end(signals.number_of(stop))
    finally:
        for number in signals.SIGNALS:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def _watched(end: Callable[[int], NoReturn]) -> Iterator[None]:
    """Wake the main thread for a signal; call `end` where it has still not handled it after a while."""
    main, (receiver, sender) = threading.get_ident(), os.pipe()
    os.set_blocking(sender, False)

    def watch() -> None:
        while received := os.read(receiver, 1):
            came = time.monotonic()
            for seconds, act in ((0.1, lambda n: signal.pthread_kill(main, n)), (PATIENCE, end)):
                time.sleep(seconds)
                if signals.handled_at < came - 0.1 and not signals.in_training:
                    act(received[0])

    threading.Thread(target=watch, daemon=True).start()
    before = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
