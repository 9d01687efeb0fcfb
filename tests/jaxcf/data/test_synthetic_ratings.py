"""Planted ratings: they are what the model says, long-tailed, and their reference is what it claims to be."""

import itertools

import jax
import numpy as np
import pytest
from scipy import stats

from jaxcf.data import synthetic as planted
from jaxcf.data.ratings import Ratings, join
from jaxcf.data.synthetic import Planted
from jaxcf.metrics import evaluate

SMALL = Planted(num_users=600, num_items=200, num_ratings=20_000, num_features=3)


@pytest.fixture(scope="module")
def data():
    return planted.planted(jax.random.key(0), SMALL)


@pytest.fixture(scope="module")
def all_of(data):
    return join(data.train, data.valid, data.test)


def test_shape(data, all_of):
    assert len(all_of.user) == pytest.approx(20_000, rel=0.03)
    assert len(np.unique(all_of.user.astype(np.int64) * 200 + all_of.item)) == len(all_of.user)
    assert set(all_of.stars.tolist()) == {1, 2, 3, 4, 5}
    assert data.catalogue.scale == (1, 5, 1)
    assert (data.catalogue.num_users, data.catalogue.num_items) == (600, 200)
    assert all_of.user.max() < 600
    assert all_of.item.max() < 200
    for part in (data.valid, data.test):
        assert len(part.user) == pytest.approx(2_000, abs=4.5 * np.sqrt(1_800))
    assert len(data.sha256) == 64


def test_long_tails(all_of):
    """The most active tenth of the users, and the most popular tenth of the movies, have many times their share."""
    for index, size in ((all_of.user, 600), (all_of.item, 200)):
        counts = np.sort(np.bincount(index, minlength=size))[::-1]
        assert counts[: size // 10].sum() / counts.sum() > 0.25
        assert np.median(counts) < 0.9 * counts.mean()


def test_the_same_key_gives_the_same_data(data):
    again = planted.planted(jax.random.key(0), SMALL)
    assert again.sha256 == data.sha256
    np.testing.assert_array_equal(again.test.stars, data.test.stars)
    assert planted.planted(jax.random.key(1), SMALL).sha256 != data.sha256


def test_noise_is_as_planted(all_of, data):
    """Without rounding, errors of the truth are normal with the planted spread (Kolmogorov-Smirnov, p > 0.001)."""
    exact = planted.planted(jax.random.key(0), Planted(**{**vars(SMALL), "rounded": False}))
    left = exact.train.stars - exact.truth.predict(exact.train.user, exact.train.item)
    assert stats.kstest(left / SMALL.noise, "norm").pvalue > 1e-3
    assert exact.catalogue.scale.step == 0
    # rounded, away from the ends of the scale, errors have the variance of rounding more
    expected = data.truth.predict(all_of.user, all_of.item)
    middle = np.abs(expected - 3) < 0.5
    left = (all_of.stars - expected)[middle]
    assert np.var(left) == pytest.approx(data.truth.noise_variance, rel=0.1)
    for table, spread in ((data.truth.b, 0.35), (data.truth.c, 0.45)):
        assert table.std() == pytest.approx(spread, rel=0.2)
    product = data.truth.U @ data.truth.V.T
    assert product.std() == pytest.approx(0.55, rel=0.25)
    assert data.truth.U.var() == pytest.approx(data.truth.feature_variance, rel=0.2)


def test_taste_decides_whom_a_user_rates(all_of, data):
    """With taste, what is rated is liked better than what is not; without, it is not."""
    product = data.truth.U @ data.truth.V.T
    liked = product[all_of.user, all_of.item].mean() / product.std()
    assert liked > 0.25
    plain = planted.planted(jax.random.key(0), Planted(**{**vars(SMALL), "taste": 0.0}))
    product = plain.truth.U @ plain.truth.V.T
    standard_error = product.std() / np.sqrt(60)  # movies are few
    assert abs(product[plain.train.user, plain.train.item].mean()) < 4 * standard_error
    assert len(plain.train.user) == pytest.approx(16_000, rel=0.03)


def test_chunks_hold_whole_users_and_the_size(monkeypatch):
    monkeypatch.setattr(planted, "CHUNK", 1 << 13)
    truth = planted.draw_truth(jax.random.key(3), SMALL)
    drawn = list(planted.chunks(jax.random.key(4), truth))
    assert len(drawn) > 4
    for (one, _), (two, _) in itertools.pairwise(drawn):
        assert one.user.max() < two.user.min()
    ratings = join(*(part for part, _ in drawn))
    assert len(ratings.user) == pytest.approx(20_000, rel=0.03)
    assert len(np.unique(ratings.user.astype(np.int64) * 200 + ratings.item)) == len(ratings.user)
    lots = np.concatenate([lot for _, lot in drawn])
    assert stats.kstest(lots, "uniform").pvalue > 1e-3


def test_pieces_are_joined_as_they_come_without_a_change(monkeypatch):
    monkeypatch.setattr(planted, "CHUNK", 1 << 13)
    many = planted.planted(jax.random.key(0), SMALL)
    monkeypatch.setattr(planted, "PIECES", 2)
    joined = planted.planted(jax.random.key(0), SMALL)
    assert joined.sha256 == many.sha256
    np.testing.assert_array_equal(joined.test.stars, many.test.stars)


def test_reference_equals_a_loop_of_ridge_regressions(data):
    truth, train, test, scale = data.truth, data.train, data.test, data.catalogue.scale
    found = planted.reference(truth, train, test, scale)
    noise = SMALL.noise**2 + 1 / 12
    squared = {"users": 0.0, "items": 0.0}
    for name, mine, other, features, offset, spread in (
        ("users", "user", "item", truth.V, truth.c, SMALL.user_spread),
        ("items", "item", "user", truth.U, truth.b, SMALL.item_spread),
    ):
        for row in range(max(getattr(test, mine)) + 1):
            rows = getattr(train, mine) == row
            columns = getattr(train, other)[rows]
            X = np.concatenate([np.ones((len(columns), 1)), features[columns]], axis=1)
            # ridge regression as least squares with the prior's rows below
            prior = np.diag([np.sqrt(noise) / spread, *[np.sqrt(noise / truth.feature_variance)] * 3])
            y = train.stars[rows] - truth.mean - offset[columns]
            w = np.linalg.lstsq(np.concatenate([X, prior]), np.concatenate([y, np.zeros(4)]), rcond=None)[0]
            asked = getattr(test, mine) == row
            columns = getattr(test, other)[asked]
            predicted = truth.mean + offset[columns] + w[0] + features[columns] @ w[1:]
            squared[name] += ((np.clip(predicted, 1, 5) - test.stars[asked]) ** 2).sum()
    for name, result in (("users", found.users), ("items", found.items)):
        assert result.rmse == pytest.approx(np.sqrt(squared[name] / len(test.user)), rel=1e-5)
    assert found.truth.rmse < found.items.rmse < found.users.rmse == found.rmse
    blocks = planted._ridge(planted.by_user(train, 600), truth.V, truth.c, 1.0, 1.0, block=100)
    whole = planted._ridge(planted.by_user(train, 600), truth.V, truth.c, 1.0, 1.0)
    for one, other in zip(blocks, whole, strict=True):
        np.testing.assert_allclose(one, other)


def test_reference_approaches_the_truth_with_more_ratings():
    """Known halves leave less and less to learn: with 7.5 times the ratings, the excess is less than 0.3 of it."""
    excess = []
    for users, ratings in ((400, 8_000), (400, 60_000)):
        config = Planted(users, 800, ratings, 3, taste=0.0, rounded=False, user_tail=0.1, item_tail=0.1)
        data = planted.planted(jax.random.key(5), config)
        found = planted.reference(data.truth, data.train, data.test, data.catalogue.scale)
        excess.append(found.users.squared / found.users.count - found.truth.squared / found.truth.count)
    assert 0 < excess[1] < 0.3 * excess[0]


def test_the_reference_is_within_reach():
    """The posterior mode of the default data, by alternating ridge regressions, is above it by less than 3 %."""
    data = planted.planted(jax.random.key(0))
    truth, config = data.truth, data.truth.planted
    noise, features = truth.noise_variance, truth.noise_variance / truth.feature_variance
    users = planted.by_user(data.train, config.num_users)
    items = planted.by_item(data.train, config.num_items)
    c, V = truth.c, truth.V
    for _ in range(8):
        b, U = planted._ridge(users, V, truth.mean + c, noise / config.user_spread**2, features)
        c, V = planted._ridge(items, U, truth.mean + b, noise / config.item_spread**2, features)
    test, scale = data.test, data.catalogue.scale
    fitted = evaluate(truth._replace(U=U, V=V, b=b, c=c).predict(test.user, test.item), test.stars, scale)
    ratio = fitted.rmse / planted.reference(truth, data.train, test, scale).rmse
    assert 1.005 < ratio < 1.03


def test_the_thesis_scheme(all_of):
    drawn = planted.planted(jax.random.key(0), SMALL, scheme="thesis")
    total = np.bincount(join(drawn.train, drawn.valid, drawn.test).user, minlength=600)
    held = np.bincount(join(drawn.valid, drawn.test).user, minlength=600)
    np.testing.assert_array_equal(held, np.minimum(total // 2, 9))
    np.testing.assert_array_equal(total, np.bincount(all_of.user, minlength=600))


def test_untimed():
    config = Planted(**{**vars(SMALL), "timed": False})
    ratings, _ = next(iter(planted.chunks(jax.random.key(4), planted.draw_truth(jax.random.key(3), config))))
    assert isinstance(ratings, Ratings)
    assert ratings.time is None
