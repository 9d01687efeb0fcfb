"""Parquet and JSON lines: columns by name, types of ids and times, what cannot be read."""

import datetime
import gzip
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jaxcf.data.ratings import RatingScale
from jaxcf.data.reading import Reading, read_pairs
from jaxfit.errors import UserError
from rating_files import read, rows, write_file

ROWS = [(7, 10, 4.0, 100), (3, 10, 2.0, 90), (7, 2, 5.0, 101)]
RECORDS = [
    {"title": "x", "movieId": item, "rating": stars, "userId": user, "ts": time} for user, item, stars, time in ROWS
]


def parquet_bytes(columns):
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def columns_of(records):
    return {name: [record[name] for record in records] for name in records[0]}


def json_bytes(records):
    return "".join(json.dumps(record) + "\n" for record in records).encode()


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_columns_are_found_by_their_names(tmp_path, form, gzipped):
    body = json_bytes(RECORDS) if form == "json" else parquet_bytes(columns_of(RECORDS))
    path = write_file(tmp_path, "r", gzip.compress(body) if gzipped else body)
    table = read(path)
    assert rows(table) == ROWS
    assert table.catalogue.scale == RatingScale(2, 5, 1)
    said = "columns userId, movieId, rating, ts as user, item, stars, time (by their names)"
    assert table.notes == [f"{path}: {said}; 3 ratings of 2 items by 2 users, 2 to 5 in steps of 1 (as found)"]
    chosen = read(path, Reading(columns="movieId,userId,rating"))
    assert rows(chosen) == [(item, user, stars) for user, item, stars, _ in ROWS]
    pairs = read_pairs(path)
    assert (pairs.users.tolist(), pairs.items.tolist()) == ([3, 7], [2, 10])
    with pytest.raises(UserError, match=r"there is no column 'film' \(.* - the columns are title, movieId, rating"):
        read(path, Reading(columns="userId,film,rating"))


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_unknown_names_are_refused_with_advice(tmp_path, form):
    records = [{"Leser": 1, "Buch": 2, "Note": 3}]
    body = json_bytes(records) if form == "json" else parquet_bytes(columns_of(records))
    message = r"cannot be identified: Leser, Buch, Note .*in this order: --columns USER,ITEM,STARS$"
    with pytest.raises(UserError, match=message):
        read(write_file(tmp_path, "r", body))
    assert rows(read(tmp_path / "r", Reading(columns="Leser,Buch,Note", scale="1,5,1"))) == [(1, 2, 3)]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["007", "a"], ["007", "a"]),
        ([5.0, 2.0], [2, 5]),  # as pandas writes whole numbers of which one was missing
        ([2.5, 3.0], ["2.5", "3"]),
        (pa.array(["b", "a"]).dictionary_encode(), ["a", "b"]),
        (pa.array(["b", "a"], pa.large_string()), ["a", "b"]),
        (pa.array([2**63 + 1, 1], pa.uint64()), ["1", str(2**63 + 1)]),
    ],
)
def test_ids_of_parquet_are_of_any_type(tmp_path, ids, expected):
    path = write_file(tmp_path, "r", parquet_bytes({"user": ids, "item": [1, 2], "stars": np.float32([3.3, 0.1])}))
    table = read(path)
    assert table.catalogue.users.tolist() == expected
    assert table.ratings.stars.tolist() == np.float32([3.3, 0.1]).tolist()
    assert table.catalogue.scale.low == 0.1  # not that of the float32 next to it


def test_ratings_may_be_float16(tmp_path):
    stars = np.float16([3.5, 0.5, 4])
    for ids in (np.float16([7, 0.5, 2]), pa.array([7, 0.5, 2], pa.float64()).dictionary_encode()):
        path = write_file(tmp_path, "r", parquet_bytes({"user": ids, "item": [1, 2, 3], "stars": stars}))
        assert rows(read(path)) == [("7", 1, 3.5), ("0.5", 2, 0.5), ("2", 3, 4)]


@pytest.mark.parametrize(
    "times",
    [
        [100, 86_400],
        [100.9, 86_400.0],
        ["100", "86400"],
        ["1970-01-01T00:01:40", "1970-01-02"],
        ["1970-01-01T00:01:40Z", "1970-01-02T00:00:00Z"],
        [datetime.datetime(1970, 1, 1, 0, 1, 40), datetime.datetime(1970, 1, 2)],
        [datetime.datetime(1970, 1, 1, 0, 1, 40, tzinfo=datetime.UTC), datetime.datetime(1970, 1, 2)],
    ],
)
def test_times_are_numbers_or_dates(tmp_path, times):
    forms = [parquet_bytes({"user": [1, 1], "item": [1, 2], "stars": [3, 4], "time": times})]
    if not isinstance(times[0], datetime.datetime):
        forms.append(json_bytes([{"user": 1, "item": i, "stars": 3 + i, "time": time} for i, time in enumerate(times)]))
    for body in forms:
        assert read(write_file(tmp_path, "r", body)).ratings.time.tolist() == [100, 86_400]


ANN = b'{"user": "ann", "item": 2, "stars": 3}'
BAD_JSON = {
    "no object": ([b'{"user": 1, "item": 2, "stars": 3}', b"7"], "the line is not one JSON object", 2),
    "cut": ([b'{"user": 1, "item": 2, "stars": 3}', b'{"user": 1'], "the line is not one JSON object", 2),
    "over several lines": ([b"{", b'"user": 1}'], "the line is not one JSON object", 1),
    "a list": ([b'[{"user": 1, "item": 2, "stars": 3}]'], "the line is not one JSON object", 1),
    "no user": ([b'{"user": 1, "item": 2, "stars": 3}', b"", b'{"item": 2, "stars": 3}'], "the user is missing", 3),
    "other type": (
        [b'{"user": 1, "item": 2, "stars": 3}', b'{"user": "x", "item": 2, "stars": 3}'],
        "the user is text, and a number in line 1", 2,
    ),
    "no number": (
        [b'{"user": 1, "item": 2, "stars": "3"}', b'{"user": 2, "item": 2, "stars": "good"}'],
        "the rating 'good' is not a finite number", 2,
    ),
    "no text": ([ANN, b'{"user": "\\ud800", "item": 2, "stars": 3}'], "the line is not one JSON object", 2),
    "not utf-8": ([ANN, b'{"user": "\xa8", "item": 2, "stars": 3}'], "the line is not valid utf-8", 2),
    "a large number": ([b'{"user": 1e400, "item": 3, "stars": 3}'], "the file cannot be parsed", None),
    "nested": ([b'{"user": 1, "item": {"id": 2}, "stars": 3}'], "the file cannot be parsed", None),
    "no time": (
        [b'{"user": 1, "item": 2, "stars": 3, "time": "soon"}', b'{"user": 2, "item": 2, "stars": 3, "time": "x"}'],
        "invalid time 'soon'", 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_JSON)
def test_errors_in_json_name_the_line(tmp_path, case):
    lines, what, line = BAD_JSON[case]
    path = write_file(tmp_path, "r.jsonl", b"\n".join(lines) + b"\n")
    with pytest.raises(UserError) as error:
        read(path)
    assert what in error.value.what
    assert error.value.where == f"{path}, line {line}" if line else str(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"user": [1], "item": [None], "stars": [3]}, "the item is missing"),
        ({"user": [1], "item": [2], "stars": [np.nan]}, "the rating is missing"),
        ({"user": [1], "item": [[2, 3]], "stars": [3]}, "the column 'item' cannot be the item: it holds list"),
        ({"user": [1], "item": [2], "stars": ["x"]}, "the rating 'x' is not a finite number"),
        ({"user": [1], "item": [2], "stars": [3], "time": ["soon"]}, "invalid time 'soon'"),
        ({"user": [1], "item": [2], "stars": [3], "time": [True]}, "invalid time True"),
        ({"user": pa.array([], pa.int64()), "item": pa.array([], pa.int64()), "stars": pa.array([], pa.int64()),
          "time": pa.array([], pa.utf8())}, "the file holds no ratings"),
    ],
)  # fmt: skip
def test_errors_in_parquet_are_one_line(tmp_path, columns, what):
    path = write_file(tmp_path, "r.parquet", parquet_bytes(columns))
    with pytest.raises(UserError, match=what) as error:
        read(path)
    assert str(path) in error.value.where
    assert "\n" not in str(error.value)


def test_a_damaged_parquet_file_is_refused(tmp_path):
    body = parquet_bytes(columns_of(RECORDS))
    for damaged in (body[:-20], b"PAR1", body[:40] + bytes(30) + body[70:]):
        with pytest.raises(UserError, match="the Parquet file cannot be read: "):
            read(write_file(tmp_path, "r.parquet", damaged))


def test_whole_ratings_may_stand_above_others(tmp_path):
    body = '{"user": 1, "item": 2, "stars": 4}\n{"user": 1, "item": 3, "stars": 4.5}\n'
    assert rows(read(write_file(tmp_path, "r.jsonl", body))) == [(1, 2, 4), (1, 3, 4.5)]


def test_json_in_other_encodings_is_read(tmp_path):
    records = [{"user": "Zoë", "item": 1, "stars": 3}, {"user": "Åsa", "item": 1, "stars": 4}]
    body = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    for encoding, written in (("utf-8", "utf-8-sig"), ("latin-1", "latin-1")):
        path = write_file(tmp_path, "r.jsonl", body.encode(written))
        assert read(path, Reading(encoding=encoding)).catalogue.users.tolist() == ["Zoë", "Åsa"]


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_text_that_is_repeated_takes_its_memory_once(tmp_path, dictionary):
    """5 kB in the file, 2 GB as a column of texts."""
    users = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), ["x" * 100_000])
    table = pa.table({"user": users, "item": pa.array([1] * 20_000), "stars": pa.array([3.0] * 20_000)})
    pq.write_table(table, tmp_path / "r.parquet", store_schema=dictionary)
    most = pa.default_memory_pool().max_memory()
    with pytest.raises(UserError, match="the user is an id of more than 1,000 characters"):
        read(tmp_path / "r.parquet")
    assert pa.default_memory_pool().max_memory() - most < 1 << 27
