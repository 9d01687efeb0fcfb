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
from jaxfit.devices import meeting
from jaxfit.devices import sharding as mesh
from jaxfit.errors import UserError
from jaxfit.run_dir import checkpoint


def free_port():
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return server.getsockname()[1]


def run_two_processes(folder, trouble):
    """Run two processes in the same folder to their end: exit statuses, and lines of standard error.

    They train on one device each; process 1 has another, which it does not use.
    """
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    port = free_port()
    both = [
        subprocess.Popen(
            [sys.executable, toy_process.__file__, *map(str, (port, me, folder, trouble))],
            env={**environment, "JAX_NUM_CPU_DEVICES": str(1 + me)}, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
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
    assert second.pop(0).startswith("its model is not that of process 0 (toy 0 there, toy 1 here) (process 1)")
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


def test_two_processes_that_share_the_rows_of_a_table_equal_one(tmp_path):
    expected = toy_process.train(tmp_path / "whole", mesh.make(1))
    statuses, (first, second) = run_two_processes(tmp_path / "split", trouble="split")
    assert statuses == [0, 0]
    # the CPUs of two machines may make different parameters: both processes report it
    assert [line.split(" (")[0] for line in first] == ["another one trains something else"]
    (line,) = second
    assert line.startswith("its checksum of the initial parameters is not that of process 0 (")
    with np.load(tmp_path / "split" / "parameters.npz") as found:
        for name, value in expected.params._asdict().items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6)


def test_only_files_that_a_process_lacks_are_sent(tmp_path, monkeypatch):
    first, other, sent = tmp_path / "first", tmp_path / "other", []
    for folder, texts in ((first, {"a": "1", "b/c": "2", "d": "3"}), (other, {"a": "1", "d": "old"})):
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    digests = {name: processes._digest(first / name) for name in ("a", "b/c", "d")}
    files = iter(["b/c", "d"])
    monkeypatch.setattr(processes, "several", lambda: True)
    monkeypatch.setattr(processes, "leads", lambda: False)
    monkeypatch.setattr(processes, "agreed", lambda _: digests)
    monkeypatch.setattr(processes, "anywhere", bool)
    monkeypatch.setattr(processes, "_of_first", lambda _: sent.append(next(files)) or (first / sent[-1]).read_bytes())
    processes.share(other)
    processes.share(other)
    assert sent == ["b/c", "d"]
    assert {name: processes._digest(other / name) for name in digests} == digests


def test_a_process_with_too_few_devices_is_named(monkeypatch):
    found = {0: jax.local_devices()[:3], 1: jax.local_devices()[3:5]}
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(jax, "local_devices", lambda process_index: found[process_index])
    assert mesh.make(2).size == 4
    with pytest.raises(
        UserError, match=r"^3 devices asked for, 2 found by process 1 \(--devices\) - .* before JAX begins$"
    ):
        mesh.make(3)
    with pytest.raises(UserError, match=r"on 4 devices cannot .* over 8 .* - give --devices a multiple of 4$"):
        mesh.make(2, row_shards=8)


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


def test_nothing_is_asked_of_jax_before_the_processes_have_met(monkeypatch):
    """It would wait for them."""
    found = []
    monkeypatch.setattr(processes, "_joining", False)
    monkeypatch.setattr(processes, "_leaving", threading.Lock())
    monkeypatch.setattr(jax, "process_count", lambda: found.append("asked") or 2)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    monkeypatch.setattr(os, "_exit", found.append)

    def initialize(*_, **__):
        monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
        found.append((processes.several(), processes.leads()))
        processes.leave(7)
        raise RuntimeError("DEADLINE_EXCEEDED")

    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    with pytest.raises(UserError, match="the processes did not meet: DEADLINE_EXCEEDED"):
        processes.join(processes.Join("auto"), "toy")
    assert found == [(False, True), 7]
    assert not processes.several()


@pytest.mark.parametrize("stdout", ["open('/dev/full', 'w')", "None"])
def test_a_process_leaves_also_where_standard_output_takes_nothing(stdout):
    code = (
        "import sys, threading; from jaxfit.devices import distributed\n"
        f"sys.stdout = {stdout}\n"
        "if sys.stdout: sys.stdout.write('result')\n"
        "threading.Thread(target=distributed.leave, args=(3, 'why')).start()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "why\n")


def test_a_process_that_leaves_removes_its_copy_of_the_folder(tmp_path):
    code = (
        "from pathlib import Path; from jaxfit.devices import distributed\n"
        "distributed.leads = lambda: False\n"
        "with distributed.folder(Path('m')) as copy:\n"
        "    copy.mkdir()\n"
        "    print(copy, flush=True)\n"
        "    distributed.leave(3)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 3
    assert done.stdout.startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_short_wait_for_processes_is_no_short_silence_and_no_proxy_is_asked(monkeypatch):
    watched = []
    for name in ("_watch", "_first"):
        monkeypatch.setattr(processes, name, getattr(processes, name))
    monkeypatch.setattr(meeting.Group, "gather", lambda *_: {})
    monkeypatch.setattr(meeting, "Watch", lambda *args: watched.append(args[1]))
    name = "no_grpc_proxy"
    monkeypatch.setenv(name, "")
    monkeypatch.setenv("no_proxy", "example.org")
    assert processes._meet(processes.Join("example.com:1234", 2, 0, 1.0), "toy") == "127.0.0.1:1234"
    assert os.environ[name] == "example.org,127.0.0.1"
    processes._meet(processes.Join("example.com:1234", 2, 0, 99.0), "toy")
    assert watched == [10.0, 99.0]
