"""Files of arrays that declare what they do not hold."""

import io
import os
import re
import resource
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from safetensors import safe_open

from jaxfit.errors import UserError
from jaxfit.run_dir.arrays import read_npz, to_safetensors, write_npy

ARRAYS = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": np.array(7), "c": np.zeros((0, 2))}


def header(shape, kind="<i4"):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def archive(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("a.npy", content)
    return file.getvalue()


def saved(save, **arrays):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def changed(content, local, central, value):
    """Return an archive with a byte changed in its first member's header, and in that of the list of members."""
    found = bytearray(content)
    found[local] = value
    found[content.find(b"PK\x01\x02") + central] = value
    return bytes(found)


GOOD = saved(np.savez, **ARRAYS)
BAD = {
    "more than there is": archive(header("(1000000000000, 2)") + b"\0" * 8),
    "a hundred megabytes": archive(header("(25000000,)") + b"\0" * 8),
    "less than there is": archive(header("(1,)") + b"\0" * 8),
    "a negative size": archive(header("(-1, -2)") + b"\0" * 8),
    "a size of 400 digits": archive(header(f"({'9' * 400},)") + b"\0" * 8),
    "a size that is text": archive(header("('a',)") + b"\0" * 8),
    "objects": archive(header("(1,)", "|O") + b"\0" * 8),
    "no array": archive(b"hello"),
    "a version of its own": archive(header("(2,)").replace(b"\x01\x00", b"\x09\x00", 1) + b"\0" * 8),
    "compressed": saved(np.savez_compressed, a=np.zeros(1 << 20)),
    "compressed, and not smaller": saved(np.savez_compressed, a=np.arange(2)),
    "encrypted": changed(GOOD, 6, 8, 1),
    "another compression": changed(GOOD, 8, 10, 99),
    "a short archive": GOOD[: len(GOOD) // 2],
}


def test_arrays_are_read(tmp_path):
    (tmp_path / "a.npz").write_bytes(GOOD)
    found = read_npz(tmp_path / "a.npz", "damaged", "write it again")
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.writeable


@pytest.mark.parametrize("name", BAD)
def test_an_archive_that_declares_what_it_does_not_hold_is_refused_in_little_memory(tmp_path, name):
    (tmp_path / "a.npz").write_bytes(BAD[name])
    tracemalloc.start()
    try:
        with pytest.raises(
            UserError, match=f"^damaged: .* \\({re.escape(str(tmp_path / 'a.npz'))}\\) - write it again$"
        ):
            read_npz(tmp_path / "a.npz", "damaged", "write it again")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_every_truncation_is_refused(tmp_path):
    for length in range(0, len(GOOD), 7):
        (tmp_path / "a.npz").write_bytes(GOOD[:length])
        with pytest.raises(UserError, match=r"^damaged"):
            read_npz(tmp_path / "a.npz", "damaged", "write it again")


def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.npz")
    with pytest.raises(UserError, match="damaged: it is no regular file"):
        read_npz(tmp_path / "a.npz", "damaged", "write it again")


def test_safetensors_are_the_same_bytes_each_time(tmp_path):
    metadata = {name: f"{name} “quoted”\n" for name in ("words", "config", "model", "unit", "a long name")}
    files = {to_safetensors(ARRAYS, metadata) for _ in range(20)}
    assert len(files) == 1
    path = tmp_path / "a.safetensors"
    path.write_bytes(*files)
    with safe_open(path, "np") as file:
        assert file.metadata() == metadata
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(file.get_tensor(name), array)


def test_an_array_whose_end_is_not_written_is_an_error(tmp_path):
    array, (soft, hard) = np.arange(400, dtype=np.float32), resource.getrlimit(resource.RLIMIT_FSIZE)
    with open(tmp_path / "whole.npy", "wb") as file:
        write_npy(file, array)
    np.testing.assert_array_equal(np.load(tmp_path / "whole.npy"), array)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        with pytest.raises(OSError, match="File too large"), open(tmp_path / "part.npy", "wb") as file:
            write_npy(file, array)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
