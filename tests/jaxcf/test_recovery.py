"""Every model of ratings of the registry, trained as users do, comes close to the best of its kind on planted ratings.

What a model is held to follows from its record: with item vectors, to the planted model; without, to the best sum of
biases, of those that its Config has. No test names a model.
"""

from dataclasses import fields, replace

import jax
import numpy as np
import pytest
from scipy import sparse

from jaxcf import training
from jaxcf.contract import PredictsRatings, SimilarItems
from jaxcf.data.ratings import join
from jaxcf.data.synthetic import Planted, planted, true_model
from jaxcf.models import get, names
from jaxfit.recipe import Recipe

# many ratings of each user, of little noise, for the best prediction to be within reach
CONFIG = Planted(
    num_users=400, num_items=100, num_ratings=16_000, num_features=2, feature_spread=0.8, noise=0.5,
    user_tail=0.3, item_tail=0.3,
)  # fmt: skip
SIZES = {"num_features": 4, "num_hidden": 16, "init_scale": 0.1}  # two features more, for biases
EPOCHS, BATCH = 2, 100  # times the recipe's, and at most: for fewer ratings than it was chosen on
# the least part of the way from the best constant to the reference
OF_BIASES = 0.75
OF_FEATURES = 0.75
OF_LEVELS = 0.55  # of models of a few fixed ratings, among which the planted one is not; biases come to 0.35


@pytest.fixture(scope="module")
def data():
    return planted(jax.random.key(0), CONFIG)


@pytest.fixture(scope="module")
def truth():
    return true_model(jax.random.key(0), CONFIG)


def of_biases(data, truth, users, items):
    """Fit the sum of biases that comes closest to the expected ratings of all pairs that are rated."""
    pairs = join(data.train, data.valid, data.test)
    rows = np.arange(len(pairs.user))
    sides = [
        (np.zeros_like(pairs.user), 1),
        (pairs.user, users * CONFIG.num_users),
        (pairs.item, items * CONFIG.num_items),
    ]
    design = sparse.hstack(
        [sparse.coo_array((np.ones(len(rows)), (rows, index)), (len(rows), size)) for index, size in sides if size]
    ).tocsr()
    weights = sparse.linalg.lsqr(design, truth.predict(pairs.user, pairs.item), atol=1e-8, btol=1e-8)[0]
    return (design @ weights)[-len(data.test.user) :]


def rmse(predicted, data):
    """Compute the RMSE of clipped predictions on the test, in stars."""
    error = data.catalogue.scale.clip(np.asarray(predicted, np.float64)) - data.test.stars
    return float(np.sqrt(np.mean(error**2)))


def reference(record, config, data, truth):
    """Return what a model is held to, and the part of the way that it must come."""
    if record.capability(SimilarItems) is None:
        parts = (getattr(config, name, True) for name in ("users", "items"))
        return of_biases(data, truth, *parts), OF_BIASES
    return truth.predict(data.test.user, data.test.item), OF_LEVELS if record.needs_levels else OF_FEATURES


def fitted(name, data, directory):
    recipe, config = get(name).recipes["tuned"]
    known = {field.name for field in fields(get(name).config)}
    config = {**config, **{field: size for field, size in SIZES.items() if field in known}}
    if isinstance(recipe, Recipe):
        recipe = replace(recipe, epochs=EPOCHS * recipe.epochs, batch_size=min(recipe.batch_size, BATCH))
    return training.train(name, data, directory, recipe=recipe, config=config).model


def way(predicted, best, data):
    """Compute the part of the way from the best constant to a reference that predictions come."""
    constant = float(np.std(data.test.stars))
    return (constant - rmse(predicted, data)) / (constant - rmse(best, data))


@pytest.mark.extended
@pytest.mark.parametrize("name", [name for name in names() if get(name).capability(PredictsRatings)])
def test_a_trained_model_comes_close_to_the_best_of_its_kind(name, data, truth, tmp_path):
    model = fitted(name, data, tmp_path / "model")
    best, least = reference(model.record, model.config, data, truth)
    found = way(model.predictor(data.test.user, data.test.item), best, data)
    assert least < found < 1.1  # noise of the test: 0.05 where a reference is near the constant


def test_what_is_asked_tells_kinds_of_models_apart(data, truth):
    """Constants come nowhere, and the best of what knows less falls short of what is asked of what knows more."""
    whole = truth.predict(data.test.user, data.test.item)
    both, users, items = (of_biases(data, truth, *parts) for parts in ((True, True), (True, False), (False, True)))
    for constant in (data.train.stars.mean(), data.test.stars.mean(), 3.0):
        for best in (whole, both, users, items):
            assert way(np.full(len(data.test.user), constant), best, data) <= 0
    assert way(both, whole, data) < 0.75 * OF_LEVELS
    for one in (users, items):
        assert way(one, both, data) < 0.75 * OF_BIASES
    assert way(whole + 0.5, whole, data) < OF_FEATURES
