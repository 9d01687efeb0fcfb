"""Arrays in memory and in files hold the same, and files leave nothing behind."""

import errno
import os

import jax
import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxfit.files import large_arrays
from jaxfit.files.large_arrays import Collector, empty, filled, pieces, shuffled, stored_in


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


def test_empty_collector_returns_an_empty_array(tmp_path):
    with stored_in(tmp_path, 0), Collector(np.float32) as collected:
        assert collected.array().tolist() == []


@pytest.mark.parametrize("memory", [0, 99])
@pytest.mark.parametrize("rows", [0, 1, 7, 60])
def test_shuffled_rows_are_the_rows(tmp_path, monkeypatch, rows, memory):
    monkeypatch.setattr(large_arrays, "PIECE", 7)
    values = np.arange(2 * rows, dtype=np.int32).reshape(rows, 2)
    with stored_in(tmp_path, memory):
        found = shuffled(values, np.random.default_rng(rows))
    assert found.dtype == np.int32
    assert isinstance(found, np.memmap) == (rows > memory)
    assert sorted(found.tolist()) == values.tolist()
    assert rows < 60 or found.tolist() != values.tolist()


def test_shuffled_rows_have_every_order_equally_often(monkeypatch):
    """Chi-square of the 24 orders of four rows, in buckets of several sizes; p = .001 of 49.7."""
    monkeypatch.setattr(large_arrays, "PIECE", 2)
    generator, counts = np.random.default_rng(0), {}
    for _ in range(4800):
        order = tuple(shuffled(np.arange(4)[:, None], generator).ravel().tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 49.7


@pytest.mark.parametrize("memory", [2, 3])
def test_filled_equals_the_values(tmp_path, monkeypatch, memory):
    monkeypatch.setattr(large_arrays, "PIECE", 2)
    with stored_in(tmp_path, memory):
        found = filled(3, np.int32, lambda piece: np.arange(piece.start, piece.stop) * 10)
    assert found.tolist() == [0, 10, 20]
    assert isinstance(found, np.memmap) == (memory < 3)
    found[1] = 7  # it can be written to after its file has lost its name
    assert found.tolist() == [0, 7, 20]


def test_arrays_are_in_memory_unless_a_folder_is_named(tmp_path):
    assert not isinstance(empty((9,), np.int8), np.memmap)
    with stored_in(tmp_path, 0), stored_in(None, 0):
        assert not isinstance(empty((9,), np.int8), np.memmap)
    assert not isinstance(empty((9,), np.int8), np.memmap)


@pytest.mark.parametrize("memory", [99, 0])
def test_a_cpu_uses_arrays_without_copying_them(tmp_path, memory):
    with stored_in(tmp_path, memory):
        array = empty((5, 3), np.int32)
    array[:] = np.arange(15).reshape(5, 3)
    on_device = jax.device_put(array, jax.devices("cpu")[0])
    assert on_device.unsafe_buffer_pointer() == array.ctypes.data
    assert on_device.tolist() == array.tolist()


def test_pieces_are_consecutive():
    assert [(piece.start, piece.stop) for piece in pieces(7, 3)] == [(0, 3), (3, 6), (6, 7)]
    assert list(pieces(0)) == []


@pytest.fixture
def no_room():
    """Limit the size of files: what a full disk is to a process, from a hundred bytes on."""
    resource = pytest.importorskip("resource", reason="there are no limits of a process")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


SAID = r"a temporary file of words or ratings cannot be written: File too large \(.*\) - free some disk space"


@pytest.mark.usefixtures("no_room")
@pytest.mark.parametrize("preallocated", [True, False])
def test_a_full_disk_is_a_user_error_before_the_array_is_written_to(tmp_path, monkeypatch, preallocated):
    """Through a map, a full disk would end the process."""
    if not preallocated:  # as on macOS
        monkeypatch.delattr(large_arrays.os, "posix_fallocate", raising=False)
    with stored_in(tmp_path, 0), pytest.raises(UserError, match=SAID):
        empty((1000,), np.int32)


@pytest.mark.usefixtures("no_room")
@pytest.mark.parametrize("size", [10, 10_000])
def test_a_full_disk_is_a_user_error_while_elements_are_collected(tmp_path, size):
    """Also where they were held in a buffer, which closing the file writes again."""

    def collect():
        with Collector(np.int32) as collected:
            for _ in range(20):
                collected.append(np.arange(size))
            collected.array()

    with stored_in(tmp_path, 0), pytest.raises(UserError, match=SAID):
        collect()


def test_room_for_a_file_is_asked_for_before_it_is_mapped(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(large_arrays.os, "posix_fallocate", full, raising=False)
    with stored_in(tmp_path, 0), pytest.raises(UserError, match="No space left"):
        empty((3,), np.int32)


def test_other_errors_of_the_system_are_not_about_disk_space(tmp_path):
    with stored_in(tmp_path / "none", 0), pytest.raises(FileNotFoundError):
        empty((3,), np.int32)
