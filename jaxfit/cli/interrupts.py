"""Ctrl-C, SIGTERM and SIGHUP from a command's first moment to its last: one line, and exit status 128 + the number.

An exception that is raised while a module is imported may be lost: extensions in C swallow it, or make another error
of it. There, and where Python could only report it (in a callback from C), the process ends at once; nothing is
half-written then that a later command does not repair. Elsewhere a signal raises a KeyboardInterrupt.

Python handles a signal between two instructions of its main thread. Where that waits for a pipe, another thread wakes
it; where it stays in C, as when XLA compiles, that thread ends the process after `PATIENCE` seconds. Not in training,
where the state is to be saved.
"""

import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from jaxfit.cli import streams
from jaxfit.process import signals, temporary

WAKE_SECONDS = 0.1  # after which the main thread is woken
PATIENCE = 3.0  # seconds


@contextmanager
def one_line(program: str, whole_process: bool) -> Iterator[None]:
    """Let a signal end the process in one line, within and, as its work is then done, not at all after.

    Of no effect unless it is the `whole_process` (a command that was started, not a call of its function), and for
    signals that are ignored.

    Args:
        program: the command's name, in the line.
        whole_process: whether the process is to end afterwards.

    Returns:
        A context manager, in which the command is to be run.
    """
    if not whole_process:
        yield
        return
    streams.prepare()
    report, stopped = sys.unraisablehook, False

    def end(number: int) -> NoReturn:
        with suppress(OSError):  # standard error is full or gone
            os.write(2, f"{program}: stopped by {signals.called(number)}\n".encode())
        temporary.remove_all()
        os._exit(128 + number)

    def receive(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                end(number)
            frame = frame.f_back
        stopped = True
        _silence_threads()
        raise signals.Signalled(number)

    def unraisable(what: Any) -> None:
        if isinstance(what.exc_value, KeyboardInterrupt):
            end(signals.number_of(what.exc_value))
        if not stopped:  # else of work cut off, as of an event loop of Orbax
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


def _silence_threads() -> None:
    """Keep from standard error what other threads say of work cut off, as Orbax' do of a lost folder."""
    report = sys.excepthook

    def of_main(*what: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            report(*what)

    sys.excepthook = of_main  # libraries in C call it in threads of theirs
    threading.excepthook = lambda _: None
    logging.disable(logging.CRITICAL)


@contextmanager
def _watched(end: Callable[[int], NoReturn]) -> Iterator[None]:
    """Wake the main thread for a signal; call `end` where it has still not handled it after a while."""
    main, (receiver, sender) = threading.get_ident(), os.pipe()
    os.set_blocking(sender, False)

    def handled_within(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while select.select([receiver], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if os.read(receiver, 1) == signals.HANDLED:
                return True
        return False

    def watch() -> None:
        while received := os.read(receiver, 1):
            number = received[0]
            if number not in signals.SIGNALS or handled_within(WAKE_SECONDS):  # others' signals, too, are written
                continue
            if not signals.in_training:
                signal.pthread_kill(main, number)
            if not handled_within(PATIENCE) and not signals.in_training:
                end(number)

    threading.Thread(target=watch, daemon=True).start()
    before, signals.wakeup_fd = signal.set_wakeup_fd(sender, warn_on_full_buffer=False), sender
    try:
        yield
    finally:
        signals.wakeup_fd = None
        signal.set_wakeup_fd(before)
