"""Reading rating files and data sets: every kind of error, pairs, shared catalogues, published files."""

import gzip
import io
import zipfile

import numpy as np
import pytest

from jaxcf.data.ratings import Catalogue, Ratings, RatingScale
from jaxcf.data.reading import PairTable, Reading, read_dataset, read_either, read_pairs
from jaxcf.data.writing import write
from jaxfit.errors import UserError
from rating_files import read, write_file

BAD = {
    "missing user": ("1,2,3\n,2,3\n", "the user is missing", 2),
    "blank user": ("1,2,3\n\n  ,2,3\n", "the user is missing", 3),
    "quoted user of no character": ('1,2,3\n5,1,4\n"",2,3\n', "the user is missing", 3),
    "missing item": ("a,b,3\na,,3\n", "the item is missing", 2),
    "missing rating": ("u,i,r\n1,2,3\n1,3,\n", "the rating is missing", 3),
    "NaN": ("1,2,3\n1,3,NaN\n", "the rating is missing", 2),
    "infinite": ("1,2,3\n1,3,inf\n", "'inf' is not a finite number", 2),
    "too large": ("1,2,3\n1,3,1e30\n", "the rating 1e30 is too large", 2),
    "no number": ("1,2,3\n1,3,good\n", "'good' is not a finite number", 2),
    "divided digits": ("1,2,3\n1,3,4_5\n", "'4_5' is not a finite number", 2),
    "in the first line": ("1,2,good\n1,3,4\n", "'good' is not a finite number", 1),
    "short line": ("1,2,3\n\n1,3\n1,4,5\n", "has 2 columns, not 3", 3),
    "long line": ("1,2,3\n1,3,4\n1,3,4,5\n", "has 4 columns, not 3", 3),
    "two signs": ("1::2::3\n1::3:x:4\n", "has 2 columns, not 3", 2),
    "blanks": ("1,2,3\n  \n1,3,4\n", "has 1 column, not 3", 2),
    "not utf-8": (b"1,2,3\n1,\xff,4\n", "not valid utf-8", 2),
    "no text": (b"1,2,3\n\x00\xff\n", "not valid utf-8", 2),
    "field of 200,000 characters": (f'"{"7" * 200_000}",2,3,4,5\n', "columns cannot be identified", 1),
    "carriage return beside quotes": ('"1"\r,2,3,4,5\n1,2,3,4,5\n', "columns cannot be identified", 1),
    "no time": ("1,2,3,4\n1,3,3,soon\n", "invalid time 'soon'", 2),
    "missing time": ("1,2,3,4\n1,3,3,\n", "the time is missing", 2),
    "duplicate": ("1,2,3\n4,2,3\n1,3,1\n4,2,5\n1,2,4\n", "user 4 has already rated item 2", 4),
    "unknown names": ("a,b,c\n1,2,3\n", "columns cannot be identified: a, b, c", 1),
    "blank before quotes": ('user,item,stars\n"1", "2",3\n', "a blank stands before a quoted field", 2),
    "blank before a quoted name": ('user, "item",stars\n1,2,3\n', "a blank stands before a quoted field", 1),
    "line break in quotes": ('u,i,r,t,text\n1,2,3,4,"a ""b"""\n\n1,3,4,5,"a\nb"\n', "does not end in its line", 4),
    "quotes that do not end": ('1,2,3\n1,"3,4\n1,4,5\n', "a quoted field does not end in its line", 2),
    "quotes that do not end in the last line": ('1,2,3\n1,4,"5', "a quoted field does not end in its line", 2),
    "line break beside signs in quotes": ('"1"::2::3\n"a::b"::3::4\n"a::\nb"::2::3\n', "does not end in its line", 3),
    "control character": ("1::2::3\n1\x1f::3::4\n", "the line has the control character '\\x1f'", 2),
    "many columns": ("1,2,3,4,5\n", "columns cannot be identified", 1),
    "no delimiter": ("123\n", "no known delimiter", 1),
    "short line in a Netflix file": ("1:\n2,3,2005-01-01\n3:\n3,3\n", "has 2 columns, not 3", 4),
    "blank line before a Netflix heading": ("\t\n1:\n2\n", "does not begin with a movie's number and a colon", 1),
    "no user in a Netflix file": ("1:\n2,3,2005-01-01\n\n,3,2005-01-01\n", "the user is missing", 4),
    "heading without a number in a Netflix file": ("1:\n2,3,2005-01-01\nx:\n3,3,2005-01-01\n", "has a colon, but", 3),
    "date beside a Netflix heading": ("1:\n2,2005-01-01\n7:2005-01-01\n3,2005-01-01\n", "has a colon, but", 3),
    "rating beside the heading of a probe": ("1:\n2\n3: 4\n", "has a colon, but", 3),
    "mixed times": ("1,2,3,2005-09-06\n1,3,3,9\n", "the times are partly numbers and partly dates", 2),
    "dates below decimals": ("1,2,3,1.5\n1,3,3,7\n1,4,3,2005-09-06\n", "partly numbers and partly dates", 3),
    "an invalid time below mixed ones": ("1,2,3,1.5\n1,3,3,2005-09-06\n1,4,3,soon\n", "invalid time 'soon'", 3),
    "dates with and without a zone": ("1,2,3,2020-01-02\n1,3,3,2020-01-02T03:04:05Z\n", "partly dates with a zone", 2),
    "dates without a zone below": ("1,2,3,2020-01-02T03:04Z\n1,3,3,2020-01-02T03:04\n", "partly dates with a zone", 2),
    "a number below dates of both": (
        "1,2,3,2020-01-02\n1,3,3,2020-01-02T03:04Z\n1,4,3,9\n", "partly dates with a zone", 2),
    "a number above dates of both": (
        "1,2,3,9\n1,3,3,2020-01-02\n1,4,3,2020-01-02T03:04Z\n", "partly numbers and partly dates", 2),
    "date that Arrow does not read": ("1,2,3,2020-01-02\n1,3,3,2020-W05-1\n", "invalid time '2020-W05-1'", 2),
    "date too late": ("1,2,3,2020-01-03\n1,3,3,9999-12-31 23:59:59.997\n", "invalid time '9999-12-31 23", 2),
    "infinite time": ("1,2,3,4.5\n1,3,3,inf\n", "invalid time inf", 2),
    "time not in utf-8": (b"1,2,3,x\n1,3,3,\xff\n", "not valid utf-8", 2),
    "rating in a Netflix file": ("1:\n2,3,2005-01-01\n7:\n\n3:\n3,x,2005-01-01\n", "'x' is not a finite", 6),
    "time of day in a Netflix file": ("1:\n2,3,2005-01-01\n3,3,2005-01-01 10:00:00\n", "has a colon, but", 3),
    "rating beside a Netflix heading": ("1:\n2,3,2005-01-01\n2: 3,3,2005-01-01\n", "has a colon, but", 3),
    "date in a Netflix file": ("1:\n2,3,2005-01-01\n2:\n3,3,20-0\n", "invalid time '20-0'", 4),
}  # fmt: skip


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("case", BAD)
def test_errors_name_the_line(tmp_path, case, gzipped):
    body, what, line = BAD[case]
    body = body if isinstance(body, bytes) else body.encode()
    path = write_file(tmp_path, "bad", gzip.compress(body) if gzipped else body)
    reading = Reading(columns="1,2,3") if case == "missing rating" else None
    with pytest.raises(UserError) as error:
        read(path, reading)
    assert what in error.value.what
    assert error.value.where == f"{path}, line {line}"
    assert error.value.do
    assert "\n" not in str(error.value)


def test_errors_name_the_right_one_of_two_files(tmp_path):
    first, second = (
        write_file(tmp_path, "a", "1,2,3\n1,3,4\n"),
        write_file(tmp_path, "b", "user,item,stars\n2,2,3\n1,2,4\n"),
    )
    with pytest.raises(UserError, match="user 1 has already rated item 2") as error:
        read([first, second])
    assert error.value.where == f"{second}, line 3"


def test_files_without_ratings_are_refused(tmp_path):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("ratings.csv", "1,2,3\n")
    whole = gzip.compress(b"1,2,3\n" * 5000)
    for name, content, what in (
        ("empty", b"", "the file is empty"),
        ("gzipped-empty", gzip.compress(b""), "blank lines only"),
        ("blank", b"\n\n\n", "blank lines only"),
        ("header", b"user,item,rating\n", "holds no ratings"),
        ("header with a time", b"user,item,rating,time\n", "holds no ratings"),
        ("headings", b"1:\n2:\n", "holds no ratings"),
        ("zip", archive.getvalue(), "zip archive"),
        ("truncated.gz", whole[:-12], "gzip file is damaged"),
        ("bad.gz", whole[:2] + b"\0" * 40, "gzip file is damaged"),
        ("pairs", b"1,2\n1,3\n", "pairs of user and item without ratings"),
        ("bad.mat", b"MATLAB 5.0 MAT-file" + b" " * 200, ".mat file cannot be read"),
    ):
        with pytest.raises(UserError, match=what) as error:
            read(write_file(tmp_path, name, content))
        assert name in error.value.where
        assert "\n" not in str(error.value)
    named = write_file(tmp_path, "named", "Customer;Film;Bewertung;Datum\n7;3;5;2020-01-01\n")
    json = write_file(tmp_path, "json", '{"item": 1, "user": 2, "my stars": 3}\n')
    good = write_file(tmp_path, "stars", "user,item,stars\n1,2,3\n")
    for file, what, columns in (
        (named, "Customer, Film, Bewertung, Datum", "--columns Customer,Film,Bewertung"),
        (json, "item, user, my stars", "--columns 'user,item,my stars'"),
    ):
        with pytest.raises(UserError, match="no column, or more than one, is named as ratings are") as error:
            read([good, file])
        assert error.value.where == str(file)
        assert f"the columns are {what}: name those of user, item and stars, as {columns}" in error.value.do
    assert isinstance(read_either(named), PairTable)
    pairs = write_file(tmp_path, "pairs alone", "user,item\n4,5\n")
    for counts, name, do in ((False, "ratings", ""), (True, "counts", r", or take the pairs of all: --columns")):
        for files in ([good, pairs], [pairs, good]):
            what = (
                rf"there are no {name} here, but there are in .*stars, line 2 \(.*pairs alone, line 2\) - .*{name}{do}"
            )
            with pytest.raises(UserError, match=what):
                read_either(files, counts=counts)
    assert len(read_either([good, pairs], Reading(columns="user,item"), counts=True).ratings.user) == 2
    headings, good = tmp_path / "headings", write_file(tmp_path, "good", "1:\n2,3,2005-01-01\n")
    for read_empty in (lambda: read([good, headings]), lambda: read_either(headings)):
        with pytest.raises(UserError, match=r"the file holds no ratings \(.*headings\)"):
            read_empty()
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="a directory was given instead of a file of ratings"):
        read(tmp_path / "folder")
    with pytest.raises(UserError, match="a directory was given instead of a file"):
        read(tmp_path / "folder", Reading(format="delimited"))
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
        (Reading(scale="5"), "invalid scale '5'"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, reading, what):
    with pytest.raises(UserError, match=what):
        read(write_file(tmp_path, "r.csv", "1,2,3\n4,5,4\n"), reading)


def test_an_invalid_scale_is_reported_before_files_are_opened(tmp_path):
    for reader in (read, read_either, read_dataset):
        for scale in ("5", "1,5,1e-320"):
            with pytest.raises(UserError, match=f"invalid scale '{scale}'"):
                reader(tmp_path / "none.csv", reading=Reading(scale=scale))


def test_pairs_keep_their_order_and_duplicates(tmp_path):
    """Ratings beside them are ignored."""
    for name, body in {
        "pairs.csv": "b,x\na,y\nb,x\n",
        "named.csv": "item,user\nx,b\ny,a\nx,b\n",
        "rated.dat": "b::x::3\na::y::none\nb::x::4\n",
    }.items():
        pairs = read_pairs(write_file(tmp_path, name, body))
        assert pairs.users[pairs.pairs.user].tolist() == ["b", "a", "b"]
        assert pairs.items[pairs.pairs.item].tolist() == ["x", "y", "x"]
    with pytest.raises(UserError, match=r"the item is missing \(.*x.csv, line 2\)"):
        read_pairs(write_file(tmp_path, "x.csv", "b,x\na,\n"))


def test_files_without_pairs_are_refused(tmp_path):
    train, header = (
        write_file(tmp_path, "train", "5,1,2\n5,2,4\n9,1,3\n"),
        write_file(tmp_path, "none.csv", "user,item\n"),
    )
    for read_empty in (
        lambda: read_pairs(header),
        lambda: read_pairs(write_file(tmp_path, "none.csv", "user,item,stars\n")),
        lambda: read_pairs(write_file(tmp_path, "none.csv", "1:\n2:\n")),
        lambda: read_either([header]),
        lambda: read_dataset(train, rated=header),
        lambda: read_dataset(train, valid=header),
    ):
        write_file(tmp_path, "none.csv", "user,item\n")
        with pytest.raises(UserError, match=r"the file holds no pairs of user and item \(.*none.csv\)"):
            read_empty()


def test_files_of_a_dataset_share_a_catalogue(tmp_path):
    train = write_file(tmp_path, "train", "5,1,2\n5,2,4\n9,1,3\n")
    valid = write_file(tmp_path, "valid", "9,2,5\n")
    test = write_file(tmp_path, "test", "a,7,4\n5,1,2\n")
    data, rated, notes = read_dataset(train, valid, test)
    assert data.catalogue.users.tolist() == [5, 9]
    assert data.catalogue.items.tolist() == [1, 2]
    assert data.catalogue.scale == RatingScale(2, 5, 1)  # test ratings decide nothing
    assert data.test.user.tolist() == data.test.item.tolist() == [-1, 0]
    assert rated is None
    assert notes[3:] == ["1 of the 2 test ratings are of pairs that are also in training"]
    low = write_file(tmp_path, "low", "5,1,1\n")
    with pytest.raises(UserError, match="the rating 1 is off the scale of 2 to 5"):
        read_dataset(train, valid, low)
    assert read_dataset(train, valid, low, reading=Reading(scale="1,5,1")).dataset.test.stars.tolist() == [1]
    assert data.sha256 == read_dataset(train, valid).dataset.sha256
    whole = read_dataset(train, valid, test, test_ids=True).dataset
    assert whole.catalogue.users.tolist() == ["5", "9", "a"]
    assert whole.catalogue.items.tolist() == [1, 2, 7]
    assert whole.test.user.tolist() == whole.test.item.tolist() == [2, 0]
    single = read(write_file(tmp_path, "single", "5,1,4\n"))
    assert single.notes[0].endswith("; 1 rating of 1 item by 1 user, all 4 (as found)")
    alone = read_dataset([train])
    assert alone.dataset.test is None
    assert len(alone.dataset.valid.user) == 0
    assert alone.dataset.sha256 != data.sha256
    assert read_dataset(train, valid, reading=Reading(scale="1,5,1")).dataset.catalogue.num_items == 2


@pytest.mark.parametrize("users", [np.array([3, 500]), np.array(["a,b", 'c"d']), np.array(["NA", "null"])])
@pytest.mark.parametrize("timed", [True, False])
def test_written_ratings_equal_those_read(tmp_path, users, timed):
    catalogue = Catalogue(users, np.array([7, 9, 2**62]), RatingScale(0.5, 5, 0.5))
    time = np.array([5, -6, 2**40]) if timed else None
    stars = np.array([0.5, 5, 3.5], np.float32)
    ratings = Ratings(np.array([1, 0, 1], np.int32), np.array([0, 1, 2], np.int32), stars, time)
    write({tmp_path / "out.csv": ratings}, catalogue)
    table = read(tmp_path / "out.csv")
    assert table.catalogue.users.tolist() == users.tolist()
    assert table.catalogue.items.tolist() == catalogue.items.tolist()
    assert table.catalogue.scale == catalogue.scale
    for written, found in zip(ratings, table.ratings, strict=True):
        np.testing.assert_array_equal(written, found)


def test_movielens_files_have_their_published_sizes(data_dir):
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
    split = read_dataset(data_dir / "ml-1m" / "moviedata.mat", test_ids=True).dataset
    assert (len(split.train.user), len(split.test.user)) == (900_000, 100_209)
    assert split.train.stars.mean(dtype=np.float64) == pytest.approx(3.58163, abs=5e-6)
    assert split.catalogue.items.tolist() == large.catalogue.items.tolist()
    assert len(np.setdiff1d(split.test.item, split.train.item)) == 9
    keys = [table.user.astype(np.int64) * 3706 + table.item for table in (split.train, split.test)]
    all_keys = np.sort(large.ratings.user.astype(np.int64) * 3706 + large.ratings.item)
    np.testing.assert_array_equal(np.sort(np.concatenate(keys)), all_keys)
    fold = read_dataset(data_dir / "ml-100k" / "u1.base", test=data_dir / "ml-100k" / "u1.test")
    assert (len(fold.dataset.train.user), len(fold.dataset.test.user)) == (80_000, 20_000)
    assert len(fold.notes) == 2  # what was read, and no pair of both
