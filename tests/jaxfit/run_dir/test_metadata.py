"""Whether a folder is free for a training, or holds an earlier run of it."""

import pytest

from jaxfit.errors import UserError
from jaxfit.run_dir import replacement
from jaxfit.run_dir.metadata import FORMAT, PARAMETERS, earlier, require_free, write_info

KNOWN = {"model": "lbl", "seed": 1, "recipe": {"epochs": 2}}


def folder(place, begun=True, **more):
    write_info(place, {"format": FORMAT, **KNOWN, "finished": False, **more}, ())
    if begun:
        (place / PARAMETERS).mkdir()
    return place


def find(place, known, *, resume, fixed=None):
    return earlier(place, known, (), resume, fixed).info


def test_a_folder_without_a_model_is_free(tmp_path):
    require_free(tmp_path, "lbl", resume=False)
    assert find(tmp_path, KNOWN, resume=False) is None


@pytest.mark.parametrize(("name", "content"), [("README.md", "my notes"), ("config.json", '{"a": 1}')])
def test_files_of_others_are_not_replaced(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=rf"the folder has this file, but no model \(.*{name}\) - move it, or choose"):
        require_free(tmp_path, "lbl", resume=False)
    with pytest.raises(UserError, match="the folder has files, but no model"):
        replacement.choose(tmp_path, (), overwrite=True, resume=False)


def test_a_folder_in_place_of_the_manifest_is_one_line(tmp_path):
    (folder(tmp_path) / "manifest.json").unlink()
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(UserError, match=r"a folder is there in place of the model's manifest \(.*\) - remove it"):
        folder(tmp_path, begun=False)


def test_a_training_that_was_killed_before_it_saved_anything_begins_anew(tmp_path):
    assert find(folder(tmp_path, begun=False), {**KNOWN, "seed": 2}, resume=False) is None


def test_a_training_is_resumed_only_if_asked_for_and_the_same(tmp_path):
    found = find(folder(tmp_path), KNOWN, resume=True)
    assert found is not None
    assert found["seed"] == 1
    with pytest.raises(UserError, match=r"a model is there already: lbl .* - add --resume"):
        find(tmp_path, KNOWN, resume=False)
    with pytest.raises(UserError, match="seed differs"):
        find(tmp_path, {**KNOWN, "seed": 2}, resume=True)


@pytest.mark.parametrize(
    ("model", "resumable", "more"), [("kn", False, {}), ("nplm", True, {}), ("lbl", True, {"solver": "als"})]
)
def test_another_model_is_never_replaced(tmp_path, model, resumable, more):
    with pytest.raises(UserError, match=r"a model is there already: lbl .* - choose another --out, or add --overwrite"):
        require_free(folder(tmp_path, **more), model, resume=True, resumable=resumable)


def test_only_the_number_of_epochs_of_a_constant_rate_may_change(tmp_path):
    def known(epochs, **recipe):
        return {**KNOWN, "recipe": {"epochs": epochs, "anneal": False, **recipe}}

    folder(tmp_path, **known(2), epochs=2)
    for epochs in (2, 5):
        assert find(tmp_path, known(epochs), resume=True)["recipe"]["epochs"] == 2
    with pytest.raises(UserError, match=r"2 epochs are trained already .* - give --epochs 2 or more"):
        find(tmp_path, known(1), resume=True)
    with pytest.raises(UserError, match=r"recipe differs in rate \(None there, 0.1,b=1 here\)"):
        find(tmp_path, known(5, rate={"*": 0.1, "b": 1}), resume=True)
    long = "0123456789" * 5
    with pytest.raises(UserError, match=r"text differs \(None there, 01234567890123456789…01234567890123456789 here\)"):
        find(tmp_path, known(2) | {"text": long}, resume=True)
    corpora = [{"source sha256": c * 64, "sha256": c * 64, "words": number} for c, number in (("a", 7), ("b", 8))]
    folder(tmp_path / "other", **KNOWN, corpus=corpora[0])
    said = r"corpus differs in source sha256 and sha256 \(a{8} there, b{8} here\), words \(7 there, 8 here\)"
    with pytest.raises(UserError, match=said):
        find(tmp_path / "other", {**KNOWN, "corpus": corpora[1]}, resume=True)
    write_info(tmp_path, {"format": FORMAT, **known(2), "finished": False}, ())
    with pytest.raises(UserError, match=r"the rate falls over all epochs, 2 there and 5 here: .* - give --epochs 2"):
        find(tmp_path, known(5), resume=True, fixed="the rate falls")
