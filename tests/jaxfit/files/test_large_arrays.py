"""Arrays in memory and in files hold the same, and files leave nothing behind."""

import io
import os
import sys

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxfit.files import large_arrays
from jaxfit.files.large_arrays import Collector, empty, filled, pieces, stored_in


@pytest.mark.parametrize("memory", [0, 4, 5, 99])
@pytest.mark.parametrize("sizes", [[5], [2, 3], [1, 1, 1, 1, 1], [0, 5, 0]])
def test_collected_values_are_those_appended(tmp_path, sizes, memory):
    values = np.arange(5, dtype=np.int64) - 2
    with stored_in(tmp_path, memory), Collector(np.int64) as collected:
        for part in np.split(values, np.cumsum(sizes)[:-1]):
            collected.append(part)
        found = collected.array()
    assert found.dtype == np.int64
    assert found.tolist() == values.tolist()
    assert isinstance(found, np.memmap) == (memory < 5)
    assert os.listdir(tmp_path) == []


def test_collected_of_nothing_is_empty(tmp_path):
    with stored_in(tmp_path, 0), Collector(np.float32) as collected:
        assert collected.array().tolist() == []


@pytest.mark.parametrize("memory", [2, 3])
def test_filled_equals_the_values(tmp_path, monkeypatch, memory):
    monkeypatch.setattr(large_arrays, "PIECE", 2)
    with stored_in(tmp_path, memory):
        found = filled(3, np.int32, lambda piece: np.arange(piece.start, piece.stop)[:, None] * [1, 10], 2)
    assert found.tolist() == [[0, 0], [1, 10], [2, 20]]
    assert isinstance(found, np.memmap) == (memory < 3)
    found[1] = 7  # it can be written to after its file has lost its name
    assert found.tolist() == [[0, 0], [7, 7], [2, 20]]


def test_arrays_are_in_memory_unless_a_folder_is_named(tmp_path):
    assert not isinstance(empty(9, np.int8), np.memmap)
    with stored_in(tmp_path, 0), stored_in(None, 0):
        assert not isinstance(empty(9, np.int8), np.memmap)
    assert not isinstance(empty(9, np.int8), np.memmap)


def test_pieces_are_consecutive():
    assert [(piece.start, piece.stop) for piece in pieces(7, 3)] == [(0, 3), (3, 6), (6, 7)]
    assert list(pieces(0)) == []


def test_a_missing_folder_is_a_user_error(tmp_path):
    with stored_in(tmp_path / "none", 0):
        with pytest.raises(UserError, match="a large array cannot be written: No such file"):
            empty(3, np.int32)
        with Collector(np.int32) as collected, pytest.raises(UserError, match="a large array cannot be written"):
            collected.append(np.arange(3))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/full exists on Linux only")
def test_a_full_disk_is_a_user_error(tmp_path, monkeypatch):
    """Before the array is written to: through a map, a full disk would end the process."""
    monkeypatch.setattr(large_arrays.tempfile, "TemporaryFile", lambda dir: io.FileIO("/dev/full", "r+"))
    said = r"a large array cannot be written: .* - free some disk space"
    with stored_in(tmp_path, 0):
        with Collector(np.int32) as collected, pytest.raises(UserError, match=said):
            collected.append(np.arange(3))
        with pytest.raises(UserError, match=said):
            empty(1 << 40, np.int32)
