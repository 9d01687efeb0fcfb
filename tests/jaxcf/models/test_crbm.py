"""The conditional RBM: the plain one where there is nothing to condition on, and Eq. 5.12-5.15 by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcf.data import user_batches
from jaxcf.data.ratings import EMPTY, Pairs, Ratings, RatingScale
from jaxcf.models import crbm
from jaxcf.models.rbm import model as rbm
from jaxcf.models.rbm.chains import gradient
from jaxcf.models.rbm.config import expected_stars
from jaxcf.models.rbm.prediction import predict
from jaxfit import fit
from jaxfit.recipe import Recipe
from jaxfit.tables import Gathered, Weights, add

I, K, H = 5, 3, 2
SCALE = RatingScale(1, 3, 1)
CONFIG = crbm.Config(num_items=I, num_values=K, num_hidden=H)
KNOWN = [([0, 3], [2, 0]), ([1, 2, 4], [1, 1, 2]), ([], [])]
RATED = [[0, 3, 4], [1, 2, 4], [2]]  # which items each user rated, with ratings known or not
U = len(KNOWN)
KEYS = jax.random.split(jax.random.key(5), U)
WEIGHT = np.array([1.0, 2.0, 0.5], np.float32)


def params():
    k = jax.random.split(jax.random.key(0), 4)
    shapes = ((I * K, H), (I, K), (H,), (I, H))
    return crbm.Params(*[0.8 * jax.random.normal(key, shape) for key, shape in zip(k, shapes, strict=True)])


PARAMS = jax.device_get(params())


def stored(p):
    """Return the parameters as the engine stores them."""
    return type(p)._make([Weights(x, np.float32(1), None, None) for x in p])


def pairs(lists):
    user = np.concatenate([[u] * len(items) for u, items in enumerate(lists)])
    return Pairs(user.astype(np.int32), np.concatenate(lists).astype(np.int32))


def known():
    at = pairs([m for m, _ in KNOWN])
    return Ratings(*at, np.concatenate([v for _, v in KNOWN]).astype(np.float32) + 1)


def data(rated=RATED):
    return user_batches.make_data(known(), U, SCALE, rated=(pairs(rated),))


gather = jax.jit(user_batches.gather, static_argnums=(2, 3))


def batch(rated=RATED):
    return gather(data(rated), np.arange(U, dtype=np.int32), (8, 16), CONFIG)._replace(cd_steps=jnp.int32(1))


def test_prediction_given_rated_items_equals_enumeration():
    hs = np.array(list(itertools.product([0.0, 1.0], repeat=H)))
    W, b_m = PARAMS.W.reshape(I, K, H), PARAMS.b_m
    for u, m in [(0, 1), (1, 0), (2, 3)]:
        bias = PARAMS.b_h + sum(PARAMS.U[j] for j in RATED[u])  # Eq. 5.12
        movies, values = [*KNOWN[u][0], m], KNOWN[u][1]
        p = []
        for k in range(K):
            at = list(zip(movies, [*values, k], strict=True))
            p.append(np.sum(np.exp(sum(b_m[i, r] + hs @ W[i, r] for i, r in at) + hs @ bias)))
        predicted = predict(PARAMS, data(), [u], [m], CONFIG, exact=True)
        np.testing.assert_allclose(predicted[0], np.array(p) / np.sum(p), rtol=1e-5)


def test_gradient_equals_Eq_5_15_and_differentiation():
    b = batch()

    def specified(p):
        total = 0.0
        for u, (movies, values) in enumerate(KNOWN):
            example = np.array(movies, np.int32), np.array(values, np.int32)
            total += WEIGHT[u] * crbm.loss(p, example, np.array(RATED[u]), KEYS[u], CONFIG)
        return total

    expected = jax.jit(jax.grad(specified))(PARAMS)

    @jax.jit
    def found(p, weight):
        """Compute the gradient by rows and by groups, as arrays."""
        *_, parts = gradient(stored(p), b, weight, KEYS, CONFIG)
        read = crbm.program(CONFIG).gathered(p, b)
        rows = jax.grad(rbm.batch_loss, has_aux=True)(read, b, weight, KEYS, CONFIG)[0].rows
        both = []
        for x, k, g, part in zip(p, crbm.touched(b, CONFIG), rows, parts, strict=True):
            by_rows = g if k is None else jnp.zeros_like(x).at[k].add(g, mode="drop")
            by_groups = add(jnp.zeros_like(x), part, jnp.ones(())) if isinstance(part, tuple) else part
            both.append((by_rows, by_groups))
        return both

    for (by_rows, by_groups), want in zip(found(PARAMS, WEIGHT), expected, strict=True):
        np.testing.assert_allclose(by_rows, want, atol=1e-5)
        np.testing.assert_allclose(by_groups, want, atol=1e-5)
    # ΔU = E_D[h f'] - E_T[h f']: what a user's hidden units change by, in the rows of all that it rated
    example = tuple(map(np.array, KNOWN[0]))
    of_bias = jax.jit(jax.grad(lambda bias, p: rbm.loss(p, example, KEYS[0], CONFIG, bias=bias)))
    by_bias = of_bias(PARAMS.b_h + PARAMS.U[RATED[0]].sum(axis=0), PARAMS)
    np.testing.assert_allclose(expected.U[3], by_bias, atol=1e-5)


def test_without_rated_items_it_equals_the_rbm():
    plain = rbm.Params(*PARAMS[:3])
    b = batch([[], [], []])
    without = b._replace(rated=None)
    jitted = jax.jit(gradient, static_argnums=4)
    _, error, grads = jitted(stored(PARAMS), b, WEIGHT, KEYS, CONFIG)
    _, same_error, same = jitted(stored(plain), without, WEIGHT, KEYS, CONFIG)
    assert error == same_error
    for x, y in zip(jax.tree.leaves(grads[:3]), jax.tree.leaves(tuple(same)), strict=True):
        np.testing.assert_array_equal(x, y)
    assert not np.any(jax.jit(add)(np.zeros_like(PARAMS.U), grads.U, np.float32(1)))
    for exact in (False, True):
        np.testing.assert_array_equal(
            predict(PARAMS, data([[], [], []]), [0, 1, 2], [1, 0, 3], CONFIG, exact),
            predict(plain, data()._replace(rated=None), [0, 1, 2], [1, 0, 3], CONFIG, exact),
        )


def test_rated_items_are_the_union_of_sets():
    twice = user_batches.make_data(known(), U, SCALE, rated=(known(), pairs([[4, 0], [], [2, 2]])))
    for x, y in zip(jax.tree.leaves(twice.rated), jax.tree.leaves(data().rated), strict=True):
        np.testing.assert_array_equal(x, y)


def test_per_rating_decay_counts_each_use():
    b = batch()

    @jax.jit
    def decayed(U_):
        ids = crbm.touched(b, CONFIG).U

        def penalty(rows):
            others = jnp.zeros((8 * K, H)), jnp.zeros((8, K)), jnp.asarray(PARAMS.b_h)
            return rbm.penalty(Gathered(crbm.Params(*others, rows)), b, jnp.ones(U), CONFIG).U

        return jnp.zeros_like(U_).at[ids].add(jax.grad(penalty)(U_.at[ids].get(mode="clip")), mode="drop")

    uses = np.bincount(np.concatenate(RATED), minlength=I)
    np.testing.assert_allclose(decayed(PARAMS.U), uses[:, None] * PARAMS.U, rtol=1e-5)


@pytest.fixture(scope="module")
def telling():
    """Draw users of two tastes, of which few ratings are known: the rated items reveal the taste."""
    rng = np.random.default_rng(0)
    users, items = 200, 24
    taste, kind = rng.integers(0, 2, users), np.arange(items) % 2
    alike = taste[:, None] == kind[None]
    value = np.where(rng.random((users, items)) < np.where(alike, 0.9, 0.1), 2, rng.integers(0, 2, (users, items)))
    seen = rng.random((users, items)) < np.where(alike, 0.6, 0.15)
    user, item = np.nonzero(seen)
    every = Ratings(user.astype(np.int32), item.astype(np.int32), (value[seen] + 1).astype(np.float32))
    part = rng.random(len(user))
    pick = [Ratings(*(x[chosen] for x in every[:3])) for chosen in (part < 0.3, part >= 0.3)]
    return pick[0], pick[1]


def test_rated_items_improve_predictions_from_few_ratings(telling):
    train, held = telling
    recipe = Recipe("sgd", 20, 20, {"*": 0.05}, {"*": 0.0}, anneal=True, reduction="sum")
    config = crbm.Config(num_items=24, num_values=3, num_hidden=4, init_scale=0.3)
    scores = []
    for model, rated in ((rbm, None), (crbm, (train, held))):
        made = (user_batches.make_data(train, 200, SCALE, wanted=w, rated=rated) for w in (None, held))
        p = model.init(jax.random.key(0), config, train, SCALE.level(train.stars))
        fitted = fit.fit(model.program(config), p, *made, recipe=recipe, key=jax.random.key(1))
        scores.append(fitted.score**0.5)
    assert scores[1] < 0.95 * scores[0]
    # a new user needs rated items only
    asked = np.array([0, 0]), np.array([0, 1])
    liked = Pairs(np.zeros(12, np.int32), np.arange(0, 24, 2, dtype=np.int32))
    rated = user_batches.make_data(EMPTY, 1, SCALE, rated=(liked,))
    stars = expected_stars(predict(fitted.params, rated, *asked, config), config)
    assert stars[0] > stars[1] + 0.3
