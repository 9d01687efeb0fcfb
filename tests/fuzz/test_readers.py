"""A bounded fuzz of every reader: a mutated file is read, or refused in one line. `run.py` tries many more."""

from pathlib import Path

import pytest

from limits import try_one
from readers import Command, make_models, readers


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return make_models(tmp_path_factory.mktemp("models"))


@pytest.mark.filterwarnings("ignore::UserWarning")  # what readers say to the user
@pytest.mark.parametrize("name", readers(Path()))
def test_mutated_files_are_read_or_refused(name, models, tmp_path):
    reader = readers(models)[name]
    number = 20 if isinstance(reader, Command) else 150  # a second or two at most
    read = sum(try_one(reader, name, 0, i, tmp_path) for i in range(number))
    assert read, "no file was valid enough to be read"
