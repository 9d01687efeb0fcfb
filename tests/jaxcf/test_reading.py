"""Files of ratings: every published layout, columns in any order, ids of any kind, and each thing that can be wrong."""

import gzip
import io
import zipfile

import numpy as np
import pytest
import scipy.io

from jaxcf import layout, netflix
from jaxcf.ratings import Catalogue, Ratings, Scale
from jaxcf.reading import Reading, read, read_dataset, read_pairs, write
from jaxcf.values import parse_scale, scale_of
from jaxfit.errors import UserError

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
COMBINED = {
    "1": "7,4,1970-01-02\n3,2,2005-09-06\n",
    "2": "7,5,2004-02-29\n",
    "30": "",
    "4": "12,1,1999-12-31\n",
}


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(table):
    ratings, catalogue = table.ratings, table.catalogue
    assert ratings.user.dtype == ratings.item.dtype == np.int32
    assert ratings.stars.dtype == np.float32
    columns = [catalogue.users[ratings.user], catalogue.items[ratings.item], ratings.stars]
    if ratings.time is not None:
        assert ratings.time.dtype == np.int64
        columns.append(ratings.time)
    return list(zip(*(column.tolist() for column in columns), strict=True))


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


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["10", "9", "-3"], [-3, 9, 10]),
        (["9223372036854775807", "1", "2"], [1, 2, 2**63 - 1]),
        (["9223372036854775808", "1", "2"], ["1", "2", "9223372036854775808"]),
        (["123456789012345678901234567890", "12345678901234567890", "5"],
         ["12345678901234567890", "123456789012345678901234567890", "5"]),
        (["007", "7", "0"], ["0", "007", "7"]),
        (["1.0", "2.0", "3"], ["1.0", "2.0", "3"]),
        (["Zoë", "anna", "本"], ["Zoë", "anna", "本"]),
    ],
)  # fmt: skip
def test_ids_of_any_kind_are_kept(tmp_path, ids, kept):
    body = "".join(f"{ids[i]},{ids[j]},{1 + i + j}\n" for i in range(3) for j in range(3))
    table = read(put(tmp_path, "r.csv", body), Reading(scale="1,5,1"))
    assert table.catalogue.users.tolist() == table.catalogue.items.tolist() == kept
    expected = [(type(kept[0])(ids[i]), type(kept[0])(ids[j]), 1 + i + j) for i in range(3) for j in range(3)]
    assert rows(table) == expected
    assert table.catalogue.user_index(ids).tolist() == [kept.index(type(kept[0])(id_)) for id_ in ids]


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 2, 3, 4, 5], (1, 5, 1)),
        ([1, 5], (1, 5, 1)),
        ([2, 4], (2, 4, 1)),
        ([0.5, 1, 4.5, 5], (0.5, 5, 0.5)),
        ([0.1, 0.2, 0.7], (0.1, 0.7, 0.1)),
        ([0, 50, 100, 30], (0, 100, 10)),
        ([1, 20, 100], (1, 100, 1)),
        ([-9.95, 3.14, 9.81], (-9.95, 9.81, 0)),
        ([1, 2, 2.333333333], (1, 2.333333333, 0)),
        ([3], (3, 3, 0)),
    ],
)
def test_scale_is_seen(values, scale):
    assert scale_of(np.array(values)) == pytest.approx(scale)
    assert scale_of(np.array(values)).contains(values).all()


def test_scale_given(tmp_path):
    path = put(tmp_path, "r.csv", "1,1,2\n1,2,4\n")
    assert read(path).catalogue.scale == Scale(2, 4, 1)
    assert read(path, Reading(scale="0.5,5,0.5")).catalogue.scale == Scale(0.5, 5, 0.5)
    assert read(path, scale=Scale(0, 10, 0)).catalogue.scale == Scale(0, 10, 0)
    with pytest.raises(
        UserError, match=r"rating 4 is off the scale of 1 to 3 in steps of 1 \(.*r.csv, line 2\)"
    ):
        read(path, Reading(scale="1,3,1"))
    for bad in ("1,5", "5,1,1", "1,5,3", "1,x,1", "1,5,-1", "1,inf,1", "nan,1,1"):
        with pytest.raises(UserError, match="is no scale"):
            parse_scale(bad)


BAD = {
    "missing user": ("1,2,3\n,2,3\n", "the user is missing", 2),
    "blank user": ("1,2,3\n\n  ,2,3\n", "the user is missing", 3),
    "nan user": ("1,2,3\n5,1,4\nnan,2,3\n", "the user is missing", 3),
    "missing item": ("a,b,3\na,,3\n", "the item is missing", 2),
    "missing rating": ("u,i,r\n1,2,3\n1,3,\n", "the rating is missing", 3),
    "NaN": ("1,2,3\n1,3,NaN\n", "the rating is missing", 2),
    "infinite": ("1,2,3\n1,3,inf\n", "'inf' is not a finite number", 2),
    "no number": ("1,2,3\n1,3,good\n", "'good' is not a finite number", 2),
    "in the first line": ("1,2,good\n1,3,4\n", "'good' is not a finite number", 1),
    "short line": ("1,2,3\n\n1,3\n1,4,5\n", "has 2 columns, not 3", 3),
    "long line": ("1,2,3\n1,3,4\n1,3,4,5\n", "has 4 columns, not 3", 3),
    "two signs": ("1::2::3\n1::3:x:4\n", "has 2 columns, not 3", 2),
    "blanks": ("1,2,3\n  \n1,3,4\n", "has 1 column, not 3", 2),
    "not utf-8": (b"1,2,3\n1,\xff,4\n", "not valid utf-8", 2),
    "no time": ("1,2,3,4\n1,3,3,soon\n", "'soon' is no time", 2),
    "missing time": ("1,2,3,4\n1,3,3,\n", "the time is missing", 2),
    "duplicate": ("1,2,3\n4,2,3\n1,3,1\n4,2,5\n1,2,4\n", "user 4 has rated item 2 before", 4),
    "unknown names": ("a,b,c\n1,2,3\n", "columns cannot be told: a, b, c", 1),
    "many columns": ("1,2,3,4,5\n", "columns cannot be told", 1),
    "no delimiter": ("123\n", "no delimiter", 1),
    "gap in the Netflix Prize's": ("1:\n2,3,2005-01-01\n\n3,3,2005-01-01\n", "blank lines among", None),
    "form of the Netflix Prize's": ("1:\n2,3,2005-01-01\n3:\n3,3\n", "has 2 columns, not 3", 4),
    "rating of the Netflix Prize's": ("1:\n2,3,2005-01-01\n7:\n\n3:\n3,x,2005-01-01\n", "'x' is not a finite", 6),
    "date of the Netflix Prize's": ("1:\n2,3,2005-01-01\n2:\n3,3,20-0\n", "'20-0' is no time", 4),
}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named_with_its_line(tmp_path, case, packed):
    body, what, line = BAD[case]
    body = body if isinstance(body, bytes) else body.encode()
    path = put(tmp_path, "bad", gzip.compress(body) if packed else body)
    reading = Reading(columns="1,2,3") if case == "missing rating" else None
    with pytest.raises(UserError) as error:
        read(path, reading)
    assert what in error.value.what
    assert error.value.where == (f"{path}, line {line}" if line else str(path))
    assert error.value.do
    assert "\n" not in str(error.value)


def test_the_line_is_that_of_the_second_of_two_files(tmp_path):
    first, second = (
        put(tmp_path, "a", "1,2,3\n1,3,4\n"),
        put(tmp_path, "b", "user,item,stars\n2,2,3\n1,2,4\n"),
    )
    with pytest.raises(UserError, match="user 1 has rated item 2 before") as error:
        read([first, second])
    assert error.value.where == f"{second}, line 3"


def test_files_that_are_no_files_of_ratings(tmp_path):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("ratings.csv", "1,2,3\n")
    whole = gzip.compress(b"1,2,3\n" * 5000)
    for name, content, what in (
        ("empty", b"", "the file is empty"),
        ("packed-empty", gzip.compress(b""), "blank lines only"),
        ("blank", b"\n\n\n", "blank lines only"),
        ("header", b"user,item,rating\n", "holds no ratings"),
        ("zip", archive.getvalue(), "zip archive"),
        ("torn.gz", whole[:-12], "gzip file is damaged"),
        ("bad.gz", whole[:2] + b"\0" * 40, "gzip file is damaged"),
        ("pairs", b"1,2\n1,3\n", "pairs of user and item without ratings"),
        ("bad.mat", b"MATLAB 5.0 MAT-file" + b" " * 200, ".mat file cannot be read"),
    ):
        with pytest.raises(UserError, match=what) as error:
            read(put(tmp_path, name, content))
        assert name in error.value.where
        assert "\n" not in str(error.value)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="a directory stands where a file"):
        read(tmp_path / "folder")
    with pytest.raises(UserError, match="there is no such file"):
        read(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("reading", "what"),
    [
        (Reading(columns="1,2,4"), "there is no column '4'"),
        (Reading(columns="who,2,3"), "there is no column 'who'"),
        (Reading(columns="1,1,3"), "names a column twice"),
        (Reading(columns="1"), "--columns names 1 columns"),
        (Reading(delimiter=";"), "';' is not in the line"),
        (Reading(delimiter=":;"), "':;' cannot separate columns"),
        (Reading(encoding="klingon"), "unknown encoding 'klingon'"),
        (Reading(format="netflix"), "does not begin with a movie's number"),
        (Reading(format="mat"), ".mat file cannot be read"),
        (Reading(scale="5"), "'5' is no scale"),
    ],
)
def test_options_that_do_not_fit(tmp_path, reading, what):
    with pytest.raises(UserError, match=what):
        read(put(tmp_path, "r.csv", "1,2,3\n4,5,4\n"), reading)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("last", [(9, 1, 1, 5), (4, 2, 5, 8), (4, 3, 2, 6), (9, 2, 1, 3)]),
        ("first", [(4, 2, 3, 9), (9, 1, 1, 5), (9, 2, 4, 1), (4, 3, 2, 6)]),
        ("mean", [(9, 1, 1, 5), (4, 2, 4, 8), (4, 3, 2, 6), (9, 2, 2, 3)]),
    ],
)
def test_duplicates(tmp_path, choice, expected):
    body = "4,2,3,9\n9,1,1,5\n9,2,4,1\n4,2,4,7\n4,2,5,8\n4,3,2,6\n9,2,1,2\n9,2,1,3\n"
    table = read(put(tmp_path, "r.csv", body), Reading(duplicates=choice))
    assert rows(table) == expected
    assert table.catalogue.scale == Scale(1, 5, 1)
    assert "4 ratings of an item that the user has rated before" in table.notes[0]


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


def test_dates(tmp_path):
    body = "1,2,3,2005-09-06 00:00:10\n1,3,3,1970-01-01 00:01:00\n"
    assert read(put(tmp_path, "r.csv", body)).ratings.time.tolist() == [1125964810, 60]
    assert read(put(tmp_path, "r.csv", "1,2,3,17.9\n1,3,3,18\n")).ratings.time.tolist() == [17, 18]


def combined(sections):
    return "".join(f"{movie}:\n{body}" for movie, body in sections.items())


NETFLIX = [(7, 1, 4, 86400), (3, 1, 2, 1125964800), (7, 2, 5, 1078012800), (12, 4, 1, 946598400)]


@pytest.mark.parametrize("batch", [1, 1 << 20])
def test_netflix_prize(tmp_path, monkeypatch, batch):
    """One combined file, several, and a folder of a file for each movie, are the same ratings."""
    monkeypatch.setattr(netflix, "BATCH", batch)
    one = put(tmp_path, "combined_data_1.txt", combined(COMBINED))
    table = read(one)
    assert rows(table) == NETFLIX
    assert table.catalogue.items.tolist() == [1, 2, 4]  # and not the movie that nobody rated
    for folder, files in {
        "several": {
            "combined_data_1.txt": combined({"1": COMBINED["1"]}) + "\n",
            "combined_data_2.txt": combined({k: v for k, v in COMBINED.items() if k != "1"}),
        },
        "movies": {f"mv_{int(k):07}.txt": combined({k: v}).rstrip() + "\n" for k, v in COMBINED.items()},
        "above/training_set": {f"mv_{int(k):07}.txt": combined({k: v}) for k, v in COMBINED.items()},
    }.items():
        (tmp_path / folder).mkdir(parents=True)
        for name, body in files.items():
            put(tmp_path / folder, name, body)
        assert rows(read(tmp_path / folder.split("/")[0])) == NETFLIX
    packed = put(tmp_path, "c.txt.gz", gzip.compress(combined(COMBINED).replace("\n", "\r\n").encode()))
    assert rows(read(packed)) == NETFLIX


def test_probe(tmp_path):
    """The probe's pairs are taken out of training, whose ratings they have."""
    train = put(tmp_path, "combined_data_1.txt", combined(COMBINED))
    probe = put(tmp_path, "probe.txt", "1:\n3\n2:\n7\n")
    pairs = read_pairs(probe)
    assert pairs.users[pairs.pairs.user].tolist() == [3, 7]
    assert pairs.items[pairs.pairs.item].tolist() == [1, 2]
    qualifying = read_pairs(put(tmp_path, "qualifying.txt", "1:\n12,2005-01-01\n9:\n8,2005-01-02\n"))
    assert (qualifying.users.tolist(), qualifying.items.tolist()) == ([8, 12], [1, 9])
    data, rated, notes = read_dataset(train, probe, rated=tmp_path / "qualifying.txt")
    assert data.catalogue.users.tolist() == [3, 7, 8, 12]
    assert data.catalogue.items.tolist() == [1, 2, 4, 9]
    assert data.train.stars.tolist() == [4, 1]
    assert data.valid.stars.tolist() == [2, 5]
    assert (rated.user.tolist(), rated.item.tolist()) == ([3, 2], [0, 3])
    assert (data.test, notes) == (None, [])
    put(tmp_path, "probe.txt", "1:\n3\n12\n9:\n7\n")
    with pytest.raises(UserError, match="2 pairs of the valid file have no rating in the training file"):
        read_dataset(train, probe)


def test_pairs_of_any_file(tmp_path):
    """Pairs keep their order and their duplicates; the ratings of a file with them are left out."""
    for name, body in {
        "pairs.csv": "b,x\na,y\nb,x\n",
        "named.csv": "item,user\nx,b\ny,a\nx,b\n",
        "rated.dat": "b::x::3\na::y::none\nb::x::4\n",
    }.items():
        pairs = read_pairs(put(tmp_path, name, body))
        assert pairs.users[pairs.pairs.user].tolist() == ["b", "a", "b"]
        assert pairs.items[pairs.pairs.item].tolist() == ["x", "y", "x"]
    with pytest.raises(UserError, match=r"the item is missing \(.*x.csv, line 2\)"):
        read_pairs(put(tmp_path, "x.csv", "b,x\na,\n"))


def test_given_files_share_a_catalogue(tmp_path):
    train = put(tmp_path, "train", "5,1,2\n5,2,4\n9,1,3\n")
    valid = put(tmp_path, "valid", "9,2,5\n")
    test = put(tmp_path, "test", "a,7,4\n5,1,2\n")
    data, rated, notes = read_dataset(train, valid, test)
    assert data.catalogue.users.tolist() == ["5", "9", "a"]
    assert data.catalogue.items.tolist() == [1, 2, 7]
    assert data.catalogue.scale == Scale(2, 5, 1)  # the test's ratings decide nothing
    assert data.test.user.tolist() == [2, 0]
    assert data.test.item.tolist() == [2, 0]
    assert rated is None
    assert notes == ["1 of the 2 test ratings are of pairs that are trained on, too"]
    low = put(tmp_path, "low", "5,1,1\n")
    with pytest.raises(UserError, match="the rating 1 is off the scale of 2 to 5"):
        read_dataset(train, valid, low)
    assert read_dataset(train, valid, low, reading=Reading(scale="1,5,1")).dataset.test.stars.tolist() == [1]
    alone = read_dataset([train])
    assert alone.dataset.test is None
    assert len(alone.dataset.valid.user) == 0
    assert alone.dataset.sha256 != data.sha256
    assert read_dataset(train, valid, reading=Reading(scale="1,5,1")).dataset.catalogue.num_items == 2


@pytest.mark.parametrize("kind", [np.uint16, np.float64])
def test_moviedata(tmp_path, kind):
    """Small integers of MATLAB do not overflow: 6,040 users times 3,952 movies do not fit 16 bits."""
    path = tmp_path / "moviedata.mat"
    train = np.array([[6040, 3952, 5], [1, 1, 1], [6040, 1, 3]], kind)
    scipy.io.savemat(path, {"train_vec": train, "probe_vec": np.array([[1, 3952, 4]], kind)})
    assert rows(read(path)) == [(6040, 3952, 5), (1, 1, 1), (6040, 1, 3), (1, 3952, 4)]
    assert rows(read(f"{path}:probe_vec")) == [(1, 3952, 4)]
    data = read_dataset(path).dataset
    assert data.train.stars.tolist() == [5, 1, 3]
    assert data.test.stars.tolist() == [4]
    scipy.io.savemat(path, {"train_vec": np.concatenate([train, train[:1]]), "other": train})
    with pytest.raises(
        UserError, match=r"user 6040 has rated item 3952 before \(.*moviedata.mat, train_vec, row 4\)"
    ):
        read(path)
    with pytest.raises(UserError, match=r"holds no ratings .* it holds train_vec, other"):
        read(f"{path}:probe_vec")


@pytest.mark.parametrize("users", [np.array([3, 500]), np.array(["a,b", 'c"d'])])
@pytest.mark.parametrize("timed", [True, False])
def test_what_is_written_is_read_back(tmp_path, users, timed):
    catalogue = Catalogue(users, np.array([7, 9, 2**62]), Scale(0.5, 5, 0.5))
    time = np.array([5, -6, 2**40]) if timed else None
    stars = np.array([0.5, 5, 3.5], np.float32)
    ratings = Ratings(np.array([1, 0, 1], np.int32), np.array([0, 1, 2], np.int32), stars, time)
    write(tmp_path / "out.csv", ratings, catalogue)
    table = read(tmp_path / "out.csv")
    assert table.catalogue.users.tolist() == users.tolist()
    assert table.catalogue.items.tolist() == catalogue.items.tolist()
    assert table.catalogue.scale == catalogue.scale
    for mine, theirs in zip(ratings, table.ratings, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_many_blocks_equal_one(tmp_path, monkeypatch):
    """A file that is parsed in many blocks, whose texts are numbered apart, is the same as in one."""
    rng = np.random.default_rng(3)
    keys = rng.permutation(np.unique(rng.integers(0, 400 * 90, 20_000)))
    user, item, stars = keys // 90 * 7, keys % 90, rng.integers(1, 11, len(keys)) / 2
    body = "".join(f"{u}::{i}::{s:g}\n" for u, i, s in zip(user, item, stars, strict=True))
    monkeypatch.setattr("jaxcf.parsing.BLOCK", 4096)
    table = read(put(tmp_path, "r.dat", body))
    np.testing.assert_array_equal(table.catalogue.users[table.ratings.user], user)
    np.testing.assert_array_equal(table.catalogue.items[table.ratings.item], item)
    np.testing.assert_array_equal(table.ratings.stars, stars.astype(np.float32))


def test_real_movielens(data_dir):
    """What is known of the published files."""
    small = read(data_dir / "ml-100k" / "u.data")
    assert (len(small.ratings.user), small.catalogue.num_users, small.catalogue.num_items) == (
        100_000,
        943,
        1_682,
    )
    assert np.bincount(small.ratings.stars.astype(int)).tolist() == [0, 6110, 11370, 27145, 34174, 21201]
    assert (small.ratings.time.min(), small.ratings.time.max()) == (874724710, 893286638)
    large = read(data_dir / "ml-1m" / "ratings-notime.dat.gz")
    assert (len(large.ratings.user), large.catalogue.num_users, large.catalogue.num_items) == (
        1_000_209,
        6_040,
        3_706,
    )
    assert np.bincount(large.ratings.stars.astype(int)).tolist() == [0, 56174, 107557, 261197, 348971, 226310]
    timed = read(data_dir / "ml-1m" / "ratings-users1-2999.dat.gz")
    assert (len(timed.ratings.user), timed.catalogue.num_users) == (487_650, 2_999)
    np.testing.assert_array_equal(
        timed.catalogue.items[timed.ratings.item], large.catalogue.items[large.ratings.item[:487_650]]
    )
    split = read_dataset(data_dir / "ml-1m" / "moviedata.mat").dataset
    assert (len(split.train.user), len(split.test.user)) == (900_000, 100_209)
    assert split.train.stars.mean(dtype=np.float64) == pytest.approx(3.58163, abs=5e-6)
    assert split.catalogue.items.tolist() == large.catalogue.items.tolist()
    assert len(np.setdiff1d(split.test.item, split.train.item)) == 9
    keys = [table.user.astype(np.int64) * 3706 + table.item for table in (split.train, split.test)]
    all_keys = np.sort(large.ratings.user.astype(np.int64) * 3706 + large.ratings.item)
    np.testing.assert_array_equal(np.sort(np.concatenate(keys)), all_keys)
    fold = read_dataset(data_dir / "ml-100k" / "u1.base", test=data_dir / "ml-100k" / "u1.test")
    assert (len(fold.dataset.train.user), len(fold.dataset.test.user), fold.notes) == (80_000, 20_000, [])
