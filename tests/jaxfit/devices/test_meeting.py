"""Processes meet over plain sockets, whoever else comes to the port."""

import json
import socket
import threading
import time
from contextlib import suppress

import pytest

from jaxfit.devices import meeting
from jaxfit.errors import UserError


def free_port():
    with socket.socket() as server:
        server.bind(("", 0))
        return server.getsockname()[1]


def gather(group, seconds):
    """Gather in a thread; a function that waits for what came of it."""
    said = []

    def run():
        try:
            connections = group.gather(seconds)
            said.append(sorted(connections))
            for connection in connections.values():
                connection.close()
        except UserError as error:
            said.append(error.what)

    thread = threading.Thread(target=run)
    thread.start()

    def result():
        thread.join(30)
        return said[0]

    return result


def connect(group):
    deadline = time.monotonic() + 10
    while True:
        try:
            return socket.create_connection((group.host, group.port), timeout=10)
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "said"),
    [(2, "process 1 did not come within 0.1 s"), (3, "processes 1, 2 did not come within 0.1 s")],
)
def test_those_that_are_missing_are_named(number, said):
    assert gather(meeting.Group("localhost", free_port(), number, "1"), 0.1)() == said


def test_a_stranger_that_sends_byte_after_byte_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(meeting, "HELLO_SECONDS", 0.3)
    group = meeting.Group("localhost", free_port(), 2, "1")
    result, begin = gather(group, 20.0), time.monotonic()
    with connect(group) as stranger:
        done = threading.Event()

        def drip():
            with suppress(OSError):
                while not done.wait(0.1):
                    stranger.sendall(b"x")

        threading.Thread(target=drip, daemon=True).start()
        (found,) = group.meet(1, 10.0).values()
        done.set()
    assert result() == [1]
    assert time.monotonic() - begin < 5
    found.close()


def test_process_0_that_answers_byte_after_byte_is_not_waited_for_longer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        group = meeting.Group("127.0.0.1", server.getsockname()[1], 2, "1")

        def drip():
            connection, _ = server.accept()
            with connection, suppress(OSError):
                for _ in range(30):
                    connection.sendall(b"x")
                    time.sleep(0.1)

        thread = threading.Thread(target=drip)
        thread.start()
        begin = time.monotonic()
        with pytest.raises(UserError, match=r"process 0 was not met within 0\.5 s"):
            group.meet(1, 0.5)
        assert time.monotonic() - begin < 2
        thread.join()


def test_one_that_is_not_as_expected_and_all_before_it_are_told():
    group = meeting.Group("localhost", free_port(), 3, "1")
    result = gather(group, 20.0)
    with connect(group) as first, connect(group) as other:
        first.sendall(json.dumps({"process": 1, "number": 3, "version": "1"}).encode() + b"\n")
        other.sendall(json.dumps({"process": 2, "number": 3, "version": "2"}).encode() + b"\n")
        answers = [json.loads(one.makefile().readline())["wrong"] for one in (first, other)]
    assert answers == [result()] * 2
    assert answers[0].endswith("has 2, process 0 has 1")
