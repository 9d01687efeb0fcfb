"""Where tests of benchmarks run the command, and keep models and records."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import __main__

ROOT = Path(__file__).parents[2]


class Place:
    """Where some runs keep models and records: trained once, found by every test that uses it."""

    def __init__(self, folder: Path):
        self.work, self.out = folder / "work", folder / "results"

    def start(self, *arguments: str, **options) -> subprocess.Popen:
        """Start the command as a process, which a test interrupts."""
        words = [sys.executable, "-m", "benchmarks", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(words, cwd=ROOT, text=True, **pipes, **options)

    def run(self, *arguments: str, status: int = 0) -> tuple[str, str]:
        """Run the command within this process, which has imported everything: its standard output and error."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(ROOT):
            ended = __main__.main(list(arguments))
        assert ended == status, err.getvalue()
        return out.getvalue(), err.getvalue()

    def tables(self, *names: str, options: tuple[str, ...] = ()) -> tuple[dict[str, dict], str, str]:
        where = ("--work", str(self.work), "--out", str(self.out))
        out, err = self.run("run", *names, "--scale", "tiny", *where, "--json", *options)
        return json.loads(out.splitlines()[-1]), out, err

    def table(self, name: str, *options: str) -> tuple[dict, str, str]:
        results, out, err = self.tables(name, options=options)
        return results[name], out, err


@pytest.fixture(scope="session")
def place_in() -> Callable[[Path], Place]:
    """Return a function that makes a place under a folder."""
    return Place


@pytest.fixture(scope="session")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Place]:
    """Return a function from a name to a place, whose models pytest-xdist's workers share: one of them trains each."""

    def make(name: str) -> Place:
        base, worker = tmp_path_factory.getbasetemp(), os.environ.get("PYTEST_XDIST_WORKER", "")
        found = Place((base.parent if worker else base) / name)
        found.out = found.out.with_name(f"results{worker}")
        return found

    return make
