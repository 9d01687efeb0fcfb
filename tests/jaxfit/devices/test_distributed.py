"""Training by several processes: results equal those of one, and all stop and resume at the same step."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest

import toy_process
from jaxfit.devices import distributed as processes
from jaxfit.devices import sharding as mesh
from jaxfit.errors import UserError
from jaxfit.run_dir import checkpoint


def free_port():
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return server.getsockname()[1]


def run_two_processes(folder, trouble):
    """Run two processes in the same folder to their end: exit statuses, and lines of standard error."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    port = free_port()
    both = [
        subprocess.Popen(
            [sys.executable, toy_process.__file__, *map(str, (port, me, folder, trouble))],
            env=environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        for me in (0, 1)
    ]  # fmt: skip
    lines = [one.communicate(timeout=240)[1].splitlines() for one in both]
    return [one.returncode for one in both], lines


def test_two_processes_stopped_killed_and_resumed_equal_one_of_two_devices(tmp_path):
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    expected = toy_process.train(whole, mesh.make(2))

    statuses, (first, second) = run_two_processes(parted, trouble="yes")
    assert statuses == [1, -signal.SIGKILL]
    # Ctrl-C in one stops both, at the same step of the first epoch
    assert first.pop(0) == second.pop(0) == "stopped at step 5"
    # both report that they do not train the same model
    assert first.pop(0).startswith("another one trains something else (process 0)")
    assert second.pop(0).startswith("its model is not that of process 0 (process 1)")
    # when one is killed in the second epoch, the other ends, too
    assert first.pop(0).startswith("toy: another process has ended")
    assert second == []
    progress = checkpoint.state(checkpoint.latest(parted))["progress"]
    assert (progress["epoch"], progress["at"]) == (1, 0)

    shutil.copytree(parted, tmp_path / "alone")
    assert run_two_processes(parted, trouble="no") == ([0, 0], [[], []])
    assert (parted / "journal.jsonl").read_bytes() == (whole / "journal.jsonl").read_bytes()
    with np.load(parted / "parameters.npz") as found:
        for name, value in expected.params._asdict().items():
            np.testing.assert_array_equal(found[name], value)

    # a single process resumes a training of several
    alone = toy_process.train(tmp_path / "alone", mesh.make(2))
    for found, value in zip(alone.params, expected.params, strict=True):
        np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"coordinator": "here:1", "process_id": 0}, "--num-processes is missing"),
        ({"num_processes": 2, "process_id": 0}, "--coordinator is missing"),
        ({"coordinator": "here", "num_processes": 2, "process_id": 0}, "give HOST:PORT"),
        ({"coordinator": "here:70000", "num_processes": 2, "process_id": 0}, "give HOST:PORT"),
        ({"coordinator": "here:1", "num_processes": 2, "process_id": 2}, "there is no process 2 of 2"),
    ],
)
def test_contradicting_options_are_named_in_the_error(options, complaint):
    with pytest.raises(UserError, match=complaint):
        processes.join(processes.Join(**options))


def test_a_cluster_whose_processes_do_not_meet_ends_in_one_line(monkeypatch):
    said, ended = [], threading.Event()

    def leave(status, line):
        said.append((status, line))
        ended.set()

    monkeypatch.setattr(processes, "leave", leave)
    monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **__: ended.wait(30))
    processes.join(processes.Join("auto", join_seconds=1), "toy")
    ((status, line),) = said
    assert status == 2
    assert line.startswith("toy: the processes did not meet within 1 s (--coordinator auto) - ")
