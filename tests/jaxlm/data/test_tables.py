"""Tables: separators as the first line has them, quotation marks, numbers, and errors that name the line."""

import gzip

import pytest

from jaxfit.errors import UserError
from jaxlm.data.tables import require_number, rows


def fields_of(tmp_path, content, **options):
    (tmp_path / "table").write_bytes(content)
    return [row.fields for row in rows(tmp_path / "table", **options)]


@pytest.mark.parametrize("separator", ["\t", ",", ";", " ", "   "])
def test_fields_are_separated_by_what_the_first_line_has(tmp_path, separator):
    content = "".join(f"{a}{separator}{b}\n" for a, b in (("x", "1.5"), ("y", "2")))
    assert fields_of(tmp_path, content.encode()) == [["x", "1.5"], ["y", "2"]]


def test_tabs_come_before_commas_and_quotation_marks_between_them_stay(tmp_path):
    assert fields_of(tmp_path, b'a, "b\tc;d\n"e\t\n') == [['a, "b', "c;d"], ['"e', ""]]


def test_quoted_fields_hold_commas(tmp_path):
    assert fields_of(tmp_path, b'id,text\n1,"a , ""b"" c"\n2, "d"\n') == [
        ["id", "text"],
        ["1", 'a , "b" c'],
        ["2", "d"],
    ]


def test_files_are_read_as_texts_are(tmp_path):
    content = "\ufeffé,1\r\n\r\n  \nz,2".encode("utf-8")
    assert fields_of(tmp_path, content) == [["é", "1"], ["z", "2"]]
    assert fields_of(tmp_path, gzip.compress(content)) == [["é", "1"], ["z", "2"]]
    assert fields_of(tmp_path, "é,1\n".encode("latin-1"), encoding="latin-1") == [["é", "1"]]


def test_rows_know_their_lines(tmp_path):
    (tmp_path / "table").write_text("\na,b\n\nc,d\n")
    assert [row.where for row in rows(tmp_path / "table")] == [f"{tmp_path}/table, line {n}" for n in (2, 4)]


@pytest.mark.parametrize("line", ['"x,2', '"x" y,2', "x" * 200_000 + ",2"])
def test_fields_that_cannot_be_told_apart_are_an_error_of_that_line(tmp_path, line):
    with pytest.raises(UserError, match=r"cannot be told apart: .*table, line 2"):
        fields_of(tmp_path, f"a,1\n{line}\nb,2\n".encode())


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "-Infinity", "1_000", "1e300", "1,5", "0x10"])
def test_what_is_no_finite_number_is_refused(text):
    with pytest.raises(UserError, match=r"the score is not a number: .* \(file, line 3\)"):
        require_number(text, "the score", "file, line 3")


def test_numbers_are_read():
    assert [require_number(text, "the score", "file") for text in ("0", "-1.5", "+2e3", "7.")] == [0, -1.5, 2000, 7]
