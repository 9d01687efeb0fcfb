"""Signals that ask a process to end: Ctrl-C (SIGINT), SIGTERM and SIGHUP, which clusters and closing terminals send.

One that is ignored, as SIGHUP under `nohup`, stays so.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
# a terminal that closes, and some clusters, send one request several times over
SAME_REQUEST_SECONDS = 1.0

HANDLED = b"\0"  # no signal's number

# file descriptor to which Python writes the number of each signal that comes (`signal.set_wakeup_fd`), and handlers
# write HANDLED: what came before it is handled; None where nobody reads it
wakeup_fd: int | None = None
in_training = False


class Signalled(KeyboardInterrupt):
    """The process was asked to end; `number` is the signal's."""

    def __init__(self, number: int = signal.SIGINT, text: str = ""):
        self.number = number
        super().__init__(text or f"stopped by {called(number)}")


def called(number: int) -> str:
    """Return what people call a signal.

    Args:
        number: the signal's number.

    Returns:
        "Ctrl-C" or the signal's name, such as "SIGTERM".
    """
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def number_of(stop: KeyboardInterrupt) -> int:
    """Return the number of the signal that an exception is of."""
    return stop.number if isinstance(stop, Signalled) else signal.SIGINT


@contextmanager
def handled(handler: Handler) -> Iterator[None]:
    """Handle the signals within, but for those that are ignored; the handlers that were there come back.

    Of no effect outside the main thread, which alone can handle signals. A signal within a second of another is taken
    for the same request.
    """
    last = float("-inf")

    def once(number: int, frame: FrameType | None) -> None:
        nonlocal last
        if wakeup_fd is not None:
            with suppress(BlockingIOError):  # full: nobody reads
                os.write(wakeup_fd, HANDLED)
        now = time.monotonic()
        if now - last > SAME_REQUEST_SECONDS:
            last = now
            handler(number, frame)

    before: dict[int, Any] = {}
    try:
        for number in SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, once)
    except ValueError:  # not the main thread
        pass
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def noticed() -> Iterator[Callable[[], int]]:
    """Yield a function that returns the number of the signal received, 0 for none; a second one raises Signalled."""
    global in_training
    received = 0

    def receive(number: int, frame: FrameType | None) -> None:
        nonlocal received
        if received:
            raise Signalled(number)
        received = number

    with handled(receive):
        in_training = True
        try:
            yield lambda: received
        finally:
            in_training = False


@contextmanager
def deferred() -> Iterator[None]:
    """Let a signal wait for what is within to end, then raise Signalled; a second one raises it at once."""
    with noticed() as received:
        yield
    if number := received():
        raise Signalled(number)
