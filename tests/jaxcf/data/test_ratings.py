"""Ratings as indices: grouping by user, ids of all types, scales, digests."""

from itertools import pairwise

import numpy as np
import pytest

from jaxcf.data.ids import find, union
from jaxcf.data.ratings import (
    EMPTY,
    Catalogue,
    Pairs,
    Ratings,
    RatingScale,
    by_item,
    by_user,
    digest,
    grouped,
    join,
    present,
    rated_sets,
    relabel,
    take,
)

STARS = RatingScale(1, 5, 1)


def random_ratings(seed, rows=200, users=17, items=9):
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, users, rows, np.int32), rng.integers(0, items, rows, np.int32)
    return Ratings(user, item, rng.integers(1, 6, rows).astype(np.float32), rng.integers(0, 99, rows))


@pytest.mark.parametrize("in_order", [False, True])
def test_by_user_and_by_item_equal_a_loop(in_order):
    ratings = random_ratings(1)
    if in_order:
        ratings = take(ratings, np.argsort(ratings.user, kind="stable"))
    for vectors, index, other, groups in (
        (by_user(ratings, 20), ratings.user, ratings.item, 20),
        (by_item(ratings, 9), ratings.item, ratings.user, 9),
    ):
        assert vectors.offsets.dtype == vectors.item.dtype == np.int32
        assert vectors.stars.dtype == np.float32
        for i in range(groups):
            rows = [n for n in range(len(index)) if index[n] == i]
            entries = slice(vectors.offsets[i], vectors.offsets[i + 1])
            assert vectors.item[entries].tolist() == other[rows].tolist()
            assert vectors.stars[entries].tolist() == ratings.stars[rows].tolist()


def test_empty_index_has_empty_groups():
    offsets, order = grouped(np.zeros(0, np.int32), 3)
    assert offsets.tolist() == [0, 0, 0, 0]
    assert len(order) == 0


def test_present_users_and_items_are_those_of_any_part():
    catalogue = Catalogue(np.arange(4), np.arange(3), RatingScale(1, 5, 1))
    ratings = Ratings(np.int32([0, 2]), np.int32([1, 1]), np.float32([3, 4]))
    found = present(catalogue, ratings, Pairs(np.int32([3]), np.int32([2])))
    assert found.user[catalogue.user_index([0, 1, 2, 3, 9])].tolist() == [True, False, True, True, False]
    assert found.item[catalogue.item_index([0, 1, 2, 9])].tolist() == [False, True, True, False]


def test_rated_sets_are_the_union_of_sets():
    parts = [Pairs(user, item) for user, item in (
        (np.array([3, 0, 3, 3], np.int32), np.array([2, 5, 1, 2], np.int32)),
        (np.array([0, 3, 1], np.int32), np.array([5, 0, 7], np.int32)),
    )]  # fmt: skip
    offsets, items = rated_sets(*parts, num_users=5)
    found = [items[begin:end].tolist() for begin, end in pairwise(offsets)]
    assert found == [[5], [7], [], [0, 1, 2], []]
    for empty in ((), (EMPTY,)):
        offsets, items = rated_sets(*empty, num_users=5)
        assert (offsets.tolist(), items.tolist()) == ([0] * 6, [])


def test_integers_and_text_match_if_written_alike():
    whole = np.array([-3, 0, 7, 2**62])
    assert find(whole, [7, 8, -3]).tolist() == [2, -1, 0]
    assert find(whole, ["7", "007", "+7", "7.0", "", "x", str(2**62), str(2**63)]).tolist() == [
        2, -1, -1, -1, -1, -1, 3, -1,
    ]  # fmt: skip
    assert find(whole, np.array([2**64 - 3, 7], np.uint64)).tolist() == [-1, 2]
    assert find(whole, [2**70, 7]).tolist() == [-1, 2]
    text = np.array(["007", "7", "a", "ab"])
    assert find(text, [7, 8]).tolist() == [1, -1]
    assert find(text, [["ab", "b"], ["007", ""]]).tolist() == [[3, -1], [0, -1]]
    assert find(text, "a").shape == ()
    assert find(np.zeros(0, np.int64), [1, 2]).tolist() == [-1, -1]
    assert find(whole, []).tolist() == []
    for known, expected in ((whole, [2, -1, -1, -1, -1]), (text, [1, -1, -1, -1, -1])):  # as pandas makes of integers
        assert find(known, np.array([7, 7.5, np.nan, np.inf, 8])).tolist() == expected
        assert find(known, np.array([7.0, "7.0", np.nan, None, np.float32(8)], object)).tolist() == expected
    assert find(text, np.array([[7.0, "ab"], [7, "x"]], object)).tolist() == [[1, 3], [1, -1]]


def test_ids_match_as_training_reads_them():
    known = np.array(["1e+20", "7", "a", "false", "true"])
    assert find(known, [True, False]).tolist() == [4, 3]
    assert find(known, [" a", "7 ", "a b"]).tolist() == [2, 1, -1]
    assert find(known, np.array(["a ", "\tb", "7"])).tolist() == [2, -1, 1]
    assert find(known, [1e20, 7.0, 0.5]).tolist() == [0, 1, -1]
    assert find(known, [True, "a", 7.0, 1e20, "\ud800", object()]).tolist() == [4, 2, 1, 0, -1, -1]
    assert find(np.array([2**60]), np.array([2.0**60, np.inf])).tolist() == [0, -1]


def test_union_is_text_if_any_set_is():
    assert union(np.array([10, 9]), np.array([9, 11])).tolist() == [9, 10, 11]
    assert union(np.array([10, 9]), np.array(["9", "b"])).tolist() == ["10", "9", "b"]


def test_relabel_gives_minus_one_to_unknown_ids():
    old = Catalogue(np.array([1, 5, 9]), np.array(["x", "y"]), STARS)
    new = Catalogue(np.array(["5", "9"]), np.array(["a", "y"]), STARS)
    ratings = Ratings(np.array([0, 1, 2], np.int32), np.array([1, 0, 1], np.int32), np.ones(3, np.float32))
    assert relabel(ratings, old, new).user.tolist() == [-1, 0, 1]
    assert relabel(ratings, old, new).item.tolist() == [1, -1, 1]


@pytest.mark.parametrize(
    ("scale", "good", "bad"),
    [
        (STARS, [1, 2, 5], [0, 6, 1.5, np.nan]),
        (RatingScale(0.5, 5, 0.5), [0.5, 3, 4.5], [0, 5.5, 0.75]),
        (RatingScale(0, 1, 0.1), np.float32([0.1, 0.3, 0.7, 1]), [0.15]),
        (RatingScale(0.1, 99.9, 0.1), np.float32([0.1, 50.3, 99.9]), [0, 50.35, 99.91]),
        (RatingScale(-9000.3, -9000, 0.1), np.float32([-9000.3, -9000.2, -9000.1]), [-9000.4, -9000.15, -8999.9]),
        (RatingScale(0, 1e6, 1), [0, 999_999, 1e6], [-1, 0.5, 1_000_001, np.inf]),
        (RatingScale(-10, 10, 0), [-10, 3.14159], [-10.1, 11]),
    ],
)
def test_scale_contains_its_levels_only(scale, good, bad):
    assert scale.contains(good).all()
    assert not scale.contains(bad).any()
    assert scale.clip(np.array([-1e9, 1e9])).tolist() == [scale.low, scale.high]
    if scale.step:
        every = scale.low + scale.step * np.arange(scale.levels)
        assert scale.level(every).tolist() == list(range(scale.levels))
        assert scale.contains(every).all()


@pytest.mark.parametrize("piece", [2, 100])
def test_ratings_halfway_between_levels_have_the_higher_one(piece, monkeypatch):
    monkeypatch.setattr("jaxfit.files.large_arrays.PIECE", piece)
    half_stars = np.arange(1, 5.5, 0.5)
    assert STARS.level(half_stars).tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert STARS.level(half_stars.reshape(3, 3)).tolist() == [[0, 1, 1], [2, 2, 3], [3, 4, 4]]
    assert STARS.contains(half_stars).tolist() == [half == int(half) for half in half_stars]
    assert STARS.level([]).tolist() == STARS.contains([]).tolist() == []
    assert STARS.level(3) == 2


def test_joined_ratings_have_times_if_all_parts_have():
    a, b = random_ratings(2, rows=5), random_ratings(3, rows=4)
    both = join(a, b)
    assert take(both, np.arange(5, 9)).time.tolist() == b.time.tolist()
    assert take(both, both.user < 0).stars.shape == (0,)
    assert join(a, b._replace(time=None)).time is None
    assert join().user.shape == (0,)


def test_digest_depends_on_ratings_catalogue_and_scale():
    catalogue = Catalogue(np.arange(17), np.arange(9), STARS)
    train, valid = random_ratings(4), random_ratings(5)
    same = digest(train, valid, catalogue)
    assert same == digest(train._replace(time=None), valid, catalogue)
    other_users = Catalogue(np.arange(1, 18), np.arange(9), STARS)
    other_scale = Catalogue(np.arange(17), np.arange(9), RatingScale(0.5, 5, 0.5))
    others = digest(valid, train, catalogue), digest(train, valid, other_users), digest(train, valid, other_scale)
    assert len({same, *others}) == 4
