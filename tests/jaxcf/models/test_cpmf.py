"""Conditional PMF against NumPy loops, against PMF, and a visit against updates of every row block after block."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcf.data import user_batches
from jaxcf.data.ratings import Pairs, Ratings
from jaxcf.models import pmf
from jaxcf.models.cpmf import model as cpmf
from jaxcf.models.cpmf.visit import visit as visit_user
from jaxfit import fit
from jaxfit import tables as rows
from jaxfit.checks import check_size
from jaxfit.draws import permutation
from jaxfit.errors import UserError
from jaxfit.optimizer import transform
from jaxfit.recipe import Recipe

USERS, ITEMS, D, MEAN = 6, 9, 3, 3.5
SGD = Recipe(optimizer="sgd", batch_size=2, epochs=1, rate={"*": 0.05}, decay={"*": 0.1}, reduction="sum")
RATES = cpmf.Params(Y=0.05, V=0.04, W=0.7, b=0.03, c=0.02)
DECAYS = cpmf.Params(Y=0.3, V=0.2, W=0.15, b=0.1, c=0.4)


def ratings():
    """Draw ratings of some items by each user, once each; the last user rates none; nobody rates the first item."""
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((USERS - 1, ITEMS - 1)) < 0.6)
    stars = rng.integers(1, 6, len(user)).astype(np.float32)
    return Ratings(user.astype(np.int32), (item + 1).astype(np.int32), stars)


EXTRA = Pairs(np.array([0, 2, 5, 5, 0], np.int32), np.array([0, 0, 0, 3, 0], np.int32))  # one of them twice


def make(**changes):
    config = cpmf.Config(USERS, ITEMS, num_features=D, mean=MEAN, **changes)
    rng = np.random.default_rng(1)
    return config, jax.tree.map(lambda x: (0.4 * rng.normal(size=x.shape)).astype(np.float32), cpmf.shapes(config))


def sets(*parts):
    """Return the rated set of each user, as Python has it."""
    return [
        sorted({int(j) for p in parts for i, j in zip(p.user, p.item, strict=True) if i == k}) for k in range(USERS)
    ]


def means(W, rated):
    return np.stack([W[list(items)].mean(axis=0) if items else np.zeros(D) for items in rated])


gather = jax.jit(user_batches.gather, static_argnums=(2, 3))


def everybody(config, data):
    """Gather all users as one minibatch, with some padding."""
    return gather(data, np.arange(USERS, dtype=np.int32), (48, 56), config)


@functools.partial(jax.jit, static_argnums=2)
def view(params, batch, config):
    return cpmf.program(config).gathered(params, batch)


@jax.jit
def stored(params):
    """Return the parameters as the engine stores them for visits."""
    return cpmf.Params(*(rows.create(table, transform("sgd"), by_rows=True) for table in params))


def test_data_of_nearly_equal_size_share_the_compiled_draw_of_their_order():
    config, item = cpmf.Config(1, 200, num_features=D, mean=MEAN), np.arange(200, dtype=np.int32)
    made, before = [], permutation._cache_size()
    for number in (130, 137, 139, 0):
        some = Ratings(np.zeros(number, np.int32), item[:number], np.ones(number, np.float32))
        made.append(cpmf.make_data(some, cpmf.make_rated(some, config=config), config).known)
    assert permutation._cache_size() <= before + 2  # of these, and of none
    np.testing.assert_array_equal(made[1].item[:137], permutation(jax.random.key(0), 137, 137))


def test_rated_sets_are_unions():
    config, params = make()
    data = ratings()
    rated = cpmf.make_rated(data, EXTRA, config=config)
    expected = sets(data, EXTRA)
    found = [
        sorted(np.asarray(rated.item[a:b]).tolist()) for a, b in zip(rated.offsets, rated.offsets[1:], strict=False)
    ]
    assert found == expected
    np.testing.assert_allclose(cpmf.conditions(params.W, rated), means(np.asarray(params.W), expected), atol=1e-6)


@pytest.mark.parametrize("biases", [True, False])
def test_gradient_equals_loop_over_ratings(biases):
    config, params = make(biases=biases)
    data = ratings()
    rated = cpmf.make_rated(data, EXTRA, config=config)
    batch = everybody(config, cpmf.make_data(data, rated, config))
    weight = jnp.linspace(0.5, 1.5, USERS)
    read = view(params, batch, config)

    @jax.jit
    @functools.partial(jax.grad, has_aux=True)
    def gradient(read):
        loss, _ = cpmf.batch_loss(read, batch, weight, None, config)
        penalties = cpmf.penalty(read, batch, weight, config)
        return loss + sum(d * p for d, p in zip(DECAYS, penalties, strict=True)), loss

    grads, loss = gradient(read)
    grads = grads.rows
    found = {}
    touched = jax.jit(cpmf.touched, static_argnums=1)(batch, config)
    for name, ids, table in zip(params._fields, touched, params, strict=True):
        found[name] = np.zeros(table.shape)
        real = np.asarray(ids) < table.shape[0]
        np.add.at(found[name], np.asarray(ids)[real], np.asarray(getattr(grads, name))[real])

    Y, V, W, b, c = (np.asarray(table, np.float64) for table in params)
    expected = {name: np.zeros(table.shape) for name, table in params._asdict().items()}
    who, total = sets(data, EXTRA), 0.0
    for i, j, r in zip(*data[:3], strict=True):
        w = float(weight[i])
        u = Y[i] + W[who[i]].mean(axis=0)
        error = r - MEAN - u @ V[j] - (b[i] + c[j] if biases else 0)
        total += w * 0.5 * error**2
        expected["Y"][i] += w * (-error * V[j] + DECAYS.Y * Y[i])
        expected["V"][j] += w * (-error * u + DECAYS.V * V[j])
        expected["W"][who[i]] -= w * error * V[j] / len(who[i])
        if biases:
            expected["b"][i] += w * (-error + DECAYS.b * b[i])
            expected["c"][j] += w * (-error + DECAYS.c * c[j])
    for i in set(data.user):
        expected["W"][who[i]] += float(weight[i]) * DECAYS.W * W[who[i]]
    np.testing.assert_allclose(loss, total, rtol=1e-5)
    for name, sums in expected.items():
        np.testing.assert_allclose(found[name], sums, rtol=1e-4, atol=1e-5, err_msg=name)


def test_batch_loss_is_the_sum_of_the_specification():
    unit = 2.5
    config, params = make(unit=unit)
    data = ratings()
    batch = everybody(config, cpmf.make_data(data, cpmf.make_rated(EXTRA, config=config), config))
    weight, who, total, count = np.array([0.0, 0.0, 2.0, 0.0, 0.5, 0.0], np.float32), sets(EXTRA), 0.0, 0.0
    one = jax.jit(cpmf.loss, static_argnums=3)
    for i in (2, 4):  # one of which has a rated set
        mine = data.user == i
        own = pmf.Batch(np.int32(i), data.item[mine], (data.stars[mine] - np.float32(MEAN)) / np.float32(unit))
        total += weight[i] * float(one(params, own, np.array(who[i], np.int32), config))
        count += weight[i] * mine.sum()
    found, metrics = jax.jit(cpmf.batch_loss, static_argnums=4)(
        view(params, batch, config), batch, weight, None, config
    )
    np.testing.assert_allclose(found, total, rtol=1e-5)
    np.testing.assert_allclose(metrics["RMSE"], (2 * unit**2 * total, count), rtol=1e-5)  # in stars


def test_without_rated_items_it_equals_pmf():
    config, params = make(block=0)
    data = ratings()
    nobody = cpmf.make_rated(config=config)
    plain = cpmf.as_pmf(params, nobody)
    np.testing.assert_array_equal(plain.U, params.Y)
    # and one step of training: all users as one minibatch, all their ratings as another
    ends = []
    for model, start, device in (
        (cpmf, params, cpmf.make_data(data, nobody, config)),
        (pmf, plain, pmf.make_data(data, config)),
    ):
        recipe = replace(SGD, batch_size=model.program(config).size(device))
        ends.append(fit.fit(model.program(config), start, device, device, recipe=recipe, key=jax.random.key(3)).params)
    for a, b in (("Y", "U"), ("V", "V"), ("b", "b"), ("c", "c")):
        np.testing.assert_allclose(getattr(ends[0], a), getattr(ends[1], b), rtol=1e-4, atol=1e-6)


def test_score_is_the_squared_error_given_any_rated_sets():
    config, params = make()
    data, program = ratings(), cpmf.program(config)
    predict = jax.jit(pmf.predict, static_argnums=3)
    for parts in ((data,), (data, EXTRA), ()):
        rated = cpmf.make_rated(*parts, config=config)
        scores = fit.scores(program, params, cpmf.make_data(data, rated, config))
        error = np.asarray(predict(cpmf.as_pmf(params, rated), data.user, data.item, config)) - data.stars
        np.testing.assert_allclose(scores, np.bincount(data.user, error**2, minlength=USERS), rtol=1e-4)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_visit_equals_updates_of_all_rows_block_after_block(biases, scale):
    config, params = make(biases=biases, block=2)
    rated = cpmf.make_rated(ratings(), EXTRA, config=config)
    data = cpmf.make_data(ratings(), rated, config)
    weights = stored(jax.tree.map(lambda x: x / scale, params))
    weights = cpmf.Params(*(w._replace(scale=jnp.float32(scale)) for w in weights))
    visit = jax.jit(functools.partial(visit_user, config=config))

    Y, V, W, b, c = (np.array(table, np.float64) for table in params)
    who, offsets, losses, expected_losses = sets(ratings(), EXTRA), np.asarray(data.known.offsets), [], []
    for i in (2, 0, 5, 2):
        loss, metrics, weights = visit(weights, data, jnp.int32(i), RATES, DECAYS)
        np.testing.assert_allclose(metrics["RMSE"], (2 * loss, offsets[i + 1] - offsets[i]))
        losses.append(float(loss))
        expected_losses.append(0.0)
        for at in range(offsets[i], offsets[i + 1], 2):
            block = slice(at, min(at + 2, offsets[i + 1]))
            items, stars = np.asarray(data.known.item[block]), np.asarray(data.known.value[block], np.float64)
            u, v, number = Y[i] + W[who[i]].mean(axis=0), V[items].copy(), len(items)
            error = stars - v @ u - (b[i] + c[items] if biases else 0)
            pull = error @ v
            Y[i] += RATES.Y * (pull - DECAYS.Y * number * Y[i])
            V[items] += RATES.V * (np.outer(error, u) - DECAYS.V * v)
            W[who[i]] += RATES.W * (pull / len(who[i]) - DECAYS.W * W[who[i]])
            if biases:
                b[i] += RATES.b * (error.sum() - DECAYS.b * number * b[i])
                c[items] += RATES.c * (error - DECAYS.c * c[items])
            expected_losses[-1] += 0.5 * np.sum(error**2)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    for name, expected in zip(cpmf.Params._fields, (Y, V, W, b, c), strict=True):
        np.testing.assert_allclose(rows.whole(getattr(weights, name)), expected, rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_rate_of_W_does_not_matter_to_users_without_rated_items():
    config, params = make(block=1)
    data = cpmf.make_data(ratings(), cpmf.make_rated(config=config), config)
    visit = jax.jit(functools.partial(visit_user, config=config))
    found = []
    for rate in (0.0, 5.0):
        weights = stored(params)
        for i in range(USERS):
            *_, weights = visit(weights, data, jnp.int32(i), RATES._replace(W=rate), DECAYS)
        found.append([rows.whole(w) for w in weights])
    for without, with_rate in zip(*found, strict=True):
        np.testing.assert_array_equal(without, with_rate)


@pytest.mark.parametrize("user", [2, 5])
def test_a_visit_of_one_block_equals_a_gradient_step(user):
    """User 5 has a rated set, but no ratings."""
    config, params = make(block=100)
    data = cpmf.make_data(ratings(), cpmf.make_rated(EXTRA, config=config), config)
    visit = jax.jit(functools.partial(visit_user, config=config))
    *_, weights = visit(stored(params), data, jnp.int32(user), RATES, DECAYS)
    batch = gather(data, np.array([user], np.int32), (32, 32), config)

    def objective(read):
        loss, _ = cpmf.batch_loss(read, batch, jnp.ones(1), None, config)
        penalties = cpmf.penalty(read, batch, jnp.ones(1), config)
        return loss + sum(d * p for d, p in zip(DECAYS, penalties, strict=True))

    grads = jax.jit(jax.grad(objective))(view(params, batch, config)).rows
    touched = jax.jit(cpmf.touched, static_argnums=1)(batch, config)
    for name, ids, before, grad in zip(params._fields, touched, params, grads, strict=True):
        real = np.asarray(ids) < len(before)
        expected = before.copy()
        np.add.at(expected, np.asarray(ids)[real], -getattr(RATES, name) * np.asarray(grad)[real])
        found = rows.whole(getattr(weights, name))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("prior", ["per-rating", "per-row"])
def test_training_visits_users_one_after_another(prior):
    config, params = make(block=2, prior=prior)
    data = cpmf.make_data(ratings(), cpmf.make_rated(ratings(), EXTRA, config=config), config)
    recipe = replace(SGD, batch_size=4, rate=RATES._asdict(), decay=DECAYS._asdict())
    key = jax.random.key(7)
    fitted = fit.fit(cpmf.program(config), params, data, data, recipe=recipe, key=key)
    order = permutation(jax.random.fold_in(jax.random.split(key)[0], 0), USERS, USERS)

    weights = stored(params)
    visit = jax.jit(functools.partial(visit_user, config=config))
    decay = DECAYS if prior == "per-rating" else cpmf.Params(0.0, 0.0, 0.0, 0.0, 0.0)
    total = 0.0
    for at in (0, 4):
        users = order[at : at + 4]
        if prior == "per-row":  # everything shrinks by the minibatch's share of the users
            shrunk = [1 - r * d * len(users) / USERS for r, d in zip(RATES, DECAYS, strict=True)]
            weights = cpmf.Params(*(w._replace(scale=w.scale * s) for w, s in zip(weights, shrunk, strict=True)))
        for user in users:
            loss, _, weights = visit(weights, data, user, RATES, decay)
            total += float(loss)
    np.testing.assert_allclose(fitted.history[0]["train"], 2 * total / len(ratings().user), rtol=1e-5)
    for name in cpmf.Params._fields:
        found, expected = getattr(fitted.params, name), rows.whole(getattr(weights, name))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_the_decay_of_a_visited_minibatch_is_bounded():
    config, params = make(block=2, prior="per-row")
    strong = replace(SGD, batch_size=4, rate={"*": 0.1}, decay={"*": 12.0})  # .8 a step
    with pytest.raises(UserError, match="rate times the decay is too large"):
        check_size(cpmf.program(config), strong, params, USERS)


def test_visits_refuse_other_optimizers_than_sgd():
    config, params = make(block=2)
    data = cpmf.make_data(ratings(), cpmf.make_rated(config=config), config)
    with pytest.raises(UserError, match="adam"):
        fit.fit(
            cpmf.program(config),
            params,
            data,
            data,
            recipe=replace(SGD, optimizer="adam"),
            key=jax.random.key(0),
        )
