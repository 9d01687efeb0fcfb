"""The folder in which a call from Python trains a model."""

import shutil

import pytest

from jaxfit.call import checked, folder
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe
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


@pytest.mark.parametrize(
    ("name", "value", "do"),
    [
        ("drops", 0.1, "a tuple of numbers"),
        ("rate", "0.01,R=0.1", "a number, or a dict of numbers by parameter, '*' for all others"),
        ("rate", {"*": 0.01, "R": "0.1"}, "a number, or a dict of numbers by parameter, '*' for all others"),
        ("epochs", 1.5, "a whole number"),
        ("anneal", 1, "True or False"),
    ],
)
def test_a_value_of_another_type_is_said_to_be_so(name, value, do):
    with pytest.raises(UserError) as raised:
        checked({name: value}, [Recipe], by_parameter=("rate", "decay"))
    assert str(raised.value) == f"invalid value {value!r} ({name}) - give {do}"
