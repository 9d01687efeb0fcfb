"""The factored RBM against enumeration of its hidden units, and of the words of its chain."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import kstest

from jaxfit.errors import UserError
from jaxlm.context_model import Batch, examples, texts
from jaxlm.models import frbm, lbl

N_W, D, C, N_H = 7, 3, 2, 4


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def config(**options):
    sizes = {"num_words": N_W, "num_features": D, "context_size": C, "num_hidden": N_H}
    return frbm.Config(**{**sizes, **options})


def random_params(cfg, seed=0, scale=0.7):
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda key: frbm.init(key, cfg, np.ones(cfg.num_words)), jax.random.key(0))
    return jax.tree.map(lambda x: jnp.asarray(scale * rng.normal(size=x.shape)), shapes)


def random_batch(size, seed=3):
    rng = np.random.default_rng(seed)
    return Batch(*(jnp.asarray(rng.integers(0, N_W, shape), jnp.int32) for shape in ((size, C), size)))


def energy(p, words, h):
    """Eq. 3.2, of words w_1 … w_n."""
    total = -sum(p.R[w] @ p.W[i] @ h for i, w in enumerate(words))
    return total - p.b_h @ h - p.b_v[words[-1]]


def states(number=N_H):
    return [np.array(h, float) for h in itertools.product((0, 1), repeat=number)]


def joint(p, context):
    """P(w_n, h | context) by enumeration (Eq. 3.3): [N_w, states]."""
    minus = np.array([[-energy(p, [*context, w], h) for h in states()] for w in range(N_W)])
    return np.exp(minus - logsumexp(minus))


def by_numpy(params):
    return frbm.Params(*(np.asarray(x, np.float64) for x in params))


def test_distribution_equals_enumeration_over_hidden_states(float64):
    params = random_params(config())
    for context in ((0, 1), (5, 2), (3, 3)):
        expected = np.log(joint(by_numpy(params), context).sum(axis=1))
        np.testing.assert_allclose(frbm.log_prob(params, jnp.array(context)), expected, rtol=1e-10)
        batch = Batch(jnp.array([context] * N_W), jnp.arange(N_W))
        np.testing.assert_allclose(frbm.score(params, batch, config()), -expected, rtol=1e-10)


def statistics(p, context, word):
    """-∂E/∂θ, expected over P(h | context, word): Eq. 3.8-3.9, and of the biases."""
    words = [*context, word]
    on = 1 / (1 + np.exp(-(sum(p.R[w] @ p.W[i] for i, w in enumerate(words)) + p.b_h)))
    R, W, b_v = np.zeros_like(p.R), np.zeros_like(p.W), np.zeros_like(p.b_v)
    for i, w in enumerate(words):
        R[w] += p.W[i] @ on
        W[i] += np.outer(p.R[w], on)
    b_v[word] = 1
    return np.concatenate([x.ravel() for x in (R, W, on, b_v)])


def transition(p, context):
    """P(w' | w) of one full step of the chain, by enumeration over hidden states (Eq. 3.12-3.13): [N_w, N_w]."""
    given_word = joint(p, context)
    given_word /= given_word.sum(axis=1, keepdims=True)  # P(h | w)
    given_h = np.array([softmax([p.R[w] @ p.W[-1] @ h + p.b_v[w] for w in range(N_W)]) for h in states()])
    return given_word @ given_h


def flat(params):
    return np.concatenate([np.ravel(np.asarray(x, np.float64)) for x in jax.tree.leaves(params)])


def exact(p, context, word):
    """Minus the gradient of log P(word | context), Eq. 3.10-3.11: what the model expects, less the data's."""
    each = np.array([statistics(p, context, w) for w in range(N_W)])
    return joint(p, context).sum(axis=1) @ each - each[word]


def test_what_the_model_expects_less_the_data_is_the_gradient_of_the_likelihood(float64):
    params, context, word = random_params(config()), (4, 1), 5
    found = jax.grad(lambda p: -frbm.log_prob(p, jnp.array(context))[word])(params)
    np.testing.assert_allclose(flat(found), exact(by_numpy(params), context, word), atol=1e-10)


def expected_cd(p, context, word, steps):
    """Minus the update of CD-T in expectation, by enumeration."""
    last = np.linalg.matrix_power(transition(p, context), steps)[word]
    each = np.array([statistics(p, context, w) for w in range(N_W)])
    return last @ each - each[word]


@pytest.mark.parametrize(
    ("objective", "steps", "draws"),
    [("cd", 1, 1), ("cd", 3, 1), ("cd", 2, 3), ("likelihood", 1, 1), ("likelihood", 1, 3)],
)
def test_gradients_are_unbiased_for_their_expectations(objective, steps, draws):
    cfg, number = config(objective=objective, cd_steps=steps, num_draws=draws), 20_000
    params, context, word = random_params(cfg, seed=2), (4, 1), 5
    each = jax.jit(jax.vmap(jax.grad(frbm.loss), (None, None, 0, None)), static_argnums=3)
    batch = Batch(jnp.array(context), jnp.array(word))
    drawn = each(params, batch, jax.random.split(jax.random.key(steps), number), cfg)
    samples = np.concatenate([np.asarray(x, np.float64).reshape(number, -1) for x in drawn], axis=1)
    p = by_numpy(params)
    expected = expected_cd(p, context, word, steps) if objective == "cd" else exact(p, context, word)
    z = (samples.mean(axis=0) - expected) / np.maximum(samples.std(axis=0) / number**0.5, 1e-6)
    assert np.max(np.abs(z)) < 4.5, "p < 1e-3 for all numbers together"


def test_bias_falls_with_the_steps_of_the_chain():
    params = by_numpy(random_params(config(), seed=2))
    context, word = (4, 1), 5
    right = exact(params, context, word)
    biases = [np.linalg.norm(expected_cd(params, context, word, steps) - right) for steps in (1, 2, 4, 8, 16)]
    assert all(later < 0.9 * earlier for earlier, later in itertools.pairwise(biases))
    assert biases[-1] < 0.05 * biases[0] < 0.05 * np.linalg.norm(right) * 5


def test_mean_field_has_the_expectation_of_cd_for_word_biases_and_less_variance():
    number = 4000
    keys = jax.random.split(jax.random.key(0), number)
    params, batch = random_params(config(), seed=2), Batch(jnp.array((4, 1)), jnp.array(5))
    found = {}
    for objective in ("cd", "mean-field"):
        each = jax.jit(jax.vmap(jax.grad(frbm.loss), (None, None, 0, None)), static_argnums=3)
        found[objective] = each(params, batch, keys, config(objective=objective))
    expected = expected_cd(by_numpy(params), (4, 1), 5, 1)[-N_W:]
    smooth = np.asarray(found["mean-field"].b_v, np.float64)
    z = (smooth.mean(axis=0) - expected) / (smooth.std(axis=0) / number**0.5)
    assert np.max(np.abs(z)) < 4
    for name in ("R", "W", "b_v"):
        noisy, less = (float(np.var(getattr(found[o], name), axis=0).sum()) for o in ("cd", "mean-field"))
        assert less < 0.8 * noisy, name


@pytest.mark.parametrize("objective", ["cd", "mean-field", "likelihood"])
@pytest.mark.parametrize(("steps", "draws", "dropout"), [(1, 1, 0.0), (2, 1, 0.4), (2, 3, 0.0), (2, 3, 0.4)])
def test_batch_equals_the_specification(objective, steps, draws, dropout, float64):
    cfg = config(objective=objective, cd_steps=steps, num_draws=draws, dropout=dropout)
    params, batch = random_params(cfg, seed=5), random_batch(6)
    weight, keys = jnp.array([1.0, 0.5, 2, 0, 1, 1]), jax.random.split(jax.random.key(7), 6)

    def specified(params):
        return weight @ jax.vmap(frbm.loss, (None, 0, 0, None))(params, batch, keys, cfg)

    one, two = (
        jax.value_and_grad(specified)(params),
        jax.value_and_grad(lambda p: frbm.batch_loss(p, batch, weight, keys, cfg)[0])(params),
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7), one, two)


@pytest.mark.parametrize("number", [1, 3, 8])
def test_draws_are_spread_evenly_over_the_distribution(number):
    keys = jax.random.split(jax.random.key(0), 2000)
    u = np.asarray(frbm.spaced(keys, number))
    assert u.shape == (2000, number)
    assert (u >= 0).all()
    assert (u < 1).all()
    np.testing.assert_allclose(np.diff(np.sort(u, axis=1), axis=1), 1 / number, atol=1e-6)
    for one in u.T:
        assert kstest(one, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("objective", ["cd", "likelihood"])
def test_more_draws_are_less_noise(objective):
    params, batch = random_params(config(), seed=2), Batch(jnp.array((4, 1)), jnp.array(5))
    each = jax.jit(jax.vmap(jax.grad(frbm.loss), (None, None, 0, None)), static_argnums=3)
    keys, noise = jax.random.split(jax.random.key(0), 4000), {}
    for draws in (1, 4):
        found = each(params, batch, keys, config(objective=objective, num_draws=draws))
        noise[draws] = float(np.var(found.b_v, axis=0).sum())
    assert noise[4] < (0.25 if objective == "likelihood" else 0.6) * noise[1]  # also hidden units are drawn in CD


def test_metrics_say_what_they_are():
    for objective, name in (("cd", "reconstruction"), ("mean-field", "reconstruction"), ("likelihood", "perplexity")):
        cfg = config(objective=objective)
        metrics = frbm.batch_loss(
            random_params(cfg), random_batch(4), jnp.ones(4), jax.random.split(jax.random.key(0), 4), cfg
        )[1]
        assert list(metrics) == [name] == [metric.name for metric in frbm.program(cfg).loss_metrics]


def test_training_cases_have_the_gradient_of_the_words(float64):
    """Over a whole text, the distributions after contexts give the LBL's gradient, as they are means of its words."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 5, 200).astype(np.int32)
    sizes = {"num_words": 5, "num_features": 3, "context_size": 2}
    found = []
    for targets in ("words", "contexts"):
        cfg = lbl.Config(**sizes, targets=targets)
        program, data = lbl.program(cfg), texts(cfg, 0)(ids)
        entries = int(program.ragged.costs(data).sum()) if program.ragged else 0
        batch = program.batch(data, jnp.arange(200), entries, cfg)
        params = jax.tree.map(
            lambda x: x.astype(float), lbl.init(jax.random.key(1), cfg, np.bincount(ids, minlength=5))
        )
        found.append(jax.grad(lambda p, b=batch, c=cfg: lbl.batch_loss(p, b, jnp.ones(200), None, c)[0])(params))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), *found)
    assert np.linalg.norm(flat(found[0])) > 1


def test_training_cases_begin_the_chain_from_the_distribution():
    ids = np.array([1, 2, 3, 1, 2, 4, 1, 2, 3, 0], np.int32)  # after 1 2: 3, 4, 3
    cfg = config(targets="contexts")
    program, data = frbm.program(cfg), texts(cfg, 0)(ids)
    contexts, words = (np.asarray(x) for x in examples(ids, 2, 0))
    index = np.flatnonzero((contexts == [1, 2]).all(axis=1))
    np.testing.assert_array_equal(program.ragged.costs(data)[index], 2)
    batch = program.batch(data, jnp.asarray(index), 6, cfg)
    params = random_params(cfg)
    of_data = frbm.of_data(params, batch)
    expected = (2 * params.R[3] + params.R[4]) / 3
    np.testing.assert_allclose(of_data.features, np.tile(expected, (3, 1)), rtol=1e-5)
    np.testing.assert_allclose(of_data.bias, np.tile((2 * params.b_v[3] + params.b_v[4]) / 3, 3), rtol=1e-5)
    np.testing.assert_array_equal(batch.word, words[index])


def test_the_likelihood_is_of_words():
    with pytest.raises(UserError, match="likelihood is of words"):
        config(objective="likelihood", targets="contexts")


def test_dropout_leaves_features_out_of_the_next_word_alone():
    """What is dropped has no gradient, the rest is as of a model without it; contexts keep all their features."""
    cfg, params, batch = config(dropout=0.5), random_params(config()), random_batch(1)
    keys = jax.random.split(jax.random.key(4), 1)
    kept = frbm.dropout_mask(keys[0], cfg)
    assert set(np.asarray(kept)) == {0.0, 2.0}
    grads = jax.grad(lambda p: frbm.batch_loss(p, batch, jnp.ones(1), keys, cfg)[0])(params)
    assert not np.any(grads.W[-1][kept == 0])
    assert np.all(np.any(np.asarray(grads.W[:-1]) != 0, axis=2))
    fewer = params._replace(W=params.W.at[-1].multiply(kept[:, None]))
    expected = jax.grad(lambda p: frbm.batch_loss(p, batch, jnp.ones(1), keys, config())[0])(fewer)
    np.testing.assert_allclose(grads.W[:-1], expected.W[:-1], rtol=1e-5, atol=1e-6)
