"""Values in rating files: ids of all types, detected and given scales, duplicates."""

import numpy as np
import pytest

from jaxcf.data.ratings import RatingScale
from jaxcf.data.reading import Reading, read_either
from jaxcf.data.values import parse_scale, scale_of
from jaxfit.errors import UserError
from rating_files import read, rows, write_file


@pytest.mark.parametrize(
    ("ids", "expected_ids"),
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
def test_ids_keep_their_text(tmp_path, ids, expected_ids):
    body = "".join(f"{ids[i]},{ids[j]},{1 + i + j}\n" for i in range(3) for j in range(3))
    table = read(write_file(tmp_path, "r.csv", body), Reading(scale="1,5,1"))
    assert table.catalogue.users.tolist() == table.catalogue.items.tolist() == expected_ids
    expected = [
        (type(expected_ids[0])(ids[i]), type(expected_ids[0])(ids[j]), 1 + i + j) for i in range(3) for j in range(3)
    ]
    assert rows(table) == expected
    assert table.catalogue.user_index(ids).tolist() == [expected_ids.index(type(expected_ids[0])(id_)) for id_ in ids]


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
        ([12, 14, 16], (12, 16, 1)),  # ten stars or less apart, wherever they are
        (range(1, 1001), (1, 1000, 1)),
        (range(1, 1002), (1, 1001, 0)),  # of more levels than MAX_LEVELS
    ],
)
def test_scale_is_detected(values, scale):
    assert scale_of(np.array(values)) == pytest.approx(scale)
    assert scale_of(np.array(values)).contains(values).all()


def test_given_scale_replaces_the_detected_one(tmp_path):
    path = write_file(tmp_path, "r.csv", "1,1,2\n1,2,4\n")
    assert read(path).catalogue.scale == RatingScale(2, 4, 1)
    assert read(path, Reading(scale="0.5,5,0.5")).catalogue.scale == RatingScale(0.5, 5, 0.5)
    assert read(path, scale=RatingScale(0, 10, 0)).catalogue.scale == RatingScale(0, 10, 0)
    off = r"rating 4 is off the scale of 1 to 3 in steps of 1 \(.*r.csv, line 2\) - correct it, or "
    with pytest.raises(UserError, match=f"{off}give --scale$"):
        read(path, Reading(scale="1,3,1"))
    with pytest.raises(UserError, match=f"{off}train with --scale LOW,HIGH,STEP$"):
        read(path, scale=RatingScale(1, 3, 1))
    for reader in (read, read_either):
        with pytest.raises(UserError, match=r"the ratings of training are 1 to 5 in steps of 1 \(--scale\) - leave it"):
            reader(path, reading=Reading(scale="1,5,1"), scale=RatingScale(1, 5, 1))
    for bad in (
        "1,5",
        "5,1,1",
        "1,5,3",
        "1,x,1",
        "1,5,-1",
        "1,inf,1",
        "nan,1,1",
        "-inf,5,0",
        "1,1e39,0",
        "1,5,inf",
        "1,5,9",
    ):
        with pytest.raises(UserError, match="invalid scale"):
            parse_scale(bad)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("last", [(9, 1, 1, 5), (4, 2, 5, 8), (4, 3, 2, 6), (9, 2, 1, 3)]),
        ("first", [(4, 2, 3, 9), (9, 1, 1, 5), (9, 2, 4, 1), (4, 3, 2, 6)]),
        ("mean", [(9, 1, 1, 5), (4, 2, 4, 8), (4, 3, 2, 6), (9, 2, 2, 3)]),
    ],
)
def test_duplicates_are_resolved_as_chosen(tmp_path, choice, expected):
    body = "4,2,3,9\n9,1,1,5\n9,2,4,1\n4,2,4,7\n4,2,5,8\n4,3,2,6\n9,2,1,2\n9,2,1,3\n"
    table = read(write_file(tmp_path, "r.csv", body), Reading(duplicates=choice))
    assert rows(table) == expected
    assert table.catalogue.scale == RatingScale(1, 5, 1)
    assert "4 repeated ratings of an item by the same user" in table.notes[1]


def test_counts_are_added_up_and_stars_are_not(tmp_path):
    path = write_file(tmp_path, "r.csv", "1,1,2\n1,1,4\n")
    assert Reading.of({"duplicates": "sum"}, counts=True) == Reading.of({}, counts=True)
    with pytest.raises(UserError, match=r"only counts can be added up, not stars \(--duplicates sum\)"):
        Reading.of({"duplicates": "sum"})
    table = read(path, Reading(duplicates="sum"), counts=True)
    assert rows(table) == [(1, 1, 6)]
    assert "columns 1, 2, 3 as user, item, counts (in this order" in table.notes[0]
    assert table.notes[1].endswith("1 repeated count of an item by the same user: --duplicates sum")
    for counts, advice in ((False, "first or mean$"), (True, "mean or sum$")):
        with pytest.raises(UserError, match=advice):
            read(path, counts=counts)
