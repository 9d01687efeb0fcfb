"""Text of delimited files: quotation marks, delimiters of several characters, and that neither depends on the size."""

import csv

import numpy as np
import pytest

from jaxcf.data.formats import file_layout, parsing, quoted_fields, text_pieces
from jaxcf.data.formats.file_layout import Layout
from jaxcf.data.reading import Reading
from jaxfit.errors import UserError
from rating_files import read, rows, write_file

SIZES = [(1 << 22, 1 << 26), (60, 1 << 26), (60, 100)]


@pytest.fixture(params=SIZES, ids=["whole", "in blocks", "in pieces of blocks"])
def in_parts(request, monkeypatch):
    """Parse files in blocks and pieces of these sizes."""
    block, piece = request.param
    monkeypatch.setattr(parsing, "BLOCK", block)
    monkeypatch.setattr(text_pieces, "BYTES_AT_ONCE", piece)


def pieces_of(path, layout):
    with open(path, "rb") as stream:
        return b"".join(text_pieces.pieces(stream, path, layout))


@pytest.mark.parametrize("delimiter", [",", "|", "::", "||", "]]"])
def test_lines_that_end_in_quotes_are_those_of_python(tmp_path, delimiter):
    rng = np.random.default_rng(4)
    layout = Layout(delimiter, 3, {}, quoted=True)
    refused = 0
    for _ in range(400):
        text = ["".join(rng.choice(['"', '"', delimiter, delimiter[0], "a"], rng.integers(1, 9))) for _ in range(3)]
        # Python has delimiters of one character only
        lines = [line.replace(delimiter, "\x1f") for line in text]
        open_lines = [len(list(csv.reader([f"{line}\n", "a\n"], delimiter="\x1f"))) == 1 for line in lines]
        path = write_file(tmp_path, "r", "\n".join(text) + "\n")
        if any(open_lines):
            refused += 1
            with pytest.raises(UserError, match="does not end in its line") as error:
                pieces_of(path, layout)
            assert error.value.where == f"{path}, line {open_lines.index(True) + 1}"
        else:
            separator = quoted_fields.separator_of(delimiter)
            found = csv.reader(pieces_of(path, layout).decode().splitlines(), delimiter=separator)
            fields = csv.reader(lines, delimiter="\x1f")
            assert list(found) == [[field.replace("\x1f", delimiter) for field in row] for row in fields]
    assert 100 < refused < 390


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("row", [0, 1, 7, 39])
@pytest.mark.parametrize("text", ["good\r\n1,2,3,4,book", "go\rod"])
def test_line_breaks_in_quoted_fields_are_refused_at_every_size(tmp_path, in_parts, row, timed, text):
    body = [f'{k},{k * 7},{k % 5 + 1},{k},"fine"' for k in range(40)]
    body[row] = body[row].replace("fine", text)
    header = "user,item,stars," + ("time" if timed else "other")
    path = write_file(tmp_path, "r.csv", f"{header},text\n" + "\n".join(body) + "\n")
    with pytest.raises(UserError, match="a quoted field does not end in its line") as error:
        read(path)
    assert error.value.where == f"{path}, line {row + 2}"
    assert "remove line breaks within quoted fields" in error.value.do


@pytest.mark.parametrize("delimiter", [",", "::"])
def test_a_line_with_a_carriage_return_in_a_quoted_field_is_left_out(tmp_path, in_parts, delimiter):
    body = [delimiter.join((str(k), '"x"', "3")) for k in range(40)]
    body[7] = body[7].replace("x", "\rx")
    path = write_file(tmp_path, "r", "\n".join(body))
    table = read(path, Reading(skip_bad=1))
    assert rows(table) == [(k, "x", 3) for k in range(40) if k != 7]
    assert f"the first: the line has a carriage return inside ({path}, line 8)" in table.notes[1]
    body[7] = body[7].replace('x"', "x")
    with pytest.raises(UserError, match=r"a quoted field does not end in its line .*line 8\)"):
        read(write_file(tmp_path, "r", "\n".join(body)), Reading(skip_bad=1))


@pytest.mark.parametrize("skip_bad", [0, 1])
@pytest.mark.parametrize("delimiter", [",", "::"])
def test_quoted_fields_are_read_beside_line_ends_of_windows(tmp_path, in_parts, delimiter, skip_bad):
    body = "".join(f'{k}{delimiter}"a{delimiter}b"{delimiter}"3"\r\n' for k in range(40))
    path = write_file(tmp_path, "r", body.encode())
    assert rows(read(path, Reading(skip_bad=skip_bad))) == [(k, f"a{delimiter}b", 3) for k in range(40)]


@pytest.mark.parametrize("skip_bad", [0, 1])
@pytest.mark.parametrize(
    ("text", "value"),
    [('5" disk', '5" disk'), ('"5"" disk"', '5" disk'), ('"a, b"', "a, b"), ('"""a,"""', '"a,"'), ('"a"b"', 'ab"')],
)
def test_other_quotation_marks_are_read_at_every_size(tmp_path, in_parts, text, value, skip_bad):
    path = write_file(tmp_path, "r.csv", "user,item,stars\n" + "".join(f"{k},{text},3\n" for k in range(40)))
    assert rows(read(path, Reading(skip_bad=skip_bad))) == [(k, value, 3) for k in range(40)]


def test_a_line_longer_than_a_block_is_refused_or_left_out(tmp_path, monkeypatch):
    for module in (file_layout, parsing):
        monkeypatch.setattr(module, "BLOCK", 1 << 20)
    rated = [(k, 7, 3) for k in range(40)]
    body = [f"{user},{item},{stars},text" for user, item, stars in rated]
    body[7] += "\N{GREEK SMALL LETTER ALPHA}" * (1 << 20)  # of two bytes
    path = write_file(tmp_path, "r.csv", "user,item,stars,other\n" + "\n".join(body))
    with pytest.raises(UserError, match=r"the line is longer than 1 MB .*line 9\) .*--skip-bad"):
        read(path)
    assert rows(read(path, Reading(skip_bad=1))) == [row for row in rated if row[0] != 7]


def test_a_carriage_return_outside_quotes_is_an_error_of_its_line(tmp_path):
    path = write_file(tmp_path, "r.csv", b"1,2,3\n1,3\r,4\n1,4,3\n")
    with pytest.raises(UserError, match=r"the line has a carriage return inside .*line 2\)"):
        read(path)


@pytest.mark.parametrize("skip_bad", [0, 1])
@pytest.mark.parametrize("delimiter", [",", "::"])
def test_long_quoted_fields_are_read(tmp_path, delimiter, skip_bad):
    lines = [("user", "item", "stars", '"text"'), *((str(k), "7", "3", f'"{delimiter * 100_000}"') for k in range(3))]
    path = write_file(tmp_path, "r", "\n".join(map(delimiter.join, lines)))
    assert rows(read(path, Reading(skip_bad=skip_bad))) == [(k, 7, 3) for k in range(3)]
    assert csv.field_size_limit() == 131_072


@pytest.mark.parametrize("skip_bad", [0, 1])
def test_single_characters_of_a_doubled_delimiter_are_read(tmp_path, in_parts, skip_bad):
    dates = "".join(f"{k}::Alien: Covenant::{k % 5 + 1}::2000-12-31 22:12:{k + 10}\n" for k in range(40))
    expected = [(k, "Alien: Covenant", k % 5 + 1, 978300730 + k) for k in range(40)]
    assert rows(read(write_file(tmp_path, "r.dat", dates), Reading(skip_bad=skip_bad))) == expected
    bars = write_file(tmp_path, "bars", "1||a|b||3\n2||NA||4\n")
    assert rows(read(bars, Reading(delimiter="||", skip_bad=skip_bad))) == [(1, "a|b", 3), (2, "NA", 4)]
    with pytest.raises(UserError, match=r"the line has 2 columns, not 3 .*line 2\)"):
        read(write_file(tmp_path, "r.dat", "1::2::3\n1:NA:2::3\n"))


@pytest.mark.parametrize("skip_bad", [0, 1])
@pytest.mark.parametrize("first", ["first", "a::b", 'a "::" b'])
def test_doubled_delimiters_within_quotes_are_read(tmp_path, in_parts, first, skip_bad):
    body = "".join(f'"u::{k}"::"a: b"::"3"\n{k}::c"d::4\n' for k in range(20))
    expected = [each for k in range(20) for each in ((f"u::{k}", "a: b", 3), (str(k), 'c"d', 4))]
    line = first.replace('"', '""')
    path = write_file(tmp_path, "r.dat", f'"{line}"::x::5\n{body}')
    assert rows(read(path, Reading(skip_bad=skip_bad))) == [(first, "x", 5), *expected]
    named = write_file(tmp_path, "named.dat", f'"item"::"user"::"stars"\nx::"{line}"::5\n')
    assert rows(read(named, Reading(skip_bad=skip_bad))) == [(first, "x", 5)]


def test_a_bad_line_below_quoted_delimiters_is_named(tmp_path):
    path = write_file(tmp_path, "r.dat", '"first"::x::5\n"u::1"::a::3\n2::b::4\n3::c\n')
    with pytest.raises(UserError, match=r"the line has 2 columns, not 3 .*line 4\)"):
        read(path)
    table = read(path, Reading(skip_bad=1))
    assert rows(table) == [("first", "x", 5), ("u::1", "a", 3), ("2", "b", 4)]
    assert f"the first: the line has 2 columns, not 3 ({path}, line 4)" in table.notes[1]


@pytest.mark.parametrize(("encoding", "letter"), [("gb18030", "億"), ("shift_jis", "倒"), ("iso-2022-jp", "あ")])
def test_bytes_of_letters_are_not_taken_for_delimiters_or_quotation_marks(tmp_path, in_parts, encoding, letter):
    """In the first two the last byte of the letter is that of |, in the third that of a quotation mark."""
    assert letter.encode(encoding)[-1:] == b"|" or b'"' in letter.encode(encoding)
    body = "".join(f'{k}||"{letter}"||3\n{k}||b{letter}||3\n' for k in range(20))
    found = read(write_file(tmp_path, "r", body.encode(encoding)), Reading(encoding=encoding, delimiter="||"))
    assert rows(found) == [(k, item, 3) for k in range(20) for item in (letter, f"b{letter}")]
