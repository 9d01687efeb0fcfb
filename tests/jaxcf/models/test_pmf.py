"""PMF against NumPy loops over triples, one-by-one training, and data with a known answer."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from jaxcf.data import triples
from jaxcf.data.ratings import Ratings
from jaxcf.models import pairwise, pmf
from jaxfit import fit, state
from jaxfit.loop import make_run
from jaxfit.minibatches.division import Order
from jaxfit.optimizer import transform
from jaxfit.recipe import Recipe

USERS, ITEMS, D = 7, 5, 3
RATES = {"U": 0.05, "V": 0.04, "b": 0.03, "c": 0.02}
DECAYS = {"U": 0.3, "V": 0.2, "b": 0.1, "c": 0.4}


def ratings(number=40, users=USERS, items=ITEMS, seed=0):
    """Draw random triples; users and items come again and again."""
    rng = np.random.default_rng(seed)
    stars = rng.integers(1, 6, number).astype(np.float32)
    user, item = rng.integers(0, users, number), rng.integers(0, items, number)
    return Ratings(user.astype(np.int32), item.astype(np.int32), stars)


def make(**changes):
    config = pmf.Config(num_users=USERS, num_items=ITEMS, num_features=D, mean=3.5, **changes)
    rng = np.random.default_rng(2)
    b, c = (0.1 * rng.normal(size=n).astype(np.float32) for n in (USERS, ITEMS))
    return config, jax.jit(pmf.init, static_argnums=1)(jax.random.key(1), config)._replace(b=b, c=c)


def loop(params, data, config, decays):
    """Compute the gradient of the sum over triples, and of a penalty for each use, in float64, by a loop."""
    grads = {name: np.zeros(table.shape) for name, table in params._asdict().items()}
    U, V, b, c = (np.asarray(table, np.float64) for table in params)
    total = 0.0
    for i, j, r in zip(data.user, data.item, data.stars, strict=True):
        error = r - config.mean - U[i] @ V[j]
        if config.biases:
            error -= b[i] + c[j]
            grads["b"][i] += -error + decays["b"] * b[i]
            grads["c"][j] += -error + decays["c"] * c[j]
        grads["U"][i] += -error * V[j] + decays["U"] * U[i]
        grads["V"][j] += -error * U[i] + decays["V"] * V[j]
        total += 0.5 * error**2
    return total, grads


def one_step(config, params, data, recipe):
    """Return the parameters after one step over all the data as one minibatch."""
    program, device = pmf.program(config), pmf.make_data(data, config)
    by_rows = state.by_rows(params, program, device)
    began = state.start(params, program, transform(recipe.optimizer), by_rows)
    run = make_run(program, transform(recipe.optimizer), recipe.batch_size, 0, mean=False)
    rates = state.Rates(
        rate=pmf.Params(*(np.float32(recipe.rate[name]) for name in pmf.Params._fields)),
        decay=pmf.Params(*(np.float32(recipe.decay[name]) for name in pmf.Params._fields)),
        anneal=np.bool_(False),
        total=np.float32(1),
    )
    order = Order(np.arange(recipe.batch_size, dtype=np.int32) % len(data.user), np.int32(0))
    size, bounds = np.int32(len(data.user)), (np.int32(0), np.int32(1))
    ended = run(began, device, order, rates, jax.random.key(0), size, *bounds)
    return state.current(ended), float(ended.metrics["RMSE"].total) / 2


def sgd(**changes):
    return Recipe(**{"optimizer": "sgd", "batch_size": 40, "epochs": 1, "rate": RATES, "decay": DECAYS,
                     "reduction": "sum", **changes})  # fmt: skip


@pytest.mark.parametrize("biases", [True, False])
def test_step_equals_loop_over_triples(biases):
    config, params = make(biases=biases)
    data = ratings()
    after, total = one_step(config, params, data, sgd(batch_size=48))  # 8 places are padding
    expected_total, grads = loop(params, data, config, DECAYS)
    np.testing.assert_allclose(total, expected_total, rtol=1e-5)
    for name in pmf.Params._fields:
        expected = np.asarray(getattr(params, name)) - RATES[name] * grads[name]
        np.testing.assert_allclose(getattr(after, name), expected, rtol=1e-4, atol=1e-6, err_msg=name)


def test_per_row_decay_adds_the_prior_once_a_pass():
    config, params = make(prior="per-row")
    data = ratings()
    after, _ = one_step(config, params, data, sgd())
    _, grads = loop(params, data, config, dict.fromkeys(DECAYS, 0.0))
    for name in pmf.Params._fields:
        before = np.asarray(getattr(params, name))
        expected = before * (1 - RATES[name] * DECAYS[name]) - RATES[name] * grads[name]
        np.testing.assert_allclose(getattr(after, name), expected, rtol=1e-4, atol=1e-6, err_msg=name)


def test_gradients_of_a_repeated_user_add_up():
    config, params = make()
    data = ratings(3)
    same = data._replace(user=np.full(3, 3, np.int32))
    after, _ = one_step(config, params, same, sgd(batch_size=3))
    moved = np.zeros((USERS, D))
    for k in range(3):
        one = Ratings(same.user[k : k + 1], same.item[k : k + 1], same.stars[k : k + 1])
        moved += np.asarray(one_step(config, params, one, sgd(batch_size=1))[0].U) - np.asarray(params.U)
    np.testing.assert_allclose(after.U, params.U + moved, rtol=1e-4, atol=1e-6)
    assert np.count_nonzero(np.any(moved != 0, axis=1)) == 1


def test_batch_loss_is_the_sum_of_the_specification():
    config, params = make()
    data = ratings()
    program, weight = pmf.program(config), np.linspace(0.0, 2.0, 40, dtype=np.float32)
    index = np.arange(40, dtype=np.int32)
    batch = jax.jit(program.batch, static_argnums=(2, 3))(pmf.make_data(data, config), index, 0, config)
    np.testing.assert_allclose(batch.stars, data.stars - 3.5)
    each = jax.jit(jax.vmap(functools.partial(pmf.loss, config=config), (None, 0)))(params, batch)
    read = jax.jit(program.gathered)(params, batch)
    total, metrics = jax.jit(pmf.batch_loss, static_argnums=4)(read, batch, weight, None, config)
    np.testing.assert_allclose(total, weight @ each, rtol=1e-5)
    np.testing.assert_allclose(metrics["RMSE"], (2 * total, weight.sum()), rtol=1e-5)


def test_minibatches_of_the_thesis_recipe_match_updates_one_by_one():
    data = ratings(4000, users=400, items=200, seed=3)
    config = pmf.Config(num_users=400, num_items=200, mean=3.0)
    recipe, _ = pmf.RECIPES["thesis"]
    assert recipe.batch_size > 1
    ends = []
    for size in (recipe.batch_size, 1):
        one_pass = Recipe(**{**vars(recipe), "epochs": 3, "batch_size": size})
        start, device = pmf.init(jax.random.key(0), config), pmf.make_data(data, config)
        same_order = dataclasses.replace(pmf.program(config), group_size=1)
        fitted = fit.fit(same_order, start, device, device, recipe=one_pass, key=jax.random.key(1))
        ends.append(np.asarray(pmf.predict(fitted.params, data.user, data.item, config)))
    before = np.asarray(pmf.predict(start, data.user, data.item, config))
    moved, apart = np.sqrt(np.mean((ends[1] - before) ** 2)), np.sqrt(np.mean((ends[0] - ends[1]) ** 2))
    assert apart < 0.003 * moved


def test_ratings_of_many_users_are_in_the_sections_that_the_program_names():
    config, data = pmf.Config(20_000, 5), ratings(3000, 20_000)
    assert pmf.program(config).sections == 3
    section = np.asarray(pmf.make_data(data, config))[:, 0] // triples.RUN % 3
    assert np.all(np.diff(section) >= 0)
    assert len(np.unique(section)) == 3


def test_data_of_other_means_share_what_is_compiled():
    config, params = make()
    other = dataclasses.replace(config, mean=2.0)
    assert pmf.program(config) == pmf.program(other)
    before = pairwise._predict._cache_size()
    ends = [pmf.predictor(params, each, None)(*ratings()[:2]) for each in (config, other)]
    np.testing.assert_allclose(ends[0] - ends[1], 1.5, rtol=1e-6)
    assert pairwise._predict._cache_size() <= before + 1


def test_unknown_ids_are_predicted_from_the_rest():
    config, params = make()
    user, item = np.array([2, -1, 2, -1], np.int32), np.array([4, 4, -1, -1], np.int32)
    U, V, b, c = jax.device_get(params)
    expected = [3.5 + U[2] @ V[4] + b[2] + c[4], 3.5 + c[4], 3.5 + b[2], 3.5]
    np.testing.assert_allclose(jax.jit(pmf.predict, static_argnums=3)(params, user, item, config), expected, rtol=1e-6)


def test_svd_equals_pmf_without_regularisation():
    assert all(set(recipe.decay.values()) == {0.0} for recipe, _ in pmf.SVD_RECIPES.values())
    assert pmf.SVD_RECIPES["thesis"][0].rate == pmf.RECIPES["thesis"][0].rate
