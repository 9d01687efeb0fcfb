"""Manifests list every file of checkpoints and models; a file that differs is one line; no Infinity in JSON."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxfit.run_dir import checkpoint, json_text, manifest, metadata
from jaxfit.run_dir.journal import Journal

INFO = {"format": metadata.FORMAT, "model": "toy"}
ARRAYS = {"a": jnp.arange(6.0)}


@pytest.fixture
def model(tmp_path):
    """A finished model's folder."""
    checkpoint.write(tmp_path / metadata.PARAMETERS, ARRAYS, {})
    (tmp_path / "vocabulary.txt").write_text("a\nb\n")
    (tmp_path / ".scratch").write_text("hidden")
    Journal(tmp_path).write(epoch=0)
    (tmp_path / "bootstrap").mkdir()
    (tmp_path / "bootstrap" / "config.json").write_text("{}")
    metadata.write_info(tmp_path, INFO)
    return tmp_path


def test_a_models_manifest_lists_its_files(model):
    listed = json.loads((model / "manifest.json").read_text())
    assert list(listed["sha256"]) == ["config.json", "parameters/manifest.json", "vocabulary.txt"]
    assert listed["size"]["vocabulary.txt"] == 4
    below = json.loads((model / "parameters" / "manifest.json").read_text())
    files = {p.relative_to(model / "parameters").as_posix() for p in (model / "parameters").rglob("*") if p.is_file()}
    assert set(below["sha256"]) == set(below["size"]) == files - {"manifest.json"}
    np.testing.assert_array_equal(checkpoint.load_model(model / "parameters", ARRAYS)["a"], ARRAYS["a"])


@pytest.mark.parametrize("name", ["config.json", "vocabulary.txt", "parameters/manifest.json", "parameters/state.json"])
@pytest.mark.parametrize("harm", ["longer", "other", "gone"])
def test_a_changed_file_is_named(model, name, harm):
    path = model / name
    text = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(text + b" " if harm == "longer" else text[:-1] + bytes([text[-1] ^ 1]))
    with pytest.raises(UserError, match=rf"the model is damaged: .*({path.name}|its manifest) is missing or"):
        checkpoint.load_model(model / "parameters", ARRAYS)


MALFORMED = ["", "{", "[]", "{}", '{"format": 1}', '{"format": 1, "sha256": 3}', "\xff"]


@pytest.mark.parametrize("text", [*MALFORMED, '{"format": 1, "sha256": {"\\u0000": ""}}'])
def test_a_malformed_manifest_is_one_line(model, text):
    (model / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="the model is damaged"):
        manifest.require_whole(model)


def test_models_load_whose_manifest_has_no_sizes(model):
    (model / "manifest.json").unlink()
    path = model / "parameters" / "manifest.json"
    listed = json.loads(path.read_text())
    del listed["size"]
    path.write_text(json.dumps(listed))
    np.testing.assert_array_equal(checkpoint.load_model(model / "parameters", ARRAYS)["a"], ARRAYS["a"])


def test_an_unfinished_model_has_no_manifest(model):
    metadata.write_info(model, {**INFO, "finished": False})
    assert not (model / "manifest.json").exists()
    manifest.require_whole(model)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "model": 3}', "\xff"])
def test_a_malformed_configuration_is_one_line(tmp_path, text):
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="not a model's configuration"):
        metadata.read_info(tmp_path)


def test_no_file_has_a_number_that_json_lacks(tmp_path):
    value = {"best": float("inf"), "all": [float("nan"), (1.5, -float("inf"))]}
    expected = {"best": None, "all": [None, [1.5, None]]}
    checkpoint.write(tmp_path / "parameters", ARRAYS, value)
    metadata.write_info(tmp_path, {**INFO, **value})
    Journal(tmp_path).write(**value)
    assert checkpoint.state(tmp_path / "parameters") == expected
    assert metadata.read_info(tmp_path) == {**INFO, **expected}
    assert Journal(tmp_path).lines() == [expected]
    for path in tmp_path.rglob("*.json*"):
        assert not any(word in path.read_text() for word in ("Infinity", "NaN"))
    assert json_text.plain(value) == expected
