"""Data sets of ratings as their publishers wrote them: read, checked, split."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.data import sets as data
from benchmarks.ratings import measures, scales
from benchmarks.ratings.store import RatingStore, Spec
from jaxfit.errors import UserError


@pytest.mark.filterwarnings("ignore:no user of --rated:UserWarning")  # it has other users in this small one
def test_the_netflix_layout(tmp_path: Path) -> None:
    folder = tmp_path / "netflix"
    (folder / "training_set").mkdir(parents=True)
    for item in (1, 2):
        lines = "".join(f"{user},{1 + (user + item) % 5},2005-0{item}-01\n" for user in range(1, 7))
        (folder / "training_set" / f"mv_000000{item}.txt").write_text(f"{item}:\n{lines}")
    (folder / "probe.txt").write_text("1:\n3\n2:\n4\n")
    (folder / "qualifying.txt").write_text("2:\n9,2005-12-01\n")
    found = data.load("netflix", tmp_path)
    assert len(found.data.train.user) == 10
    assert found.data.valid.stars.tolist() == [1 + (3 + 1) % 5, 1 + (4 + 2) % 5]
    assert found.data.test is None
    assert found.data.catalogue.users.tolist() == [1, 2, 3, 4, 5, 6, 9]
    assert found.held_out.user.tolist() == [2, 3, 6]
    ours = RatingStore(found, scales.SCALES["tiny"], "tuned", tmp_path)
    assert set(measures.errors(ours, (Spec("bias"),))) == {"valid", "parameters"}


def test_ratings_that_are_not_movielens_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ml-1m").mkdir()
    (tmp_path / "ml-1m" / "ratings-notime.dat").write_text("1::2::3\n")
    with pytest.raises(UserError, match="not the published ratings"):
        data.load("ml-1m", tmp_path)


def test_real_data(data_dir: Path) -> None:
    """Counts known from the publishers, and from the splits."""
    known = {
        "ml-100k": (943, 1682, 100_000), "ml-1m": (6040, 3706, 1_000_209), "moviedata": (6040, 3706, 1_000_209),
    }  # fmt: skip
    for name, counts in known.items():
        found = data.load(name, data_dir).data
        numbers = [len(part.user) for part in (found.train, found.valid, found.test)]
        assert (found.catalogue.num_users, found.catalogue.num_items, sum(numbers)) == counts
        assert found.name == name
        if name == "ml-100k":  # at most nine of each user
            assert np.bincount(np.concatenate([found.valid.user, found.test.user])).max() == 9
        else:
            assert numbers[1:] == ([45_009, 100_021] if name == "ml-1m" else [45_000, 100_209])
