"""The factored RBM against enumeration of its hidden units, and of the words of its chain."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import kstest, norm

import jaxlm
from jaxfit.errors import UserError
from jaxlm.context_model import Batch, examples, texts
from jaxlm.models import frbm

N_W, D, C, N_H = 7, 3, 2, 4
GRADIENTS = jax.jit(jax.vmap(jax.grad(frbm.loss), (None, 0, 0, None)), static_argnums=3)


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
        np.testing.assert_allclose(frbm.log_prob(params, jnp.array(context), config()), expected, rtol=1e-10)
        batch = Batch(jnp.array([context] * N_W), jnp.arange(N_W))
        np.testing.assert_allclose(frbm.score(params, batch, config()), -expected, rtol=1e-10)


def hidden(p, context, v):
    """P(h_j = 1 | context, v), of words' probabilities v (Eq. 3.13)."""
    on = sum(p.R[w] @ p.W[i] for i, w in enumerate(context)) + p.b_h + v @ p.R @ p.W[-1]
    return 1 / (1 + np.exp(-on))


def statistics(p, context, v):
    """-∂E/∂θ, expected over P(h | context, v), of words' probabilities v: Eq. 3.8-3.9, and of the biases."""
    on = hidden(p, context, v)
    R, W = np.outer(v, p.W[-1] @ on), np.zeros_like(p.W)
    for i, w in enumerate(context):
        R[w] += p.W[i] @ on
        W[i] = np.outer(p.R[w], on)
    W[-1] = np.outer(v @ p.R, on)
    return np.concatenate([x.ravel() for x in (R, W, on, v)])


def transition(p, context):
    """P(w' | w) of one full step of the chain, by enumeration over hidden states (Eq. 3.12-3.13): [N_w, N_w]."""
    given_word = joint(p, context)
    given_word /= given_word.sum(axis=1, keepdims=True)  # P(h | w)
    given_h = np.array([softmax([p.R[w] @ p.W[-1] @ h + p.b_v[w] for w in range(N_W)]) for h in states()])
    return given_word @ given_h


def flat(params, axes=0):
    """Lay parameters flat in one array, after the first axes: float64 [..., numbers]."""
    each = [np.asarray(x, np.float64) for x in jax.tree.leaves(params)]
    return np.concatenate([x.reshape(*x.shape[:axes], -1) for x in each], axis=axes)


def by_name(numbers):
    """Divide what `flat` laid flat, [..., numbers], by parameter."""
    ends = np.cumsum([x.size for x in random_params(config())])[:-1]
    return dict(zip(frbm.Params._fields, np.split(numbers, ends, axis=-1), strict=True))


def exact(p, context, word):
    """Minus the gradient of log P(word | context), Eq. 3.10-3.11: what the model expects, less the data's."""
    each = np.array([statistics(p, context, v) for v in np.eye(N_W)])
    return joint(p, context).sum(axis=1) @ each - each[word]


def test_what_the_model_expects_less_the_data_is_the_gradient_of_the_likelihood(float64):
    params, context, word = random_params(config()), (4, 1), 5
    found = jax.grad(lambda p: -frbm.log_prob(p, jnp.array(context), config())[word])(params)
    np.testing.assert_allclose(flat(found), exact(by_numpy(params), context, word), atol=1e-10)


def expected_cd(p, context, word, steps):
    """Minus the update of CD-T in expectation, by enumeration."""
    last = np.linalg.matrix_power(transition(p, context), steps)[word]
    each = np.array([statistics(p, context, v) for v in np.eye(N_W)])
    return last @ each - each[word]


@pytest.mark.parametrize(
    ("objective", "steps", "draws"),
    [("cd", 1, 1), ("cd", 3, 1), ("cd", 2, 3), ("likelihood", 1, 1), ("likelihood", 1, 3)],
)
def test_gradients_are_unbiased_for_their_expectations(objective, steps, draws):
    cfg, number = config(objective=objective, cd_steps=steps, num_draws=draws), 20_000
    params, context, word = random_params(cfg, seed=2), (4, 1), 5
    p = by_numpy(params)
    expected = expected_cd(p, context, word, steps) if objective == "cd" else exact(p, context, word)
    assert_mean(gradients(params, context, np.full(number, word), cfg, seed=steps), expected)


def gradients(params, context, words, cfg, seed=0):
    """Draw the gradient of each word by the model's own code: [N, numbers]."""
    batch = Batch(jnp.tile(jnp.array(context), (len(words), 1)), jnp.asarray(words, jnp.int32))
    return flat(GRADIENTS(params, batch, jax.random.split(jax.random.key(seed), len(words)), cfg), axes=1)


def assert_mean(samples, expected):
    """Test the mean of independent draws, [N, numbers], by z-tests that together are at p = 1e-3."""
    z = (samples.mean(axis=0) - expected) / np.maximum(samples.std(axis=0) / len(samples) ** 0.5, 1e-6)
    assert np.max(np.abs(z)) < norm.isf(1e-3 / 2 / len(z))


def squared_distance(samples, expected):
    """Estimate |E[x] - expected|² from independent draws x, [N, numbers]: the estimate and its standard error.

    It is the mean over pairs of different draws, so that their noise adds nothing to it. The error is rather too large:
    it counts the noise of the mean twice.
    """
    off, number = samples - expected, len(samples)
    mean = off.mean(axis=0)
    estimate = (number * mean @ mean - np.mean(np.sum(off**2, axis=1))) / (number - 1)
    return estimate, 2 * np.std(off @ mean) / number**0.5


def exceeds(one, other=(0.0, 0.0)):
    """Return whether an estimate is larger than another, or than 0: a one-sided z-test at p = 1e-4."""
    return (one[0] - other[0]) / np.hypot(one[1], other[1]) > norm.isf(1e-4)


BIASED = (4, 1), 2  # a context and a word from which the chain takes long, by the parameters below


def biased():
    return random_params(config(), seed=18, scale=1.0)


def biased_gradients(objective, steps, seed):
    cfg = config(objective=objective, cd_steps=steps)
    return gradients(biased(), BIASED[0], np.full(20_000, BIASED[1]), cfg, seed)


def test_likelihood_is_unbiased_and_the_bias_of_cd_falls_with_the_steps_of_the_chain():
    right = exact(by_numpy(biased()), *BIASED)
    assert_mean(biased_gradients("likelihood", 1, seed=0), right)
    one, three, ten = (squared_distance(biased_gradients("cd", steps, seed=steps), right) for steps in (1, 3, 10))
    assert exceeds(one)
    assert exceeds(one, three)
    assert exceeds(three, ten)


def test_mean_field_is_more_biased_than_cd_except_in_word_biases_and_more_steps_leave_it_so():
    """Mean-field takes E[v_n | h] where CD draws v_n: after one step their expectations are equal, and b_v's gradients.

    Other gradients read P(h | v_n), not linear in v_n, and products with it: what comes of v_n's variation given h is
    missing, however long the chain. This adds to the bias of CD-1 or takes from it. Here, as with most random
    parameters, R, W and b_h are further from the exact gradient.
    """
    right = by_name(exact(by_numpy(biased()), *BIASED))
    of = {
        (objective, steps): by_name(biased_gradients(objective, steps, seed))
        for seed, (objective, steps) in enumerate(itertools.product(("cd", "mean-field"), (1, 10)))
    }
    assert_mean(of["mean-field", 1]["b_v"] - of["cd", 1]["b_v"], 0)
    for name, steps in itertools.product(("R", "W", "b_h"), (1, 10)):
        mean_field, cd = (
            squared_distance(of[objective, steps][name], right[name]) for objective in ("mean-field", "cd")
        )
        assert exceeds(mean_field, cd), (name, steps)
    for name in ("R", "W", "b_v"):
        assert of["mean-field", 1][name].var(axis=0).sum() < 0.8 * of["cd", 1][name].var(axis=0).sum(), name


def test_mean_field_is_biased_where_the_words_are_those_of_the_model_and_cd_is_not():
    """There the exact gradient is zero, and so is that of CD-T, as the chain leaves the model's distribution as it is.

    Of mean-field CD-1, only that of b_v is.
    """
    context, rates = BIASED[0], joint(by_numpy(biased()), BIASED[0]).sum(axis=1)
    words = np.random.default_rng(0).choice(N_W, 20_000, p=rates)
    assert_mean(gradients(biased(), context, words, config()), 0)
    mean_field = by_name(gradients(biased(), context, words, config(objective="mean-field"), seed=1))
    assert_mean(mean_field.pop("b_v"), 0)
    assert all(exceeds(squared_distance(samples, 0)) for samples in mean_field.values())


@pytest.mark.parametrize("objective", ["cd", "mean-field", "likelihood"])
@pytest.mark.parametrize(("steps", "draws", "dropout"), [(1, 1, 0.0), (2, 1, 0.4), (2, 3, 0.0), (2, 3, 0.4)])
def test_batch_equals_the_specification(objective, steps, draws, dropout, float64):
    cfg = config(objective=objective, cd_steps=steps, num_draws=draws, dropout=dropout)
    params, batch = random_params(cfg, seed=5), random_batch(6)
    weight, keys = jnp.array([1.0, 0.5, 2, 0, 1, 1]), jax.random.split(jax.random.key(7), 6)

    def specified(params):
        return weight @ jax.vmap(frbm.loss, (None, 0, 0, None))(params, batch, keys, cfg)

    one, two = (
        jax.jit(jax.value_and_grad(specified))(params),
        jax.jit(jax.value_and_grad(lambda p: frbm.batch_loss(p, batch, weight, keys, cfg)[0]))(params),
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
    params, noise = random_params(config(), seed=2), {}
    for draws in (1, 4):
        found = gradients(params, (4, 1), np.full(4000, 5), config(objective=objective, num_draws=draws))
        noise[draws] = by_name(found)["b_v"].var(axis=0).sum()
    assert noise[4] < (0.25 if objective == "likelihood" else 0.6) * noise[1]  # also hidden units are drawn in CD


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


def expected_mean_field(p, context, v):
    """Minus the update of mean-field CD-1 from the distribution v in expectation, over the hidden states it draws."""
    on = hidden(p, context, v)
    last = sum(
        np.prod(np.where(h, on, 1 - on)) * statistics(p, context, softmax(p.R @ p.W[-1] @ h + p.b_v)) for h in states()
    )
    return last - statistics(p, context, v)


def test_mean_field_from_a_distribution_has_the_gradient_of_its_enumeration():
    """As the recipe `thesis` trains: of two contexts, one of them twice as heavy."""
    ids, number = np.array([1, 2, 3, 1, 2, 4, 2, 3, 6, 1, 2, 3, 6, 0], np.int32), 4000
    cfg = config(objective="mean-field", targets="contexts")
    program, data, index = frbm.program(cfg), texts(cfg, 0)(ids), jnp.array([2, 8])
    batch, weight = program.batch(data, index, 4, cfg), jnp.array([1.0, 2.0])
    params = random_params(cfg, seed=2)
    each = jax.vmap(jax.grad(lambda p, keys: program.loss(p, batch, weight, keys, cfg)[0]), (None, 0))
    samples = flat(jax.jit(each)(params, jax.random.split(jax.random.key(0), (number, 2))), axes=1)
    after_1_2, after_2_3 = np.eye(N_W)[[3, 4, 3]].mean(axis=0), np.eye(N_W)[[1, 6, 6]].mean(axis=0)
    p = by_numpy(params)
    assert_mean(samples, expected_mean_field(p, (1, 2), after_1_2) + 2 * expected_mean_field(p, (2, 3), after_2_3))


def test_the_likelihood_is_of_words():
    with pytest.raises(UserError, match="likelihood is of words"):
        config(objective="likelihood", targets="contexts")
    assert frbm.RECIPES["thesis"][1]["targets"] == "contexts", "which nobody gave, so that it cannot be left out"
    with pytest.raises(UserError, match=r"likelihood is of words \(--targets contexts\) - give --targets words"):
        jaxlm.train("frbm", ["a b", "b a"] * 20, recipe="thesis", objective="likelihood", progress=False)


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


@pytest.mark.parametrize("objective", ["cd", "mean-field", "likelihood"])
def test_memory_of_a_step_is_bounded(objective: str) -> None:
    """Less than 2 GB, where a number for each word, hidden unit and example would take 133 GB."""
    words, size = 33_278, 1000
    cfg = config(num_words=words, num_features=100, num_hidden=1000, objective=objective)
    params = jax.eval_shape(lambda key: frbm.init(key, cfg, np.ones(words)), jax.random.key(0))
    batch = Batch(jax.ShapeDtypeStruct((size, C), "int32"), jax.ShapeDtypeStruct((size,), "int32"))
    keys = jax.eval_shape(lambda key: jax.random.split(key, size), jax.random.key(0))
    step = jax.jit(jax.grad(frbm.batch_loss, has_aux=True), static_argnums=4)
    score = jax.jit(frbm.score, static_argnums=2)
    for lowered in (step.lower(params, batch, jnp.ones(size), keys, cfg), score.lower(params, batch, cfg)):
        assert lowered.compile().memory_analysis().temp_size_in_bytes < 2e9
