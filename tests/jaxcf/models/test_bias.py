"""Bias models against dense ridge regressions."""

import numpy as np
import pytest

from jaxcf.data.ratings import Ratings
from jaxcf.models import bias
from jaxfit.errors import UserError

USERS, ITEMS, N = 30, 20, 200


def ratings():
    """Draw random triples; the last user and the last item have none."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, USERS - 1, N), rng.integers(0, ITEMS - 1, N)
    stars = rng.integers(1, 6, N).astype(np.float32)
    return Ratings(user.astype(np.int32), item.astype(np.int32), stars)


def ridge(data, config):
    """Solve the same by least squares over [ratings; one row for each prior], of users and items if they are there."""
    of_users, of_items = np.eye(USERS)[data.user], np.eye(ITEMS)[data.item]
    X = np.hstack([of_users * config.users, of_items * config.items])
    count = np.hstack([of_users, of_items]).sum(axis=0)
    strength = np.repeat([config.decay_users, config.decay_items], [USERS, ITEMS])
    strength = strength * count if config.prior == "per-rating" else strength
    X = np.vstack([X, np.diag(np.sqrt(strength))])
    y = np.concatenate([data.stars - config.mean, np.zeros(USERS + ITEMS)])
    return np.split(np.linalg.lstsq(X, y, rcond=None)[0], [USERS])


@pytest.mark.parametrize("prior", ["per-rating", "per-row"])
@pytest.mark.parametrize("record", [bias.USER_BIAS, bias.ITEM_BIAS, bias.BIAS], ids=lambda record: record.name)
def test_solution_equals_a_ridge_regression(record, prior):
    config = bias.Config(
        USERS, ITEMS, mean=3.2, prior=prior, **{"decay_users": 0.7, "decay_items": 2.0, **record.fixed}
    )
    data = ratings()
    b, c = ridge(data, config)
    found = bias.solve(data, config)
    np.testing.assert_allclose(found.b, b, atol=1e-5)
    np.testing.assert_allclose(found.c, c, atol=1e-5)
    expected = 3.2 + b[data.user] + c[data.item]
    np.testing.assert_allclose(bias.predict(found, data.user, data.item, config), expected, atol=1e-5)


def test_without_decay_predictions_equal_least_squares():
    config = bias.Config(USERS, ITEMS, mean=3.2)
    data = ratings()
    b, c = ridge(data, config)
    found = bias.solve(data, config)
    expected = 3.2 + b[data.user] + c[data.item]
    np.testing.assert_allclose(bias.predict(found, data.user, data.item, config), expected, atol=1e-4)


def test_unknown_users_and_items_have_no_bias():
    config = bias.Config(USERS, ITEMS, mean=3.2, decay_users=1.0, decay_items=1.0)
    found = bias.solve(ratings(), config)
    predicted = bias.predict(found, np.array([-1, 3, -1, USERS - 1]), np.array([4, -1, -1, ITEMS - 1]), config)
    np.testing.assert_allclose(predicted, [3.2 + found.c[4], 3.2 + found.b[3], 3.2, 3.2], rtol=1e-6)


def test_negative_decay_is_refused():
    with pytest.raises(UserError, match="negative"):
        bias.solve(ratings(), bias.Config(USERS, ITEMS, decay_users=-1.0))
