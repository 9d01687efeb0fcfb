"""Training survives: kills at every kind of moment, Ctrl-C, a full disk, torn files, and the wrong options."""

import dataclasses
import json
import multiprocessing
import os
import signal
import subprocess

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

import jaxlm
import training_process
from jaxfit import fit
from jaxfit.errors import UserError
from jaxfit.run_dir import checkpoint, manifest
from jaxfit.run_dir import metadata as model_directory
from jaxfit.run_dir.journal import Journal
from jaxfit.run_dir.run import Run
from jaxlm.models.hlbl.tree import TreeOptions
from jaxlm.training import train

RANDOM = TreeOptions("random")

# (moment, its count in the process, epochs in the journals of the bootstrap and of the model when killed there)
KILLS = [
    ("chunk", 2, 0, None),  # before there is any checkpoint
    ("arrays", 1, 0, None),
    ("chunk", 5, 0, None),
    ("manifest", 2, 0, None),
    ("rename", 1, 0, None),
    ("validation", 1, 0, None),
    ("journal", 2, 2, None),  # an epoch's line is written, its checkpoint is not
    ("pruning", 2, 2, None),
    ("tree", 3, 4, None),
    ("config", 1, 4, None),  # the tree is written, what it was made from is not
    ("chunk", 20, 4, 1),
    ("arrays", 5, 4, 2),
    ("config", 1, 4, 4),  # parameters are written, but not marked as finished
    ("pruning", 1, 4, 4),  # finished, while checkpoints are being removed
]
SOME = KILLS[6:7]  # conformance tests, and those of files, have the others without killing a process


# its processes begin where everything has been imported
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["jaxlm.training", "jaxlm.models.hlbl"])


def process(folder, *moment):
    """Start a training; also the event that its moment has come, which is to be kept as long as the process."""
    come = PROCESSES.Event()
    training = PROCESSES.Process(target=training_process.main, args=(folder, come, *moment))
    training.start()
    return training, come


def ended(training, come):
    training.join(300)
    assert training.exitcode == 0


def epochs(folder):
    journal = folder / "journal.jsonl"
    return len(journal.read_text().splitlines()) if journal.exists() else None


def stored(path):
    """Read all arrays of a checkpoint, by name, without a template."""
    with ocp.StandardCheckpointer() as orbax:
        arrays = orbax.restore(path.absolute() / "arrays")
    return {jax.tree_util.keystr(k): np.asarray(v) for k, v in jax.tree_util.tree_leaves_with_path(arrays)}


def names(folder):
    """List the files and folders of a model; checkpoints, whose numbers count those before, without theirs."""
    return sorted(path.name.rstrip("0123456789") for path in folder.iterdir())


def last(folder):
    """Return the last checkpoint, saved from removal: the state with the optimizer's, best so far."""
    return folder / "last" if (folder / "last").exists() else checkpoint.every(folder)[-1]


def assert_same_training(one, other):
    """Assert the same bytes in all that training made, but for its times."""
    assert (one / "journal.jsonl").read_bytes() == (other / "journal.jsonl").read_bytes()
    assert (one / "config.json").read_bytes() == (other / "config.json").read_bytes()
    assert (one / "vocabulary.txt").read_bytes() == (other / "vocabulary.txt").read_bytes()
    for find in (last, lambda folder: folder / "parameters"):
        assert (find(one) / "state.json").read_text() == (find(other) / "state.json").read_text()
        a, b = stored(find(one)), stored(find(other))
        assert len(a) > 0
        assert a.keys() == b.keys()
        assert [k for k in a if a[k].tobytes() != b[k].tobytes()] == []


@pytest.mark.parametrize("kills", [SOME, pytest.param(KILLS, marks=pytest.mark.extended)], ids=["some", "all"])
def test_killed_training_matches_uninterrupted_training(tmp_path, monkeypatch, kills):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    ended(*process(whole))
    for moment, count, bootstrap_epochs, model_epochs in kills:
        training, come = process(killed, moment, count)
        while not come.wait(0.05):
            assert training.is_alive(), f"{moment} {count} did not come"
        training.kill()
        training.join()
        assert training.exitcode == -signal.SIGKILL
        was = epochs(killed / "bootstrap") or 0, epochs(killed)
        assert was == (bootstrap_epochs, model_epochs), (moment, count)
    ended(*process(killed))

    history = [json.loads(line) for line in (whole / "journal.jsonl").read_text().splitlines()]
    assert len({line["rate"] for line in history}) > 1, "no rate drop to be lost"
    state = stored(last(whole))
    best = [state[f"['best']['{name}']"] for name in "RCQ"]
    final = [state[f"['state']['weights']['{name}']['value']"] for name in "RCQ"]
    assert not all(np.array_equal(a, b) for a, b in zip(best, final, strict=True)), "best so far is the last"
    assert any("mu" in name for name in state)
    assert_same_training(whole, killed)
    assert_same_training(whole / "bootstrap", killed / "bootstrap")
    for folder in ("", "bootstrap"):  # nothing is left lying about, but one checkpoint, for more epochs
        assert names(killed / folder) == names(whole / folder)
    np.testing.assert_array_equal(
        jaxlm.load(whole).log_prob("w1 w2"), jaxlm.load(killed).log_prob("w1 w2")
    )  # fmt: skip


@pytest.fixture
def keep_checkpoints(monkeypatch):
    monkeypatch.setattr(model_directory, "drop_checkpoints", lambda directory: None)


@pytest.fixture
def small_chunks(monkeypatch, keep_checkpoints):
    """Make each chunk one step, with 15 in an epoch."""
    monkeypatch.setattr(fit, "CHUNK_SECONDS", 1e-9)
    monkeypatch.setattr(fit, "time", training_process.clock())


def training(folder, corpus=None, config=None, recipe=None, seed=1, tree=RANDOM, **run):
    return train(
        "hlbl",
        training_process.corpus() if corpus is None else corpus,
        folder,
        recipe=dataclasses.replace(training_process.RECIPE, **(recipe or {})),
        config={**training_process.CONFIG, **(config or {})},
        structure=tree,
        seed=seed,
        run=Run(**run),
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Run an uninterrupted training, as anybody would run it."""
    folder = tmp_path_factory.mktemp("whole") / "model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_directory, "drop_checkpoints", lambda directory: None)
        training(folder)
    return folder


def at_call(monkeypatch, name, count, do):
    """Let `do` happen in the `count`th call of a function of jaxfit.fit."""
    real, calls = getattr(fit, name), []

    def call(*args, **options):
        calls.append(1)
        if len(calls) == count:
            do()
        return real(*args, **options)

    monkeypatch.setattr(fit, name, call)


def stop_at(monkeypatch, folder, step, **options):
    """Train until Ctrl-C at a step of this process, with a checkpoint after every third one."""
    with monkeypatch.context() as patch:
        at_call(patch, "_check_finite", step, lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(fit.Interrupted):
            training(folder, resume=True, checkpoint_minutes=2.5 / 60, **options)


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("where", "count", "epoch", "at"),
    [("_check_finite", 20, 1, 5), ("_end_epoch", 2, 2, 0), ("_end_epoch", 4, 4, 0)],
    ids=["step", "validation", "last validation"],
)
def test_ctrl_c_saves_and_training_resumes(tmp_path, whole, small_chunks, monkeypatch, where, count, epoch, at):
    handler = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        at_call(patch, where, count, lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(fit.Interrupted):
            training(tmp_path)
    assert signal.getsignal(signal.SIGINT) is handler
    progress = checkpoint.state(checkpoint.latest(tmp_path))["progress"]
    assert (progress["epoch"], progress["at"]) == (epoch, at)
    training(tmp_path, resume=True)
    assert_same_training(whole, tmp_path)


def test_a_training_in_many_short_runs_equals_one_long_run(tmp_path, whole, small_chunks):
    begun = training(tmp_path, max_minutes=0)
    assert begun.fitted.stopped == "max-minutes"
    assert begun.fitted.history == []
    assert json.loads((tmp_path / "config.json").read_text())["validation perplexity"] is None
    runs = 1
    while begun.fitted.stopped != "done":
        begun = training(tmp_path, resume=True, max_minutes=50 / 60)
        runs += 1
        assert jaxlm.load(tmp_path, unfinished=True).log_prob("w1").shape == (30,)
    assert runs > 3
    assert_same_training(whole, tmp_path)


def test_stages_share_the_time_of_a_run(tmp_path, monkeypatch):
    given = []

    def note(*args, max_minutes, **options):
        given.append(max_minutes)
        return fit.fit(*args, **options)

    monkeypatch.setattr("jaxfit.run_dir.training.fit", note)
    training(tmp_path, tree=TreeOptions("balanced"), max_minutes=100.0, recipe={"epochs": 1})
    assert 99.0 < given[1] < given[0] <= 100.0


def test_the_checkpoint_before_a_torn_one_is_used(tmp_path, whole, small_chunks, monkeypatch):
    stop_at(monkeypatch, tmp_path, 8)
    for file in ("arrays", "state.json", "manifest.json"):
        _, newest = checkpoint.every(tmp_path)
        torn = newest / file
        if file == "arrays":
            torn = max((p for p in torn.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
        torn.write_bytes(torn.read_bytes()[:-5])
        with pytest.warns(UserWarning, match=f"{newest.name} is damaged") as warned:
            stop_at(monkeypatch, tmp_path, 7)
        assert len(warned) == 1
        assert all(manifest.damage(path) is None for path in checkpoint.every(tmp_path))
    training(tmp_path, resume=True)
    assert_same_training(whole, tmp_path)


def other_text():
    corpus = training_process.corpus()
    return corpus._replace(train=corpus.train[::-1].copy())


def other_words():
    corpus = training_process.corpus()
    words = ("other", *corpus.vocabulary.words[1:])
    return corpus._replace(vocabulary=dataclasses.replace(corpus.vocabulary, words=words))


def test_another_training_is_refused_and_changes_nothing(tmp_path, small_chunks, monkeypatch):
    stop_at(monkeypatch, tmp_path, 5)
    before = contents(tmp_path)
    for options, complaint in [
        ({"config": {"num_features": 7}}, r"config differs in num_features \(6 there, 7 here\)"),
        ({"recipe": {"batch_size": 50}}, r"recipe differs in batch_size \(100 there, 50 here\)"),
        ({"recipe": {"rate": {"*": 0.2}}}, r"recipe differs in rate"),
        ({"seed": 2}, r"seed differs \(1 there, 2 here\)"),
        ({"corpus": other_text()}, r"corpus differs in sha256"),
        ({"corpus": other_words()}, r"corpus differs in sha256"),
        ({"tree": TreeOptions("random", copies=2)}, r"tree built differs in copies \(1 there, 2 here\)"),
        ({"tree": TreeOptions("huffman")}, r"tree built differs in kind"),
    ]:  # fmt: skip
        with pytest.raises(UserError, match=complaint):
            training(tmp_path, resume=True, **options)
    with pytest.raises(UserError, match="a model is there already: hlbl"):
        training(tmp_path)
    with pytest.raises(UserError, match="a model is there already: hlbl"):
        train("lbl", training_process.corpus(), tmp_path, recipe=training_process.RECIPE)
    with pytest.raises(UserError, match="a model is there already"):
        train("kn", training_process.corpus(), tmp_path)
    assert contents(tmp_path) == before


def test_a_tree_of_other_options_is_not_taken_over(tmp_path, monkeypatch):
    def die():
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        at_call(patch, "_check_finite", 1, die)
        with pytest.raises(ZeroDivisionError):
            training(tmp_path)
    assert (tmp_path / "tree.npz").exists()
    assert not checkpoint.every(tmp_path)
    two = training(tmp_path, tree=TreeOptions("random", copies=2), resume=True, recipe={"epochs": 1})
    assert len(two.model.structure.children) == 2 * 29 + 1


@pytest.fixture
def small_disk(tmp_path):
    """Mount a disk of 1 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no small disk: there is no `mount`")
    if mounted.returncode:
        pytest.skip(f"no small disk: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.parametrize("free_kib", [0, 16, 40], ids=["noticed before writing", "no file", "some files"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the writer's threads
def test_a_full_disk_is_one_error_and_loses_nothing(whole, small_disk, small_chunks, monkeypatch, free_kib):
    folder, ballast = small_disk / "model", small_disk / "ballast"
    stop_at(monkeypatch, folder, 10)
    saved = contents(checkpoint.latest(folder))
    free = os.statvfs(small_disk)
    ballast.write_bytes(b"0" * (free.f_bavail * free.f_frsize - 1024 * free_kib))
    with monkeypatch.context() as patch:
        if free_kib:
            patch.setattr(checkpoint, "OVERHEAD", -(10**9))
        with pytest.raises(UserError, match=r"No space left on device.*free some space"):
            training(folder, resume=True, checkpoint_minutes=2.5 / 60)
    with pytest.raises(UserError, match=r"No space left on device \(.*journal.jsonl\)"):
        Journal(folder).write(long="0" * 10**6)
    assert contents(checkpoint.latest(folder)) == saved
    assert list(folder.glob(".*")) == []
    ballast.unlink()
    training(folder, resume=True)
    assert_same_training(whole, folder)
