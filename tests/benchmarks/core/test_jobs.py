"""Trainings side by side: who trains what, and that records are the same."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from benchmarks.core import jobs, run
from benchmarks.core.locking import locked
from benchmarks.core.table import Row
from benchmarks.ratings import reasons, scales
from benchmarks.ratings.store import RatingStore, Spec
from jaxfit.errors import UserError

SCALE = scales.SCALES["tiny"]


@pytest.fixture
def store(tmp_path):
    return RatingStore(scales.rating_set("planted", SCALE), SCALE, "tuned", tmp_path)


@pytest.fixture(autouse=True)
def _cores():
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


def test_what_another_process_trains_is_left_to_it(store):
    one, other = Spec("user-bias"), Spec("item-bias")
    rows = [Row((spec.model,), ((spec,),), {}, lambda store, specs, part: {}) for spec in (one, other)]
    first = str(min(os.sched_getaffinity(0)))
    with locked(store.directory(one), "--work"):  # as another process does
        assert store.is_training(one)
        jobs.train_free(store, rows, first)
    assert not store.is_there(one)
    assert store.is_there(other)
    assert os.sched_getaffinity(0) == {int(first)}
    assert not store.is_training(one)


def test_tables_of_times_train_nothing_beforehand_and_kept_seeds_are_left_out(store, tmp_path):
    table = reasons.TABLES["why-svd"]
    rows = table.rows(SCALE, 1)
    assert run.missing_rows(table, store, tmp_path, rows, missing=False) == rows
    timed = type(table)(**{**vars(table), "together": True})
    assert run.missing_rows(timed, store, tmp_path, rows, missing=False) == []
    kept = type(table)(**{**vars(table), "kept": True})
    assert run.missing_rows(kept, store, tmp_path, rows, missing=True) == rows


@pytest.mark.extended
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_two_processes_give_the_record_of_one(place_in, tmp_path):
    options = ("--rows", "User", "--seeds", "1")
    together, alone = (place_in(tmp_path / name) for name in ("together", "alone"))
    result, _, err = together.table("table-5.2", *options, "--jobs", "2")
    expected, _, _ = alone.table("table-5.2", *options)
    assert err.count("table-5.2: User-bias") == 1
    assert "trained" not in err, "this process found the models, which two others trained"
    assert [row["cells"] for row in result["rows"]] == [row["cells"] for row in expected["rows"]]
    assert result["command"] == expected["command"]


PARENT = """
import sys
from benchmarks.core import jobs
jobs.side_by_side(sys.argv[1:], 1)
"""


def test_a_process_ends_with_the_one_that_started_it(tmp_path):
    what = ["run", "table-5.2", "--rows", "SVD w. biases", "--seeds", "1", "--scale", "tiny", "--epochs", "1000000"]
    words = [*what, "--work", str(tmp_path), "--out", str(tmp_path / "results")]
    command = [sys.executable, "-c", PARENT, *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as parent:
        try:
            until = time.monotonic() + 200
            while not list(tmp_path.glob("models/*/journal.jsonl")):
                assert parent.poll() is None, parent.stderr.read()
                assert time.monotonic() < until
                time.sleep(0.05)
            parent.kill()
            parent.communicate(timeout=60)  # the other has standard error, too
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
    assert list(tmp_path.glob("models/*/checkpoint-*"))


def test_more_processes_than_cores_are_refused(place_in, tmp_path, monkeypatch):
    _, err = place_in(tmp_path).run("run", "why-svd", "--scale", "tiny", "--jobs", "4096", status=2)
    assert err.startswith("benchmarks: 4096 trainings at a time on ")
    assert err.count("\n") == 1
    monkeypatch.setattr(jobs, "cores", lambda: 1)
    with pytest.raises(UserError, match=r"2 trainings at a time on 1 core \(--jobs\) - give at most 1"):
        jobs.check(2)
