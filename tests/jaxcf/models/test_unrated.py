"""Users and items without training ratings begin at the prior's mean, zeros, as training would never move them."""

import jax
import numpy as np
import pytest

from jaxcf.contract import NO_PAIRS
from jaxcf.data.ratings import Units
from jaxcf.data.synthetic import Planted, planted
from jaxcf.models import get


def without_some():
    """Return data without training ratings by user 5, or of item 7."""
    data = planted(jax.random.key(0), Planted(num_users=40, num_items=30, num_ratings=300))
    kept = (data.train.user != 5) & (data.train.item != 7)
    data = data._replace(train=type(data.train)(*(column[kept] for column in data.train)))
    return data


@pytest.mark.parametrize(("model", "of_users"), [("pmf", "U"), ("cpmf", "Y")])
def test_rows_that_no_rating_uses_are_zeros_and_all_others_are_drawn(model, of_users):
    data, record = without_some(), get(model)
    config = record.configure(data.catalogue, Units(), {"num_features": 3})
    params = record.solver().prepare(jax.random.key(1), data, NO_PAIRS, config).params
    for name, used, missing in ((of_users, data.train.user, 5), ("V", data.train.item, 7)):
        zero = ~np.asarray(getattr(params, name)).any(axis=1)
        assert zero[missing]
        np.testing.assert_array_equal(zero, ~np.isin(np.arange(len(zero)), used))


@pytest.mark.parametrize("model", ["rbm", "crbm", "masked-rbm"])
def test_weights_of_movies_that_nobody_rated_are_zeros_and_all_others_are_drawn(model):
    data, record = without_some(), get(model)
    config = record.configure(data.catalogue, Units(), {"num_hidden": 3, "init_scale": 0.5})
    W = np.asarray(record.solver().prepare(jax.random.key(1), data, NO_PAIRS, config).params.W)
    drawn = 0.5 * np.asarray(jax.random.normal(jax.random.key(1), W.shape))
    rated = np.isin(np.arange(data.catalogue.num_items), data.train.item)
    assert not rated[7]
    np.testing.assert_array_equal(W, np.where(rated.repeat(config.num_values)[:, None], drawn, 0))
