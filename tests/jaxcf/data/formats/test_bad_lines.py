"""`--skip-bad`: which lines are left out, that this is said, and how many may be."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.io import savemat

from jaxcf.data.formats.bad_lines import MISSING
from jaxcf.data.ratings import RatingScale
from jaxcf.data.reading import Reading, read_pairs
from jaxfit.errors import UserError
from rating_files import read, rows, write_file

GOOD = ["1,2,3,100", "1,3,4,90", "5,2,1,80"]
ROWS = [(1, 2, 3, 100), (1, 3, 4, 90), (5, 2, 1, 80)]
BAD = {
    "oops": "the line has 1 column, not 4",
    "1,2,3,4,5": "the line has 5 columns, not 4",
    ",2,3,4": "the user is missing",
    "1, ,3,4": "the item is missing",
    "1,9,NaN,4": "the rating is missing",
    "1,9,x,4": "the rating 'x' is not a finite number",
    "1,9,inf,4": "the rating 'inf' is not a finite number",
    "1,9,-1e15,4": "the rating -1e15 is too large",
    "1,9,3,": "the time is missing",
    "1,9,3,soon": "invalid time 'soon'",
    "1,9,3,2005-09-06": "the time '2005-09-06' is a date, and the first one is a number",
    "1,9,3\r,4": "the line has a carriage return inside",
    "1,9,3,2005-09-06T00:00Z": "the time '2005-09-06T00:00Z' is a date with a zone, and the first one is a number",
    "1,\xff,3,4": "the line is not valid utf-8",
}


@pytest.mark.parametrize("header", ["", "user,item,stars,time\n"])
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_line_is_left_out_and_said(tmp_path, bad, header):
    lines = [GOOD[0], "", bad, *GOOD[1:]]
    path = write_file(tmp_path, "r.csv", (header + "\n".join(lines) + "\n").encode("latin-1"))
    number = 4 if header else 3
    with pytest.raises(UserError):
        read(path)
    table = read(path, Reading(skip_bad=1))
    assert rows(table) == ROWS
    said = f"1 of the lines cannot be read and are left out; the first: {BAD[bad]} ({path}, line {number})"
    assert table.notes[1:] == [said]


def test_a_line_with_the_separator_of_arrow_is_left_out(tmp_path):
    path = write_file(tmp_path, "r.dat", '1::"a::b"::3\n1\x1f::"c::d"::4\n1::"c::d"::4\n')
    with pytest.raises(UserError, match=r"the line has the control character '\\x1f' .*line 2\) .*--skip-bad"):
        read(path)
    table = read(path, Reading(skip_bad=1))
    assert rows(table) == [(1, "a::b", 3), (1, "c::d", 4)]
    assert f"the first: the line has the control character '\\x1f' ({path}, line 2)" in table.notes[1]


def test_more_bad_lines_are_an_error_of_the_first(tmp_path):
    path = write_file(tmp_path, "r.csv", "\n".join([GOOD[0], *BAD, *GOOD[1:]]).encode("latin-1"))
    with pytest.raises(UserError, match="the line has 1 column, not 4") as error:
        read(path, Reading(skip_bad=len(BAD) - 1))
    assert error.value.where == f"{path}, line 2"
    assert f"{len(BAD)} lines cannot be read, and --skip-bad {len(BAD) - 1} leaves fewer out" in error.value.do
    assert rows(read(path, Reading(skip_bad=len(BAD)))) == ROWS


def test_errors_that_are_not_skipped_name_the_line(tmp_path):
    path = write_file(tmp_path, "r.csv", "1,2,3\noops\n1,2,4\n")
    with pytest.raises(UserError, match="user 1 has already rated item 2") as error:
        read(path, Reading(skip_bad=1))
    assert error.value.where == f"{path}, line 3"


def test_lines_of_json_and_pairs_are_left_out(tmp_path):
    records = ['{"user": 1, "item": 2, "stars": 3}', "{", '{"user": "x", "item": 2, "stars": 4}', '{"user": 2}']
    path = write_file(tmp_path, "r.jsonl", "\n".join([*records, '{"user": 4, "item": 2, "stars": 4}']))
    table = read(path, Reading(skip_bad=3))
    assert rows(table) == [(1, 2, 3), (4, 2, 4)]
    assert (
        f"3 of the lines cannot be read and are left out; the first: the line is not one JSON object ({path}, "
        in (table.notes[1])
    )
    pairs = read_pairs(write_file(tmp_path, "pairs.csv", "1,2,good\n,3,bad\n4,5,x\n"), Reading(skip_bad=1))
    assert (pairs.users.tolist(), pairs.items.tolist()) == ([1, 4], [2, 5])


def test_a_file_of_bad_lines_holds_no_ratings(tmp_path):
    path = write_file(tmp_path, "r.csv", "user,item,stars\na\nb\n")
    with pytest.raises(UserError, match="the file holds no ratings"):
        read(path, Reading(skip_bad=9))


def test_ratings_off_a_given_scale_are_left_out(tmp_path):
    path = write_file(tmp_path, "r.csv", "1,2,3\n1,3,9\n5,2,1\n")
    for chosen in ({"reading": Reading(scale="1,5,1", skip_bad=1)}, {"scale": RatingScale(1, 5, 1)}):
        table = read(path, **{"reading": Reading(skip_bad=1), **chosen})
        assert rows(table) == [(1, 2, 3), (5, 2, 1)]
        assert "the first: the rating 9 is off the scale of 1 to 5 in steps of 1" in table.notes[1]
    records = write_file(
        tmp_path, "r.jsonl", '{"user": 1, "item": 2, "stars": 3}\n{"user": 1, "item": 3, "stars": 9.5}\n'
    )
    assert rows(read(records, Reading(scale="1,5,1", skip_bad=1))) == [(1, 2, 3)]


def test_a_file_of_bad_lines_beside_others_is_said(tmp_path):
    good, bad = write_file(tmp_path, "good", "1,2,3\n"), write_file(tmp_path, "bad", "4,x,oops\n5,3,zz\n")
    table = read([good, bad], Reading(skip_bad=2))
    assert rows(table) == [(1, 2, 3)]
    assert f"{good}, {bad}: columns" in table.notes[0]
    assert (
        f"2 of the lines cannot be read and are left out; the first: the rating 'oops' is not a finite number ({bad}"
        in (table.notes[1])
    )


@pytest.mark.parametrize("first", ["1,2", "oops", "1,2,3,4,5,6", "a;b", "1\t2,3"])
@pytest.mark.parametrize("header", ["", "item,user,stars\n"])
def test_the_first_lines_may_be_bad(tmp_path, first, header):
    path = write_file(tmp_path, "r.csv", f"{first}\n{header}1,2,3\n1,3,4\n{first}\n5,2,1\n")
    table = read(path, Reading(skip_bad=2))
    assert rows(table) == [(2, 1, 3), (3, 1, 4), (2, 5, 1)] if header else [(1, 2, 3), (1, 3, 4), (5, 2, 1)]
    assert table.notes[1].startswith("2 of the lines cannot be read and are left out")
    assert table.notes[1].endswith(f"({path}, line 1)")
    with pytest.raises(UserError, match="2 lines cannot be read, and --skip-bad 1 leaves fewer out"):
        read(path, Reading(skip_bad=1))


def test_the_first_lines_of_json_may_be_bad(tmp_path):
    path = write_file(tmp_path, "r.jsonl", '{"user": 1,\n{"user": 1, "item": 2, "stars": 3}\n')
    table = read(path, Reading(skip_bad=1))
    assert rows(table) == [(1, 2, 3)]
    assert f"the first: the line is not one JSON object ({path}, line 1)" in table.notes[1]
    for body in ("{\n{\n", "\n"):
        with pytest.raises(UserError, match="the line is not one JSON object"):
            read(write_file(tmp_path, "none.jsonl", body), Reading(format="json", skip_bad=9))


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ('"user": 1, "item": "a", "stars": null', "the rating is missing"),
        ('"user": 1, "item": "a"', "the rating is missing"),
        ('"user": 1', "the item is missing"),
        ('"user": null, "item": "a", "stars": 3', "the user is missing"),
        ('"user": "x", "item": "a", "stars": 3', "the user is text, and a number in line 2"),
        ('"name": "x"', "the user is missing"),
    ],
)
def test_the_first_object_of_json_may_be_bad(tmp_path, bad, what):
    good = ['{"user": 1, "item": "b", "stars": 4}', '{"user": 2, "item": "a", "stars": 2.5}']
    path = write_file(tmp_path, "r.jsonl", "\n".join([f"{{{bad}}}", *good, '{"user": 3, "item": "c", "stars": null}']))
    table = read(path, Reading(skip_bad=2))
    assert rows(table) == [(1, "b", 4), (2, "a", 2.5)]
    assert f"the first: {what} ({path}, line 1)" in table.notes[1]
    with pytest.raises(UserError, match="2 lines cannot be read"):
        read(path, Reading(skip_bad=1))


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("second", ['book"', 'book",2,3,4', '7,8,4,"a good book"'])
def test_line_breaks_in_quoted_fields_are_not_left_out(tmp_path, second, encoding):
    """Either line could be taken for another rating, or as one that cannot be read."""
    body = f'user,item,stars,text\n\xe9,2,3,"fine"\n1,7,3,"good\n{second}\n1,9,x,\n'
    path = write_file(tmp_path, "r.csv", body.encode(encoding))
    for skip_bad in (0, 9):
        with pytest.raises(UserError, match="a quoted field does not end in its line") as error:
            read(path, Reading(skip_bad=skip_bad, encoding=encoding))
        assert error.value.where == f"{path}, line 3"
        assert "--skip-bad" not in error.value.do


def test_files_of_other_kinds_have_no_lines_to_leave_out(tmp_path):
    netflix = write_file(tmp_path, "probe.txt", "1:\n5,3,2005-09-06\n")
    pq.write_table(pa.table({"user": [1], "item": [2], "stars": [3]}), tmp_path / "r.parquet")
    savemat(tmp_path / "r.mat", {"train_vec": np.array([[1.0, 2, 3]])})
    for path in (netflix, tmp_path / "r.parquet", tmp_path / "r.mat"):
        read(path)
        with pytest.raises(UserError, match="--skip-bad is for files of lines"):
            read(path, Reading(skip_bad=1))


def test_missing_ratings_are_those_of_arrow_and_missing_ids_empty(tmp_path):
    for text in sorted(MISSING):
        body = f"1,2,3\n4,7,{text}\n5,3,1\n"
        assert rows(read(write_file(tmp_path, "r.csv", body), Reading(skip_bad=1))) == [(1, 2, 3), (5, 3, 1)]
    for skipped in (0, 1):
        names = sorted(MISSING - {""})
        body = "".join(f"{text},x,{1 + n % 5}\n" for n, text in enumerate(names))
        assert read(write_file(tmp_path, "r.csv", body), Reading(skip_bad=skipped)).catalogue.users.tolist() == names
    body = "1,2,3\n4,,4\n5,3,1\n"
    assert rows(read(write_file(tmp_path, "r.csv", body), Reading(skip_bad=1))) == [(1, 2, 3), (5, 3, 1)]


def test_decimal_commas_are_read_where_they_are_named(tmp_path):
    for body in (
        "user;item;stars\n1;2;3,5\n1;3;4\n5;2;,5\n",
        "1;2;3,5\n1;3;4,0\n5;2;0,5\n",
        '1,2,"3,5"\n1,3,4\n5,2,",5"\n',
    ):
        path = write_file(tmp_path, "r.csv", body)
        with pytest.raises(UserError, match=r"the rating '3,5' is not a finite number .*give --decimal ,$"):
            read(path)
        for skip_bad in (0, 1):
            found = read(path, Reading(decimal=",", skip_bad=skip_bad))
            assert rows(found) == [(1, 2, 3.5), (1, 3, 4), (5, 2, 0.5)]


def test_decimal_commas_stand_beside_other_delimiters(tmp_path):
    for body in (
        "1|2|3,5\n1|3|4\n5|2|,5\n",
        "1 2 3,5\n1 3 4,0\n5 2 0,5\n",
        "user item stars\n1 2 3,5\n1 3 4,0\n5 2 0,5\n",
        'user id,item id,stars\n1,2,"3,5"\n1,3,4\n5,2,",5"\n',
    ):
        found = read(write_file(tmp_path, "r.txt", body), Reading(decimal=","))
        assert rows(found) == [(1, 2, 3.5), (1, 3, 4), (5, 2, 0.5)]
    dates = write_file(tmp_path, "r.csv", '1,2,"3,5",2005-09-06 00:00:00\n')
    assert rows(read(dates, Reading(decimal=","))) == [(1, 2, 3.5, 1125964800)]


def test_points_beside_decimal_commas_are_refused(tmp_path):
    path = write_file(tmp_path, "r.csv", "1;2;3,5\n1;3;1.234\n")
    with pytest.raises(UserError, match=r"the rating .1\.234. has a point, but the decimal sign is a comma .*line 2"):
        read(path, Reading(decimal=","))
    assert rows(read(path, Reading(decimal=",", skip_bad=1))) == [(1, 2, 3.5)]
    with pytest.raises(UserError, match=r"the rating 3,5 is off the scale of 1 to 3 .*correct it, or give --scale"):
        read(path, Reading(decimal=",", scale="1,3,0.5"))


def test_numbers_have_no_decimal_sign_to_choose(tmp_path):
    pq.write_table(pa.table({"user": [1, 2], "item": [2, 2], "stars": [3.5, 1]}), tmp_path / "r.parquet")
    savemat(tmp_path / "r.mat", {"train_vec": np.array([[1, 2, 3.5], [2, 2, 1]])})
    records = ('{"user": 1, "item": 2, "stars": 3.5}', '{"user": 2, "item": 2, "stars": 1}')
    write_file(tmp_path, "r.jsonl", "\n".join(records))
    for name, skip_bad in (("r.parquet", 0), ("r.mat", 0), ("r.jsonl", 0), ("r.jsonl", 1)):
        assert rows(read(tmp_path / name, Reading(decimal=",", skip_bad=skip_bad))) == [(1, 2, 3.5), (2, 2, 1)]
