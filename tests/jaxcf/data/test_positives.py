"""Who took what: ratings and counts as positives, also of files without values and with repeated pairs."""

import numpy as np
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
    with pytest.raises(UserError, match=r"-1 is not a count .*--positive"):
        positives(ratings(5, -1), None)


def test_files_of_pairs_are_counts_of_one_and_repeated_pairs_add_up(tmp_path):
    pairs, counted = tmp_path / "pairs.csv", tmp_path / "counted.csv"
    pairs.write_text("user,item\na,x\na,x\nb,y\na,y\n")
    counted.write_text("user,item,count\na,x,2\na,x,5\nb,y,1\n")
    how = Reading(duplicates="sum", columns="user,item,count")
    for files, stars in ((pairs, [2, 1, 1]), (counted, [7, 1])):
        data = reading.read_dataset([files], [pairs], reading=how, counts=True).dataset
        assert data.train.stars.tolist() == stars
        assert data.valid.stars.tolist() == [2, 1, 1]
        assert tuple(of_dataset(data, None).catalogue.scale)[:2] == (1, max(stars))
    with pytest.raises(UserError, match="pairs of user and item without ratings"):
        reading.read([pairs])
    with pytest.raises(UserError, match=r"no training rating is a positive .*lower --positive"):
        of_dataset(data, 8)
