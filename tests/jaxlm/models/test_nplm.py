"""The neural probabilistic language model against brute force, its closed-form gradients and its own specification."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

from jaxlm.data.contexts import text_of
from jaxlm.models import lbl, nplm
from jaxlm.objectives import softmax

N_W, D, C, N_H = 7, 4, 3, 5

init = jax.jit(nplm.init, static_argnums=1)
log_prob = jax.jit(nplm.log_prob, static_argnums=2)
score = jax.jit(nplm.score, static_argnums=2)
last_layers = jax.jit(nplm.last_layers, static_argnums=3)
batch_loss = jax.jit(nplm.batch_loss, static_argnums=4)
gradient = jax.jit(jax.grad(nplm.batch_loss, has_aux=True), static_argnums=4)
gradient_of_one = jax.jit(jax.grad(nplm.loss), static_argnums=3)


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def config(**options):
    sizes = {"num_words": N_W, "num_features": D, "context_size": C, "num_hidden": N_H}
    return nplm.Config(**{**sizes, **options})


def random_params(cfg, seed=0):
    """Draw parameters large enough that every probability matters and the tanh is far from linear."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda key: nplm.init(key, cfg, np.ones(cfg.num_words)), jax.random.key(0))
    return jax.tree.map(lambda x: 0.7 * rng.normal(size=x.shape), shapes)


def random_batch(size, seed=3):
    rng = np.random.default_rng(seed)
    return nplm.Batch(rng.integers(0, N_W, (size, C)), rng.integers(0, N_W, size))


def numpy_layers(p, context):
    """Compute x and h with loops over positions and units (Bengio et al. 2003, §2)."""
    R, H, d = (np.asarray(a, np.float64) for a in (p.R, p.H, p.d))
    if H.shape[1] == R.shape[1]:  # averaged
        x = np.array([sum(R[w][k] for w in context) / len(context) for k in range(R.shape[1])])
    else:
        x = np.array([R[w][k] for w in context for k in range(R.shape[1])])
    return x, np.array([np.tanh(d[j] + sum(H[j][k] * x[k] for k in range(len(x)))) for j in range(len(d))])


def numpy_probabilities(p, context, direct):
    """Compute y = b + Wx + Uh word by word, and its softmax."""
    x, h = numpy_layers(p, context)
    U, b = np.asarray(p.U), np.asarray(p.b)
    y = np.array([b[w] + U[w, :N_H] @ h + (U[w, N_H:] @ x if direct else 0) for w in range(len(b))])
    return np.exp(y) / np.exp(y).sum()


@pytest.mark.parametrize("inputs", ["concatenated", "averaged"])
@pytest.mark.parametrize("direct", [False, True])
def test_log_prob_equals_brute_force_and_sums_to_one(float64, direct, inputs):
    cfg = config(direct=direct, context=inputs)
    p = random_params(cfg)
    for context in itertools.islice(itertools.product(range(N_W), repeat=C), 0, None, 17):
        ours = np.exp(log_prob(p, np.array(context), cfg))
        np.testing.assert_allclose(ours, numpy_probabilities(p, context, direct), rtol=1e-12)
        assert abs(ours.sum() - 1) < 1e-12


@pytest.mark.parametrize("direct", [False, True])
def test_gradients_equal_the_closed_forms(float64, direct):
    """Back-propagation by hand: the error of each word, through the tanh layer, to the context's vectors."""
    cfg = config(direct=direct)
    p = random_params(cfg)
    R, H, U = p.R, p.H, p.U
    for context, word in (((0, 3, 5), 2), ((4, 4, 1), 4), ((6, 6, 6), 6)):
        x, h = numpy_layers(p, context)
        error = numpy_probabilities(p, context, direct) - np.eye(N_W)[word]  # of y
        error_a = (U[:, :N_H].T @ error) * (1 - h**2)  # of d + Hx
        error_x = H.T @ error_a + (U[:, N_H:].T @ error if direct else 0)
        dR = np.zeros_like(R)
        for i, w in enumerate(context):
            dR[w] += error_x[i * D : (i + 1) * D]
        dU = np.outer(error, np.append(h, x) if direct else h)
        closed = nplm.Params(R=dR, H=np.outer(error_a, x), d=error_a, U=dU, b=error)
        ours = gradient_of_one(p, nplm.Batch(np.array(context), np.array(word)), None, cfg)
        for name, a, b in zip(nplm.Params._fields[:-1], ours, closed, strict=False):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("direct", [False, True])
def test_batch_gradient_equals_finite_differences(float64, direct):
    cfg, batch = config(direct=direct), random_batch(5)
    p, weight = random_params(cfg), np.array([1.0, 1, 0, 2, 1])
    grads, _ = gradient(p, batch, weight, None, cfg)
    direction, h = random_params(cfg, seed=9), 1e-5
    for name in nplm.Params._fields[:-1]:  # one parameter at a time, so that none hides behind another
        along = getattr(direction, name)
        shifted = (p._replace(**{name: getattr(p, name) + s * h * along}) for s in (1, -1))
        ahead, behind = (float(batch_loss(q, batch, weight, None, cfg)[0]) for q in shifted)
        slope = np.vdot(getattr(grads, name), along)
        np.testing.assert_allclose(slope, (ahead - behind) / (2 * h), rtol=1e-7, atol=1e-10, err_msg=name)


@functools.partial(jax.jit, static_argnums=4)
@jax.value_and_grad
def specification(p, batch, weight, keys, cfg):
    return jnp.vdot(weight, jax.vmap(lambda e, k: nplm.loss(p, e, k, cfg))(batch, keys))


@pytest.mark.parametrize("entries", [20, 10**6], ids=lambda n: f"{n}-entries-a-block")
@pytest.mark.parametrize(("dropout", "feature_dropout"), [(0.0, 0.0), (0.5, 0.4)])
@pytest.mark.parametrize(("direct", "inputs"), [(False, "concatenated"), (True, "concatenated"), (True, "averaged")])
def test_batch_loss_equals_the_sum_of_the_specification(monkeypatch, entries, dropout, feature_dropout, direct, inputs):
    """Value and gradients, with padding, repeated words, and blocks that do not divide the minibatch."""
    monkeypatch.setattr(softmax, "CACHE_ENTRIES", entries)
    monkeypatch.setattr(softmax, "ROWS", 1)
    cfg, size = config(dropout=dropout, feature_dropout=feature_dropout, direct=direct, context=inputs), 10
    p, batch = random_params(cfg), random_batch(size)
    keys = jax.random.split(jax.random.key(5), size)
    weight = np.array([1.0] * 6 + [0.5, 2, 0, 0])

    @jax.jit  # here, since it reads CACHE_ENTRIES when it is traced
    @jax.value_and_grad
    def fast(p):
        return nplm.batch_loss(p, batch, weight, keys, cfg)[0]

    ours, theirs = fast(p), specification(p, batch, weight, keys, cfg)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=3e-5, atol=3e-6), ours, theirs)


@pytest.mark.parametrize("direct", [False, True])
def test_padding_does_not_reach_the_gradient_even_where_it_is_extreme(direct):
    cfg = config(direct=direct)
    p = random_params(cfg)
    huge = p._replace(R=np.append(np.full((1, D), 1e4), p.R[1:], axis=0))  # a word that occurs in padding alone
    batch = nplm.Batch(np.array([[1, 2, 3], [0, 0, 0]]), np.array([4, 0]))
    grads, _ = gradient(huge, batch, np.array([1.0, 0.0]), None, cfg)
    one = gradient_of_one(huge, nplm.Batch(batch.context[0], batch.word[0]), None, cfg)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=3e-5, atol=3e-6), grads, one)


@pytest.mark.parametrize("direct", [False, True])
def test_score_is_minus_log_prob_of_the_word_without_dropout(monkeypatch, direct):
    monkeypatch.setattr(softmax, "CACHE_ENTRIES", 3 * N_W)
    monkeypatch.setattr(softmax, "ROWS", 1)
    cfg = config(dropout=0.5, feature_dropout=0.5, direct=direct)
    p, batch = random_params(cfg), random_batch(11)
    expected = [-np.asarray(log_prob(p, c, cfg))[w] for c, w in zip(batch.context, batch.word, strict=True)]
    np.testing.assert_allclose(jax.jit(lambda p: nplm.score(p, batch, cfg))(p), expected, rtol=1e-5)


def test_direct_connections_of_zero_weight_change_nothing():
    plain, direct = config(), config(direct=True)
    p = random_params(plain)
    q = p._replace(U=np.append(p.U, np.zeros((N_W, C * D)), axis=1))
    batch, weight = random_batch(6), np.ones(6)
    np.testing.assert_allclose(score(p, batch, plain), score(q, batch, direct), rtol=1e-6)
    g, _ = gradient(p, batch, weight, None, plain)
    h, _ = jax.device_get(gradient(q, batch, weight, None, direct))
    shared = h._replace(U=h.U[:, :N_H])
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), g, shared)
    assert np.abs(h.U[:, N_H:]).max() > 1e-3  # yet they are trained


def test_direct_connections_alone_can_be_a_log_bilinear_model(float64):
    """With U = 0 and W = [R C_1 … R C_c] the logits are those of the LBL (Mnih 2010, Eq. 3.16-3.17)."""
    linear = lbl.Config(num_words=N_W, num_features=D, context_size=C)
    rng = np.random.default_rng(2)
    theirs = lbl.Params(*(0.7 * rng.normal(size=shape) for shape in ((N_W, D), (C, D, D), (N_W,))))
    cfg = config(direct=True)
    p = random_params(cfg)
    W = np.einsum("wj,ijk->wik", theirs.R, theirs.C).reshape(N_W, C * D)
    p = p._replace(R=theirs.R, U=np.append(np.zeros((N_W, N_H)), W, axis=1), b=theirs.b)
    batch = random_batch(9)
    expected = jax.jit(lbl.score, static_argnums=2)(theirs, batch, linear)
    np.testing.assert_allclose(score(p, batch, cfg), expected, rtol=1e-12)


def test_small_activations_make_the_hidden_layer_linear_and_large_ones_saturate_it(float64):
    """Scaling H by s and U by 1/s tends to direct connections W = U H for small s, to signs for large s."""
    cfg, linear = config(), config(direct=True)
    p = random_params(cfg)._replace(d=np.zeros(N_H))
    q = p._replace(U=np.append(np.zeros_like(p.U), p.U @ p.H, axis=1))
    batch = random_batch(9)
    s = 1e-4
    small = np.asarray(score(p._replace(H=s * p.H, U=p.U / s), batch, cfg))
    np.testing.assert_allclose(small, score(q, batch, linear), rtol=1e-6)
    assert np.abs(score(p, batch, cfg) - small).max() > 0.05
    x = p.R[batch.context].reshape(9, -1)
    signs = log_softmax(np.sign(x @ p.H.T) @ p.U.T + p.b, axis=1)[np.arange(9), batch.word]
    np.testing.assert_allclose(score(p._replace(H=1e4 * p.H), batch, cfg), -signs, rtol=1e-6)


def test_order_of_the_context_matters_and_position_i_uses_the_i_th_block_of_H():
    cfg = config()
    p = random_params(cfg)
    p.H[:, : (C - 1) * D] = 0
    contexts = np.array([[0, 1, 2], [5, 4, 2], [0, 1, 3]])
    a, b, c = (np.asarray(log_prob(p, context, cfg)) for context in contexts)
    np.testing.assert_array_equal(a, b)
    assert np.abs(a - c).max() > 0.01


def test_the_order_of_an_averaged_context_does_not_matter():
    cfg = config(context="averaged")
    p = random_params(cfg)
    assert p.H.shape == (N_H, D)
    a, b, c = (np.asarray(log_prob(p, np.array(context), cfg)) for context in ([0, 1, 2], [2, 0, 1], [0, 1, 3]))
    np.testing.assert_allclose(a, b, rtol=1e-6)
    assert np.abs(a - c).max() > 0.01


def test_dropout_keeps_the_mean_of_the_layer_it_is_applied_to():
    """Over 20,000 keys, the means of h and of x are within 5 standard errors of those without dropout."""
    p, draws = random_params(config(direct=True)), 20_000
    keys = jax.random.split(jax.random.key(8), draws)
    contexts = np.tile([1, 2, 3], (draws, 1))
    whole = np.asarray(last_layers(p, contexts[:1], None, config(direct=True)))[0]
    # dropout of the features changes the mean of h, which is no linear function of them, but not that of x
    for rates, part in (({"dropout": 0.3}, slice(None)), ({"feature_dropout": 0.4}, slice(N_H, None))):
        z = np.asarray(last_layers(p, contexts, keys, config(direct=True, **rates)), np.float64)[:, part]
        error = np.abs(z.mean(axis=0) - whole[part]) / (z.std(axis=0) / draws**0.5 + 1e-7)
        assert error.max() < 5, rates
    hidden = np.asarray(last_layers(p, contexts, keys, config(direct=True, dropout=0.3)))[:, :N_H] == 0
    assert abs(hidden.mean() - 0.3) < 5 * (0.21 / (draws * N_H)) ** 0.5
    features = np.asarray(last_layers(p, contexts, keys, config(direct=True, feature_dropout=0.4)))[:, N_H:] == 0
    assert abs(features.mean() - 0.4) < 5 * (0.24 / (draws * C * D)) ** 0.5


def test_hidden_units_and_features_are_dropped_independently():
    cfg = config(direct=True, num_hidden=C * D, dropout=0.5, feature_dropout=0.5)
    p, draws = random_params(cfg), 2_000
    contexts = np.tile([1, 2, 3], (draws, 1))
    z = np.asarray(last_layers(p, contexts, jax.random.split(jax.random.key(8), draws), cfg)) == 0
    h, x = z[:, : C * D], z[:, C * D :]
    assert abs((h == x).mean() - 0.5) < 5 * (0.25 / (draws * C * D)) ** 0.5


@pytest.mark.parametrize("direct", [False, True])
def test_untrained_biases_give_the_base_rates(direct):
    counts, cfg = np.array([5, 3, 2, 1, 1, 1, 0]), config(direct=direct)
    p = init(jax.random.key(0), cfg, counts)
    p = p._replace(U=np.zeros(p.U.shape))  # direct connections start at zero
    np.testing.assert_allclose(np.exp(log_prob(p, np.zeros(C, int), cfg)), np.maximum(counts, 1) / 14, rtol=1e-6)


def test_initial_parameters_have_the_stated_scales():
    cfg = nplm.Config(num_words=400, num_features=30, context_size=4, num_hidden=50, init_scale=0.2)
    p = jax.device_get(init(jax.random.key(0), cfg, np.ones(400)))
    assert [x.shape for x in jax.tree.leaves(p)] == [(400, 30), (50, 120), (50,), (400, 50), (400,)]
    for name, scale in (("R", 0.2), ("H", 120**-0.5), ("U", 0.2)):
        value = getattr(p, name)
        assert abs(value.std() / scale - 1) < 5 / (2 * value.size) ** 0.5, name
    direct = np.asarray(init(jax.random.key(0), config(direct=True), np.ones(N_W)).U)
    assert direct.shape == (N_W, N_H + C * D)
    assert not direct[:, N_H:].any()
    assert direct[:, :N_H].all()


@pytest.mark.parametrize("across_lines", [True, False])
def test_program_reads_contexts_from_text(across_lines):
    eos = 0
    data = text_of(np.array([3, 4, 0, 5, 6, 0]), eos)
    program = nplm.program(config(across_lines=across_lines))
    assert program.size(data) == 6
    batch = jax.jit(program.batch, static_argnums=(2, 3))(data, np.array([0, 4]), 0, program.config)
    np.testing.assert_array_equal(batch.context, [[0, 0, 0], [4 if across_lines else 0, 0, 5]])
    np.testing.assert_array_equal(batch.word, [3, 6])


def test_it_learns_exclusive_or_which_no_log_bilinear_model_can():
    """The word after two bits is their exclusive or: the tanh layer reaches a loss near 0, linear models ln 2."""
    contexts = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    batch, weight = nplm.Batch(contexts, contexts[:, 0] ^ contexts[:, 1]), np.full(4, 0.25)

    def fitted(loss, params):
        def step(_, p):
            return jax.tree.map(lambda x, g: x - 0.5 * g, p, jax.grad(loss)(p))

        return float(jax.jit(lambda p: loss(jax.lax.fori_loop(0, 2_000, step, p)))(params))

    cfg = nplm.Config(num_words=2, num_features=3, context_size=2, num_hidden=8, init_scale=1.0)
    linear = lbl.Config(num_words=2, num_features=3, context_size=2, init_scale=1.0)
    start, key = np.ones(2), jax.random.key(1)
    ours = fitted(lambda p: nplm.batch_loss(p, batch, weight, None, cfg)[0], init(key, cfg, start))
    theirs = fitted(lambda p: lbl.batch_loss(p, batch, weight, None, linear)[0], lbl.init(key, linear, start))
    assert ours < 0.02
    assert theirs > 0.69
