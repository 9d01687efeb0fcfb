"""What a training saves: resuming, damaged checkpoints and journals, early ends, full disks."""

import itertools
import json
import math
import signal
import time
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

import toy
from jaxfit import fit
from jaxfit.errors import Interrupted, UserError
from jaxfit.run_dir import checkpoint, journal, manifest
from toy_training import train


@pytest.mark.parametrize(("group_size", "sections"), [(1, 1), (4, 3)])
def test_resume_matches_uninterrupted_run(group_size, sections, tmp_path, monkeypatch):
    program = toy.program(True, 0.1, group_size=group_size, sections=sections)
    whole = train(program=program, directory=tmp_path / "whole", optimizer="adam")
    monkeypatch.setattr(fit, "CHUNK_SECONDS", 1e-9)  # one step a chunk
    saves = []
    real = checkpoint.save

    def save_then_die(directory, arrays, state):
        real(directory, arrays, state)
        saves.append(state)
        if len(saves) % 4 == 3:
            raise ZeroDivisionError("killed")

    monkeypatch.setattr(checkpoint, "save", save_then_die)
    part = tmp_path / "part"
    for _ in range(30):
        try:
            got = train(program=program, directory=part, optimizer="adam", resume=True, checkpoint_minutes=0)
            break
        except ZeroDivisionError:
            continue
    assert len(saves) > 10
    for a, b in zip(whole.params, got.params, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (part / "journal.jsonl").read_text() == (tmp_path / "whole/journal.jsonl").read_text()


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    train(directory=tmp_path, epochs=1)
    with pytest.raises(UserError, match=r"add --resume"):
        train(directory=tmp_path, epochs=1)
    with pytest.raises(UserError, match=r"recipe differs in batch_size \(16 there, 8 here\)"):
        train(directory=tmp_path, epochs=1, batch_size=8, resume=True)


def test_a_damaged_checkpoint_is_skipped(tmp_path):
    whole = train(directory=tmp_path, checkpoint_minutes=0)
    assert len(checkpoint.every(tmp_path)) == 2
    newest = checkpoint.latest(tmp_path)
    file = next(p for p in sorted((newest / "arrays").rglob("*")) if p.is_file() and p.stat().st_size > 20)
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.warns(UserWarning, match="damaged"):
        again = train(directory=tmp_path, resume=True)
    np.testing.assert_array_equal(whole.params.T, again.params.T)
    for path in tmp_path.glob("checkpoint-*"):
        (path / "manifest.json").write_text("{")
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.warns(UserWarning, match="no checkpoint in .* is whole: training begins anew"),
    ):
        again = train(directory=tmp_path, resume=True)
    np.testing.assert_array_equal(whole.params.T, again.params.T)


def test_a_lost_journal_is_said_and_epochs_are_counted(tmp_path):
    train(directory=tmp_path, epochs=2)
    journal = tmp_path / "journal.jsonl"
    journal.unlink()
    with pytest.warns(UserWarning, match=r"journal\.jsonl has lost epochs before the checkpoint"):
        done = train(directory=tmp_path, epochs=5, resume=True)
    assert done.epochs == 5
    assert [line["epoch"] for line in done.history] == [2, 3, 4]


def test_a_changed_journal_is_said_when_its_training_goes_on(tmp_path):
    train(directory=tmp_path, epochs=2)
    path = tmp_path / "journal.jsonl"
    path.write_text(path.read_text().replace('"epoch": 0', '"epoch": 7'))
    with pytest.warns(UserWarning, match=r"journal\.jsonl: it is missing or changed") as warned:
        done = train(directory=tmp_path, epochs=4, resume=True)
    assert len(warned) == 1
    assert [line["epoch"] for line in done.history] == [7, 1, 2, 3]


def test_a_checkpoint_of_an_earlier_version_says_nothing_of_the_journal(tmp_path):
    train(directory=tmp_path, epochs=2)
    path = checkpoint.latest(tmp_path)
    known = checkpoint.state(path)
    del known["journal"]
    (path / "state.json").write_text(json.dumps(known))
    manifest.write(path)
    assert train(directory=tmp_path, epochs=3, resume=True).epochs == 3  # warnings are errors here


def test_events_and_times_are_of_the_epochs_of_this_run(tmp_path):
    """Of 101 examples with three events each, in seven minibatches."""
    program = toy.program(True, events=lambda data: 3 * len(data.y))
    done = train(program=program, directory=tmp_path, epochs=3)
    more = train(program=program, directory=tmp_path, epochs=5, resume=True)
    assert (done.events, more.events) == (3 * 303, 2 * 303)
    times = journal.Journal(tmp_path).times()
    assert [line["epoch"] for line in times] == [0, 1, 2, 3, 4]
    for line in times:
        assert line["steps"] == 7
        assert line["examples_per_second"] == pytest.approx(303 / line["train_seconds"])
    assert sum(line["train_seconds"] for line in times[3:]) == pytest.approx(more.train_seconds)


def test_a_training_stops_after_the_minutes_that_it_is_given(monkeypatch):
    """By a clock that goes on by ten seconds whenever it is read."""

    def epochs(minutes):
        clock = itertools.count(0, 10)
        fake = SimpleNamespace(monotonic=lambda: next(clock), perf_counter=time.perf_counter)
        monkeypatch.setattr(fit, "time", fake)
        done = train(max_minutes=minutes, epochs=50, patience=50)
        assert done.stopped == "max-minutes"
        assert 60 * minutes < next(clock) < 60 * minutes + 100
        return done.epochs

    assert 0 < epochs(2) < epochs(4) < 50


def test_a_training_that_ends_early_saves_nothing_that_takes_long(tmp_path, monkeypatch):
    """Its checkpoints would be removed, as no more epochs can follow."""

    def worse(params, batch, config):  # with each epoch
        return jnp.full(batch.y.shape, jnp.sum(params.T**2))

    saved, save = [], checkpoint.save

    def counted(directory, arrays, known):
        saved.append(known["progress"]["epoch"])
        save(directory, arrays, known)

    monkeypatch.setattr(checkpoint, "save", counted)
    monkeypatch.setattr(fit, "SAVING_SHARE", 1e-9)
    options = {"program": toy.program(True, score=worse), "decay": {}, "patience": 2, "epochs": 5}
    assert train(directory=tmp_path, **options).epochs == 3
    assert saved == []


def test_a_signal_while_the_last_epoch_is_saved_stops_what_would_follow(tmp_path, monkeypatch):
    whole, save = train(), checkpoint.save

    def signalled(directory, arrays, known):
        save(directory, arrays, known)
        if known["progress"]["done"]:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", signalled)
        with pytest.raises(Interrupted):
            train(directory=tmp_path)
    np.testing.assert_array_equal(whole.params.T, train(directory=tmp_path, resume=True).params.T)


@pytest.mark.parametrize(("changes", "kept"), [({"anneal": True}, 0), ({"anneal": False, "patience": 9}, 1)])
@pytest.mark.parametrize("share", [0.05, math.inf])  # as for users, and of a training that takes long
def test_a_quick_training_saves_only_what_more_epochs_need(changes, kept, share, tmp_path, monkeypatch):
    monkeypatch.setattr(fit, "SAVING_SHARE", share)
    whole = train(directory=tmp_path, **changes)
    assert len(checkpoint.every(tmp_path)) == (kept if share < 1 else 2)
    again = train(directory=tmp_path, resume=True, **changes)
    np.testing.assert_array_equal(whole.params.T, again.params.T)


def test_a_full_disk_is_a_user_error_and_leaves_saved_checkpoints(tmp_path, monkeypatch):
    train(directory=tmp_path, epochs=3)
    before = json.dumps(sorted(str(p) for p in tmp_path.rglob("*")))

    def full(*_):
        raise ValueError("UNKNOWN: No space left on device")

    monkeypatch.setattr(ocp.Checkpointer, "save", full)
    with pytest.raises(UserError, match="No space left on device"):
        checkpoint.save(tmp_path, {"a": jnp.zeros(3)}, {})
    assert json.dumps(sorted(str(p) for p in tmp_path.rglob("*"))) == before
