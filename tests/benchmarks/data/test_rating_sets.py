"""Data sets of ratings as their publishers wrote them: read, checked, split."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.data import rating_sets
from benchmarks.data import sets as data
from benchmarks.ratings import measures, scales
from benchmarks.ratings.store import RatingStore, Spec
from jaxcf.data.ratings import Pairs, Ratings, join, take
from jaxcf.data.synthetic import Planted
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
    assert set(measures.errors(ours, (Spec("bias"),), "test")) == {"valid", "parameters"}


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
            for number in range(1, 1 + rating_sets.FOLDS):  # each is refused where its parts overlap
                assert data.load(name, data_dir).again(number).data.test is not None
        else:
            assert numbers[1:] == ([45_009, 100_021] if name == "ml-1m" else [45_000, 100_209])


@pytest.fixture(scope="module")
def whole() -> rating_sets.RatingSet:
    return rating_sets.drawn(Planted(num_users=60, num_items=30, num_ratings=800), (0.1, 0.2))


def with_copied(one: Ratings, other: Ratings, number: int) -> Ratings:
    """Add some ratings of another part, among the others."""
    added = join(one, take(other, np.arange(number)))
    return take(added, np.random.default_rng(0).permutation(len(added.user)))


def test_a_rating_in_two_parts_is_refused(whole) -> None:
    data = whole.data
    assert rating_sets.of(data, "ours", "whole").data.sha256 == data.sha256
    for changed, count in (
        (data._replace(train=with_copied(data.train, data.test, 7)), "7 are in training, 0 held out twice"),
        (data._replace(train=with_copied(data.train, data.valid, 3)), "3 are in training, 0 held out twice"),
        (data._replace(valid=with_copied(data.valid, data.test, 5)), "0 are in training, 5 held out twice"),
        (data._replace(train=with_copied(data.train, data.test, 1), test=None), None),  # nothing is held out
    ):
        if count is None:
            rating_sets.of(changed, "ours", "whole")
            continue
        with pytest.raises(UserError, match=f"ours leaks: of its validation and test ratings {count}"):
            rating_sets.of(changed, "ours", "whole")
    seen = Pairs(data.train.user[:2], data.train.item[:2])  # of a test whose ratings are not known
    with pytest.raises(UserError, match="2 are in training"):
        rating_sets.of(data, "ours", "whole", unknown=seen)


def test_leaks_are_counted_exactly_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """As sets of Python count them; pairs whose low bits agree are distinguished."""
    monkeypatch.setattr(rating_sets, "CHUNK", 1000)
    random = np.random.default_rng(0)
    train, held_out = (
        Pairs(*random.integers(0, [[300], [90]], (2, number)).astype(np.int32)) for number in (10_000, 400)
    )
    expected = set(zip(*map(np.ndarray.tolist, held_out), strict=True))
    found = sum(pair in expected for pair in zip(*map(np.ndarray.tolist, train), strict=True))
    assert found > 100
    assert rating_sets._leaks(Ratings(*train, None), held_out, 90) == (found, 400 - len(expected))


def pairs_of(*parts: Ratings) -> set[tuple[int, int]]:
    """Return the pairs of user and item of some parts."""
    return {pair for part in parts for pair in zip(part.user.tolist(), part.item.tolist(), strict=True)}


def test_other_splits_share_out_all_ratings_and_keep_validation_out_of_the_test(whole) -> None:
    """A tenth of all ratings for the test, a twentieth of the others for validation; recipes were chosen by `valid`."""
    data = whole.data
    total = len(pairs_of(data.train, data.valid, data.test))
    tests = []
    for number in (1, 2):
        train, valid, test = whole.again(number).data[1:4]
        assert len(test.user) == round(0.1 * total)
        assert len(valid.user) == round(0.045 * total)
        assert len(train.user) + len(valid.user) + len(test.user) == total
        assert pairs_of(train, valid, test) == pairs_of(data.train, data.valid, data.test)
        assert pairs_of(data.valid) < pairs_of(train)
        tests.append(pairs_of(test))
    assert len(tests[0] & tests[1]) < 0.3 * len(tests[0])
