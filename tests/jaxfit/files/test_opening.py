"""Files as bytes: what is decompressed, and what is refused by its kind."""

import bz2
import gzip
import io
import lzma
import sys
import zipfile

import pytest

from jaxfit.errors import UserError
from jaxfit.files.opening import open_bytes

TEXT = b"some words\n" * 50
COMPRESS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("name", COMPRESS)
@pytest.mark.parametrize("piped", [False, True])
def test_compressed_files_are_read(tmp_path, monkeypatch, name, piped):
    (tmp_path / "t").write_bytes(COMPRESS[name](TEXT))
    if piped:
        content = io.BytesIO(COMPRESS[name](TEXT))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(content)))
    with open_bytes("-" if piped else tmp_path / "t") as file:
        assert file.read() == TEXT


@pytest.mark.parametrize("content", [b"BZhang went home\n", b"B", b"7zwei\n", b"PARIS\n"])
def test_text_that_begins_like_another_kind_is_text(tmp_path, content):
    (tmp_path / "t").write_bytes(content)
    with open_bytes(tmp_path / "t") as file:
        assert file.read() == content


@pytest.mark.parametrize("name", COMPRESS)
def test_a_torn_compressed_file_is_damaged(tmp_path, name):
    (tmp_path / "t").write_bytes(COMPRESS[name](TEXT)[:-9])
    message = f"the {name} file is damaged: .* - fetch or compress it again"
    with pytest.raises(UserError, match=message), open_bytes(tmp_path / "t") as file:
        file.read()


def archive(*names):
    """Return a zip archive of empty files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name in names:
            file.writestr(name, "")
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (archive("a.txt"), "a zip archive"),
        (b"PK\x03\x04 and no archive", "a zip archive"),
        (
            archive("a.txt").replace(b"PK\x01\x02\x14\x03\x14", b"PK\x01\x02\x14\x03\xff"),
            "a zip archive",
        ),  # of a later version
        (archive("[Content_Types].xml", "word/document.xml"), "a Word document"),
        (archive("[Content_Types].xml", "xl/workbook.xml"), "an Excel workbook"),
        (b"PAR1\x15\x04\x15", "a parquet file"),
        (b"%PDF-1.4\n%\xe2\xe3", "a PDF file"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old Office file"),
    ],
)
def test_files_that_are_no_text_are_named(tmp_path, content, kind):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(UserError) as error, open_bytes(tmp_path / "t"):
        pass
    assert str(error.value).startswith(f"the file is {kind}")
    assert error.value.do
