"""Processes that train together meet over plain sockets before JAX connects them, and notice when one is lost.

Where a process is missing or dies, JAX ends the others by a C++ stack, in part only after minutes. So process 0 first
gathers the others at the address where JAX will meet, checks that they are those it waits for, and says to all what is
wrong if not. Their connections stay open: each sends a byte a second over them, and ends in one line where the other
end is closed or silent.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from jaxfit.errors import UserError

BEAT = 1.0  # seconds between two bytes
MIN_SILENCE = 10.0  # seconds: a process is silent while a call in C, for example in XLA, keeps all of Python waiting
GRACE = 10.0  # seconds that process 0 is given to report its own error first
HELLO_SECONDS = 2.0  # in which a process that has connected says which one it is
HERE = "127.0.0.1"  # this machine
NAMED = 10  # processes that are missing, in a message
BYE = b"-"  # the last byte of a process that is done
WHERE = "training by several processes"


@dataclass(frozen=True)
class Group:
    """The processes that are to meet.

    Attributes:
        host, port: where process 0 listens.
        number: of processes in all.
        version: must be the same on all of them.
    """

    host: str
    port: int
    number: int
    version: str

    def gather(self, seconds: float) -> dict[int, socket.socket]:
        """Wait, as process 0, for all others; return the connections to them, by their numbers.

        Raises:
            UserError: the port cannot be used, a process is missing, or one is not as expected.
        """
        with self._listen() as server:
            found, rejected, wrong = self._others(server, time.monotonic() + seconds)
        missing = [str(k) for k in range(1, self.number) if k not in found]
        if missing and not wrong:
            noun = "process" if len(missing) == 1 else "processes"
            named = ", ".join(missing[:NAMED]) + (f" and {len(missing) - NAMED} more" if len(missing) > NAMED else "")
            wrong = f"{noun} {named} did not come within {seconds:g} s"
        for connection in (*found.values(), *rejected):
            with suppress(OSError):
                connection.sendall(json.dumps({"wrong": wrong}).encode() + b"\n")
            if wrong:
                connection.close()
        if wrong:
            _fail(wrong)
        return found

    def _listen(self) -> socket.socket:
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        try:
            socket.getaddrinfo(self.host, self.port)
            return socket.create_server(("", self.port), family=family, dualstack_ipv6=dual)
        except socket.gaierror as error:
            what = f"no machine {self.host!r}: {(error.strerror or '').lower()}"
            raise UserError(what, "--coordinator", "give all processes the address of process 0's machine") from None
        except OSError as error:
            what = f"process 0 cannot listen on port {self.port}: {os.strerror(error.errno or 0).lower()}"
            raise UserError(what, "--coordinator", "choose another port, unless another process 0 runs") from None

    def _others(
        self, server: socket.socket, deadline: float
    ) -> tuple[dict[int, socket.socket], list[socket.socket], str]:
        """Return the connections to those that came in time, to one that is not as expected, and what is wrong."""
        found: dict[int, socket.socket] = {}
        while len(found) < self.number - 1 and (left := deadline - time.monotonic()) > 0:
            server.settimeout(left)
            try:
                connection, address = server.accept()
                hello = _receive(connection, min(deadline, time.monotonic() + HELLO_SECONDS))
                me, number, version = int(hello["process"]), hello["number"], hello["version"]
            except (OSError, ValueError, KeyError, TypeError):  # too late, or another program that tries ports
                continue
            wrong, host = "", address[0].removeprefix("::ffff:")
            if number != self.number:
                wrong = f"process {me} ({host}) is one of {number}, process 0 one of {self.number}"
            elif version != self.version:
                wrong = f"process {me} ({host}) has {version}, process 0 has {self.version}"
            elif me in found and not _is_closed(found[me]):
                wrong = f"there are two processes {me}, the second on {host}"
            if wrong:
                return found, [connection], wrong
            found[me] = connection
        return found, [], ""

    def meet(self, me: int, seconds: float) -> dict[int, socket.socket]:
        """Find process 0, as process `me`; return the connection to it.

        Raises:
            UserError: process 0 is not there, or says what is wrong.
        """
        deadline, answer, why = time.monotonic() + seconds, None, "nothing answers there"
        hello = json.dumps({"process": me, "number": self.number, "version": self.version}).encode() + b"\n"
        while answer is None:
            left = deadline - time.monotonic()
            if left <= 0:
                where = f"--coordinator {self.host}:{self.port}"
                raise UserError(
                    f"process 0 was not met within {seconds:g} s: {why}", where, "see whether it runs there"
                )
            try:
                connection = socket.create_connection((self.host, self.port), timeout=left)
                why = "it still waits for others"
                connection.sendall(hello)
                answer = _receive(connection, deadline)["wrong"]
            except socket.gaierror as error:
                why = (error.strerror or "unknown host").lower()
            except TimeoutError:
                continue
            except OSError:
                why = "nothing answers there"
            except (ValueError, KeyError, TypeError):
                why = "another program answers there"
            if answer is None:
                time.sleep(max(0.0, min(0.2, deadline - time.monotonic())))
        if answer:
            connection.close()
            _fail(answer)
        return {0: connection}


def _fail(what: str) -> NoReturn:
    raise UserError(what, WHERE, "start all of them, with the same address and number, each with its own --process-id")


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return not connection.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _receive(connection: socket.socket, deadline: float) -> dict:
    """Read a line of JSON, the whole of it before the deadline; close the connection where none comes."""
    line = b""
    try:
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
            part = connection.recv(1)
            if not part or len(line) > 1000:
                raise ValueError("no line")
            line += part
        return json.loads(line)
    except (OSError, ValueError):
        connection.close()
        raise


def relay(host: str, port: int) -> str:
    """Return an address on this machine that leads to the given one, and stays open when that one closes.

    JAX ends a process by a C++ stack as soon as its connection to process 0 closes: it is for `Watch` to notice.
    """
    server = socket.create_server((HERE, 0))

    def accept() -> None:
        while True:
            near, _ = server.accept()
            threading.Thread(target=connect, args=(near,), daemon=True).start()

    def connect(near: socket.socket) -> None:
        while True:
            try:
                far = socket.create_connection((host, port))
                break
            except OSError:  # JAX does not listen yet
                time.sleep(0.1)
        threading.Thread(target=_forward, args=(far, near), daemon=True).start()
        _forward(near, far)

    threading.Thread(target=accept, daemon=True).start()
    return f"{HERE}:{server.getsockname()[1]}"


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)


class Watch:
    """Watches the connections to other processes, each in a thread, and lets them know that this one lives."""

    def __init__(self, connections: dict[int, socket.socket], seconds: float, lost: Callable[[str], None]):
        """Begin.

        Args:
            connections: to other processes, by their numbers.
            seconds: of silence after which a process is lost.
            lost: called in a thread with what has happened.
        """
        self.connections, self.seconds, self.lost = connections, seconds, lost
        self.listeners = [
            threading.Thread(target=self._listen, args=item, name=f"process {item[0]}", daemon=True)
            for item in connections.items()
        ]
        for connection in connections.values():
            connection.settimeout(seconds)
        for thread in (*self.listeners, threading.Thread(target=self._beat, name="beat", daemon=True)):
            thread.start()

    def finish(self) -> None:
        """Say goodbye, and wait until the others have: then all can end."""
        self._send(BYE)
        for thread in self.listeners:
            thread.join()

    def _listen(self, number: int, connection: socket.socket) -> None:
        try:
            while (byte := connection.recv(1)) != BYE:
                if not byte:
                    raise ConnectionResetError
        except TimeoutError:
            self.lost(f"process {number} has been silent for {self.seconds:g} s")
        except OSError:
            time.sleep(GRACE if number else 1)  # process 0 ends last, see `distributed.leave`
            self.lost(f"process {number} has ended")

    def _beat(self) -> None:
        while True:
            self._send(b".")
            time.sleep(min(BEAT, self.seconds / 4))

    def _send(self, byte: bytes) -> None:
        for connection in self.connections.values():
            with suppress(OSError):
                connection.sendall(byte)
