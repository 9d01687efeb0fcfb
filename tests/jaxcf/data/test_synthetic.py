"""Planted ratings: their distribution, long tails, noise, and how close fitted models come."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxcf.data import synthetic
from jaxcf.data.ratings import Ratings, join
from jaxcf.data.synthetic import Planted, planted, true_model
from jaxcf.metrics import evaluate
from jaxcf.models import pmf
from jaxcf.solvers import als

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


def test_settings_of_jax_change_nothing(data, truth, other_settings):
    key = jax.random.key(0)
    with other_settings():
        again, model = planted(key, SMALL), true_model(key, SMALL)
    assert again.sha256 == data.sha256
    np.testing.assert_array_equal(again.test.stars, data.test.stars)
    np.testing.assert_array_equal(model.U, truth.U)


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
    assert np.var(left) == pytest.approx(SMALL.noise**2 + 1 / 12, rel=0.1)
    for table, spread in ((truth.b, 0.35), (truth.c, 0.45)):
        assert table.std() == pytest.approx(spread, rel=0.2)
    product = truth.U @ truth.V.T
    assert product.std() == pytest.approx(0.55, rel=0.25)
    assert truth.U.var() == pytest.approx(0.55 / np.sqrt(3), rel=0.2)


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


def test_posterior_mode_comes_close_to_the_truth():
    """By alternating exact solutions on the default data, given the priors: 5 to 9 % above the error of the truth."""
    data, planned, truth = planted(jax.random.key(0)), Planted(), true_model(jax.random.key(0))
    noise = planned.noise**2 + 1 / 12  # of ratings, and of rounding
    of_features = noise / (planned.feature_spread / np.sqrt(planned.num_features))
    decay = {"*": of_features, "b": noise / planned.user_spread**2, "c": noise / planned.item_spread**2}
    config = pmf.Config(planned.num_users, planned.num_items, planned.num_features, mean=truth.mean, prior="per-row")
    sides, params = als.make_data(data.train, config), pmf.Params(*map(jnp.asarray, truth[:4]))
    for _ in range(8):
        params = als.sweep(params, sides, config, decay)
    test, scale = data.test, data.catalogue.scale
    errors = [
        evaluate(np.asarray(predicted), test.stars, scale).rmse
        for predicted in (truth.predict(test.user, test.item), pmf.predict(params, test.user, test.item, config))
    ]
    assert 1.05 < errors[1] / errors[0] < 1.09


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
