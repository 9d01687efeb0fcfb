"""Replaced files and folders: the old or the new at any moment, whoever is killed when; no leftovers remain."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from jaxfit.errors import UserError
from jaxfit.run_dir import atomic

# Writes "new" over the folder, says "now" at a moment and waits to be killed there.
WRITER = """
import os, sys, time, pathlib
from jaxfit.run_dir import atomic
path, exchange, moment = pathlib.Path(sys.argv[1]), sys.argv[2] == "exchange", sys.argv[3]
def now():
    print("now", flush=True)
    time.sleep(60)
real, calls = os.replace, []
def replace(a, b):
    calls.append(1)
    if moment == f"before {len(calls)}":
        now()
    real(a, b)
    if moment == f"after {len(calls)}":
        now()
os.replace = replace
swap = atomic.exchange
def exchanged(a, b):
    done = swap(a, b) if exchange else False
    if done and moment == "exchanged":
        now()
    return done
atomic.exchange = exchanged
with atomic.replacing(path) as new:
    new.mkdir()
    (new / "a").write_text("new")
    if moment == "half":
        now()
    (new / "b").write_text("new")
"""


def folder(path, text):
    path.mkdir()
    for name in "ab":
        (path / name).write_text(text)


def content(path):
    return [(path / name).read_text() for name in "ab"]


def exchanges(folder):
    one, other = folder / "one", folder / "other"
    one.mkdir()
    other.mkdir()
    done = atomic.exchange(one, other)
    one.rmdir()
    other.rmdir()
    return done


def kill(path, how, moment):
    with subprocess.Popen([sys.executable, "-c", WRITER, path, how, moment], stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"now\n"
        writer.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    ("how", "moment", "found"),
    [
        ("exchange", "half", "old"),
        ("exchange", "exchanged", "new"),
        ("renames", "half", "old"),
        ("renames", "before 1", "old"),
        ("renames", "after 1", "old"),  # the moment with neither
        ("renames", "before 2", "old"),
        ("renames", "after 2", "new"),
    ],
)
def test_a_killed_writer_leaves_the_old_or_the_new(tmp_path, how, moment, found):
    if how == "exchange" and not exchanges(tmp_path):
        pytest.skip("this system cannot exchange names")
    path = tmp_path / "model"
    folder(path, "old")
    kill(path, how, moment)
    if moment in ("after 1", "before 2"):
        assert not path.exists()
    atomic.recover(path)
    assert content(path) == [found, found]
    with atomic.replacing(path) as new:
        folder(new, "newer")
    assert content(path) == ["newer", "newer"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_writer_recovers_by_itself(tmp_path):
    path = tmp_path / "model"
    folder(path, "old")
    kill(path, "renames", "after 1")
    with pytest.raises(ZeroDivisionError), atomic.replacing(path):
        raise ZeroDivisionError
    assert content(path) == ["old", "old"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def _write_ten(path):
    for count in range(10):
        with atomic.replacing(path) as new:
            folder(new, str(count))


def test_a_reader_always_finds_a_folder(tmp_path):
    if not exchanges(tmp_path):
        pytest.skip("this system cannot exchange names")
    path = tmp_path / "model"
    folder(path, "old")
    writer = threading.Thread(target=_write_ten, args=(path,))
    writer.start()
    reads, missing = 0, 0
    while writer.is_alive():
        reads, missing = reads + 1, missing + (not path.is_dir())
    assert content(path) == ["9", "9"]
    assert reads > 10
    assert missing == 0


def test_what_is_being_written_is_left_alone(tmp_path):
    path = tmp_path / "file"
    with atomic.replacing(path) as one:
        one.write_text("one")
        with atomic.replacing(path) as other:  # as another process would, on any machine
            other.write_text("other")
        assert path.read_text() == "other"
        assert one.read_text() == "one"
    assert path.read_text() == "one"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_leftovers_without_a_lock_go_when_they_are_old(tmp_path, monkeypatch):
    leftovers = [tmp_path / ".file.new-0123456789ab", tmp_path / ".file.part-77"]
    for leftover in leftovers:
        leftover.write_text("half")
    other = tmp_path / ".other.new-0123456789ab"
    other.write_text("half")
    with atomic.replacing(tmp_path / "file") as new:
        new.write_text("whole")
    assert all(leftover.exists() for leftover in leftovers)
    monkeypatch.setattr(atomic, "ABANDONED_SECONDS", 0.0)
    time.sleep(0.01)
    with atomic.replacing(tmp_path / "file") as new:
        new.write_text("whole")
    assert {p.name for p in tmp_path.iterdir()} == {"file", other.name}


def test_without_locks_a_folder_is_replaced_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "_lock", lambda path, create: None)
    monkeypatch.setattr(atomic, "exchange", lambda one, other: False)
    monkeypatch.setattr(atomic, "SWAP_SECONDS", 0.05)
    path = tmp_path / "model"
    folder(path, "old")
    with atomic.replacing(path) as new:
        folder(new, "new")
    assert content(path) == ["new", "new"]
    path.rename(tmp_path / ".model.old-0123456789ab")  # killed between the two renames
    atomic.recover(path)
    assert content(path) == ["new", "new"]


def test_a_failed_swap_puts_the_old_back(tmp_path, monkeypatch):
    path, real, calls = tmp_path / "model", os.replace, []
    folder(path, "old")

    def replace(a, b):
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(a, b)

    monkeypatch.setattr(atomic, "exchange", lambda one, other: False)
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(UserError, match="No space left on device"), atomic.replacing(path) as new:
        folder(new, "new")
    assert content(path) == ["old", "old"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_threads_that_outlive_a_failed_writing_leave_nothing(tmp_path):
    path, threads = tmp_path / "model", []
    folder(path, "old")

    def write_again(new):
        for _ in range(3):
            time.sleep(0.1)
            new.mkdir(exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # removed between the two calls
                (new / "late").write_text("new")

    def fail():
        with atomic.replacing(path) as new:
            folder(new, "new")
            threads.append(threading.Thread(target=write_again, args=(new,)))
            threads[0].start()
            raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left on device"):
        fail()
    threads[0].join()
    assert content(path) == ["old", "old"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_file_does_not_take_a_folders_place(tmp_path):
    folder(tmp_path / "model", "old")
    with (
        pytest.raises(UserError, match="a directory was given instead of a file"),
        atomic.replacing(tmp_path / "model") as new,
    ):
        new.write_text("a file")
    assert content(tmp_path / "model") == ["old", "old"]


@pytest.mark.skipif(os.name != "posix", reason="links need permissions elsewhere")
@pytest.mark.parametrize(
    ("name", "said"),
    [("file/new", r"a file, not a folder \(.*/file\)"), ("file/in/new", r"a file, not a folder \(.*/file\)"),
     ("link/new", r"the link leads nowhere \(.*/link\)"), ("link/in/new", r"the link leads nowhere \(.*/link\)"),
     (f"{300 * 'x'}/new", "choose a shorter name")],
)  # fmt: skip
def test_what_is_wrong_with_the_folder_is_said(tmp_path, name, said):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match=said), atomic.replacing(tmp_path / name) as new:
        new.write_text("")


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_files_get_the_permissions_of_the_umask(tmp_path, mask):
    """Also those that a library makes for their owner only, as safetensors does."""
    before = os.umask(mask)
    try:
        with atomic.replacing(tmp_path / "f") as aside:
            os.close(os.open(aside, os.O_CREAT | os.O_WRONLY, 0o600))
        with atomic.replacing(tmp_path / "d") as aside:
            aside.mkdir()
            os.close(os.open(aside / "f", os.O_CREAT | os.O_WRONLY, 0o600))
    finally:
        os.umask(before)
    for path in (tmp_path / "f", tmp_path / "d" / "f"):
        assert path.stat().st_mode & 0o777 == 0o666 & ~mask
