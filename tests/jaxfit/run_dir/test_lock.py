"""One training at a time in a folder."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from jaxfit.errors import UserError
from jaxfit.run_dir.lock import locked, require_there


def test_a_folder_is_locked_until_its_training_ends_however_it_ends(tmp_path):
    folder = tmp_path / "model"
    code = (
        "import sys, jaxfit.run_dir.lock as l, pathlib\n"
        "with l.locked(pathlib.Path(sys.argv[1])): print(flush=True); input()"
    )
    command = [sys.executable, "-c", code, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(UserError, match="another process is training there"), locked(folder):
            pass
        other.kill()
    with locked(folder), locked(folder):
        assert list(folder.iterdir()) == []
        (folder / "something").touch()
    with locked(folder), locked(tmp_path / "nothing"):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "something"]


def test_a_training_that_is_refused_leaves_the_folder_to_the_other(tmp_path, monkeypatch):
    """Both made it at the same moment, and the other one was the first to lock it."""
    fcntl = pytest.importorskip("fcntl")
    folder, lock, others = tmp_path / "model", fcntl.flock, []

    def second(descriptor, operation):
        others.append(os.open(folder, os.O_RDONLY))
        lock(others[0], operation)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", second)
    with pytest.raises(UserError, match="another process is training there"), locked(folder):
        pass
    assert folder.is_dir()
    os.close(*others)


def test_a_folder_is_locked_against_other_threads(tmp_path):
    def train():
        with locked(tmp_path):
            pass

    with ThreadPoolExecutor(1) as other:
        with locked(tmp_path), locked(tmp_path):
            with pytest.raises(UserError, match="another thread is training there"):
                other.submit(train).result()
            require_there(tmp_path / "file")
        other.submit(train).result()


def test_links_in_a_circle_are_one_line(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for folder in (loop, loop / "model"):
        with pytest.raises(UserError, match=r"cannot write|the link leads nowhere"), locked(folder):
            pass
    with locked(tmp_path / "model"):
        require_there(loop / "file")
