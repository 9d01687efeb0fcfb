"""Layouts of rating files: published ones, columns in any order, encodings, standard input."""

import gzip
import io
import os
from pathlib import Path

import pytest

from jaxcf.data.formats import file_layout
from jaxcf.data.ratings import RatingScale
from jaxcf.data.reading import Reading, read_either, read_pairs
from jaxfit.errors import UserError
from rating_files import read, rows, write_file

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


IN_ORDER = "columns 1, 2, 3, 4 as user, item, stars, time ("
TAKEN = {
    "u.data": f"{IN_ORDER}in the order of MovieLens' u.data)",
    "ratings.dat": f"{IN_ORDER}in the order of MovieLens' ratings.dat)",
    "ratings.csv": "columns userId, movieId, rating, timestamp as user, item, stars, time (by the header)",
    "quoted.csv": "columns User-ID, ISBN, Book-Rating, ts as user, item, stars, time (by the header)",
    "windows.csv": f"{IN_ORDER}in this order: no header names them)",
    "noend.txt": f"{IN_ORDER}in this order: no header names them)",
    "spaces.csv": "columns user, item, stars, time (by the header)",
}


@pytest.mark.parametrize(
    "header", ["u,i,r,t", "reader,book,rate,date", "USER_ID;film-id;Score;ts", "uid\tiid\tvalue\ttimestamp"]
)
def test_short_and_other_names_are_recognised(tmp_path, header):
    delimiter = next(sign for sign in ",;\t" if sign in header)
    body = "".join(delimiter.join(f"{value:g}" for value in row) + "\n" for row in ROWS)
    path = write_file(tmp_path, "r", f"{header}\n{body}")
    assert rows(read(path)) == ROWS
    with pytest.raises(UserError, match="the file holds no ratings"):
        read(write_file(tmp_path, "r", f"{header}\n"))


def test_unknown_names_are_refused_with_advice(tmp_path):
    path = write_file(tmp_path, "r", "Benutzer,Artikel,Bewertung\nanna,x,3\n")
    with pytest.raises(UserError, match=r"identified: Benutzer, Artikel, Bewertung .*: --columns USER,ITEM,STARS$"):
        read(path)
    assert rows(read(path, Reading(columns="Benutzer,Artikel,Bewertung", scale="1,5,1"))) == [("anna", "x", 3)]


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_published_layouts_are_detected(tmp_path, name, gzipped):
    body = BODIES[name].encode()
    table = read(write_file(tmp_path, name, gzip.compress(body) if gzipped else body))
    assert rows(table) == ROWS
    assert table.catalogue.users.tolist() == [3, 7, 12]
    assert table.catalogue.items.tolist() == [2, 5, 10]
    assert table.catalogue.scale == RatingScale(1, 5, 1)
    assert table.notes == [
        f"{tmp_path / name}: {TAKEN[name]}; 5 ratings of 3 items by 3 users, 1 to 5 in steps of 1 (as found)"
    ]


def test_times_are_optional(tmp_path):
    without = BODIES["ratings.dat"].replace("::100", "").replace("::101", "").replace("::9", "#")
    without = "".join(line.split("#")[0].removesuffix("::7") + "\n" for line in without.splitlines())
    table = read(write_file(tmp_path, "r.dat", without))
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
def test_columns_may_be_in_any_order(tmp_path, body, columns, delimiter, with_time):
    table = read(write_file(tmp_path, "r", body), Reading(columns=columns, delimiter=delimiter))
    found = [(int(str(row[0]).split(",")[0]), *row[1:]) for row in rows(table)]
    assert found == [row if with_time else row[:3] for row in ROWS]


PAIRS = [(7, 10), (3, 10), (12, 5)]


@pytest.mark.parametrize(
    ("body", "columns"),
    [
        ("who,what\n7,10\n3,10\n12,5\n", None),  # words above numbers are a header
        ("who,what\n7,10\n3,10\n12,5\n", "1,2"),
        ("user;thing\n7;10\n3;10\n12;5\n", None),
        ("what,who\n10,7\n10,3\n5,12\n", "who,what"),
        ("7,10\n3,10\n12,5\n", "2,3,1"),  # the numbers for rating files, of which only user and item are here
        ("10,7\n10,3\n5,12\n", "4,2,3,1"),
        ("what,who\n10,7\n10,3\n5,12\n", "who,what,stars,time"),
        ("who,what\n7,10\n3,10\n12,5\n", "1,2,3,4"),
    ],
)
def test_pairs_need_only_columns_of_user_and_item(tmp_path, body, columns):
    for reader in (read_pairs, read_either):
        pairs = reader(write_file(tmp_path, "pairs", body), Reading(columns=columns))
        users, items = pairs.users[pairs.pairs.user], pairs.items[pairs.pairs.item]
        assert list(zip(users.tolist(), items.tolist(), strict=True)) == PAIRS


def test_pairs_may_have_other_columns(tmp_path):
    for body in ("who,what,when\na,x,1\nb,y,2\n", "what,s,who\nx,3,a\ny,4,b\n"):
        pairs = read_pairs(write_file(tmp_path, "pairs", body), Reading(columns="who,what,s"))
        assert (pairs.users.tolist(), pairs.items.tolist()) == (["a", "b"], ["x", "y"])
    pairs = read_pairs(write_file(tmp_path, "pairs", "w,v,s\na,x,3\nb,y,4\n"), Reading(columns="1,2,3"))
    assert pairs.users.tolist() == ["a", "b"]  # a word in the column of stars makes a header


def test_first_line_that_could_be_ids_is_not_a_header(tmp_path):
    for body in ("who,what\nann,10\n", "who,what\n", "who,10\n7,10\n"):
        assert "who" in read_pairs(write_file(tmp_path, "pairs", body)).users.tolist()


@pytest.mark.parametrize(
    ("body", "columns", "what"),
    [
        ("item,who\n10,7\n", None, "the columns cannot be identified: item, who"),
        ("who,score\n7,10\n", None, "the columns cannot be identified: who, score"),
        ("user,what\n7,10\n", "user,item,stars", "there is no column 'item'"),
        ("7,10\n3,10\n", "1,3", "there is no column '3'"),
        ("1,7,10\n2,3,10\n", "4,2,1", "there is no column '4'"),
        ("1,7,10\n2,3,10\n", "9" * 5000 + ",1,2", "there is no column '999"),
    ],
)
def test_unidentified_columns_of_pairs_are_refused(tmp_path, body, columns, what):
    with pytest.raises(UserError, match=what):
        read_pairs(write_file(tmp_path, "pairs", body), Reading(columns=columns))


@pytest.mark.parametrize("delimiter", ["é", "\udce9", '"', "ab"])  # the second as a byte that is not UTF-8 is given
def test_delimiters_that_are_not_of_one_byte_are_refused(tmp_path, delimiter):
    with pytest.raises(UserError, match="cannot separate columns"):
        read(write_file(tmp_path, "r.csv", "1,2,3\n"), Reading(delimiter=delimiter))


def test_columns_aligned_with_spaces_are_refused_with_advice(tmp_path):
    for body in ("1  2  3\n4  5  4\n", "  1   2 3\n 10 200 4\n", "1  2\n3  4\n"):
        with pytest.raises(UserError, match="not separated by one space each") as error:
            read(write_file(tmp_path, "r", body))
        assert "--delimiter two spaces" in error.value.do
        assert "awk" in error.value.do
    assert rows(read(write_file(tmp_path, "r", "1  2  3\n4  5  4\n"), Reading(delimiter="  "))) == [
        (1, 2, 3),
        (4, 5, 4),
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp037", "punycode"])
def test_encodings_with_other_line_ends_are_refused(tmp_path, encoding):
    path = write_file(tmp_path, "r.csv", "user,item,stars\n1,2,3\n2,2,4\n".encode(encoding))
    with pytest.raises(UserError, match=f"in {encoding} the end of a line is not") as error:
        read(path, Reading(encoding=encoding))
    assert error.value.do == "convert the file to utf-8 and leave --encoding out"


def test_utf_16_is_recognised(tmp_path):
    path = write_file(tmp_path, "r.csv", "user,item,stars\n1,2,3\n".encode("utf-16"))
    with pytest.raises(UserError, match=r"not valid utf-8 .* - it is in UTF-16: convert it, iconv"):
        read(path)


def test_a_line_that_only_begins_like_utf_16_is_not_said_to_be_in_it(tmp_path):
    path = write_file(tmp_path, "r.csv", b"1,2,3\n1,3,4\n\xff\xfe2,2,5\n")
    with pytest.raises(UserError, match=r"line 3\) - name the file's encoding"):
        read(path)


def test_line_ends_of_carriage_returns_alone_are_recognised(tmp_path):
    for body in ("user,item,stars\r1,2,3\r2,3,4\r", "1,2,3\r2,3,4\r", "1:\r10,3,2005-09-06\r"):
        for reading in (Reading(), Reading(skip_bad=1)):
            with pytest.raises(UserError, match=r"carriage returns alone .*: tr '.r' '.n' < FILE > NEW$"):
                read(write_file(tmp_path, "r.csv", body), reading)


def test_other_encodings_are_read(tmp_path):
    path = write_file(tmp_path, "r.csv", "Zoë,1,3\nAnna,2,4\n".encode("latin-1"))
    assert read(path, Reading(encoding="latin-1")).catalogue.users.tolist() == ["Anna", "Zoë"]
    with pytest.raises(UserError, match=r"the line is not valid idna \(.*r.csv, line 1\)"):
        read(path, Reading(encoding="idna"))
    ascii_only = write_file(tmp_path, "ascii.csv", "Zoe,1,3\nAnna,2,4\n")
    assert read(ascii_only, Reading(encoding="idna")).catalogue.users.tolist() == ["Anna", "Zoe"]


@pytest.mark.parametrize("encoding", ["utf-8", "UTF-8", "utf8"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path, encoding):
    for name, body in (("r.csv", "1,2,3\n2,2,4\n"), ("r.jsonl", '{"user": 1, "item": 2, "stars": 3}\n')):
        path = write_file(tmp_path, name, "\ufeff" + body)
        assert rows(read(path, Reading(encoding=encoding)))[0] == (1, 2, 3)


@pytest.mark.parametrize("gzipped", [False, True])
def test_standard_input_is_read(monkeypatch, gzipped):
    body = BODIES["ratings.dat"].encode()
    stream = io.TextIOWrapper(io.BytesIO(gzip.compress(body) if gzipped else body))
    monkeypatch.setattr("sys.stdin", stream)
    file_layout._piped.cache_clear()
    assert rows(read("-")) == ROWS
    with pytest.raises(UserError, match=r"off the scale of 1 to 4 in steps of 1 \(-, line 3\)"):
        read("-", Reading(scale="1,4,1"))
    file_layout._piped.cache_clear()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no names for descriptors")
def test_the_error_of_the_first_of_many_pipes_names_its_line():
    file_layout._piped.cache_clear()
    ends = []
    for user in range(10):
        end, begin = os.pipe()
        ends.append(end)
        with open(begin, "w") as file:
            file.write(f"{user},1,3\n{user},2,{'x' if user == 0 else 3}\n")
    with pytest.raises(UserError, match=rf"the rating 'x' is not a finite number \(/dev/fd/{ends[0]}, line 2\)"):
        read([f"/dev/fd/{end}" for end in ends])
    for end in ends:
        os.close(end)
    assert file_layout._piped.cache_info().maxsize is not None  # pipes of the past are forgotten
    file_layout._piped.cache_clear()
