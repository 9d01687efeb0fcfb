"""Plain batches under other people's transformations: jit, vmap and grad, with padding that changes nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcf.batches import padded_sets, padded_users, triples
from jaxcf.data.ratings import EMPTY, Pairs, Ratings, RatingScale, Units
from jaxcf.models import crbm, pmf
from jaxcf.models.cpmf import model as cpmf
from jaxcf.models.rbm import model as rbm

USERS, ITEMS, SCALE = 5, 7, RatingScale(1, 5, 1)


def ratings():
    """Return unlike numbers of ratings, in mixed order; the last user has none."""
    user = np.array([2, 0, 1, 0, 2, 2, 3, 0, 2], np.int32)
    item = np.array([1, 0, 6, 3, 2, 6, 5, 4, 0], np.int32)
    return Ratings(user, item, np.array([1, 5, 3, 4, 2, 5, 1, 3, 4], np.float32))


def config(**changes):
    return rbm.Config(ITEMS, num_hidden=3, center=0.5, **changes)


def normal(shapes):
    """Draw random parameters."""
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda s: rng.normal(size=s.shape).astype(np.float32), shapes)


def test_triples_train_pmf_under_jit_vmap_and_grad():
    settings = pmf.Config(USERS, ITEMS, num_features=2, mean=3.0)
    start, batch = pmf.init(jax.random.key(0), settings), triples(ratings(), settings.units)

    @jax.jit
    def mean_loss(params):
        return jnp.mean(jax.vmap(pmf.loss, (None, 0, None))(params, batch, settings))

    step = jax.jit(lambda params: jax.tree.map(lambda p, g: p - 0.5 * g, params, jax.grad(mean_loss)(params)))
    found = start
    for _ in range(200):
        found = step(found)
    assert mean_loss(found) < 0.1 * mean_loss(start)
    error = ratings().stars - pmf.predict(start, ratings().user, ratings().item, settings)
    np.testing.assert_allclose(mean_loss(start), 0.5 * np.mean(np.square(error)), rtol=1e-6)


@pytest.mark.parametrize("width", [None, 6])
@pytest.mark.parametrize("kind", [rbm, crbm])
def test_padded_users_give_the_losses_and_gradients_of_each_user_alone(kind, width):
    batch = padded_users(ratings(), USERS, ITEMS, SCALE, width)
    rated = padded_sets(ratings(), Pairs(*np.array([[4, 0], [2, 6]], np.int32)), num_users=USERS, num_items=ITEMS)
    keys = jax.random.split(jax.random.key(1), USERS)
    whole = normal(kind.shapes(config()))

    @jax.jit
    @jax.value_and_grad
    def one(params, item, value, rated, key):
        example = item, value
        if kind is crbm:
            return crbm.loss(params, example, rated, key, config(), cd_steps=2)
        return rbm.loss(params, example, key, config(), cd_steps=2)

    each = jax.jit(jax.vmap(one, (None, 0, 0, 0, 0)))
    losses, grads = each(whole, batch.item, batch.value, rated, keys)
    assert np.any(~batch.mask)
    for user in range(USERS):
        real, mine = batch.mask[user], rated[user][rated[user] < ITEMS]
        loss, grad = one(whole, batch.item[user][real], batch.value[user][real], mine, keys[user])
        np.testing.assert_allclose(losses[user], loss, atol=1e-5)
        for a, b in zip(grads, grad, strict=True):
            np.testing.assert_allclose(a[user], b, atol=1e-5)
    assert np.abs(np.asarray(grads.W)).max() > 0.1


@pytest.mark.parametrize("width", [None, 6])
def test_padding_does_not_count_in_the_loss_of_cpmf(width):
    settings = cpmf.Config(USERS, ITEMS, num_features=2, mean=3.0)
    start = normal(cpmf.shapes(settings))
    batch = padded_users(ratings(), USERS, ITEMS, SCALE, width)
    extra = Pairs(*np.array([[3, 0], [2, 6]], np.int32))  # the last user has an empty set
    rated = padded_sets(ratings(), extra, num_users=USERS, num_items=ITEMS, width=width)
    examples = pmf.Batch(np.arange(USERS), batch.item, 1.0 + batch.value - settings.mean)
    one = jax.jit(jax.value_and_grad(cpmf.loss), static_argnums=3)
    found = jax.jit(jax.vmap(one, (None, 0, 0, None)), static_argnums=3)(start, examples, rated, settings)
    for user in range(USERS):
        mine, real = rated[user][rated[user] < ITEMS], batch.mask[user]
        own = pmf.Batch(user, batch.item[user][real], examples.stars[user][real])
        alone = one(start, own, mine, settings)
        jax.tree.map(lambda x, y, i=user: np.testing.assert_allclose(x[i], y, atol=1e-5), found, alone)


def test_batches_have_their_declared_types_for_ratings_of_other_types():
    wide = Ratings(*(column.astype(np.int64) for column in ratings()[:2]), ratings().stars.astype(np.float64) + 1e-9)
    for narrow, found in (
        (triples(ratings(), Units(3.6)), triples(wide, Units(3.6))),
        (padded_users(ratings(), USERS, ITEMS, SCALE), padded_users(wide, USERS, ITEMS, SCALE)),
        (
            [padded_sets(ratings(), num_users=USERS, num_items=ITEMS)],
            [padded_sets(wide, num_users=USERS, num_items=ITEMS)],
        ),
    ):
        for expected, array in zip(narrow, found, strict=True):
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)
    assert [array.dtype.name for array in triples(wide, Units(3.6))] == ["int32", "int32", "float32"]
    assert [array.dtype.name for array in padded_users(wide, USERS, ITEMS, SCALE)] == ["int32", "int32", "bool"]


def test_padded_users_hold_all_ratings_once():
    batch = padded_users(ratings(), USERS, ITEMS, SCALE)
    user = np.broadcast_to(np.arange(USERS)[:, None], batch.item.shape)
    found = sorted(zip(user[batch.mask], batch.item[batch.mask], batch.value[batch.mask], strict=True))
    assert found == sorted(zip(ratings().user, ratings().item, ratings().stars.astype(int) - 1, strict=True))
    assert np.all(batch.item[~batch.mask] == ITEMS)
    assert padded_users(ratings(), USERS, ITEMS, SCALE, width=2).mask.sum() == 2 + 1 + 2 + 1
    assert padded_users(EMPTY, USERS, ITEMS, SCALE).item.shape == (USERS, 0)
