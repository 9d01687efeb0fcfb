"""The masked RBM: its loss is that of its predictions, and its gradient that of its loss."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcf.data import user_batches
from jaxcf.data.ratings import Ratings
from jaxcf.models import masked_rbm
from jaxcf.models.rbm import prediction
from jaxcf.models.rbm.config import covariance
from jaxcf.models.rbm.model import Params
from jaxfit.errors import UserError
from jaxfit.tables import Weights, add

USERS, ITEMS, K, HIDDEN_UNITS = 6, 9, 5, 3
KEYS = jax.random.split(jax.random.key(1), USERS)
WEIGHT = jnp.array([1, 0.5, 2, 0, 0.25, 1], jnp.float32)


def config(**changes):
    return masked_rbm.Config(
        ITEMS, num_values=K, num_hidden=HIDDEN_UNITS, **{"center": 0.5, "mask_rate": 0.4, **changes}
    )


@pytest.fixture(scope="module")
def params():
    rng = np.random.default_rng(0)
    shapes = [(ITEMS * K, HIDDEN_UNITS), (ITEMS, K), (HIDDEN_UNITS,)]
    return Params(*(jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes))


@pytest.fixture(scope="module")
def users():
    """Draw thirty ratings of five users; a sixth user has none."""
    rng = np.random.default_rng(2)
    pair = rng.permutation((USERS - 1) * ITEMS)[:30]
    user, item = (np.asarray(x, np.int32) for x in np.divmod(pair, ITEMS))
    ratings = Ratings(user, item, rng.integers(1, 6, 30) * np.float32(1))
    return user_batches.make_data(ratings, USERS, config().scale)


def of_user(users, user):
    """Return its movies and ratings."""
    at = slice(*np.asarray(users.known.offsets)[user : user + 2])
    return users.known.item[at], users.known.value[at].astype(np.int32)


def specified(params, users, settings):
    """Return the loss by the specification, and its gradient."""

    def loss(params):
        return sum(WEIGHT[u] * masked_rbm.loss(params, of_user(users, u), KEYS[u], settings) for u in range(USERS))

    return jax.jit(jax.value_and_grad(loss))(params)


@pytest.mark.parametrize("smooth", [0.0, 1.2])
def test_batched_loss_and_gradient_are_those_of_the_specification(params, users, smooth):
    settings = config(smooth=smooth)
    batch = user_batches.gather(users, jnp.arange(USERS), (40,), settings)
    program = masked_rbm.program(settings)
    expected, (of_W, of_b_m, of_b_h) = specified(params, users, settings)
    loss = jax.jit(masked_rbm.batch_loss, static_argnums=4)
    total, metrics = loss(program.gathered(params, batch), batch, WEIGHT, KEYS, settings)
    np.testing.assert_allclose(total, expected, rtol=1e-5)

    weights = Params(*(Weights(table / 2, jnp.float32(2), None, None) for table in params))
    weights = weights._replace(b_h=Weights(params.b_h, jnp.float32(1), None, None))
    total, again, grads = jax.jit(masked_rbm.gradient, static_argnums=4)(weights, batch, WEIGHT, KEYS, settings)
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    jax.tree.map(np.testing.assert_allclose, again, metrics)
    if smooth:  # in the metric of the prior
        of_W = jnp.einsum("kl,ilh->ikh", covariance(settings), of_W.reshape(ITEMS, K, -1)).reshape(of_W.shape)
    np.testing.assert_allclose(add(jnp.zeros_like(params.W), grads.W, 1.0), of_W, atol=2e-5)
    np.testing.assert_allclose(add(jnp.zeros_like(params.b_m), grads.b_m, 1.0), of_b_m, atol=2e-5)
    np.testing.assert_allclose(grads.b_h, of_b_h, atol=2e-5)


def test_the_loss_is_in_expectation_over_masks_that_of_predictions(params, users):
    """By enumeration over what is masked of a user of few ratings, each predicted by the function that predicts."""
    settings = config()
    user = min((u for u in range(USERS) if len(of_user(users, u)[0]) >= 3), key=lambda u: len(of_user(users, u)[0]))
    item, value = (np.asarray(x) for x in of_user(users, user))
    item, value = item[:5], value[:5]
    expected = 0.0
    for masked in itertools.product([False, True], repeat=len(item)):
        mask = np.array(masked)
        chance = settings.mask_rate ** mask.sum() * (1 - settings.mask_rate) ** (~mask).sum()
        known = Ratings(np.zeros((~mask).sum(), np.int32), item[~mask], value[~mask] + np.float32(1))
        data = user_batches.make_data(known, 1, settings.scale)
        if mask.any():
            P = prediction.predict(params, data, np.zeros(mask.sum(), int), item[mask], settings)
            expected -= chance * np.log(P[np.arange(mask.sum()), value[mask]]).sum() / settings.mask_rate
    keys = jax.random.split(jax.random.key(5), 20_000)
    drawn = jax.vmap(masked_rbm.loss, (None, None, 0, None))(params, (item, value), keys, settings)
    assert abs(np.mean(drawn) - expected) < 4 * np.std(drawn) / np.sqrt(len(keys))


@pytest.mark.parametrize("mask_rate", [0, 1, -0.5, float("nan")])
def test_a_share_that_leaves_nothing_to_predict_or_to_know_is_refused(mask_rate):
    with pytest.raises(UserError, match="--mask-rate must be above 0 and below 1"):
        config(mask_rate=mask_rate)
