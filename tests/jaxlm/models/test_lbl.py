"""The log-bilinear model against brute force, the thesis' closed-form gradients and its own specification."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlm.data import contexts as examples
from jaxlm.models import lbl
from jaxlm.objectives import output, softmax

N_W, D, C = 7, 4, 3

log_prob = jax.jit(lbl.log_prob, static_argnums=2)
score = jax.jit(lbl.score, static_argnums=2)
batch_loss = jax.jit(lbl.batch_loss, static_argnums=4)
gradient = jax.jit(jax.grad(lbl.batch_loss, has_aux=True), static_argnums=4)


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def random_params(config, seed=0):
    """Draw parameters large enough that every probability matters."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda key: lbl.init(key, config, np.ones(config.num_words)), jax.random.key(0))
    return jax.tree.map(lambda x: 0.7 * rng.normal(size=x.shape), shapes)


def config(**options):
    return lbl.Config(**{"num_words": N_W, "num_features": D, "context_size": C, **options})


def random_batch(B, seed=3):
    rng = np.random.default_rng(seed)
    return lbl.Batch(rng.integers(0, N_W, (B, C)), rng.integers(0, N_W, B))


def numpy_probabilities(p, context):
    """Eq. 3.16-3.17 as loops over positions and words."""
    R, C_, b = (np.asarray(x, np.float64) for x in p[:3])
    r_hat = sum((np.diag(C_i) if C_i.ndim == 1 else C_i) @ R[w] for C_i, w in zip(C_, context, strict=True))
    e = np.array([np.exp(r_hat @ R[w] + b[w]) for w in range(len(b))])
    return e / e.sum()


@pytest.mark.parametrize("diagonal", [False, True])
def test_log_prob_equals_brute_force_and_sums_to_one(float64, diagonal):
    cfg = config(diagonal=diagonal)
    p = random_params(cfg)
    for context in itertools.islice(itertools.product(range(N_W), repeat=C), 0, None, 17):
        ours = np.exp(log_prob(p, np.array(context), cfg))
        np.testing.assert_allclose(ours, numpy_probabilities(p, context), rtol=1e-12)
        assert abs(ours.sum() - 1) < 1e-12


def test_gradients_equal_the_thesis_closed_forms(float64):
    """Eq. 3.24-3.25, with C_i transposed where 3.16 calls for it, as sums over words and positions."""
    p = random_params(config())
    R, C_, *_ = p
    gradient_of_one = jax.jit(jax.grad(lbl.loss), static_argnums=3)
    for context, target in (((0, 3, 5), 2), ((4, 4, 1), 4), ((6, 6, 6), 6)):
        P = numpy_probabilities(p, context)
        dR, dC, db = np.zeros_like(R), np.zeros_like(C_), np.zeros(N_W)
        # the observed word counts 1; less the expectation under the model, each word counting P
        for w in range(N_W):
            a = (w == target) - P[w]
            db[w] += a
            for i, w_i in enumerate(context):
                dC[i] += a * np.outer(R[w], R[w_i])  # Eq. 3.24
                dR[w] += a * (C_[i] @ R[w_i])  # Eq. 3.25: the predicted word's share
                dR[w_i] += a * (C_[i].T @ R[w])  # and the context word's
        grads = gradient_of_one(p, lbl.Batch(np.array(context), np.array(target)), None, config())
        for ours, closed in zip(grads[:3], (dR, dC, db), strict=True):
            np.testing.assert_allclose(ours, -closed, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("diagonal", [False, True])
def test_minibatch_gradient_equals_finite_differences(float64, diagonal):
    cfg, batch = config(diagonal=diagonal), random_batch(5)
    p, weight = random_params(cfg), np.array([1.0, 1, 0, 2, 1])
    grads, _ = gradient(p, batch, weight, None, cfg)
    direction = random_params(cfg, seed=9)
    slope = sum(map(np.vdot, jax.tree.leaves(grads), jax.tree.leaves(direction)))
    h = 1e-5
    shifted = (jax.tree.map(lambda x, d, s=s: x + s * h * d, p, direction) for s in (1, -1))
    ahead, behind = (float(batch_loss(q, batch, weight, None, cfg)[0]) for q in shifted)
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * h), rtol=1e-8)


@functools.partial(jax.jit, static_argnums=4)
@jax.value_and_grad
def specification(p, batch, weight, keys, cfg):
    return jnp.vdot(weight, jax.vmap(lambda e, k: lbl.loss(p, e, k, cfg))(batch, keys))


@pytest.mark.parametrize("entries", [3, 20, 31, 10**6], ids=lambda n: f"{n}-entries-a-block")
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("diagonal", [False, True])
def test_batch_loss_equals_the_sum_of_the_specification(monkeypatch, entries, dropout, diagonal):
    """Value and gradients, with padding, repeated words, and blocks that do not divide the minibatch."""
    monkeypatch.setattr(softmax, "CACHE_ENTRIES", entries)
    monkeypatch.setattr(softmax, "ROWS", 1)
    cfg, B = config(dropout=dropout, diagonal=diagonal), 10
    p, batch = random_params(cfg), random_batch(B)
    keys = jax.random.split(jax.random.key(5), B)
    weight = np.array([1.0] * 6 + [0.5, 2, 0, 0])

    @jax.jit  # here, since it reads CACHE_ENTRIES when it is traced
    @jax.value_and_grad
    def fast(p):
        return lbl.batch_loss(p, batch, weight, keys, cfg)[0]

    ours, theirs = fast(p), specification(p, batch, weight, keys, cfg)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6), ours, theirs)


def test_padding_does_not_reach_the_gradient_even_where_it_is_extreme():
    cfg, p = config(), random_params(config())
    p.R[0] = 1e4  # a word of padding only, except as one of those predicted
    batch = lbl.Batch(np.array([[1, 2, 3], [0, 0, 0]]), np.array([4, 0]))
    grads, _ = gradient(p, batch, np.array([1.0, 0.0]), None, cfg)
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))


def test_score_is_minus_log_prob_of_the_word(monkeypatch):
    monkeypatch.setattr(softmax, "CACHE_ENTRIES", 3 * N_W)
    monkeypatch.setattr(softmax, "ROWS", 1)
    p, batch = random_params(config(dropout=0.5)), random_batch(11)
    expected = [-np.asarray(log_prob(p, c, config()))[w] for c, w in zip(batch.context, batch.word, strict=True)]
    np.testing.assert_allclose(jax.jit(lambda p: lbl.score(p, batch, config()))(p), expected, rtol=1e-5)


def test_normaliser_survives_logits_that_overflow_exp():
    R = np.array([[300.0], [-300.0], [0.0]])
    x = np.array([[1.0], [-1.0]])
    value_and_grads = jax.jit(jax.value_and_grad(softmax.sum_log_normalizer, (0, 1, 2, 3)))
    value, grads = value_and_grads(R, np.zeros(3), x, np.ones(2))
    assert value == 600.0
    np.testing.assert_array_equal(grads[0], [[1.0], [-1.0], [0.0]])
    np.testing.assert_array_equal(grads[1], [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(grads[2], [[300.0], [-300.0]])
    np.testing.assert_array_equal(grads[3], [300.0, 300.0])


def test_diagonal_equals_full_with_diagonal_matrices():
    diagonal, full = config(diagonal=True), config()
    p = random_params(diagonal)
    q = p._replace(C=np.stack([np.diag(c) for c in p.C]))
    batch, weight = random_batch(6), np.ones(6)
    np.testing.assert_allclose(score(p, batch, diagonal), score(q, batch, full), rtol=1e-6)
    g, _ = gradient(p, batch, weight, None, diagonal)
    h, _ = gradient(q, batch, weight, None, full)
    np.testing.assert_allclose(g.R, h.R, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(g.C, [np.diag(c) for c in np.asarray(h.C)], rtol=1e-4, atol=1e-5)


def test_untrained_biases_give_the_base_rates():
    counts = np.array([5, 3, 2, 1, 1, 1, 0])
    p = lbl.init(jax.random.key(0), config(), counts)
    p = p._replace(R=np.zeros((N_W, D)), C=np.zeros((C, D, D)))
    np.testing.assert_allclose(np.exp(log_prob(p, np.zeros(C, int), config())), np.maximum(counts, 1) / 14, rtol=1e-6)


def test_untrained_classes_and_their_words_have_the_base_rates():
    counts = np.array([9, 6, 3, 2, 2, 1, 0])
    cfg = lbl.MODEL.configure(N_W, None, {"objective": "classes", "num_classes": 3}, counts)
    assert len(cfg.class_ends) == 3
    p = lbl.init(jax.random.key(0), cfg, counts)
    found = output.log_prob(p.R, p.b, p.head, np.zeros(cfg.num_features), cfg)
    np.testing.assert_allclose(np.exp(found), np.maximum(counts, 1) / 24, rtol=1e-5)


@pytest.mark.parametrize("across_lines", [True, False])
def test_program_reads_contexts_from_text(across_lines):
    eos = 0
    data = examples.text_of(np.array([3, 4, 0, 5, 6, 0]), eos)
    program = lbl.program(cfg := config(across_lines=across_lines))
    assert program.size(data) == 6
    batch = jax.jit(program.batch, static_argnums=(2, 3))(data, np.array([0, 4]), 0, cfg)
    np.testing.assert_array_equal(batch.context, [[0, 0, 0], [4 if across_lines else 0, 0, 5]])
    np.testing.assert_array_equal(batch.word, [3, 6])


def test_a_planted_model_is_recovered():
    """Trained on text drawn from an LBL, the fitted one comes within 2 % of the planted one's perplexity."""
    cfg = config(num_words=12, num_features=3, context_size=2)
    planted = random_params(cfg, seed=4)
    planted = jax.tree.map(jnp.asarray, planted._replace(R=1.5 * planted.R))

    def draw(context, key):
        word = jax.random.categorical(key, lbl.log_prob(planted, context, cfg))
        return jnp.append(context[1:], word), word

    start = jnp.zeros(2, jnp.int32)
    _, words = jax.jit(lambda k: jax.lax.scan(draw, start, k))(jax.random.split(jax.random.key(0), 12_000))
    ids = np.asarray(words, np.int32)
    program = lbl.program(cfg)
    train, test = examples.text_of(ids[:10_000], 0), examples.text_of(ids[10_000:], 0)
    params = lbl.init(jax.random.key(1), cfg, np.bincount(ids[:10_000], minlength=12))

    @jax.jit
    def fit(params):
        def step(t, carry):
            p, speed = carry
            index = jax.random.randint(jax.random.fold_in(jax.random.key(2), t), (250,), 0, 10_000)
            batch = program.batch(train, index, 0, cfg)
            g, _ = jax.grad(program.loss, has_aux=True)(p, batch, jnp.full(250, 1 / 250), None, cfg)
            speed = jax.tree.map(lambda s, g: 0.9 * s + g, speed, g)
            return jax.tree.map(lambda p, s: p - 0.1 * (1 - t / 600) * s, p, speed), speed

        return jax.lax.fori_loop(0, 600, step, (params, jax.tree.map(jnp.zeros_like, params)))[0]

    @jax.jit
    def mean_score(params):
        return program.score(params, program.batch(test, jnp.arange(2_000), 0, cfg), cfg).mean()

    before, after, best = (float(mean_score(p)) for p in (params, fit(params), planted))
    assert best < before - 0.3  # there was something to learn
    assert after < best + 0.02
