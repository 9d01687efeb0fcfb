"""Two processes: whatever happens to one, both end in bounded time with one line, and the training can be resumed."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import jaxlm
import one_of_two
from jaxlm.cli.main import main

SMALL = [
    "--num-features",
    "4",
    "--context-size",
    "2",
    "--epochs",
    "3",
    "--batch-size",
    "210",
    "--checkpoint-minutes",
    "0",
]
SECONDS = 10  # --join-seconds
ENDED = r"jaxlm: (another process|process \d) has ended - see what it said, and start all of them with --resume"


def free_port():
    with socket.socket() as server:
        server.bind(("", 0))
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Make a folder with texts."""
    folder = tmp_path_factory.mktemp("processes")
    for name, seed in (("text", 0), ("other", 1)):
        starts = np.random.default_rng(seed).integers(20, size=150)
        (folder / name).write_text("".join(" ".join(f"w{(i + k) % 20}" for k in range(6)) + "\n" for i in starts))
    return folder


@pytest.fixture(scope="module")
def whole(place):
    assert (
        main(["train", "lbl", "--train", str(place / "text"), "--out", str(place / "whole"), *SMALL, "--devices", "2"])
        == 0
    )
    return jaxlm.load(place / "whole")


def start(place, out, me, port, *more, number=2, trouble="none", text="text", host="localhost"):
    argv = [
        "train", "lbl", "--train", place / text, "--out", out, *SMALL, "--quiet", "--coordinator", f"{host}:{port}",
        "--num-processes", number, "--process-id", me, "--join-seconds", SECONDS, *more,
    ]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, one_of_two.__file__, trouble, *map(str, argv)], text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "http_proxy": "http://localhost:9"},  # where nothing answers
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(processes, seconds=180):
    """Exit statuses, and lines of standard error but for those with which Gloo begins."""
    try:
        lines = [process.communicate(timeout=seconds)[1].splitlines() for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], [
        [line for line in said if not line.startswith("[Gloo]")] for said in lines
    ]


slow, LATE = pytest.mark.slow, "process 0 was not met within 10 s"
# number of processes, id and port of each; what each says
MEETINGS = [
    pytest.param(["2 0 a"], ["process 1 did not come within 10 s"], id="process 0 alone", marks=slow),
    pytest.param(["2 1 a"], [f"{LATE}: nothing answers there"], id="process 1 alone", marks=slow),
    pytest.param(["2 0 a", "2 1 b"], ["process 1 did not come", LATE], id="wrong port", marks=slow),
    pytest.param(["2 0 a", "3 1 a"], ["process 1 .* is one of 3, process 0 one of 2"] * 2, id="another number"),
    pytest.param(["3 0 a", "3 1 a"], ["process 2 did not come", f"process 2 did not|{LATE}: it still waits"],
                 id="a third missing", marks=slow),
    pytest.param(["3 0 a", "3 1 a", "3 1 a"], ["there are two processes 1"] * 3, id="one number twice", marks=slow),
    pytest.param(["2 0 taken"], [r"process 0 cannot listen on port \d+: address already in use"], id="port taken",
                 marks=slow),
    pytest.param(["2 1 taken"], [f"{LATE}: it still waits"], id="a silent program", marks=slow),
    pytest.param(["2 0 a@none.invalid", "2 1 a@none.invalid"], ["no machine 'none.invalid'", LATE], id="no such host",
                 marks=slow),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "said"), MEETINGS)
def test_processes_that_do_not_meet_say_why(place, tmp_path, settings, said):
    with socket.create_server(("", 0)) as taken:
        ports = {"a": free_port(), "b": free_port(), "taken": taken.getsockname()[1]}
        began, processes = time.monotonic(), []
        for k, words in enumerate(settings):
            number, me, where = words.split()
            name, _, host = where.partition("@")
            processes.append(start(place, tmp_path / str(k), me, ports[name], number=number, host=host or "localhost"))
        statuses, lines = ended(processes)
    assert statuses == [2] * len(settings)
    assert time.monotonic() - began < SECONDS + 60  # most of it for the start of Python and JAX
    for expected, (line,) in zip(said, lines, strict=True):
        assert re.match(f"jaxlm: ({expected}).* - ", line), line
    assert list(tmp_path.iterdir()) == []


@slow
def test_other_programs_that_come_to_the_port_are_passed_over(place, tmp_path):
    port = free_port()
    first = start(place, tmp_path / "0", 0, port)
    while first.poll() is None:
        try:
            with socket.create_connection(("localhost", port), timeout=1) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            break
        except OSError:
            time.sleep(0.1)
    statuses, ((line,),) = ended([first])
    assert statuses == [2]
    assert "process 1 did not come within 10 s" in line


SILENT = r"jaxlm: process {} has been silent for 10 s - see what it said, and start all of them with --resume"
CTRL_C, TERM = (f"jaxlm: stopped by {name}, all is saved" for name in ("Ctrl-C", "SIGTERM"))
LOST = [  # what befalls which process; the statuses; what each says, None: nothing is asked of it; whether to resume
    pytest.param("SIGKILL", 0, [-signal.SIGKILL, 1], ["$", ENDED], False, id="process 0 killed"),
    pytest.param("SIGKILL", 0, [-signal.SIGKILL, 1], ["$", ENDED], True, id="process 0 killed, resumed", marks=slow),
    pytest.param("SIGKILL", 1, [1, -signal.SIGKILL], [ENDED, "$"], True, id="process 1 killed", marks=slow),
    pytest.param("SIGSTOP", 0, [1, 1], [ENDED, SILENT.format(0)], True, id="process 0 hangs", marks=slow),
    pytest.param("SIGSTOP", 1, [1, 1], [SILENT.format(1), ENDED], True, id="process 1 hangs", marks=slow),
    pytest.param("SIGINT", 0, [130, 130], [CTRL_C] * 2, True, id="Ctrl-C at process 0", marks=slow),
    pytest.param("SIGINT", 1, [130, 130], [CTRL_C] * 2, True, id="Ctrl-C at process 1", marks=slow),
    pytest.param("SIGTERM", 0, [143, 143], [TERM] * 2, True, id="SIGTERM at process 0", marks=slow),
    pytest.param("SIGTERM", 1, [143, 143], [TERM] * 2, True, id="SIGTERM at process 1", marks=slow),
    pytest.param("bug", 0, [1, 1], [None, ENDED], True, id="a bug in process 0", marks=slow),
    pytest.param("bug", 1, [1, 1], [ENDED, None], True, id="a bug in process 1", marks=slow),
    pytest.param("full-disk", 0, [2, 1], ["jaxlm: No space left on device", ENDED], True, id="full disk", marks=slow),
]


@pytest.mark.parametrize(("trouble", "whose", "statuses", "said", "resumed"), LOST)
def test_a_process_lost_in_training_ends_the_other(place, request, tmp_path, trouble, whose, statuses, said, resumed):
    port, out = free_port(), tmp_path / "model"
    processes = [start(place, out, me, port, trouble=trouble if me == whose else "none") for me in (0, 1)]
    if trouble == "SIGSTOP":
        processes[1 - whose].wait(timeout=180)
        processes[whose].send_signal(signal.SIGCONT)  # it finds that the other one has gone
    found, printed = ended(processes)
    assert found == (statuses or found), printed
    for lines, expected in zip(printed, said, strict=True):
        assert expected is None or (len(lines) <= 1 and re.match(expected, "".join(lines))), lines
    if resumed:
        whole, port = request.getfixturevalue("whole"), free_port()
        assert ended([start(place, out, me, port, "--resume") for me in (0, 1)]) == ([0, 0], [[], []])
        for one, other in zip(jaxlm.load(out).params, whole.params, strict=True):
            np.testing.assert_array_equal(one, other)


DIFFERENT = [  # the second process' options; what each says
    pytest.param({"more": ["--seed", "7"]}, "seed", [2, 2], id="other options", marks=slow),
    pytest.param({"text": "other"}, "corpus", [2, 2], id="other data", marks=slow),
    pytest.param({"text": "missing"}, "missing", [1, 2], id="a file missing", marks=slow),
    pytest.param({"more": ["--devices", "2"]}, "devices", [2, 2], id="other devices", marks=slow),
    pytest.param(
        {"more": ["--no-such-option"]}, "--no-such-option", [2, 2], id="an error before they meet", marks=slow
    ),
]


@pytest.mark.parametrize(("given", "named", "statuses"), DIFFERENT)
def test_processes_that_do_not_train_the_same_say_so(place, tmp_path, given, named, statuses):
    port, out = free_port(), tmp_path / "model"
    given = dict(given)
    found, lines = ended([start(place, out, 0, port), start(place, out, 1, port, *given.pop("more", []), **given)])
    assert found == statuses, lines
    assert [len(said) for said in lines] == [1, 1], lines
    assert named in lines[1][0]


@slow
def test_a_loss_that_is_not_finite_ends_both(place, tmp_path):
    port = free_port()
    statuses, lines = ended(
        [start(place, tmp_path / "model", me, port, "--rate", "1e30", "--decay", "0") for me in (0, 1)]
    )
    assert statuses == [2, 2]
    assert all(len(said) == 1 and "not finite" in said[0] for said in lines), lines


@slow
@pytest.mark.parametrize("number", [1, 3])
def test_a_training_of_two_processes_resumes_in_another_number(place, whole, tmp_path, number):
    port, out = free_port(), tmp_path / "model"
    ended([start(place, out, me, port, trouble="SIGKILL" if me else "none") for me in (0, 1)])
    port = free_port()
    resumed = [start(place, out, me, port, "--resume", number=number) for me in range(number)]
    assert ended(resumed) == ([0] * number, [[]] * number)
    for one, other in zip(jaxlm.load(out).params, whole.params, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
