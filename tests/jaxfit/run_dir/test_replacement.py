"""Where a model is trained that is to replace another, and what may be replaced."""

import pytest

from jaxfit.errors import UserError
from jaxfit.run_dir import atomic, checkpoint, replacement
from jaxfit.run_dir.metadata import FORMAT, write_info

FILES = ("tree.npz",)


def model(place, **more):
    place.mkdir(parents=True)
    write_info(place, {"format": FORMAT, "model": "lbl", "finished": True, **more}, FILES)
    return place


def saved(place, **more):
    """Save a training that has not finished and can go on."""
    model(place, finished=False, **more)
    (place / "checkpoint-00000001").mkdir()
    return place


def choose(place, overwrite=False, resume=False):
    return replacement.choose(place, FILES, overwrite=overwrite, resume=resume)


def test_a_model_is_trained_in_its_folder_unless_it_replaces_another(tmp_path):
    out, new = tmp_path / "lbl", tmp_path / ".lbl.next"
    assert choose(out) == choose(out, overwrite=True) == out
    model(out)
    assert choose(out) == choose(out, resume=True) == out
    assert choose(out, overwrite=True) == new
    saved(new)
    assert choose(out, resume=True) == new
    assert choose(out) == out  # where it is refused
    assert choose(out, overwrite=True) == new
    assert not new.exists()  # begun anew


@pytest.mark.parametrize("folder", [".", "bootstrap"])
def test_a_training_that_diverged_is_replaced_without_being_asked_for(tmp_path, folder):
    out, new = tmp_path / "lbl", tmp_path / ".lbl.next"
    model(out / folder, finished=False, diverged="the loss is not finite")
    assert choose(out) == new
    saved(new)
    with pytest.raises(UserError, match=r"training that is to replace this one has begun \(.*/lbl\) - add --resume"):
        choose(out)
    write_info(new, {"format": FORMAT, "model": "lbl", "finished": False, "diverged": "again"}, FILES)
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
    model(tmp_path / ".lbl.replaced")  # of a run that was killed while it removed it
    link = tmp_path / "latest"
    link.symlink_to(out)
    assert choose(link, overwrite=True) == tmp_path / ".lbl.next"
    (out / "old").touch()
    replacement.put(model(tmp_path / ".lbl.next"), link)
    assert link.is_symlink()
    assert not (out / "old").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"lbl", "latest"}


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
    model(out / "bootstrap" / "bootstrap")
    assert checkpoint.every(out)
    assert choose(out, overwrite=True) != out
    (out / "tree.npz").touch()
    (out / ".parameters.new-1a2b").mkdir()  # of a writer that was killed
    assert choose(out, overwrite=True) != out
    monkeypatch.chdir(out)
    with pytest.raises(UserError, match="the current folder"):
        choose(out, overwrite=True)


@pytest.mark.parametrize("name", ["notes.txt", "data", ".git", "bootstrap/notes.txt"])
@pytest.mark.parametrize("state", [{}, {"finished": False}, {"finished": False, "diverged": "the loss"}])
@pytest.mark.parametrize("beside", [False, True])
def test_a_users_own_files_are_never_removed(tmp_path, name, state, beside):
    out = model(tmp_path / "lbl", **state)
    own = (model(tmp_path / ".lbl.next", finished=False) if beside else out) / name
    own.parent.mkdir(exist_ok=True)
    own.touch()
    if not beside:
        write_info(out, {"format": FORMAT, "model": "lbl", "finished": True, **state}, [*FILES, name])
    with pytest.raises(UserError, match=rf"no part of the model .*{name}\) - move it"):
        choose(out, overwrite="diverged" not in state)
    assert own.exists()


@pytest.mark.parametrize("state", [{}, {"finished": False, "diverged": "the loss is not finite"}])
def test_a_folder_of_models_is_no_model(tmp_path, state):
    runs = tmp_path / "runs"
    for name in ("one", "other"):
        model(runs / name, **state)
    assert choose(runs) == runs
    with pytest.raises(UserError, match="the folder has files, but no model"):
        choose(runs, overwrite=True)
    assert (runs / "one" / "config.json").exists()


@pytest.mark.parametrize("resumable", [False, True])
def test_what_nothing_can_go_on_from_is_removed(tmp_path, resumable):
    out = model(tmp_path / "kn")
    options = {"overwrite": True, "resume": False, "resumable": resumable}

    def train(new):
        (new / "parameters").mkdir(parents=True)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), replacement.folder(out, "lbl", FILES, **options) as new:
        train(new)
    assert out.exists()
    assert new.exists() == resumable


def test_only_what_can_go_on_is_resumed(tmp_path):
    out, new = model(tmp_path / "lbl"), tmp_path / ".lbl.next"
    new.mkdir()
    assert choose(out, resume=True) == out
    model(new / "bootstrap", finished=False)
    assert choose(out, resume=True) == out
    saved(new / "bootstrap" / "bootstrap")
    assert choose(out, resume=True) == new
    replacement.drop_unsaved(new)
    assert choose(out, resume=True) == new
    write_info(new / "bootstrap", {"format": FORMAT, "model": "lbl", "finished": False, "diverged": "the loss"}, FILES)
    assert choose(out, resume=True) == out


def test_a_replacement_without_anything_to_go_on_from_begins_anew(tmp_path):
    out, new = model(tmp_path / "lbl"), model(tmp_path / ".lbl.next", finished=False)
    assert choose(out, resume=True) == out
    assert choose(out, overwrite=True, resume=True) == new
    assert not new.exists()
    saved(new)
    assert choose(out, overwrite=True, resume=True) == new
    assert new.exists()
    write_info(new, {"format": FORMAT, "model": "lbl", "finished": False, "diverged": "the loss"}, FILES)
    assert choose(out, overwrite=True, resume=True) == new
    assert not new.exists()
    assert choose(out, overwrite=True, resume=True) == out


def test_a_stop_while_the_old_model_is_removed_does_not_bring_it_back(tmp_path, monkeypatch):
    out, new = model(tmp_path / "lbl"), saved(tmp_path / ".lbl.next")
    (out / "parameters").mkdir()

    def stop(path, **options):
        if path.exists():
            raise KeyboardInterrupt

    monkeypatch.setattr(replacement.shutil, "rmtree", stop)
    with pytest.raises(KeyboardInterrupt):
        replacement.put(new, out)
    assert not new.exists()
    assert choose(out, resume=True) == out
