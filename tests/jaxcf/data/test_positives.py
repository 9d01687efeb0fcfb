"""Who took what: ratings and counts as positives, also of files without values and with repeated pairs."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jaxcf.data import reading
from jaxcf.data.formats.file_layout import Reading
from jaxcf.data.positives import of_dataset, positives
from jaxcf.data.ratings import Ratings
from jaxfit.errors import UserError


def ratings(*stars):
    index = np.arange(len(stars), dtype=np.int32)
    return Ratings(index, index, np.float32(stars))


def test_values_are_counts_or_stars_from_which_on_there_is_a_positive():
    found = positives(ratings(1, 0, 3, 0.5), None)
    assert (found.user.tolist(), found.stars.tolist()) == ([0, 2, 3], [1, 3, 0.5])
    found = positives(ratings(5, 4, 3, -1), 4)
    assert (found.user.tolist(), found.stars.tolist()) == ([0, 1], [1, 1])
    with pytest.raises(UserError, match=r"-1 is not a count - give counts of at least 0$"):
        positives(ratings(5, -1), None)
    ids = np.array(["a", "b"])
    catalogue = reading.Catalogue(ids, np.char.upper(ids), reading.RatingScale(-1, 5, 1))
    data = reading.Dataset("d", ratings(5), ratings(5, -1), None, catalogue, "", "")
    said = r"-1 is not a count \(of user b and item B\) - .*, or say from which value on .* --positive N"
    with pytest.raises(UserError, match=said):
        of_dataset(data, None)


def test_files_of_pairs_are_counts_of_one_and_repeated_pairs_add_up(tmp_path):
    pairs, counted = tmp_path / "pairs.csv", tmp_path / "counted.csv"
    pairs.write_text("user,item\na,x\na,x\nb,y\na,y\n")
    counted.write_text("user,item,count\na,x,2\na,x,5\nb,y,1\n")
    how = Reading(duplicates="sum")
    for files, stars in ((pairs, [2, 1, 1]), (counted, [7, 1])):
        data = reading.read_dataset([files], [pairs], reading=how, counts=True).dataset
        assert data.train.stars.tolist() == stars
        assert data.valid.stars.tolist() == [2, 1, 1]
        assert tuple(of_dataset(data, None).catalogue.scale)[:2] == (1, max(stars))
    with pytest.raises(UserError, match="pairs of user and item without ratings"):
        reading.read([pairs])
    with pytest.raises(UserError, match=r"no training rating is a positive .*lower --positive"):
        of_dataset(data, 8)


def counts_of(path, **how):
    return reading.read(path, Reading(duplicates="sum", **how), counts=True).ratings.stars.tolist()


@pytest.mark.parametrize("name", ["count", "Play_Count", "plays", "listens", "weight", "rating"])
def test_counts_are_found_by_their_name(tmp_path, name):
    csv, json = tmp_path / "plays.csv", tmp_path / "plays.jsonl"
    csv.write_text(f"user,item,{name}\na,b,3\na,b,2\n")
    json.write_text(f'{{"{name}": 3, "user": "a", "item": "b"}}\n{{"{name}": 2, "user": "a", "item": "b"}}\n')
    pq.write_table(pa.table({"user": ["a", "a"], name: [3, 2], "item": ["b", "b"]}), tmp_path / "plays.parquet")
    for path in (csv, json, tmp_path / "plays.parquet"):
        assert counts_of(path) == [5]
    if name != "rating":
        with pytest.raises(UserError, match="no column, or more than one, is named as ratings are"):
            reading.read(csv)


def test_other_columns_than_times_are_pairs_if_it_is_said(tmp_path):
    timed, other, several = tmp_path / "timed.csv", tmp_path / "other.csv", tmp_path / "several.csv"
    timed.write_text("user,item,time\na,b,3\na,b,4\n")
    other.write_text("user,item,how often\na,b,3\na,b,2\n")
    several.write_text("user,item,plays,views\na,b,3,4\na,b,2,4\n")
    assert counts_of(timed) == [2]
    for path, column in ((other, "how often"), (several, "plays")):
        with pytest.raises(UserError, match="no column, or more than one, is named as counts are") as error:
            counts_of(path)
        assert error.value.do.endswith("or of pairs alone: --columns user,item")
        assert counts_of(path, columns="user,item") == [2]
        assert counts_of(path, columns=f"user,item,{column}") == [5]
