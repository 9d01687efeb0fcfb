"""The Replicated Softmax against enumeration of its hidden units and documents; annealed importance sampling."""

import itertools
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from scipy.special import expit, log_softmax, logsumexp, softmax
from scipy.stats import chisquare

from jaxfit.errors import UserError
from jaxfit.rbm import scheduled_steps
from jaxfit.run_dir.run import Run
from jaxlm.data.documents.collection import DocumentCorpus, Documents, content_sha256, counted
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.model_files import load
from jaxlm.models.replicated_softmax import ais, chain
from jaxlm.models.replicated_softmax import model as softmax_rbm
from jaxlm.tasks.documents import evaluate
from jaxlm.trained_model import Model
from jaxlm.training import train

N_W, H = 4, 3
ROWS = [[2, 0, 1, 3], [0, 0, 0, 1], [1, 1, 0, 0]]
CONFIG = softmax_rbm.Config(num_words=N_W, num_hidden=H)
HIDDEN = np.array(list(itertools.product((0, 1), repeat=H)))  # all states, [2^H, H]
LIMIT = 4.5  # standard errors: one of many numbers is further away once in 10^5 times


def random_params(seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    shapes = (N_W, H), (N_W,), (H,)
    return softmax_rbm.Params(*(jnp.asarray(scale * rng.normal(size=shape), jnp.float32) for shape in shapes))


def documents_of(rows):
    rows = np.asarray(rows)
    return Documents(counted(*np.nonzero(rows), rows.shape, rows[rows > 0]), ((),) * len(rows))


def batch_of(rows, config=CONFIG, steps=1, spare=3):
    data = softmax_rbm.texts(config, -1)(documents_of(rows))
    number = softmax_rbm.ordered.num_documents(data)
    capacity = int(np.sum(rows)) + spare
    return softmax_rbm.gather(data, jnp.arange(number), capacity, config)._replace(cd_steps=jnp.int32(steps))


def words_of(batch):
    return [np.asarray(batch.word)[np.asarray(batch.at.owner) == i] for i in range(len(batch.at.length))]


def energies(params, words):
    """E(v, h) of each state of the hidden units, [2^H], in float64 (Eq. 22)."""
    W, b, c = (np.asarray(x, np.float64) for x in params)
    return -len(words) * HIDDEN @ c - sum(HIDDEN @ W[word] + b[word] for word in words)


def free_energy(params, words):
    return -logsumexp(-energies(params, words))


def exact_log_partition(params, length):
    """Sum over the hidden units, for each of which the words of a document are independent."""
    W, b, c = (np.asarray(x, np.float64) for x in params)
    return logsumexp(length * (HIDDEN @ c + logsumexp(HIDDEN @ W.T + b, axis=1)))


def test_the_free_energy_is_that_of_all_hidden_states():
    params, batch = random_params(), batch_of(ROWS)
    expected = [free_energy(params, words) for words in words_of(batch)]
    np.testing.assert_allclose(softmax_rbm.free_energies(params, batch.word, batch.at), expected, rtol=1e-5)


def test_probabilities_of_all_documents_of_a_length_sum_to_one():
    params = random_params()
    for length in (1, 2):
        log_Z = exact_log_partition(params, length)
        every = [free_energy(params, words) for words in itertools.product(range(N_W), repeat=length)]
        assert np.exp(-np.array(every) - log_Z).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_minibatch_is_the_sum_of_the_specification(steps):
    """Value and gradient, with the same draws, and the nats of words given the hidden units that were drawn."""
    params, batch = random_params(), batch_of(ROWS, steps=steps)
    keys, weight = jax.random.split(jax.random.key(3), 3), np.float32([1, 0.5, 2])
    axes = softmax_rbm.Batch(chain.Slots(0, 0, None), None, None)

    def specified(params):
        of_each = jax.vmap(softmax_rbm.loss, (None, axes, 0, None))(params, batch, keys, CONFIG)
        return weight @ of_each

    def batched(params):
        return softmax_rbm.batch_loss(params, batch, weight, keys, CONFIG)

    (value, metrics), gradient = jax.jit(jax.value_and_grad(batched, has_aux=True))(params)
    expected, expected_gradient = jax.jit(jax.value_and_grad(specified))(params)
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)
    for one, other in zip(gradient, expected_gradient, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    (reconstruction,) = metrics.values()
    first = jax.vmap(jax.random.fold_in, (0, None))(keys, 0)  # of the first step, whatever follows
    drawn = chain.step(params, chain.hidden_input(params, batch.word, batch.at), batch.at, first)
    log_p = log_softmax(np.asarray(drawn.h, np.float64) @ np.asarray(params.W).T + np.asarray(params.b), axis=1)
    nats = [-of_document[words].mean() for of_document, words in zip(log_p, words_of(batch), strict=True)]
    np.testing.assert_allclose((reconstruction.total, reconstruction.count), (weight @ np.array(nats), 3.5), rtol=1e-5)


def test_drawn_words_follow_the_conditional_distribution():
    """v' given the h of its step, whatever the length of the document and the others' (Eq. 25), by chi-square."""
    params, number = random_params(), 8000
    at = chain.slots(jnp.tile(jnp.array([2, 5], jnp.int32), number // 2), 4 * number)
    x = chain.hidden_input(params, jnp.zeros(4 * number, jnp.int32), at)
    drawn = jax.jit(chain.step)(params, x, at, jax.random.split(jax.random.key(0), number))
    owner, word = np.asarray(at.owner), np.asarray(drawn.word)
    assert np.all(word[owner == number] == N_W)
    h = np.asarray(drawn.h)
    for length in (2, 5):
        p = expit(length * np.asarray(params.c) + length * np.asarray(params.W)[0])
        on = h[np.asarray(at.length) == length].mean(axis=0)
        assert np.all(np.abs(on - p) < LIMIT * np.sqrt(p * (1 - p) / (number / 2)))
    W, b = np.asarray(params.W), np.asarray(params.b)
    tested = 0
    for state in HIDDEN:
        of_state = np.flatnonzero((h == state[None]).all(axis=1))
        counts = np.bincount(word[np.isin(owner, of_state)], minlength=N_W)
        if counts.sum() > 500:
            assert chisquare(counts, counts.sum() * softmax(b + W @ state)).pvalue > 1e-4
            tested += 1
    assert tested > 2


@pytest.mark.parametrize("number", [1, 2, 3, 8, 13])
def test_inversion_finds_the_first_sum_above_the_draw(number):
    rng = np.random.default_rng(number)
    below = np.cumsum(rng.exponential(size=(3, number)), axis=1).astype(np.float32)
    owner = rng.integers(3, size=200).astype(np.int32)
    u = np.concatenate([[0.0, 1 - 2.0**-24], rng.random(198)]).astype(np.float32)
    found = chain.inverse_cdf(jnp.asarray(below), jnp.asarray(owner), jnp.asarray(u))
    target = u * below[owner, -1]
    expected = [np.searchsorted(below[o], t, side="right") for o, t in zip(owner, target, strict=True)]
    np.testing.assert_array_equal(found, np.minimum(expected, number - 1))


def sizes_in(jaxpr):
    """Yield the numbers of elements of all arrays that a program computes."""
    for equation in jaxpr.eqns:
        yield from (variable.aval.size for variable in equation.outvars)
        for inner in jaxprs_in_params(equation.params):
            yield from sizes_in(inner)


def test_no_array_has_an_entry_for_each_word_of_a_document_and_of_the_vocabulary():
    config = softmax_rbm.Config(num_words=300, num_hidden=H)
    rows = np.zeros((2, 300), np.int64)
    rows[:, :200] = 1
    batch, params = batch_of(rows, config), softmax_rbm.init(jax.random.key(0), config, np.ones(300))
    keys = jax.random.split(jax.random.key(1), 2)

    def gradient(params):
        return jax.grad(lambda p: softmax_rbm.batch_loss(p, batch, jnp.ones(2), keys, config)[0])(params)

    sizes = list(sizes_in(jax.make_jaxpr(gradient)(params).jaxpr))
    assert 2 * 300 in sizes
    assert max(sizes) < 400 * 300 / 50


def test_contrastive_divergence_comes_near_the_exact_gradient():
    """Of -log p(v), by a z-test: with many steps it is within the error of the mean, and with one it is not."""
    params, words, number = random_params(1), np.array([0, 0, 3]), 20_000
    batch = batch_of([[2, 0, 0, 1]], spare=0)
    example = jax.tree.map(lambda x: x[0], batch.at)._replace(owner=batch.at.owner)

    def exact(params):
        total = len(words) * (HIDDEN @ params.c + jax.nn.logsumexp(HIDDEN @ params.W.T + params.b[None], axis=1))
        return softmax_rbm.free_energies(params, batch.word, batch.at)[0] + jax.nn.logsumexp(total)

    @jax.jit
    def estimates(steps, keys):
        one = jax.grad(softmax_rbm.loss)
        return jax.vmap(lambda key: one(params, batch._replace(at=example, cd_steps=steps), key, CONFIG))(keys)

    expected, distances = jax.grad(exact)(params), []
    for steps in (1, 3, 40):
        found = estimates(steps, jax.random.split(jax.random.key(steps), number))
        off = [np.asarray(f).mean(axis=0) - e for f, e in zip(found, expected, strict=True)]
        error = [np.asarray(f).std(axis=0) / np.sqrt(number) for f in found]
        z = np.concatenate([np.ravel(o / np.maximum(s, 1e-9)) for o, s in zip(off, error, strict=True)])
        distances.append(np.abs(z).max())
    assert distances[0] > 2 * LIMIT
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < LIMIT


@pytest.mark.parametrize("scale", [1.0, 8.0, 30.0])
def test_held_out_words_are_scored_by_their_exact_conditional_probabilities(scale):
    """Also by weights that are too large for products of several factors."""
    params, batch = random_params(scale=scale), batch_of(ROWS)
    for found, words in zip(softmax_rbm.score(params, batch, CONFIG), words_of(batch), strict=True):
        nats = []
        for i in range(min(len(words), softmax_rbm.HELD_OUT)):
            others = np.delete(words, i)
            each = -np.array([free_energy(params, [*others, word]) for word in range(N_W)])
            nats.append(logsumexp(each) - each[words[i]])
        assert float(found) == pytest.approx(np.mean(nats), rel=1e-4, abs=1e-5 * scale)


LENGTHS = [1, 2, 5, 23, 70]  # with FINE at 10, chains pass through all but 23


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr(ais, "FINE", 10)


@pytest.mark.usefixtures("coarse")
def test_annealed_importance_sampling_estimates_the_partition_function():
    """Within its own standard error for each length, that of one word exactly; with more steps the error is smaller."""
    params, errors = random_params(2), []
    exact = np.array([exact_log_partition(params, length) for length in LENGTHS])
    for steps in (1, 6):
        found = ais.log_partition(params, LENGTHS, jax.random.key(0), chains=128, steps=steps)
        error = np.array([found.error_of_sum(one) for one in np.eye(len(LENGTHS))])
        assert error[0] < 1e-6
        assert np.all(error[1:] > 0.001)
        assert np.all(error < 0.2)
        assert np.all(np.abs(found.value - exact) < LIMIT * error + 1e-6 * np.abs(exact))
        errors.append(error[-1])
    assert errors[1] < errors[0]


def test_the_standard_error_is_the_spread_of_repeated_estimates():
    params = random_params(2)
    again = [ais.log_partition(params, [3], jax.random.key(seed), chains=50, steps=1) for seed in range(40)]
    spread = np.std([each.value[0] for each in again], ddof=1)
    assert np.mean([each.error_of_sum([1.0]) for each in again]) == pytest.approx(spread, rel=0.5)


def test_the_standard_error_of_documents_is_the_spread_of_repeated_estimates(monkeypatch):
    """Of the mean of 1/D log p(v), whose estimates share their chains, so that their errors do not average out."""
    monkeypatch.setattr(softmax_rbm, "log_partition", partial(ais.log_partition, chains=50, steps=1))
    model, documents = model_of(random_params(2)), documents_of([*ROWS, [0, 0, 0, 0], [3, 2, 0, 1]])
    found = documents.lengths > 0
    means = [
        np.mean((model.document_log_probs(documents, seed=seed) / np.maximum(documents.lengths, 1))[found])
        for seed in range(30)
    ]
    errors = [model.document_standard_error(documents, seed=seed) for seed in range(30)]
    assert np.mean(errors) == pytest.approx(np.std(means, ddof=1), rel=0.4)


@pytest.mark.usefixtures("coarse")
def test_chains_run_in_blocks_and_an_estimate_does_not_depend_on_other_lengths(monkeypatch):
    """So memory does not grow with chains and lengths."""
    params, key, sizes, climb = random_params(), jax.random.key(5), set(), ais._climb

    def recording(params, x, keys, rungs, number, steps, capacity):
        sizes.add((len(x), capacity))
        return climb(params, x, keys, rungs, number, steps, capacity)

    monkeypatch.setattr(ais, "_climb", recording)
    whole = ais.log_partition(params, LENGTHS, key, chains=20, steps=2)
    alone = ais.log_partition(params, LENGTHS[2:4], key, chains=20, steps=2)
    np.testing.assert_allclose(alone.value, whole.value[2:4], rtol=1e-5)
    assert whole.log_weight.shape == (5, 20)
    sizes.clear()
    monkeypatch.setattr(ais, "CACHED", 7)
    blocks = ais.log_partition(params, LENGTHS, key, chains=20, steps=2)
    np.testing.assert_allclose(blocks.value, whole.value, rtol=1e-5)
    assert {number for number, _ in sizes} == {7}
    assert max(capacity for _, capacity in sizes) < 7 * 150
    assert ais.log_partition(params, [], key).value.shape == (0,)


def model_of(params, config=CONFIG):
    return Model(softmax_rbm.MODEL, Vocabulary(tuple("abcd"), np.ones(N_W)), config, params, {})


def test_documents_have_probabilities_in_any_order_and_vectors():
    """-F(v) - log Z_D within the error of the estimate; a document without words has probability 1."""
    params, rows = random_params(), [*ROWS, [0, 0, 0, 0]]
    model, documents = model_of(params), documents_of(rows)
    found = model.document_log_probs(documents, seed=2)
    words = [np.repeat(np.arange(N_W), row) for row in rows]
    for value, each in zip(found[:3], words, strict=False):
        expected = -free_energy(params, each) - exact_log_partition(params, len(each))
        assert value == pytest.approx(expected, abs=0.1)
    assert found[3] == 0
    np.testing.assert_array_equal(model.document_log_probs(documents, orderings=5, seed=2), found)
    np.testing.assert_array_equal(model.document_log_probs(documents.take([1]), seed=2), found[1:2])
    lengths = documents.lengths[:, None]
    expected = expit(lengths * np.asarray(params.c) + np.asarray(rows) @ np.asarray(params.W))
    np.testing.assert_allclose(model.features(documents), expected, rtol=1e-5)


def test_the_schedule_divides_training_into_equal_parts():
    config = replace(CONFIG, cd_steps=[1, 3, 5])
    assert config.cd_steps == (1, 3, 5)
    batch = batch_of(ROWS)
    steps = [
        int(scheduled_steps(batch, None, jnp.float32(part), config).cd_steps) for part in (0, 0.3, 0.4, 0.6, 0.7, 1)
    ]
    assert steps == [1, 1, 3, 3, 5, 5]
    for wrong in ((), (0,), (1, 0)):
        with pytest.raises(UserError, match="at least one step"):
            replace(CONFIG, cd_steps=wrong)


def topics_corpus(num_words=24, topics=3, documents=400, seed=0):
    """Draw documents of one topic each, whose words are drawn evenly from those of the topic."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((documents, num_words), np.int64)
    of = rng.integers(topics, size=documents)
    for i, topic in enumerate(of):
        words = rng.integers(num_words // topics, size=rng.integers(4, 20)) + topic * (num_words // topics)
        np.add.at(counts[i], words, 1)
    every = documents_of(counts)
    train_part, valid, test = (every.take(range(*part)) for part in ((0, 300), (300, 350), (350, 400)))
    words = Vocabulary(tuple(f"w{i}" for i in range(num_words)), counts[:300].sum(axis=0))
    sha256 = content_sha256(train_part, valid, words)
    return DocumentCorpus("topics", train_part, valid, test, words, sha256, ""), of[350:]


@pytest.mark.extended
def test_training_finds_topics(tmp_path):
    """The first word of a document has 24 candidates, each later one nearly 8: the perplexity of the true model."""
    corpus, topic = topics_corpus()
    recipe = replace(softmax_rbm.RECIPES["tuned"][0], epochs=120, batch_size=20, rate={"*": 0.01})
    trained = train(
        "replicated-softmax", corpus, tmp_path / "out", recipe=recipe, config={"num_hidden": 8}, run=Run()
    )  # fmt: skip
    lengths = corpus.test.lengths
    ideal = np.exp(np.mean((np.log(24) + (lengths - 1) * np.log(8)) / lengths))
    perplexity = evaluate(trained.model.document_log_probs(corpus.test), lengths).perplexity
    assert 0.98 * ideal < perplexity < 1.3 * ideal
    vectors = load(tmp_path / "out").features(corpus.test)
    distance = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    same = topic[:, None] == topic[None]
    assert distance[same].mean() < 0.5 * distance[~same].mean()
