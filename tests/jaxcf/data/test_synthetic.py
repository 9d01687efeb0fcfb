"""Planted ratings: their distribution, long tails, noise, and the reference for fitted models."""

import itertools

import jax
import numpy as np
import pytest
from scipy import stats

from jaxcf.data import synthetic
from jaxcf.data.ratings import Ratings, join
from jaxcf.data.synthetic import Planted, planted, true_model
from jaxcf.metrics import evaluate

SMALL = Planted(num_users=600, num_items=200, num_ratings=20_000, num_features=3)


@pytest.fixture(scope="module")
def data():
    return planted(jax.random.key(0), SMALL)


@pytest.fixture(scope="module")
def truth():
    return true_model(jax.random.key(0), SMALL)


@pytest.fixture(scope="module")
def all_of(data):
    return join(data.train, data.valid, data.test)


def test_dataset_has_the_requested_form(data, all_of):
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


def test_users_and_movies_are_long_tailed(all_of):
    """The most active tenth of users and the most popular tenth of movies have a quarter of the ratings or more."""
    for index, size in ((all_of.user, 600), (all_of.item, 200)):
        counts = np.sort(np.bincount(index, minlength=size))[::-1]
        assert counts[: size // 10].sum() / counts.sum() > 0.25
        assert np.median(counts) < 0.9 * counts.mean()


def test_equal_keys_give_equal_data(data):
    again = planted(jax.random.key(0), SMALL)
    assert again.sha256 == data.sha256
    np.testing.assert_array_equal(again.test.stars, data.test.stars)
    assert planted(jax.random.key(1), SMALL).sha256 != data.sha256


def test_noise_has_the_configured_spread(all_of, truth):
    """Without rounding, errors of the true model are normal (Kolmogorov-Smirnov test, p > 0.001)."""
    config = Planted(**{**vars(SMALL), "rounded": False})
    exact = planted(jax.random.key(0), config)
    left = exact.train.stars - true_model(jax.random.key(0), config).predict(exact.train.user, exact.train.item)
    assert stats.kstest(left / SMALL.noise, "norm").pvalue > 1e-3
    assert exact.catalogue.scale.step == 0
    # with rounding, away from the ends of the scale, the variance of rounding is added
    expected = truth.predict(all_of.user, all_of.item)
    middle = np.abs(expected - 3) < 0.5
    left = (all_of.stars - expected)[middle]
    assert np.var(left) == pytest.approx(truth.noise_variance, rel=0.1)
    for table, spread in ((truth.b, 0.35), (truth.c, 0.45)):
        assert table.std() == pytest.approx(spread, rel=0.2)
    product = truth.U @ truth.V.T
    assert product.std() == pytest.approx(0.55, rel=0.25)
    assert truth.U.var() == pytest.approx(truth.feature_variance, rel=0.2)


def test_taste_decides_which_movies_a_user_rates(all_of, truth):
    """With taste, rated movies suit a user better than others; without, they do not."""
    product = truth.U @ truth.V.T
    liked = product[all_of.user, all_of.item].mean() / product.std()
    assert liked > 0.25
    plain = planted(jax.random.key(0), Planted(**{**vars(SMALL), "taste": 0.0}))  # U and V are the same
    standard_error = product.std() / np.sqrt(60)  # movies are few
    assert abs(product[plain.train.user, plain.train.item].mean()) < 4 * standard_error
    assert len(plain.train.user) == pytest.approx(16_000, rel=0.03)


def test_chunks_hold_all_ratings_of_a_user(monkeypatch):
    monkeypatch.setattr(synthetic, "CHUNK", 1 << 13)
    truth = true_model(jax.random.key(3), SMALL)
    drawn = list(synthetic.chunks(jax.random.key(4), truth))
    assert len(drawn) > 4
    for (one, _), (two, _) in itertools.pairwise(drawn):
        assert one.user.max() < two.user.min()
    ratings = join(*(part for part, _ in drawn))
    assert len(ratings.user) == pytest.approx(20_000, rel=0.03)
    assert len(np.unique(ratings.user.astype(np.int64) * 200 + ratings.item)) == len(ratings.user)
    uniform = np.concatenate([numbers for _, numbers in drawn])
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3


def test_reference_equals_a_loop_of_ridge_regressions(data, truth):
    train, test, scale = data.train, data.test, data.catalogue.scale
    found = synthetic.reference(truth, train, test, scale)
    noise = SMALL.noise**2 + 1 / 12
    squared = {"users": 0.0, "items": 0.0}
    for name, own, other, features, offset, spread in (
        ("users", "user", "item", truth.V, truth.c, SMALL.user_spread),
        ("items", "item", "user", truth.U, truth.b, SMALL.item_spread),
    ):
        for row in range(max(getattr(test, own)) + 1):
            rows = getattr(train, own) == row
            columns = getattr(train, other)[rows]
            X = np.concatenate([np.ones((len(columns), 1)), features[columns]], axis=1)
            # ridge regression as least squares with rows for the prior appended
            prior = np.diag([np.sqrt(noise) / spread, *[np.sqrt(noise / truth.feature_variance)] * 3])
            y = train.stars[rows] - truth.mean - offset[columns]
            w = np.linalg.lstsq(np.concatenate([X, prior]), np.concatenate([y, np.zeros(4)]), rcond=None)[0]
            queried = getattr(test, own) == row
            columns = getattr(test, other)[queried]
            predicted = truth.mean + offset[columns] + w[0] + features[columns] @ w[1:]
            squared[name] += ((np.clip(predicted, 1, 5) - test.stars[queried]) ** 2).sum()
    for name, result in (("users", found.users), ("items", found.items)):
        assert result == pytest.approx(np.sqrt(squared[name] / len(test.user)), rel=1e-5)
    predicted = truth.predict(test.user, test.item)
    assert found.truth == pytest.approx(evaluate(predicted, test.stars, scale).rmse)
    assert found.truth < found.items < found.users == found.rmse


def test_reference_approaches_the_truth_with_more_ratings():
    """With 7.5 times the ratings, the excess error falls to less than 0.3 of it."""
    excess = []
    for users, ratings in ((400, 8_000), (400, 60_000)):
        config = Planted(users, 800, ratings, 3, taste=0.0, rounded=False, user_tail=0.1, item_tail=0.1)
        data = planted(jax.random.key(5), config)
        found = synthetic.reference(true_model(jax.random.key(5), config), data.train, data.test, data.catalogue.scale)
        excess.append(found.users**2 - found.truth**2)
    assert 0 < excess[1] < 0.3 * excess[0]


def test_posterior_mode_comes_close_to_the_reference():
    """By alternating ridge regressions on the default data; its error is above the reference by less than 3 %."""
    data = planted(jax.random.key(0))
    truth, config = true_model(jax.random.key(0)), Planted()
    noise, features = truth.noise_variance, truth.noise_variance / truth.feature_variance
    users = synthetic.by_user(data.train, config.num_users)
    items = synthetic.by_item(data.train, config.num_items)
    c, V = truth.c, truth.V
    for _ in range(8):
        b, U = synthetic._ridge(users, V, truth.mean + c, noise / config.user_spread**2, features)
        c, V = synthetic._ridge(items, U, truth.mean + b, noise / config.item_spread**2, features)
    test, scale = data.test, data.catalogue.scale
    fitted = evaluate(truth._replace(U=U, V=V, b=b, c=c).predict(test.user, test.item), test.stars, scale)
    ratio = fitted.rmse / synthetic.reference(truth, data.train, test, scale).rmse
    assert 1.005 < ratio < 1.03


def test_thesis_scheme_holds_out_the_latest_ratings(all_of):
    drawn = planted(jax.random.key(0), SMALL, scheme="thesis")
    total = np.bincount(join(drawn.train, drawn.valid, drawn.test).user, minlength=600)
    held = np.bincount(join(drawn.valid, drawn.test).user, minlength=600)
    np.testing.assert_array_equal(held, np.minimum(total // 2, 9))
    np.testing.assert_array_equal(total, np.bincount(all_of.user, minlength=600))


def test_times_may_be_left_out():
    config = Planted(**{**vars(SMALL), "timed": False})
    ratings, _ = next(iter(synthetic.chunks(jax.random.key(4), true_model(jax.random.key(3), config))))
    assert isinstance(ratings, Ratings)
    assert ratings.time is None
