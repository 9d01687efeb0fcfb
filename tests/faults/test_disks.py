"""Disks that are full, limited or read-only: one line, nothing is lost or half-written, and with space all goes on."""

import contextlib
import errno
import os
import resource
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import jaxcf
import jaxlm
from jaxcf.cli.main import main as jaxcf_main
from jaxfit.recipe import named_arrays
from jaxfit.run_dir import atomic, json_text, manifest
from jaxlm.cli.main import main as jaxlm_main
from small_models import SMALL, write_text

MAINS = {"jaxlm": jaxlm_main, "jaxcf": jaxcf_main}
FAST = 4  # of the writes of a training that fail in the fast part

disk = SimpleNamespace(folder=None, writes=[], fails=-1)


def _audit(event: str, args: tuple) -> None:
    """Python's audit hook: see every file that is opened for writing, made or renamed, and let one fail."""
    if disk.folder is None or event not in ("open", "os.mkdir", "os.rename", "os.truncate", "fsync"):
        return
    reads = event == "open" and not args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if reads or isinstance(args[0], int) or disk.folder not in os.fsdecode(args[0]):
        return
    if event == "os.mkdir" and os.path.isdir(args[0]):
        return
    disk.writes.append((event, os.fsdecode(args[0])))
    if len(disk.writes) - 1 == disk.fails:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


sys.addaudithook(_audit)


@contextlib.contextmanager
def full_at(folder: Path, write: int, monkeypatch: pytest.MonkeyPatch):
    """Let the disk of a folder be full at one write, counted from 0; yields the list of all writes."""
    real = atomic._sync

    def sync(path: Path) -> None:
        _audit("fsync", (path,))
        real(path)

    monkeypatch.setattr(atomic, "_sync", sync)
    disk.folder, disk.writes, disk.fails = str(folder), [], write
    try:
        yield disk.writes
    finally:
        disk.folder = None


@contextlib.contextmanager
def limited(kind: int, most: int):
    """Lower one of the system's limits of this process."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Make a folder of a text, ratings, and models of them."""
    place = tmp_path_factory.mktemp("disks")
    write_text(place / "text", 0)
    rows = [f"u{user},i{(user + k) % 7},{1 + (user * k) % 5}" for user in range(12) for k in range(5)]
    (place / "ratings").write_text("\n".join(["user,item,stars", *rows]) + "\n")
    for model in ("kn", "hlbl", "pmf"):
        assert MAINS[program(model)](["train", *training(model, place), "--out", str(place / model)]) == 0
    return place


def program(model: str) -> str:
    return "jaxcf" if model in ("pmf", "bias") else "jaxlm"


def training(model: str, folder: Path) -> list[str]:
    if program(model) == "jaxcf":
        return [model, "--ratings", str(folder / "ratings"), *(["--epochs", "2"] if model == "pmf" else [])]
    more = {"kn": ["--order", "2"], "hlbl": [*SMALL, "--tree", "random"], "lbl": SMALL}[model]
    return [model, "--train", str(folder / "text"), *more]


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if "checkpoint-" not in path.name)


def digest(model: str, place: Path) -> bytes:
    """Return all numbers of a model."""
    params = (jaxcf if program(model) == "jaxcf" else jaxlm).load(place).params
    if model == "kn":
        return b"".join(np.asarray(array).tobytes() for table in params.tables for array in table)
    return b"".join(np.asarray(array).tobytes() for array in named_arrays(params).values())


def assert_one_line(said: str, program: str) -> None:
    lines = [line for line in said.splitlines() if line.startswith(f"{program}: ") and "warning: " not in line]
    assert len(lines) == 1, said
    assert said.endswith(lines[0] + "\n"), said
    assert len(lines[0]) <= 400
    assert "Traceback" not in said


def fail_and_go_on(model: str, write: int, folder: Path, out: Path, capsys, monkeypatch) -> None:
    """Let one write of a training fail, then give the same command again, with space."""
    main, argv = MAINS[program(model)], ["train", *training(model, folder), "--out", str(out)]
    with monkeypatch.context() as patch, full_at(out, write, patch) as writes:
        status = main(argv)
    said = capsys.readouterr().err
    if len(writes) <= write:  # how many files Orbax writes differs by a few
        return
    assert status == 2, (writes[write], said)
    assert_one_line(said, program(model))
    assert "No space left on device" in said
    assert not list(out.rglob(".*")), (writes[write], "left behind")
    resumable = model in ("hlbl", "pmf")
    assert main([*argv, "--resume"] if resumable else argv) == 0 or main([*argv, "--overwrite"]) == 0, writes[write]
    assert names(out) == names(folder / model), writes[write]
    assert (out / "config.json").read_bytes() == (folder / model / "config.json").read_bytes(), writes[write]
    assert digest(model, out) == digest(model, folder / model), writes[write]


def number_of_writes(model: str, folder: Path, out: Path, monkeypatch) -> int:
    with monkeypatch.context() as patch, full_at(out, -1, patch) as writes:
        assert MAINS[program(model)](["train", *training(model, folder), "--out", str(out)]) == 0
    return len(writes)


@pytest.mark.parametrize("model", ["kn", "hlbl", "pmf"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of Orbax's threads
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("cases", [FAST, pytest.param(10_000, marks=pytest.mark.slow, id="all")])
def test_a_disk_that_is_full_at_each_write(model, cases, folder, tmp_path, capsys, monkeypatch):
    number = number_of_writes(model, folder, tmp_path / "counted", monkeypatch)
    assert number > 10
    for write in range(1, number, max(1, number // cases)):
        capsys.readouterr()
        fail_and_go_on(model, write, folder, tmp_path / f"m{write}", capsys, monkeypatch)


def test_a_disk_that_is_full_when_the_scores_of_a_card_are_written(folder, tmp_path, capsys, monkeypatch):
    out, write = tmp_path / "m", json_text.write
    argv = ["train", *training("pmf", folder), "--out", str(out)]

    def full(path, value):
        if manifest.SCORES in path.name:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, value)

    with monkeypatch.context() as patch:
        patch.setattr(json_text, "write", full)
        assert jaxcf_main(argv) == 2
    assert_one_line(capsys.readouterr().err, "jaxcf")
    assert jaxcf_main([*argv, "--resume"]) == 0
    assert names(out) == names(folder / "pmf")


@pytest.mark.parametrize(
    "command",
    [
        "jaxlm export kn --format arpa --out new",
        "jaxlm export hlbl --format word2vec --out new",
        "jaxlm export hlbl --format safetensors --out new",
        "jaxlm tree hlbl --out new.npz",
        "jaxlm info hlbl --plot new.png",
        "jaxcf export pmf --out new.safetensors",
        "jaxcf split ratings --scheme random --out new",
        "jaxlm train kn --train text --out new",
        "jaxlm train lbl --train text --num-features 4 --epochs 1 --out new",
        "jaxcf train bias --ratings ratings --out new",
    ],
)
def test_a_limit_on_the_size_of_files_is_one_line_in_every_writer(command, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    program, *argv = command.split()
    with limited(resource.RLIMIT_FSIZE, 100):
        assert MAINS[program](argv) == 2
    said = capsys.readouterr().err
    assert_one_line(said, program)
    assert "File too large" in said
    left = [path for path in folder.rglob("*new*") if path.is_file() and path.stat().st_size >= 100]
    assert left == []
    assert MAINS[program](argv) == 0
    for path in folder.glob("*new*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("command", ["jaxlm export kn --format arpa --out", "jaxcf export pmf --out"])
def test_a_device_is_not_replaced(command, folder, capsys, monkeypatch):
    """Which root could."""
    monkeypatch.chdir(folder)
    program, *argv = command.split()
    os.mkfifo(folder / "pipe")
    for device in ("/dev/full", "/dev/stdout", "pipe"):
        assert MAINS[program]([*argv, device]) == 2
        assert "a device cannot be replaced by a file" in capsys.readouterr().err
    (folder / "pipe").unlink()
    assert not Path("/dev/full").is_file()


@pytest.mark.parametrize(
    "command", ["jaxlm score kn text", "jaxlm info kn --json", "jaxlm --help", "jaxcf predict pmf --pairs ratings"]
)
def test_a_full_standard_output_is_one_line(command, folder):
    program, *argv = command.split()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", f"{program}.cli.main", *argv], cwd=folder, stdout=full, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
    assert done.returncode == 2
    assert_one_line(done.stderr, program)
    assert "No space left on device (standard output)" in done.stderr


def test_a_finished_model_on_a_read_only_disk_is_resumed_and_nothing_else_is_written(folder):
    """In a name space of its own, where a folder can be made read-only also for root."""
    mounted = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mounted], capture_output=True).returncode:
        pytest.skip("no read-only disk: mounting is not allowed here")
    train = shlex.join([sys.executable, "-m", "jaxlm.cli.main", "train", *training("hlbl", folder), "--quiet"])
    script = f"{mounted} && {train} --out {folder}/hlbl --resume; echo $?; {train} --out {folder}/other; echo $?"
    (folder / "hlbl" / "README.md").unlink()
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, cwd=folder)
    assert done.stdout.splitlines()[2:] == ["its training had finished before", "0", "2"], done
    assert done.stderr == f"jaxlm: cannot write: Read-only file system ({folder}/other) - choose another folder\n"


def test_folders_are_synced_after_what_is_in_them(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(atomic, "_sync", lambda path: synced.append(path.name))
    with atomic.replacing(tmp_path / "new") as aside:
        (aside / "a" / "b").mkdir(parents=True)
        (aside / "a" / "b" / "file").touch()
        (aside / "other").touch()
    *inside, new, parent = synced
    assert inside in (["other", "file", "b", "a"], ["file", "b", "a", "other"])
    assert new.startswith(".new.new-")
    assert parent == tmp_path.name
