"""Splits: exact sizes, every rating once, the thesis' scheme by a loop, equal keys give equal splits."""

import jax
import numpy as np
import pytest

from jaxcf.data import splits
from jaxcf.data.ratings import Catalogue, Dataset, Ratings, RatingScale, take
from jaxfit.errors import UserError
from rating_files import read

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def ratings():
    """Draw users with 1 to 40 ratings, in random order, many at the same time; stars are row numbers."""
    rng = np.random.default_rng(0)
    user = rng.permutation(np.repeat(np.arange(41, dtype=np.int32), np.arange(41)))
    size = len(user)
    return Ratings(user, rng.integers(0, 50, size, np.int32), np.arange(size, dtype=np.float32),
                   rng.integers(0, 30, size))  # fmt: skip


def rows(part):
    """Return the rows of a part in `ratings`, which are its stars."""
    return part.stars.astype(int).tolist()


def assert_partition(ratings, parts):
    for part in parts:
        assert rows(part) == sorted(rows(part))  # in the original order
        for column, all_ in zip(part, ratings, strict=True):
            np.testing.assert_array_equal(column, all_[rows(part)])
    assert sorted(row for part in parts for row in rows(part)) == rows(ratings)


def test_random_split_has_exact_sizes(ratings):
    split = splits.random(KEY, ratings, 0.05, 0.1)
    assert_partition(ratings, split)
    assert [len(part.user) for part in split] == [820 - 41 - 82, 41, 82]
    assert rows(splits.random(KEY, ratings, 0.05, 0.1).test) == rows(split.test)
    assert rows(splits.random(jax.random.key(1), ratings, 0.05, 0.1).test) != rows(split.test)
    for shares in ((0.5, 0.5), (-0.1, 0.2), (0, 1)):
        with pytest.raises(UserError, match="820 ratings cannot be split"):
            splits.random(KEY, ratings, *shares)


def test_random_parts_are_uniform():
    """Over many keys, each element is in each part as often as the part's share: |z| < 4.5 for all of 30."""
    keys = jax.random.split(jax.random.key(2), 1000)
    hits = sum(splits.random_parts(key, [20, 10]) for key in keys)
    z = (hits - 1000 / 3) / np.sqrt(1000 * 2 / 9)
    assert np.abs(z).max() < 4.5
    assert hits.sum() == 10_000


def test_folds_partition_the_ratings_evenly(ratings):
    folds = list(splits.kfold(KEY, ratings, 3))
    assert_partition(ratings, [test for _, test in folds])
    for train, test in folds:
        assert_partition(ratings, [train, test])
        assert len(test.user) in (273, 274)
    for number in (1, 821):
        with pytest.raises(UserError, match="ratings cannot be split into"):
            splits.kfold(KEY, ratings, number)
    with pytest.raises(UserError, match=r"^1 rating cannot be split into 5 folds - give at least two ratings$"):
        splits.kfold(KEY, take(ratings, np.arange(820) == 0), 5)


def test_thesis_equals_a_loop(ratings):
    split = splits.thesis(KEY, ratings)
    assert_partition(ratings, split)
    held = set(rows(split.valid)) | set(rows(split.test))
    for user in range(41):
        of_user = [n for n in range(len(ratings.user)) if ratings.user[n] == user]
        of_user.sort(key=lambda n: (ratings.time[n], n))
        count = 9 if len(of_user) >= 18 else len(of_user) // 2
        assert held & set(of_user) == set(of_user[len(of_user) - count :])
    assert rows(splits.thesis(KEY, ratings).valid) == rows(split.valid)
    with pytest.raises(UserError, match="have no times"):
        splits.thesis(KEY, ratings._replace(time=None))


def test_thesis_sends_a_third_to_validation(ratings):
    """|z| < 4 for the number of validation ratings over 40 keys."""
    sizes = [splits.thesis(key, ratings)[1:] for key in jax.random.split(jax.random.key(3), 40)]
    valid, test = (sum(len(pair[i].user) for pair in sizes) for i in range(2))
    total = valid + test
    assert abs(valid - total / 3) / np.sqrt(total * 2 / 9) < 4


def test_thesis_trains_on_a_users_single_rating():
    ratings = Ratings(np.array([0, 2, 2, 2], np.int32), np.zeros(4, np.int32), np.arange(4.0, dtype=np.float32),
                   np.array([5, 3, 3, 1]))  # fmt: skip
    split = splits.thesis(KEY, ratings)
    assert rows(split.train) == [0, 1, 3]  # of the two at time 3, the second in the file is held out


def test_held_out_users_have_half_of_their_ratings_known(ratings):
    held = splits.users(KEY, ratings, 0.25)
    assert_partition(ratings, [held.train, held.known, held.queried])
    users = np.unique(held.known.user)
    assert len(users) == 10
    assert set(held.train.user).isdisjoint(users)
    for user in users:
        count = int(user)  # user n has n ratings
        assert np.count_nonzero(held.known.user == user) == count - count // 2
        assert np.count_nonzero(held.queried.user == user) == count // 2
    assert rows(splits.users(KEY, ratings, 0.25).known) == rows(held.known)
    for share in (0, 1, 0.001):
        with pytest.raises(UserError, match="of the users is"):
            splits.users(KEY, ratings, share)


@pytest.mark.parametrize("user", [[0, 1], [0, 0, 0]])
def test_users_are_not_held_out_where_none_can_be(user):
    known = Ratings(np.array(user, np.int32), np.arange(len(user), dtype=np.int32), np.ones(len(user), np.float32))
    with pytest.raises(UserError, match=r"no user can be held out: .* - give more ratings, or split at random"):
        splits.users(KEY, known, 0.5)


def test_known_and_queried_halves_are_random(ratings):
    """A user's ratings are known or queried equally often, whatever their position: |z| < 4.5."""
    two = take(ratings, np.isin(ratings.user, (20, 30)))
    queried = np.zeros(50)
    for key in jax.random.split(jax.random.key(4), 400):
        held = splits.users(key, two, 0.5)
        queried += np.isin(two.stars, held.queried.stars)
    for hits in (queried[two.user == user] for user in (20, 30)):
        times = hits.sum() / (len(hits) / 2)  # how often the user was held out
        assert np.abs(hits - times / 2).max() / np.sqrt(times / 4) < 4.5


def test_groups_are_of_nearly_equal_size():
    group = splits.groups(KEY, 23)
    assert sorted(np.bincount(group)) == [4, 4, 5, 5, 5]
    assert not np.all(group[1:] >= group[:-1])


@pytest.mark.parametrize("counts", [[5, 3, 0, 4], [0, 12], [12], [1] * 12])
@pytest.mark.parametrize("distinct", [2, 5, 2**32])
def test_parts_are_cut_from_a_stable_sort_of_the_draws(counts, distinct, monkeypatch):
    """As in every earlier version; of equal draws, the first come first."""
    drawn = np.random.default_rng(0).integers(0, distinct, 12).astype(np.uint32)
    monkeypatch.setattr(jax.random, "bits", lambda key, shape: drawn)
    expected = np.empty(12, np.int32)
    expected[np.argsort(drawn, kind="stable")] = np.repeat(np.arange(len(counts)), counts)
    np.testing.assert_array_equal(splits.random_parts(KEY, counts), expected)


@pytest.mark.parametrize("number", [1, 128, 129, 1000])
def test_draws_are_those_of_arrays_of_the_very_length(number):
    """Although more are drawn, so that ratings of nearly equal number share a program."""
    drawn = np.asarray(jax.random.bits(KEY, (number,)))
    ends = [number // 2, number]
    rank = np.argsort(np.argsort(drawn, kind="stable"), kind="stable")
    found = splits.random_parts(KEY, np.diff(ends, prepend=0).tolist())
    np.testing.assert_array_equal(found, np.searchsorted(ends, rank, side="right"))
    of_each = 18  # of which the thesis' split holds out nine
    user, order = np.repeat(np.arange(number, dtype=np.int32), of_each), np.arange(number * of_each)
    split = splits.thesis(KEY, Ratings(user, user, order.astype(np.float32), order % of_each))
    held = order[order % of_each >= splits.LATEST]
    chosen = np.asarray(jax.random.randint(KEY, (splits.LATEST * number,), 0, 3)) == 0
    np.testing.assert_array_equal(rows(split.valid), held[chosen])


def test_splits_of_nearly_equal_size_share_a_program(ratings):
    splits.random(KEY, take(ratings, ratings.stars < 700))
    compiled = []

    def listen(event, seconds, **more):
        if event.endswith("backend_compile_duration"):
            compiled.append(more)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        splits.random(KEY, take(ratings, ratings.stars < 699))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []


def test_carve_splits_validation_off_training(ratings):
    catalogue = Catalogue(np.arange(41), np.arange(50), RatingScale(0, 820, 1))
    data = Dataset("d", ratings, take(ratings, np.zeros(820, bool)), None, catalogue, "", "")
    carved = splits.carve(KEY, data)
    assert_partition(ratings, [carved.train, carved.valid])
    assert len(carved.valid.user) == 41
    assert len(carved.sha256) == 64


@pytest.mark.parametrize(("number", "expected"), [(1, 0), (2, 1), (8, 1), (40, 2)])
def test_carve_takes_at_least_one_of_several_ratings(ratings, number, expected):
    catalogue = Catalogue(np.arange(41), np.arange(50), RatingScale(0, 820, 1))
    few, none = (take(ratings, np.arange(820) < n) for n in (number, 0))
    carved = splits.carve(KEY, Dataset("d", few, none, None, catalogue, "", ""))
    assert (len(carved.train.user), len(carved.valid.user)) == (number - expected, expected)


def test_thesis_on_movielens(data_dir):
    """All 943 users have at least 20 ratings: nine of each are held out, none earlier than their training ratings."""
    ratings = read(data_dir / "ml-100k" / "u.data").ratings
    split = splits.thesis(KEY, ratings)
    held = np.bincount(split.valid.user, minlength=943) + np.bincount(split.test.user, minlength=943)
    assert (held == 9).all()
    last, first = np.zeros(943, np.int64), np.full(943, 2**62)
    np.maximum.at(last, split.train.user, split.train.time)
    for part in (split.valid, split.test):
        np.minimum.at(first, part.user, part.time)
    assert (last <= first).all()
    assert abs(len(split.valid.user) / (943 * 9) - 1 / 3) < 0.02


def test_settings_of_jax_change_no_split(ratings, other_settings):
    def drawn():
        parts = [splits.random(KEY, ratings), splits.thesis(KEY, ratings), splits.users(KEY, ratings)]
        return [rows(part) for split in [*parts, *splits.kfold(KEY, ratings)] for part in split]

    plain = drawn()
    with other_settings():
        assert drawn() == plain
