"""Parsing of rating files: dates, MATLAB files, files of many blocks."""

import io

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from jaxcf.data.reading import read_dataset
from jaxfit.errors import UserError
from rating_files import read, rows, write_file


def test_dates_become_seconds(tmp_path):
    body = "1,2,3,2005-09-06 00:00:10\n1,3,3,1970-01-01 00:01:00\n"
    assert read(write_file(tmp_path, "r.csv", body)).ratings.time.tolist() == [1125964810, 60]
    assert read(write_file(tmp_path, "r.csv", "1,2,3,17.9\n1,3,3,18\n")).ratings.time.tolist() == [17, 18]


@pytest.mark.parametrize("times", [("2020-01-02", "2020-01-02T03:04Z", "9"), ("9", "2020-01-02", "9")])
def test_the_advice_for_mixed_times_is_one_form(tmp_path, times):
    with pytest.raises(UserError, match=r"the times are partly .* - write all in one form, or leave the column out$"):
        read(write_file(tmp_path, "r.csv", "".join(f"1,{item},3,{time}\n" for item, time in enumerate(times))))


@pytest.mark.parametrize("dtype", [np.uint16, np.float64])
def test_moviedata_is_read_without_overflow(tmp_path, dtype):
    """6,040 users times 3,952 movies do not fit the 16 bits of MATLAB's integers."""
    path = tmp_path / "moviedata.mat"
    train = np.array([[6040, 3952, 5], [1, 1, 1], [6040, 1, 3]], dtype)
    scipy.io.savemat(path, {"train_vec": train, "probe_vec": np.array([[1, 3952, 4]], dtype)})
    assert rows(read(path)) == [(6040, 3952, 5), (1, 1, 1), (6040, 1, 3), (1, 3952, 4)]
    assert rows(read(f"{path}:probe_vec")) == [(1, 3952, 4)]
    data = read_dataset(path).dataset
    assert data.train.stars.tolist() == [5, 1, 3]
    assert data.test.stars.tolist() == [4]
    scipy.io.savemat(path, {"train_vec": np.concatenate([train, train[:1]]), "other": train})
    with pytest.raises(UserError, match=r"user 6040 has already rated item 3952 \(.*moviedata.mat, train_vec, row 4\)"):
        read(path)
    with pytest.raises(UserError, match=r"holds no ratings .* it holds train_vec, other"):
        read(f"{path}:probe_vec")
    scipy.io.savemat(path, {"train_vec": np.array([[1, 2, 3], [4, np.nan, 5]])})
    with pytest.raises(UserError, match=r"the item is missing \(.*moviedata.mat, train_vec, row 2\)"):
        read(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_damaged_matlab_file_is_refused(tmp_path, compressed):
    """SciPy reads beyond its tables for some; the process would end here."""
    file = io.BytesIO()
    scipy.io.savemat(file, {"train_vec": np.arange(9.0).reshape(3, 3)}, do_compression=compressed)
    content, refused = file.getvalue(), 0
    for position in range(128, len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            path = write_file(tmp_path, "ratings.mat", bytes(changed))
            try:
                read(path)
            except UserError:
                refused += 1
    assert refused > 300


def test_a_damaged_matlab_file_is_refused_whatever_its_text(tmp_path):
    """SciPy, which does not read the text either, would end the process."""
    file = tmp_path / "ratings.mat"
    scipy.io.savemat(file, {"train_vec": np.arange(9.0).reshape(3, 3)})
    data = file.read_bytes()
    damaged = data.replace(b"MATLAB 5", b"MATLAB05").replace(b"\t\0\0\0\x48\0\0\0", b"\t\1\0\0\x48\0\0\0")
    assert sum(map(int.__ne__, data, damaged)) == 2
    with pytest.raises(UserError, match=r"the \.mat file cannot be read: it is damaged"):
        read(write_file(tmp_path, "ratings.mat", damaged))


def test_a_matlab_file_with_test_ratings_needs_its_ending(tmp_path):
    arrays = dict.fromkeys(("train_vec", "probe_vec"), np.arange(9.0).reshape(3, 3))
    scipy.io.savemat(tmp_path / "ratings", arrays, appendmat=False)
    with pytest.raises(UserError, match=r"training and test ratings.* - rename the file"):
        read_dataset(tmp_path / "ratings")
    scipy.io.savemat(tmp_path / "text.mat", {"train_vec": np.array([["a", "b", "c"]])})
    with pytest.raises(UserError, match=r"the \.mat file holds no ratings"):
        read(tmp_path / "text.mat")


def test_a_sparse_matrix_is_not_read(tmp_path):
    """Where its header is damaged, SciPy would end the process."""
    scipy.io.savemat(tmp_path / "a.mat", {"train_vec": scipy.sparse.csc_array(np.eye(3))})
    with pytest.raises(UserError, match=r"the \.mat file holds no ratings .* it holds train_vec"):
        read(tmp_path / "a.mat")


def test_many_blocks_equal_one(tmp_path, monkeypatch):
    """Each block has a dictionary of its own."""
    rng = np.random.default_rng(3)
    keys = rng.permutation(np.unique(rng.integers(0, 400 * 90, 20_000)))
    user, item, stars = keys // 90 * 7, keys % 90, rng.integers(1, 11, len(keys)) / 2
    body = "".join(f"{u}::{i}::{s:g}\n" for u, i, s in zip(user, item, stars, strict=True))
    monkeypatch.setattr("jaxcf.data.formats.parsing.BLOCK", 4096)
    table = read(write_file(tmp_path, "r.dat", body))
    np.testing.assert_array_equal(table.catalogue.users[table.ratings.user], user)
    np.testing.assert_array_equal(table.catalogue.items[table.ratings.item], item)
    np.testing.assert_array_equal(table.ratings.stars, stars.astype(np.float32))
