"""The ratings RBM against enumeration of all hidden states and ratings, and against the thesis' rules by hand."""

import functools
import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcf.data import user_batches
from jaxcf.data.ratings import Ratings, RatingScale
from jaxcf.models.rbm import model as rbm
from jaxcf.models.rbm.chains import chains, gradient, hidden_bias, open_tables
from jaxcf.models.rbm.config import expected_stars
from jaxcf.models.rbm.prediction import predict
from jaxfit.loop import differentiate
from jaxfit.rbm import scheduled_steps
from jaxfit.tables import Weights, add

I, K, H = 6, 3, 2
SCALE = RatingScale(1, 3, 1)
CONFIG = rbm.Config(num_items=I, num_values=K, num_hidden=H)
CENTERED = replace(CONFIG, center=0.5)
CENTERS = pytest.mark.parametrize("config", [CONFIG, CENTERED], ids=["thesis", "centered"])
KNOWN = [([0, 3, 4], [2, 0, 1]), ([1], [2]), ([], []), ([5, 0, 2, 4], [1, 1, 0, 2])]  # movies and values
U = len(KNOWN)
CAPACITY = (16,)
Z = 4.0  # |z| of any one test stays below with p = 1 - 6e-5
DRAWS = 20_000


@functools.partial(jax.jit, static_argnums=(0, 1))
def params(seed=0, scale=0.8):
    k = jax.random.split(jax.random.key(seed), 3)
    return rbm.Params(
        scale * jax.random.normal(k[0], (I * K, H)),
        scale * jax.random.normal(k[1], (I, K)),
        scale * jax.random.normal(k[2], (H,)),
    )


PARAMS = jax.device_get(params())


def ratings(lists):
    user = np.concatenate([[u] * len(item) for u, (item, _) in enumerate(lists)]).astype(np.int32)
    item = np.concatenate([item for item, _ in lists]).astype(np.int32)
    value = np.concatenate([value for _, value in lists])
    return Ratings(user, item, (value + 1).astype(np.float32))


def data(lists=KNOWN, wanted=None):
    return user_batches.make_data(ratings(lists), len(lists), SCALE, wanted=wanted)


gather = jax.jit(user_batches.gather, static_argnums=(2, 3))


def batch(index=range(U), capacity=CAPACITY, lists=KNOWN, cd_steps=1):
    made = gather(data(lists), np.array(index, np.int32), capacity, CONFIG)
    return made._replace(cd_steps=jnp.int32(cd_steps))


def keys(n=U, seed=5):
    return jax.random.split(jax.random.key(seed), n)


def energy(p, item, value, h, c):
    """E of Eq. 5.1, with hidden units counted from c."""
    W = p.W.reshape(I, K, H)
    return -sum(W[m, k] @ (h - c) + p.b_m[m, k] for m, k in zip(item, value, strict=True)) - p.b_h @ h


@functools.cache
def joint(item, c=0.0):
    """P(r, h) over the movies `item` (Eq. 5.2): [K, …, K, 2^H]."""
    hs = [np.array(h) for h in itertools.product([0.0, 1.0], repeat=H)]
    table = [
        [np.exp(-energy(PARAMS, item, r, h, c)) for h in hs] for r in itertools.product(range(K), repeat=len(item))
    ]
    table = np.array(table).reshape(*[K] * len(item), 2**H)
    return table / table.sum()


def stored(p):
    """Return the parameters as the engine stores them."""
    return rbm.Params._make([Weights(x, np.float32(1), None, None) for x in p])


@functools.partial(jax.jit, static_argnums=3)
def ends(p, b, keys, center):
    """Return the first and last states of the chains."""
    return chains(open_tables(stored(p), b), b.known.item, hidden_bias(p, b), b, keys, center)


def z(samples, expected):
    samples = np.asarray(samples, np.float64)
    error = np.std(samples, axis=0) / len(samples) ** 0.5
    return np.abs(np.mean(samples, axis=0) - expected) / np.maximum(error, 1e-9)


@CENTERS
def test_exact_prediction_equals_enumeration_of_hidden_states_and_ratings(config):
    user, item = [3, 0, 0, 1, 2, 0], [1, 5, 1, 0, 2, 2]
    predicted = predict(PARAMS, data(), user, item, config, exact=True)
    for p, u, m in zip(predicted, user, item, strict=True):
        movies, values = KNOWN[u]
        given = joint((*movies, m), config.center)[tuple(values)].sum(axis=-1)  # Eq. 5.3, over h
        np.testing.assert_allclose(p, given / given.sum(), rtol=1e-5)


@CENTERS
def test_mean_field_prediction_equals_Eq_5_10_and_5_11(config):
    W = PARAMS.W.reshape(I, K, H)
    for u, m in [(0, 1), (1, 5), (2, 0), (3, 3)]:
        p = 1 / (1 + np.exp(-(PARAMS.b_h + sum(W[i, k] for i, k in zip(*KNOWN[u], strict=True)))))
        q = np.exp(PARAMS.b_m[m] + W[m] @ (p - config.center))
        predicted = predict(PARAMS, data(), [u], [m], config)
        np.testing.assert_allclose(predicted[0], q / q.sum(), rtol=1e-5)
        np.testing.assert_allclose(expected_stars(predicted, CONFIG)[0], q / q.sum() @ [1, 2, 3], rtol=1e-5)


def test_predictions_follow_the_order_of_pairs_and_accept_unknown_ids():
    rng = np.random.default_rng(0)
    lists = [([u % I], [u % K]) for u in range(150)]  # several blocks
    user, item = rng.integers(0, 150, 400), rng.integers(0, I, 400)
    user[7], item[9] = -1, -1
    every = predict(PARAMS, data(lists), user, item, CONFIG)
    empty = predict(PARAMS, data([([], [])]), [0], [item[7]], CONFIG)[0]
    np.testing.assert_allclose(every[7], empty, rtol=1e-6)
    average = np.exp(np.mean(PARAMS.b_m, axis=0))
    np.testing.assert_allclose(every[9], average / average.sum(), rtol=1e-5)
    for j in (0, 100, 399):  # a new user's ratings are all that a prediction needs
        alone = predict(PARAMS, data([lists[user[j]]]), [0], [item[j]], CONFIG)[0]
        np.testing.assert_allclose(every[j], alone, rtol=1e-6)


def test_hidden_conditionals_equal_enumeration():
    start, _ = jax.device_get(ends(PARAMS, batch(), keys(), 0.0))
    hs = np.array(list(itertools.product([0.0, 1.0], repeat=H)))
    for u, (movies, values) in enumerate(KNOWN):
        given = joint(tuple(movies))[tuple(values)]
        np.testing.assert_allclose(start.p[u], given @ hs / given.sum(), rtol=1e-5)  # Eq. 5.8


@CENTERS
def test_reconstructions_have_the_distribution_of_the_sampler(config):
    movies, values = KNOWN[0]
    _, end = ends(PARAMS, batch([0] * DRAWS, (3 * DRAWS,)), keys(DRAWS), config.center)
    table = joint(tuple(movies), config.center)
    of_h = table[tuple(values)] / table[tuple(values)].sum()  # P(h | r)
    to = (table / table.sum(axis=(0, 1, 2)) @ of_h).reshape(-1)  # Σ_h P(r' | h) P(h | r), Eq. 5.7
    drawn = np.asarray(end.value).reshape(DRAWS, 3)
    which = np.eye(K**3)[drawn @ [K * K, K, 1]]
    assert np.all(z(which, to) < Z)
    mean = np.indices((K, K, K)).reshape(3, -1) @ to
    assert np.all(z(np.asarray(end.mean).reshape(DRAWS, 3), mean) < Z)


def test_cd_approaches_the_likelihood_gradient_as_T_grows():
    movies, values = np.array(KNOWN[0], np.int32)
    p = params(3, scale=1.5)

    def minus_log_likelihood(p):
        every = jnp.array(list(itertools.product(range(K), repeat=3)))

        def free_energy(value):
            W, b_m = p.W.reshape(I, K, H)[movies, value], p.b_m[movies, value]
            hs = jnp.array(list(itertools.product([0.0, 1.0], repeat=H)))
            return -jax.nn.logsumexp(jnp.sum(b_m) + hs @ (p.b_h + jnp.sum(W, axis=0)))

        return free_energy(values) + jax.nn.logsumexp(-jax.vmap(free_energy)(every))

    exact = jax.device_get(jax.jit(jax.grad(minus_log_likelihood))(p))
    one = jax.grad(lambda p, key, steps: rbm.loss(p, (movies, values), key, CONFIG, cd_steps=steps))
    run = jax.jit(jax.vmap(one, (None, 0, None)))
    many, few = run(p, keys(DRAWS), 80), run(p, keys(DRAWS), 1)
    for name in rbm.Params._fields:
        assert np.all(z(getattr(many, name), getattr(exact, name)) < Z), name
        assert np.max(z(getattr(few, name), getattr(exact, name))) > 10, name  # CD-1 is biased
    untouched = [1, 2, 5]
    assert np.all(np.asarray(many.W).reshape(-1, I, K, H)[:, untouched] == 0)


WEIGHT = np.array([1.0, 0.5, 2.0, 1.5], np.float32)


def specified(p, cd_steps, config=CONFIG):
    """Σ weight * loss, one user at a time."""
    total = 0.0
    for u, (movies, values) in enumerate(KNOWN):
        example = np.array(movies, np.int32), np.array(values, np.int32)
        total += WEIGHT[u] * rbm.loss(p, example, keys()[u], config, cd_steps=cd_steps)
    return total


SPECIFIED = jax.jit(jax.value_and_grad(specified), static_argnums=2)


@jax.jit
def read(p, b):
    return rbm.program(CONFIG).gathered(p, b)


def dense(b, grads):
    """Return the gradient as arrays like the parameters: of parts, or of gathered rows."""
    ids = rbm.touched(b, CONFIG)
    out = []
    for x, k, g in zip(PARAMS, ids, grads, strict=True):
        if isinstance(g, tuple):
            out.append(add(jnp.zeros_like(x), g, jnp.ones(())))
        else:
            out.append(g if k is None else jnp.zeros_like(x).at[k].add(g, mode="drop"))
    return rbm.Params(*out)


@functools.partial(jax.jit, static_argnums=3)
def by_rows(b, weight, keys, config):
    """Compute loss, metrics and gradient by differentiation."""
    loss = jax.value_and_grad(rbm.batch_loss, has_aux=True)
    (total, metrics), grads = loss(read(PARAMS, b), b, weight, keys, config)
    return total, metrics, dense(b, grads.rows)


@functools.partial(jax.jit, static_argnums=3)
def by_parts(weights, b, keys, config):
    """Compute metrics and gradient by the rules."""
    _, metrics, parts = gradient(weights, b, WEIGHT, keys, config)
    return metrics, dense(b, parts)


@pytest.mark.parametrize(("cd_steps", "config"), [(1, CONFIG), (3, CENTERED)], ids=["CD-1", "centered, CD-3"])
def test_batch_loss_and_both_gradients_equal_the_specification(cd_steps, config):
    b = batch(cd_steps=cd_steps)
    total, shown, grads = by_rows(b, WEIGHT, keys(), config)
    one_by_one, by_hand = SPECIFIED(PARAMS, cd_steps, config)
    np.testing.assert_allclose(total, one_by_one, rtol=1e-5)

    # the scale of a table is 2 while it decays
    weights = stored(PARAMS)._replace(W=Weights(PARAMS.W / 2, np.float32(2), None, None))
    also_shown, also_grads = by_parts(weights, b, keys(), config)
    error, count = shown["reconstruction RMSE"]
    np.testing.assert_allclose((error, count), also_shown["reconstruction RMSE"], rtol=1e-5)
    assert count == sum(w * len(movies) for w, (movies, _) in zip(WEIGHT, KNOWN, strict=True))
    for name in rbm.Params._fields:
        expected = getattr(by_hand, name)
        np.testing.assert_allclose(getattr(grads, name), expected, atol=1e-5)
        np.testing.assert_allclose(getattr(also_grads, name), expected, atol=1e-5)


def test_gradient_of_smooth_weights_equals_that_of_independent_ones():
    """Descending Θ of W = √P Θ, by hand, moves W as descending W in the metric of P does."""
    P = np.array([[np.exp(-((k - l) ** 2) / (2 * 0.8**2)) for l in range(K)] for k in range(K)])
    values, vectors = np.linalg.eigh(P)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    _, grads = by_parts(stored(PARAMS), batch(), keys(), replace(CONFIG, smooth=0.8))
    by_W = np.asarray(SPECIFIED(PARAMS, 1)[1].W).reshape(I, K, H)
    by_Theta = np.einsum("kl,mkh->mlh", root, by_W)  # the chain rule
    moved = np.einsum("kl,mlh->mkh", root, by_Theta).reshape(I * K, H)
    np.testing.assert_allclose(grads.W, moved, atol=1e-5)
    np.testing.assert_allclose(grads.b_m, SPECIFIED(PARAMS, 1)[1].b_m, atol=1e-5)


def test_gradient_equals_Eq_5_4_to_5_6():
    b = batch()
    start, end = jax.device_get(ends(PARAMS, b, keys(), 0.0))
    W, b_m, b_h = np.zeros((I, K, H)), np.zeros((I, K)), np.zeros(H)
    for j, (u, m, k) in enumerate(zip(*map(np.asarray, b.known), strict=True)):
        if u < U:
            W[m, k] += WEIGHT[u] * start.p[u]  # E_D
            W[m, end.value[j]] -= WEIGHT[u] * end.p[u]  # E_T
            b_m[m, k] += WEIGHT[u]
            b_m[m, end.value[j]] -= WEIGHT[u]
    for u in range(U):
        b_h += WEIGHT[u] * (start.p[u] - end.p[u])
    grads = SPECIFIED(PARAMS, 1)[1]
    for name, rule in (("W", W.reshape(I * K, H)), ("b_m", b_m), ("b_h", b_h)):
        np.testing.assert_allclose(-getattr(grads, name), rule, atol=1e-5)


def test_gradient_does_not_depend_on_order_padding_or_other_users():
    def of(b, weight, keys):
        _, metrics, grads = by_rows(b, weight, keys, CONFIG)
        return metrics["reconstruction RMSE"], grads

    shown, grads = of(batch(), WEIGHT, keys())
    shuffled = [(m[::-1], v[::-1]) for m, v in KNOWN]
    order = [3, 1, 0, 2]
    cases = [
        (batch(lists=shuffled), WEIGHT, keys()),
        (batch(capacity=(32,)), WEIGHT, keys()),
        (batch(order), WEIGHT[order], keys()[np.array(order)]),
        # the last minibatch is filled up with users of no weight
        (batch([*range(U), 0], (32,)), np.append(WEIGHT, np.float32(0)), jnp.append(keys(), keys(1, seed=9))),
    ]
    for case in cases:
        also_shown, also = of(*case)
        np.testing.assert_allclose(also_shown, shown, rtol=1e-5)
        for x, y in zip(also, grads, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-5)


def test_unrated_movies_have_no_effect():
    changed = PARAMS._replace(W=PARAMS.W.copy(), b_m=PARAMS.b_m.copy())
    changed.W[6:9], changed.b_m[2] = 7.0, -5.0  # movie 2
    b = batch([0, 1])
    for x, y in zip(jax.device_get(read(PARAMS, b).rows), jax.device_get(read(changed, b).rows), strict=True):
        np.testing.assert_array_equal(x[: 4 * K], y[: 4 * K])
    at = ([0, 1], [1, 0])
    np.testing.assert_array_equal(predict(PARAMS, data(), *at, CONFIG), predict(changed, data(), *at, CONFIG))


def test_per_rating_decay_counts_each_use():
    """λ w once for each rating of the movie (W, b_m) and each user (b_h), as in an update for each user."""
    config = replace(CONFIG, prior="per-rating")
    program, decay = rbm.program(config), rbm.Params(0.3, 0.2, 0.1)
    b = batch()

    @jax.jit
    def gradient_of(p, decay):
        return dense(b, differentiate(program, stored(p), b, jnp.ones(U), keys(), decay)[2])

    more = jax.tree.map(np.subtract, gradient_of(PARAMS, decay), gradient_of(PARAMS, rbm.Params(0.0, 0.0, 0.0)))
    uses = np.bincount(np.concatenate([m for m, _ in KNOWN]).astype(int), minlength=I)
    np.testing.assert_allclose(more.W, 0.3 * np.repeat(uses, K)[:, None] * PARAMS.W, atol=1e-5)
    np.testing.assert_allclose(more.b_m, 0.2 * uses[:, None] * PARAMS.b_m, atol=1e-5)
    np.testing.assert_allclose(more.b_h, 0.1 * U * PARAMS.b_h, atol=1e-5)


def test_initial_biases_predict_each_movies_own_frequencies():
    known = ratings([([0, 1], [2, 0])] * 60)
    p = rbm.init(jax.random.key(0), replace(CONFIG, init_scale=0.0), known, SCALE.level(known.stars))
    predicted = predict(p, data(), [0, 0, 0], [0, 1, 2], CONFIG)
    assert predicted[0, 2] > 0.95
    assert predicted[1, 0] > 0.95
    of_all = np.array([61, 1, 61]) / 123
    np.testing.assert_allclose(predicted[2], of_all, rtol=1e-4)  # not rated: as all are
    # K more ratings, distributed like those of all movies
    np.testing.assert_allclose(predicted[0], (np.array([0, 0, 60]) + 3 * of_all) / 63, rtol=1e-4)


def test_T_follows_its_schedule():
    b, config = batch(), replace(CONFIG, cd_steps=(1, 3, 5))
    scheduled = jax.jit(lambda fraction: scheduled_steps(b, jax.random.key(0), fraction, config).cd_steps)
    steps = [int(scheduled(np.float32(f))) for f in (0.0, 0.3, 0.34, 0.66, 0.67, 1.0)]
    assert steps == [1, 1, 3, 3, 5, 5]
