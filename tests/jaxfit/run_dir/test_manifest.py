"""Manifests list every file of checkpoints and models; a file that differs is one line; no Infinity in JSON."""

import json
import os
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxfit.run_dir import checkpoint, json_text, manifest, metadata
from jaxfit.run_dir.journal import Journal

INFO = {"format": metadata.FORMAT, "model": "toy"}
FILES = ("vocabulary.txt", "tree.npz")
ARRAYS = {"a": jnp.arange(6.0)}


@pytest.fixture
def model(tmp_path):
    """Make a finished model's folder."""
    checkpoint.write(tmp_path / metadata.PARAMETERS, ARRAYS, {})
    (tmp_path / "vocabulary.txt").write_text("a\nb\n")
    (tmp_path / ".scratch").write_text("hidden")
    Journal(tmp_path).write(epoch=0)
    (tmp_path / "bootstrap").mkdir()
    (tmp_path / "bootstrap" / "config.json").write_text("{}")
    metadata.write_info(tmp_path, INFO, FILES)
    return tmp_path


def test_a_models_manifest_lists_its_files(model):
    listed = json.loads((model / "manifest.json").read_text())
    assert list(listed["sha256"]) == ["config.json", "parameters/manifest.json", "vocabulary.txt"]
    assert listed["size"]["vocabulary.txt"] == 4
    below = json.loads((model / "parameters" / "manifest.json").read_text())
    files = {p.relative_to(model / "parameters").as_posix() for p in (model / "parameters").rglob("*") if p.is_file()}
    assert set(below["sha256"]) == set(below["size"]) == files - {"manifest.json"}
    np.testing.assert_array_equal(checkpoint.load_model(model / "parameters", ARRAYS)["a"], ARRAYS["a"])


def test_parameters_are_read_to_the_default_device(model):
    device = jax.devices()[3]  # for one that has no memory for them, the CPU's
    with jax.default_device(device):
        assert checkpoint.load_model(model / "parameters", ARRAYS)["a"].devices() == {device}


def test_a_first_stage_that_has_saved_nothing_is_an_unfinished_training(tmp_path):
    metadata.write_info(tmp_path / "bootstrap", {**INFO, "finished": False}, FILES)
    with pytest.raises(UserError, match="the model's training has not finished"):
        metadata.read_info(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "vocabulary.txt", "parameters/manifest.json", "parameters/state.json"])
@pytest.mark.parametrize("harm", ["longer", "other", "gone", "folder"])
def test_a_changed_file_is_named(model, name, harm):
    path = model / name
    text = path.read_bytes()
    if harm in ("gone", "folder"):
        path.unlink()
    if harm == "folder":
        path.mkdir()
    elif harm != "gone":
        path.write_bytes(text + b" " if harm == "longer" else text[:-1] + bytes([text[-1] ^ 1]))
    with pytest.raises(UserError, match=rf"the model is damaged: .*{path.name} is missing or (changed|malformed)"):
        manifest.require_whole(model, FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_listed_is_damage(model, name):
    path = model / "manifest.json"
    listed = json.loads(path.read_text())
    for part in ("sha256", "size"):
        listed[part].pop(name, None)
    path.write_text(json.dumps(listed))
    (model / name).touch()
    with pytest.raises(UserError, match=f"{name} is not in its manifest"):
        manifest.require_whole(model, FILES)


def test_an_array_that_is_not_listed_is_damage(tmp_path):
    checkpoint.write(tmp_path / "parameters", ARRAYS, {})
    (tmp_path / "parameters" / "arrays" / "more").touch()
    assert manifest.damage(tmp_path / "parameters") == "arrays/more is not in its manifest"


@pytest.fixture
def reads(monkeypatch, tmp_path):
    """Collect the files that are read for their digests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    read, real = [], manifest._sha256
    monkeypatch.setattr(manifest, "_sha256", lambda path: read.append(path.name) or real(path))
    return read


def later(monkeypatch, seconds):
    now = time.time_ns()
    monkeypatch.setattr(manifest.time, "time_ns", lambda: now + seconds * 10**9)


def test_files_are_read_once_until_one_changes(model, reads, monkeypatch):
    manifest.require_whole(model, FILES)
    assert reads.pop() == "state.json" or reads
    reads.clear()
    manifest.require_whole(model, FILES)
    assert reads, "a change within the clock's resolution would not be seen"
    later(monkeypatch, 60)
    reads.clear()
    for expected in (True, False):
        manifest.require_whole(model, FILES)
        assert bool(reads) == expected
        reads.clear()
    manifest.require_whole(model, FILES, verify=True)
    assert reads
    time.sleep(0.05)
    path = model / "vocabulary.txt"
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_text("a\nc\n")
    os.utime(path, ns=times)  # as an archiver or a synchronising program does
    with pytest.raises(UserError, match=r"vocabulary\.txt is missing or changed"):
        manifest.require_whole(model, FILES)


def test_without_a_cache_folder_files_are_always_read(model, reads, monkeypatch, tmp_path):
    (tmp_path / "cache").write_text("no folder")
    later(monkeypatch, 60)
    for _ in range(2):
        reads.clear()
        manifest.require_whole(model, FILES)
        assert reads


def test_a_cache_folder_that_may_not_be_read_is_as_none(model, reads, monkeypatch):
    def forbidden(path, **options):
        if "whole" in str(path):
            raise PermissionError
        return stat(path, **options)

    stat = os.stat
    later(monkeypatch, 60)
    monkeypatch.setattr(os, "stat", forbidden)
    manifest.require_whole(model, FILES)
    assert reads


def test_no_more_states_are_remembered_than_are_useful(model, reads, monkeypatch, tmp_path):
    monkeypatch.setattr(manifest, "MAX_REMEMBERED", 4)
    for seconds in range(60, 70):
        (model / "config.json").touch()
        later(monkeypatch, seconds)
        manifest.require_whole(model, FILES)
        time.sleep(0.005)
    assert 0 < len(list((tmp_path / "cache" / "jax-mnih" / "whole").iterdir())) <= 4


def test_the_journal_may_grow_but_not_change(model):
    assert manifest.journal_damage(model) is None
    Journal(model).write(epoch=1, valid=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(Journal(model).epochs()) == 1
    (model / "journal.jsonl").write_text('{"epoch": 0, "valid": 0.25}\n')
    with pytest.warns(UserWarning, match="it is missing or changed: what is shown of the epochs may be wrong"):
        assert len(Journal(model).epochs()) == 1


MALFORMED = ["", "{", "[]", "{}", '{"format": 1}', '{"format": 1, "sha256": 3}', "\xff"]


@pytest.mark.parametrize("text", [*MALFORMED, '{"format": 1, "sha256": {"\\u0000": ""}}'])
def test_a_malformed_manifest_is_one_line(model, text):
    (model / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="the model is damaged"):
        manifest.require_whole(model, FILES)


def test_models_of_earlier_versions_load(model):
    """Their manifests have no sizes and no journal."""
    for path in (model / "parameters" / "manifest.json", model / "manifest.json"):
        if path.parent == model:
            metadata.write_manifest(model, FILES)
        listed = json.loads(path.read_text())
        listed.pop("journal", None)
        del listed["size"]
        path.write_text(json.dumps(listed))
    manifest.require_whole(model, FILES)
    assert manifest.journal_damage(model) is None


def test_without_its_manifest_a_model_is_damaged(model):
    (model / "manifest.json").unlink()
    said = r"its manifest is missing .* - give its training command again, with --resume or, where it has no"
    with pytest.raises(UserError, match=said):
        manifest.require_whole(model, FILES)


def test_parameters_that_are_not_finite_are_refused(tmp_path):
    checkpoint.write(tmp_path / "parameters", {"a": jnp.array([1.0, jnp.nan])}, {})
    with pytest.raises(UserError, match="its a has values that are not finite"):
        checkpoint.load_model(tmp_path / "parameters", {"a": jnp.zeros(2)})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "model": 3}', "\xff"])
def test_a_malformed_configuration_is_one_line(tmp_path, text):
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="not a model's configuration"):
        metadata.read_info(tmp_path)


def test_no_file_has_a_number_that_json_lacks(tmp_path):
    value = {"best": float("inf"), "all": [float("nan"), (1.5, -float("inf"))]}
    expected = {"best": None, "all": [None, [1.5, None]]}
    checkpoint.write(tmp_path / "parameters", ARRAYS, value)
    metadata.write_info(tmp_path, {**INFO, **value}, FILES)
    Journal(tmp_path).write(**value)
    assert checkpoint.state(tmp_path / "parameters") == expected
    assert metadata.read_info(tmp_path) == {**INFO, **expected}
    assert Journal(tmp_path).lines() == [expected]
    for path in tmp_path.rglob("*.json*"):
        assert not any(word in path.read_text() for word in ("Infinity", "NaN"))
    assert json_text.plain(value) == expected
