"""`--skip-bad`: which lines are left out, that this is said, and how many may be."""

import pytest

from jaxcf.data.bad_lines import MISSING
from jaxcf.data.reading import Reading, read, read_pairs
from jaxfit.errors import UserError
from rating_files import rows, write_file

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
    "1,9,3,": "the time is missing",
    "1,9,3,soon": "invalid time 'soon'",
    "1,9,3,2005-09-06": "the time '2005-09-06' is a date, other than the first one",
    "1,9,3\r,4": "the line has a carriage return inside",
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


def test_missing_values_are_those_of_arrow(tmp_path):
    for text in sorted(MISSING):
        body = f"1,2,3\n4,{text},4\n5,3,1\n"
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
