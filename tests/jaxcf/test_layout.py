"""Layouts of files of ratings: every published one, columns in any order, other encodings, standard input."""

import gzip
import io

import pytest

from jaxcf import layout
from jaxcf.ratings import Scale
from jaxcf.reading import Reading, read
from jaxfit.errors import UserError
from rating_files import put, rows

#       user, item, stars, time
ROWS = [(7, 10, 4.0, 100), (3, 10, 2.0, 90), (7, 2, 5.0, 101), (12, 5, 1.0, 7), (3, 2, 3.0, 91)]
BODIES = {
    "u.data": "7\t10\t4\t100\n3\t10\t2\t90\n7\t2\t5\t101\n12\t5\t1\t7\n3\t2\t3\t91\n",
    "ratings.dat": "7::10::4::100\n3::10::2::90\n7::2::5::101\n12::5::1::7\n3::2::3::91\n",
    "ratings.csv": "userId,movieId,rating,timestamp\n7,10,4.0,100\n3,10,2.0,90\n7,2,5.0,101\n12,5,1.0,7\n3,2,3.0,91\n",
    "quoted.csv": '"User-ID";"ISBN";"Book-Rating";"ts"\n"7";"10";"4";100\n3;10;2;90\n7;2;5;101\n12;5;1;7\n3;2;3;91\n',
    "windows.csv": "\ufeff7,10,4,100\r\n3,10,2,90\r\n\r\n7,2,5,101\r\n12,5,1,7\r\n3,2,3,91\r\n",
    "noend.txt": "7 10 4 100\n3 10 2 90\n7 2 5 101\n12 5 1 7\n3 2 3 91",
    "spaces.csv": "time, stars, item, user\n100, 4, 10, 7\n90, 2, 10, 3\n101, 5, 2, 7\n7, 1, 5, 12\n91, 3, 2, 3\n",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_published_layouts(tmp_path, name, packed):
    body = BODIES[name].encode()
    table = read(put(tmp_path, name, gzip.compress(body) if packed else body))
    assert rows(table) == ROWS
    assert table.catalogue.users.tolist() == [3, 7, 12]
    assert table.catalogue.items.tolist() == [2, 5, 10]
    assert table.catalogue.scale == Scale(1, 5, 1)
    assert table.notes == []


def test_three_columns_are_without_times(tmp_path):
    without = BODIES["ratings.dat"].replace("::100", "").replace("::101", "").replace("::9", "#")
    without = "".join(line.split("#")[0].removesuffix("::7") + "\n" for line in without.splitlines())
    table = read(put(tmp_path, "r.dat", without))
    assert rows(table) == [row[:3] for row in ROWS]


@pytest.mark.parametrize(
    ("body", "columns", "delimiter", "with_time"),
    [
        ("x,who,s,what,t\n9,7,4,10,100\n9,3,2,10,90\n9,7,5,2,101\n9,12,1,5,7\n9,3,3,2,91",
         "who,what,s,t", None, True),
        ("x,who,s,what,t\n9,7,4,10,100\n9,3,2,10,90\n9,7,5,2,101\n9,12,1,5,7\n9,3,3,2,91\n", "2,4,3", None, False),
        ("4;7;10\n2;3;10\n5;7;2\n1;12;5\n3;3;2\n", "2,3,1", ";", False),
        ("7,1::10::4\n3,1::10::2\n7,1::2::5\n12,1::5::1\n3,1::2::3\n", None, "::", False),
        ("4__7__10\n2__3__10\n5__7__2\n1__12__5\n3__3__2\n", "2,3,1", "__", False),
        ("7\t10\t4\n3\t10\t2\n7\t2\t5\n12\t5\t1\n3\t2\t3\n", None, "tab", False),
    ],
)  # fmt: skip
def test_columns_in_any_order(tmp_path, body, columns, delimiter, with_time):
    table = read(put(tmp_path, "r", body), Reading(columns=columns, delimiter=delimiter))
    found = [(int(str(row[0]).split(",")[0]), *row[1:]) for row in rows(table)]
    assert found == [row if with_time else row[:3] for row in ROWS]


def test_other_encodings(tmp_path):
    path = put(tmp_path, "r.csv", "Zoë,1,3\nAnna,2,4\n".encode("latin-1"))
    assert read(path, Reading(encoding="latin-1")).catalogue.users.tolist() == ["Anna", "Zoë"]


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input(monkeypatch, packed):
    body = BODIES["ratings.dat"].encode()
    stream = io.TextIOWrapper(io.BytesIO(gzip.compress(body) if packed else body))
    monkeypatch.setattr("sys.stdin", stream)
    layout._standard_input.cache_clear()
    assert rows(read("-")) == ROWS
    with pytest.raises(UserError, match=r"off the scale of 1 to 4 in steps of 1 \(-, line 3\)"):
        read("-", Reading(scale="1,4,1"))
    layout._standard_input.cache_clear()
