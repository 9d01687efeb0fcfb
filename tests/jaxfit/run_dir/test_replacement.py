"""Where a model is trained that is to replace another, and what may be replaced."""

import pytest

from jaxfit.errors import UserError
from jaxfit.run_dir import atomic, checkpoint, replacement
from jaxfit.run_dir.metadata import FORMAT, write_info


def model(place, **more):
    place.mkdir(parents=True)
    write_info(place, {"format": FORMAT, "model": "lbl", "finished": True, **more})
    return place


def choose(place, overwrite=False, resume=False):
    return replacement.choose(place, overwrite=overwrite, resume=resume)


def test_a_model_is_trained_in_its_folder_unless_it_replaces_another(tmp_path):
    out, new = tmp_path / "lbl", tmp_path / ".lbl.next"
    assert choose(out) == choose(out, overwrite=True) == out
    model(out)
    assert choose(out) == choose(out, resume=True) == out
    assert choose(out, overwrite=True) == new
    model(new, finished=False)
    assert choose(out, resume=True) == new
    assert choose(out) == out  # where it is refused
    assert choose(out, overwrite=True) == new
    assert not new.exists()  # begun anew


@pytest.mark.parametrize("folder", [".", "bootstrap"])
def test_a_training_that_diverged_is_replaced_without_being_asked_for(tmp_path, folder):
    out, new = tmp_path / "lbl", tmp_path / ".lbl.next"
    model(out / folder, finished=False, diverged="the loss is not finite")
    assert choose(out) == new
    model(new, finished=False)
    with pytest.raises(UserError, match=r"a training is there already .* --resume"):
        choose(out)
    write_info(new, {"format": FORMAT, "model": "lbl", "finished": False, "diverged": "again"})
    assert choose(out) == new
    assert not new.exists()


@pytest.mark.parametrize("exchange", [True, False])
def test_the_new_folder_takes_the_place_of_the_old(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(atomic, "exchange", lambda one, other: False)
    out = tmp_path / "lbl"
    replacement.put(model(tmp_path / ".lbl.next"), out)
    (out / "old").touch()
    replacement.put(model(tmp_path / ".lbl.next"), out)
    assert [path.name for path in tmp_path.iterdir()] == ["lbl"]
    assert not (out / "old").exists()
    link = tmp_path / "latest"
    link.symlink_to(out)
    assert choose(link, overwrite=True) == tmp_path / ".lbl.next"
    (out / "old").touch()
    replacement.put(model(tmp_path / ".lbl.next"), link)
    assert link.is_symlink()
    assert not (out / "old").exists()


def test_only_a_model_is_replaced(tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    assert choose(other, overwrite=True) == other
    (other / "notes.txt").touch()
    with pytest.raises(UserError, match="the folder has files, but no model"):
        choose(other, overwrite=True)
    out = model(tmp_path / "lbl")
    (out / "README.md").touch()
    (out / "checkpoint-00000001").mkdir()
    model(out / "bootstrap")
    assert checkpoint.every(out)
    assert choose(out, overwrite=True) != out
    (out / "notes.txt").touch()
    with pytest.raises(UserError, match=r"no part of the model .*notes.txt\) - move it"):
        choose(out, overwrite=True)
    monkeypatch.chdir(out)
    with pytest.raises(UserError, match="the current folder"):
        choose(out, overwrite=True)
