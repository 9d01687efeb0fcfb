"""Limits of a process: a command works or ends in one line, and a training goes on once the limit is gone."""

import subprocess
import sys
from pathlib import Path

import pytest

from jaxlm.cli.main import main
from small_models import SMALL, write_text

GB = 1 << 30
CASES = [
    ("NOFILE", 64, "next"),
    ("FSIZE", 600, "train"),
    *(pytest.param("AS", memory * GB, command, marks=pytest.mark.slow)
      for memory in (2, 3, 4, 6) for command in ("train", "next")),
    *(pytest.param("NOFILE", number, "train", marks=pytest.mark.slow) for number in (32, 64, 128)),
    *(pytest.param("FSIZE", size, "train", marks=pytest.mark.slow) for size in (0, 100, 1000, 2000, 5000)),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("limits")
    write_text(place / "text", 0)
    assert main(["train", "lbl", "--train", str(place / "text"), *SMALL, "--out", str(place / "lbl"), "--quiet"]) == 0
    return place


@pytest.mark.parametrize(("limit", "most", "command"), CASES)
def test_a_command_under_a_limit_works_or_ends_in_one_line(limit, most, command, folder, tmp_path):
    limited = f"import resource, runpy; resource.setrlimit(resource.RLIMIT_{limit}, ({most}, {most}))"
    code = f"{limited}; runpy.run_module('jaxlm.cli.main', run_name='__main__')"
    train = ["train", "lbl", "--train", str(folder / "text"), *SMALL, "--out", str(tmp_path / "lbl")]
    done = subprocess.run(
        [sys.executable, "-c", code, *(train if command == "train" else ["next", "lbl", "The"])],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr
    assert (done.returncode == 2) == (limit == "FSIZE" and most < 5000), done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("lbl: ")]
    assert len(lines) == (done.returncode == 2), done.stderr
    if command == "train":
        assert main([*train, "--resume"]) == 0
