"""What surrounds a command: streams, names, folders that go or that are links."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jaxlm
from jaxfit import fit
from jaxfit.errors import UserError
from jaxfit.run_dir import lock
from jaxlm.cli.main import main
from small_models import SMALL, write_text


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("surroundings")
    write_text(place / "text", 0)
    assert main(["train", "kn", "--order", "2", "--train", str(place / "text"), "--out", str(place / "kn")]) == 0
    return place


def training(folder: Path, out: Path, *more: str) -> list[str]:
    return ["train", "lbl", "--train", str(folder / "text"), *SMALL, "--no-anneal", *more, "--out", str(out)]


def shell(command: str, folder: Path) -> subprocess.CompletedProcess:
    command = command.replace("jaxlm", f"{sys.executable} -m jaxlm.cli.main")
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True)


def test_a_closed_standard_output_is_refused_before_anything_is_done(folder):
    done = shell("jaxlm train kn --train text --out new >&-", folder)
    assert done.returncode == 2
    assert done.stderr == "jaxlm: it is closed (standard output) - send it to a file, or to /dev/null\n"
    assert not (folder / "new").exists()


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "<&- 2>&-"])
def test_standard_error_that_takes_nothing_costs_nothing(closed, folder, tmp_path):
    done = shell(f"jaxlm train unigram --train text --json --out {tmp_path}/new {closed}", folder)
    assert done.returncode == 0
    assert done.stdout.startswith('{"command": "train"')
    assert done.stdout.count("\n") == 1
    assert not [path for path in (tmp_path / "new").iterdir() if b"become <unk>" in path.read_bytes()]


def test_a_platform_without_a_device_is_one_line(folder, tmp_path):
    done = shell(f"JAX_PLATFORMS=nowhere jaxlm {' '.join(training(folder, tmp_path / 'new'))}", folder)
    assert done.returncode == 2
    assert done.stderr.startswith("jaxlm: JAX finds no device for JAX_PLATFORMS=nowhere: Unable to initialize backend")
    assert done.stderr.count("\n") == 1


def test_settings_of_jax_in_the_environment_change_nothing(folder, tmp_path):
    plain, wide = tmp_path / "plain", tmp_path / "wide"
    assert main(training(folder, plain)) == 0
    settings = "JAX_ENABLE_X64=1 JAX_NUMPY_DTYPE_PROMOTION=strict JAX_DEFAULT_PRNG_IMPL=rbg"
    done = shell(f"{settings} JAX_THREEFRY_PARTITIONABLE=0 jaxlm {' '.join(training(folder, wide))}", folder)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    np.testing.assert_allclose(jaxlm.load(wide).vectors(), jaxlm.load(plain).vectors(), rtol=1e-5)


def test_a_closed_standard_input_is_empty(folder):
    done = shell("jaxlm score kn - <&-", folder)
    assert done.returncode == 2
    assert done.stderr.startswith("jaxlm: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        "train kn --train text --out NAME",
        "train kn --train NAME --out new",
        "train lbl --train text --vocab NAME --out new",
        "export kn --format arpa --out NAME",
        "info NAME",
        "eval kn --text NAME",
        "tree NAME --out new.npz",
    ],
)
@pytest.mark.parametrize("length", [240, 252, 300])
def test_a_long_name_is_one_line(command, length, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    status = main(command.replace("NAME", "x" * length).split())
    said = capsys.readouterr().err.splitlines()
    lines = [line for line in said if line.startswith("jaxlm: ") and "warning: " not in line]
    assert (status, len(lines)) in [(2, 1), (0, 0)]
    assert all(len(line) <= 400 for line in lines)


def harm(monkeypatch, count: int, do) -> None:
    """Do something to a folder in a training's `count`th chunk, after it has saved itself."""
    real, chunks = fit._check_finite, []

    def check(trainer, directory):
        chunks.append(1)
        if len(chunks) == count:
            do(directory)
        real(trainer, directory)

    monkeypatch.setattr(fit, "_check_finite", check)


@pytest.mark.parametrize("how", ["removed", "renamed", "replaced"])
def test_a_folder_that_goes_during_training_is_not_made_again(how, folder, tmp_path, capsys, monkeypatch):
    out, moved = tmp_path / "lbl", tmp_path / "moved"

    def do(directory: Path) -> None:
        os.replace(directory, moved)
        if how == "removed":
            shutil.rmtree(moved)
        if how == "replaced":
            out.mkdir()

    with monkeypatch.context() as patch:
        harm(patch, 3, do)
        assert main(training(folder, out, "--quiet")) == 2
    said = capsys.readouterr().err
    assert said == (
        f"jaxlm: the folder was removed or renamed during the training ({out}) - "
        "if it was renamed, give --resume and its new name; else begin anew\n"
    )
    assert not out.exists() or not list(out.iterdir())
    assert not lock._held
    if how == "renamed":
        assert main(training(folder, moved, "--resume")) == 0


def test_links_within_a_model_are_read_and_never_written_through(folder, tmp_path):
    out, elsewhere = tmp_path / "lbl", tmp_path / "elsewhere"
    assert main(training(folder, out)) == 0
    elsewhere.mkdir()
    for path in list(out.iterdir()):
        os.replace(path, elsewhere / path.name)
        path.symlink_to(elsewhere / path.name)
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    assert jaxlm.load(out).num_parameters() == jaxlm.load(elsewhere).num_parameters()
    assert main(training(folder, out, "--resume", "--epochs", "5")) == 0
    assert {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()} == before
    assert not (out / "parameters").is_symlink()
    assert not list(out.glob(".*"))
    assert main(training(folder, out, "--overwrite")) == 0
    assert {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()} == before


def test_a_link_to_a_whole_folder_is_that_folder(folder, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert main(training(folder, tmp_path / "link")) == 0
    assert main(training(folder, tmp_path / "link", "--overwrite")) == 0
    assert (tmp_path / "link").is_symlink()
    assert jaxlm.load(tmp_path / "real").num_parameters() == jaxlm.load(tmp_path / "link").num_parameters()


def test_a_current_folder_that_is_gone_is_one_line(folder):
    done = shell(f"mkdir gone && cd gone && rmdir ../gone && jaxlm train kn --train {folder}/text --out m", folder)
    assert done.returncode == 2
    assert done.stderr == "jaxlm: No such file or directory - give the command in a folder that is there\n"


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_files_have_the_permissions_that_the_umask_grants(umask, folder, tmp_path):
    before = os.umask(umask)
    try:
        assert main(training(folder, tmp_path / "lbl")) == 0
    finally:
        os.umask(before)
    for path in (tmp_path / "lbl").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~umask, path


def test_the_api_says_that_a_folder_is_gone(tmp_path):
    with lock.locked(tmp_path / "m"):
        (tmp_path / "m").rmdir()
        with pytest.raises(UserError, match="removed or renamed"):
            lock.require_there(tmp_path / "m" / "file")


@pytest.mark.parametrize("more", [[], ["--overwrite"], ["--resume"]])
@pytest.mark.parametrize("out", ["loop", "loop/lbl"])
def test_links_in_a_circle_are_one_line(out, more, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    if not Path("loop").is_symlink():
        Path("loop").symlink_to("loop")
    assert main(training(folder, Path(out), "--quiet", *more)) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("jaxlm: ")
    assert "(loop) - choose another" in said
