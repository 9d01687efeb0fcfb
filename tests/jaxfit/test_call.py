"""The folder in which a call from Python trains a model."""

import shutil

import pytest

from jaxfit.call import folder
from jaxfit.errors import UserError
from jaxfit.run_dir.run import Run


def train_in(path):
    with folder(path, "lbl", Run(), files=(), resumable=True) as place:
        return place


def test_a_folder_in_which_nothing_was_written_is_removed(tmp_path):
    assert train_in(tmp_path / "made") == tmp_path / "made"
    assert not (tmp_path / "made").exists()
    (tmp_path / "there").mkdir()
    train_in(tmp_path / "there")
    assert (tmp_path / "there").exists()


def test_an_error_is_raised_also_where_the_folder_was_removed(tmp_path):
    def fail():
        with folder(tmp_path / "m", "lbl", Run(), files=(), resumable=True) as place:
            shutil.rmtree(place)
            raise ValueError("of the training")

    with pytest.raises(ValueError, match="of the training"):
        fail()


def test_no_model_is_trained_in_the_current_folder_for_an_empty_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"the name of the folder is empty \(out\) - name a folder"):
        train_in("")
