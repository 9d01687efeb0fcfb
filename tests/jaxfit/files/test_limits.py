"""Limits of what is read: how much a compressed file expands, how long a line is, how many words or ratings."""

import bz2
import gzip
import io
import lzma

import numpy as np
import pytest

from jaxcf.data.formats import matlab_file
from jaxcf.data.reading import read
from jaxfit.errors import UserError
from jaxfit.files import limits
from jaxfit.files.limits import Limits, limited
from jaxfit.files.opening import lines_of, open_bytes
from jaxlm.data import files
from jaxlm.data.files import Reading, chunks, tokens

COMPRESS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.fixture
def few_bytes(monkeypatch):
    """Limit files that expand little, too, so that tests need no large ones."""
    monkeypatch.setattr(limits, "SMALL", 1 << 16)


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_file_that_expands_too_much_is_refused_unless_that_is_asked_for(tmp_path, few_bytes, kind):
    text = b"a b\n" * (1 << 20)
    (tmp_path / "t").write_bytes(COMPRESS[kind](text))
    message = f"the {kind} file becomes more than 100 times larger when it is read .* give --max-expansion"
    with pytest.raises(UserError, match=message), open_bytes(tmp_path / "t") as file:
        file.readlines()
    with limited(Limits(max_expansion=10**6)), open_bytes(tmp_path / "t") as file:
        assert file.read() == text


def test_small_files_may_expand_as_they_like(tmp_path):
    (tmp_path / "t.gz").write_bytes(gzip.compress(b"a b\n" * (1 << 20)))
    with open_bytes(tmp_path / "t.gz") as file:
        assert len(file.read()) == 1 << 22


def test_a_stream_that_is_read_from_other_positions_keeps_its_limit(tmp_path, few_bytes):
    text = b"".join(b"%d %d\n" % (i, i * i) for i in range(1 << 16))
    (tmp_path / "t.gz").write_bytes(gzip.compress(text))
    with open_bytes(tmp_path / "t.gz") as file:
        assert file.seek(-4, io.SEEK_END) == len(text) - 4
        assert file.seek(0) == 0
        assert file.read() == text


def test_a_parquet_file_of_few_bytes_and_many_rows_is_refused(tmp_path, few_bytes):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    column = pa.array(np.zeros(1 << 16, np.int64))
    pq.write_table(pa.table({"user": column, "item": column, "stars": column}), tmp_path / "r.parquet")
    with pytest.raises(UserError, match="the Parquet file becomes more than 100 times larger"):
        read(tmp_path / "r.parquet")


@pytest.mark.parametrize("split", [1, 40])
def test_a_matlab_file_that_expands_too_much_is_refused(few_bytes, split):
    scipy_io = pytest.importorskip("scipy.io")
    content = io.BytesIO()
    arrays = {f"a{i}": np.ones((1 << 18) // split) for i in range(split)}  # together too large, or alone
    scipy_io.savemat(content, arrays, do_compression=True)
    with pytest.raises(UserError, match=r"the \.mat file becomes more than 100 times larger"):
        matlab_file.arrays_of(content.getvalue(), "r.mat")
    with limited(Limits(max_expansion=10**4)):
        assert set(matlab_file.arrays_of(content.getvalue(), "r.mat")) == set(arrays)


@pytest.mark.parametrize("first", [b"", b"a short line\n"])
def test_a_line_that_is_too_long_is_refused(tmp_path, monkeypatch, first):
    monkeypatch.setattr(files, "CHUNK", 1 << 18)
    (tmp_path / "t").write_bytes(first + b"a b " * (1 << 19) + b"\nthe end\n")
    with limited(Limits(max_line_mb=1)):
        with pytest.raises(UserError, match=rf"a line is longer than 1 MB \(.*t, byte offset {len(first)}\) - divide"):
            list(chunks(tmp_path / "t", Reading()))
        with pytest.raises(UserError, match=rf"a line is longer than 1 MB \(.*t, line {1 + bool(first)}\)"):
            list(lines_of(io.BytesIO((tmp_path / "t").read_bytes()), tmp_path / "t"))
    with limited(Limits(max_line_mb=2)):
        assert sum(map(len, chunks(tmp_path / "t", Reading()))) == len(first) + (1 << 21) + 9


def test_a_word_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK", 1 << 10)
    monkeypatch.setattr(files, "MAX_WORD_BYTES", 1 << 20)
    (tmp_path / "word").write_bytes(b"a " + b"x" * (1 << 21))
    with pytest.raises(UserError, match=r"a word is longer than 1 MB \(.*word, byte offset 2\) - separate words"):
        list(chunks(tmp_path / "word", Reading()))


@pytest.mark.parametrize("space", ["\t", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2003", "\u3000"])
def test_a_text_is_cut_at_any_white_space(tmp_path, monkeypatch, space):
    monkeypatch.setattr(files, "CHUNK", 1 << 10)
    (tmp_path / "t").write_text(f"some{space}words " * 1000 + "\n", newline="")
    (tmp_path / "without").write_text(f"some{space}words{space}" * 1000 + "\n", newline="")
    for name in ("t", "without"):
        pieces = list(chunks(tmp_path / name, Reading()))
        assert max(map(len, pieces)) <= (1 << 10) + len("words")
        assert [word for piece in pieces for word in files.split(piece)] == [b"some", b"words"] * 1000 + [b"<eos>"]


def test_more_words_or_ratings_than_positions_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MAX_EVENTS", 9)
    (tmp_path / "t").write_text("a b c d\n" * 2)
    (tmp_path / "r").write_text("".join(f"{user},1,3\n" for user in range(10)))
    with pytest.raises(UserError, match=r"more than 9 words and line ends \(.*t\) - positions have 32 bits"):
        list(tokens([tmp_path / "t"], Reading()))
    with pytest.raises(UserError, match=r"more than 9 rows \(.*r\) - positions have 32 bits"):
        read(tmp_path / "r")


def test_an_id_whose_length_all_would_take_is_refused(tmp_path):
    (tmp_path / "r").write_text(f"u1,i1,3\n{'x' * 1001},i1,3\n")
    with pytest.raises(UserError, match=r"the user is an id of more than 1,000 characters \(.*r, line 2\)"):
        read(tmp_path / "r")
    (tmp_path / "r").write_text(f"u1,i1,3\n{'x' * 1000},i1,3\n")
    assert len(read(tmp_path / "r").ratings.user) == 2


def test_limits_hold_until_they_are_left():
    with limited(Limits(max_line_mb=7)):
        assert limits.limits() == Limits(max_line_mb=7)
    assert limits.limits() == Limits()
