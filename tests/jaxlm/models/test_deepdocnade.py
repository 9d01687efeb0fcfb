"""DeepDocNADE against its equations: the estimate of Eq. 18, splits, the chain over words, several layers, blocks."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.data.documents import ordered
from jaxlm.data.documents.collection import DocumentCorpus, Documents, content_sha256, counted
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.document_model import of_orderings
from jaxlm.models import deepdocnade
from jaxlm.objectives import softmax
from jaxlm.tasks.documents import evaluate
from jaxlm.trained_model import Model
from jaxlm.training import train

N_W, H = 5, 3
ROWS = [[2, 0, 1, 0, 4], [0, 0, 0, 1, 0], [1, 1, 3, 2, 0]]
CONFIG = deepdocnade.Config(num_words=N_W, num_hidden=H, split="order")
G = {"sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}
SHAPES = [(1, "sigmoid"), (2, "tanh"), (3, "relu")]  # layers, and their function
shapes = pytest.mark.parametrize(("layers", "activation"), SHAPES)
SCORE = jax.jit(deepdocnade.score, static_argnums=2)
BATCH_LOSS = jax.jit(deepdocnade.batch_loss, static_argnums=4)


def random_params(config=CONFIG, seed=0, scale=1.0):
    start = deepdocnade.init(jax.random.key(0), config, np.ones(config.num_words))
    leaves, tree = jax.tree.flatten(start)
    rng = np.random.default_rng(seed)
    return tree.unflatten([jnp.asarray(scale * rng.normal(size=x.shape), jnp.float32) for x in leaves])


def documents_of(rows):
    rows = np.asarray(rows)
    return Documents(counted(*np.nonzero(rows), rows.shape, rows[rows > 0]), ((),) * len(rows))


def batch_of(documents, seed=0, config=CONFIG):
    data = ordered.ordered(documents, jax.random.key(seed))
    index = jnp.arange(ordered.num_documents(data))
    return deepdocnade.gather(data, index, documents.num_words + 3, config)


def words_of(batch):
    words = batch.words
    return [np.asarray(words.word)[np.asarray(words.owner) == i] for i in range(len(words.length))]


def log_p_by_hand(params, before, config):
    """Compute Eq. 14-17 in float64: log p of every word after these."""
    g = G[config.activation]
    h = np.asarray(params.c, np.float64)
    for word in before:
        h = h + np.asarray(params.W[word], np.float64)
    h = g(h)
    for W, c in params.deep:
        h = g(np.asarray(c, np.float64) + np.asarray(W, np.float64) @ h)
    scores = [float(np.asarray(v, np.float64) @ h + b) for v, b in zip(params.V, params.b, strict=True)]
    return np.array(scores) - np.log(np.sum(np.exp(scores)))


def chain_by_hand(params, words, config):
    """Compute -log p(v), each word after those before it."""
    return -sum(log_p_by_hand(params, words[:i], config)[word] for i, word in enumerate(words))


def estimate_by_hand(params, before, behind, config):
    """Compute Eq. 18 of the two parts of a document."""
    log_p = log_p_by_hand(params, before, config)
    return -(len(before) + len(behind)) / max(len(behind), 1) * sum(log_p[word] for word in behind)


def of_each(params, batch, keys, config):
    """Compute the loss of each document: the derivatives of the batched loss by their weights."""
    weight = jnp.ones(len(batch.first))
    return jax.grad(lambda weight: BATCH_LOSS(params, batch, weight, keys, config)[0])(weight)


@pytest.mark.parametrize("split", ["order", "words"])
@shapes
def test_the_loss_is_that_of_the_equations(layers, activation, split):
    config = replace(CONFIG, num_layers=layers, activation=activation, split=split)
    params, batch, keys = random_params(config), batch_of(documents_of(ROWS)), jax.random.split(jax.random.key(1), 3)
    weight, expected, behind = np.float32([1, 0.5, 2]), [], []
    for words, key in zip(words_of(batch), keys, strict=True):
        place = jnp.arange(len(words), dtype=jnp.int32)
        left = np.asarray(deepdocnade.is_input(place, jnp.asarray(words), jnp.int32(len(words)), key, config))
        expected.append(estimate_by_hand(params, words[left], words[~left], config))
        behind.append(not left.all())
    lengths = np.asarray(batch.words.length)

    def specification(params):
        own = deepdocnade.Batch(batch.words._replace(owner=None, word=None, length=0), 0)
        return jax.vmap(deepdocnade.loss, (None, own, 0, None))(params, batch, keys, config)

    np.testing.assert_allclose(jax.jit(specification)(params), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_each(params, batch, keys, config), expected, rtol=1e-5, atol=1e-6)
    total, metrics = BATCH_LOSS(params, batch, weight, keys, config)
    np.testing.assert_allclose(total, weight @ expected, rtol=1e-5)
    (mean,) = metrics.values()
    np.testing.assert_allclose((mean.total, mean.count), (weight @ (expected / lengths), weight @ behind), rtol=1e-5)
    gradients = jax.jit(jax.grad(lambda p: weight @ specification(p)))(params)
    found = jax.jit(jax.grad(lambda p: BATCH_LOSS(p, batch, weight, keys, config)[0]))(params)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(gradients), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("split", ["order", "words"])
def test_the_training_metric_is_of_documents_with_words_behind_the_split(split):
    config, params = replace(CONFIG, split=split), random_params()
    batch = batch_of(documents_of([[1, 0, 0, 0, 0], [0, 1, 0, 1, 0]] * 10))
    keys, weight = jax.random.split(jax.random.key(3), 20), jnp.asarray([1.0] * 17 + [0.0] * 3)
    mean = BATCH_LOSS(params, batch, weight, keys, config)[1][deepdocnade.BEHIND.name]
    expected = []
    for i, words in enumerate(words_of(batch)[:17]):
        place = jnp.arange(len(words))
        left = np.asarray(deepdocnade.is_input(place, jnp.asarray(words), jnp.int32(len(words)), keys[i], config))
        if not left.all():
            expected.append(estimate_by_hand(params, words[left], words[~left], config) / len(words))
    assert (len(expected) < 17) == (split == "words")
    assert mean.count == len(expected)
    assert mean.total == pytest.approx(sum(expected), rel=1e-5)


def test_over_all_orders_and_splits_the_estimate_is_the_mean_over_orders():
    params, words = random_params(), [0, 0, 1, 4]
    orders = list(itertools.permutations(words))
    of_order = np.mean([chain_by_hand(params, order, CONFIG) for order in orders])
    estimates = [estimate_by_hand(params, order[:d], order[d:], CONFIG) for order in orders for d in range(len(words))]
    assert np.mean(estimates) == pytest.approx(of_order, rel=1e-12)
    assert np.std(estimates) > 0.1


@pytest.mark.parametrize("layers", [1, 2])
def test_the_loss_is_an_unbiased_estimate_of_the_mean_over_orders(layers):
    """A z-test over drawn orders and splits, at p = 6e-5, for a short document and a longer one."""
    config, number = replace(CONFIG, num_layers=layers), 20_000
    params = random_params(config)
    for row in ([2, 1, 0, 0, 1], [0, 0, 2, 3, 0]):
        words = np.repeat(np.arange(N_W), row)
        expected = np.mean([chain_by_hand(params, order, config) for order in itertools.permutations(words)])
        batch, keys = batch_of(documents_of([row] * number), seed=2), jax.random.split(jax.random.key(3), number)
        found = np.asarray(of_each(params, batch, keys, config), np.float64)
        assert abs(found.mean() - expected) < 4 * found.std() / number**0.5
        assert found.std() < 10 * abs(expected)


def test_a_split_is_before_each_word_of_an_order_alike():
    number, D = 20_000, 4
    keys = jnp.repeat(jax.random.split(jax.random.key(0), number), D)
    place = jnp.tile(jnp.arange(D), number)
    left = deepdocnade.is_input(place, jnp.zeros_like(place), jnp.full_like(place, D), keys, CONFIG)
    d = np.asarray(left).reshape(number, D).sum(axis=1)
    share = np.bincount(d, minlength=D + 1) / number
    assert share[D] == 0
    np.testing.assert_allclose(share[:D], 1 / D, atol=4 * (1 / D * (1 - 1 / D) / number) ** 0.5)


def test_a_split_by_words_takes_each_number_of_occurrences_alike():
    """Of a word that occurs twice, 0, 1 or 2; of one that occurs once, 0 or 1, whatever of the other (footnote 2)."""
    number, words = 20_000, np.array([3, 1, 1])
    keys = jnp.repeat(jax.random.split(jax.random.key(0), number), 3)
    place, word = (jnp.tile(jnp.asarray(x, jnp.int32), number) for x in (np.arange(3), words))
    left = deepdocnade.is_input(place, word, jnp.full_like(place, 3), keys, replace(CONFIG, split="words"))
    left = np.asarray(left).reshape(number, 3)
    share = np.zeros((2, 3))
    np.add.at(share, (left[:, 0].astype(int), left[:, 1:].sum(axis=1)), 1 / number)
    np.testing.assert_allclose(share, 1 / 6, atol=4 * (1 / 6 * 5 / 6 / number) ** 0.5)


@pytest.mark.parametrize("rows", [2, 3, 1000])
@shapes
def test_scores_are_those_of_a_loop_over_words(layers, activation, rows, monkeypatch):
    """Also where documents are cut by blocks: each goes on where the block before has ended."""
    monkeypatch.setattr(softmax, "block_rows", lambda number, width: min(number, rows))
    config = replace(CONFIG, num_layers=layers, activation=activation)
    params, batch = random_params(config), batch_of(documents_of(ROWS))
    expected = [chain_by_hand(params, words, config) / len(words) for words in words_of(batch)]
    found = jax.jit(lambda params: deepdocnade.score(params, batch, config))(params)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("layers", [1, 3])
def test_probabilities_of_all_documents_of_a_length_sum_to_one(layers):
    config = replace(CONFIG, num_layers=layers)
    params = random_params(config, scale=2.0)
    for length in (1, 2):
        every = np.array(list(itertools.product(range(N_W), repeat=length)), np.int32)
        offsets = length * np.arange(len(every) + 1, dtype=np.int32)
        data = jax.device_put(ordered.Ordered(offsets, every.ravel()))
        batch = deepdocnade.gather(data, jnp.arange(len(every)), every.size, config)
        log_p = -length * np.asarray(SCORE(params, batch, config), np.float64)
        assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-5)
        assert np.std(log_p) > 0.5


def test_memory_of_scores_does_not_grow_with_the_hidden_layers_of_words():
    config = deepdocnade.Config(num_words=50_000, num_hidden=64, num_layers=2)
    params = jax.eval_shape(lambda: deepdocnade.init(jax.random.key(0), config, np.ones(config.num_words)))

    def temporaries(number):
        words = [jax.ShapeDtypeStruct(shape, jnp.int32) for shape in ((number,), (number,), (1,), (1,))]
        batch = deepdocnade.Batch(deepdocnade.Words(*words[:3]), words[3])
        return SCORE.lower(params, batch, config).compile().memory_analysis().temp_size_in_bytes

    few, many = 2_000, 200_000  # words of one document
    assert temporaries(many) - temporaries(few) < 32 * (many - few)  # a hidden layer alone takes 256 bytes a word


def model_of(params, config=CONFIG):
    words = Vocabulary(tuple("abcde"), np.array([9, 5, 2, 2, 1]))
    return Model(deepdocnade.MODEL, words, config, params, {})


def test_an_ensemble_is_the_exact_mean_over_the_orders_that_are_drawn():
    params, documents = random_params(scale=1.5), documents_of([[1, 1, 1, 0, 0], [0, 2, 0, 0, 1], [0, 0, 0, 0, 0]])
    model = model_of(params)
    data = deepdocnade.texts(CONFIG, -1)(documents)
    by_hand = []
    for number in range(3):
        drawn = deepdocnade.redraw(data, jax.random.fold_in(jax.random.key(3), number), CONFIG)
        parts = np.split(np.asarray(drawn.word)[:6], [3])
        by_hand.append([-chain_by_hand(params, words, CONFIG) for words in parts] + [0.0])
    np.testing.assert_allclose(list(itertools.islice(of_orderings(model, documents, 3), 3)), by_hand, rtol=1e-5)
    expected = np.log(np.mean(np.exp(by_hand), axis=0))
    np.testing.assert_allclose(model.document_log_probs(documents, 3, seed=3), expected, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_mean_over_orders_of_log_p_is_a_bound_of_the_bag_of_words(layers):
    """By Jensen's inequality; of a document of one word, often, it is exact."""
    config = replace(CONFIG, num_layers=layers)
    params, words = random_params(config, scale=1.5), [0, 0, 1, 4]
    every = [-chain_by_hand(params, order, config) for order in itertools.permutations(words)]
    bag = np.log(np.mean(np.exp(every)))  # of all orders
    model, documents = model_of(params, config), documents_of([[2, 1, 0, 0, 1], [0, 3, 0, 0, 0]])
    drawn = np.array(list(itertools.islice(of_orderings(model, documents, seed=3), 100)))
    found = model.document_log_probs(documents, 100, seed=3)
    assert abs(drawn[:, 0].mean() - np.mean(every)) < 4 * drawn[:, 0].std() / 10
    assert abs(np.exp(found[0]) - np.exp(bag)) < 4 * np.exp(drawn[:, 0]).std() / 10
    for bound, of_bag in ((np.mean(every), bag), (drawn[:, 0].mean(), found[0])):
        assert bound < of_bag - 0.1
    np.testing.assert_allclose([*drawn[:, 1], found[1]], -chain_by_hand(params, [1, 1, 1], config), rtol=1e-5)


@shapes
def test_a_representation_is_the_last_hidden_layer_after_all_words(layers, activation):
    config = replace(CONFIG, num_layers=layers, activation=activation)
    params, g = random_params(config), G[activation]
    rows = np.array([[2, 0, 1, 0, 4], [0, 0, 0, 0, 0]])
    expected = g(np.asarray(params.c) + rows @ np.asarray(params.W))
    for W, c in params.deep:
        expected = g(np.asarray(c) + expected @ np.asarray(W).T)
    found = model_of(params, config).features(documents_of(rows))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert found.dtype == np.float32


def topics_corpus(num_words=24, topics=3):
    """Draw documents of one topic each, whose words are drawn evenly from those of the topic."""
    rng = np.random.default_rng(0)
    counts, width = np.zeros((300, num_words), np.int64), num_words // topics
    for row, topic in zip(counts, rng.integers(topics, size=len(counts)), strict=True):
        np.add.at(row, rng.integers(width, size=rng.integers(4, 20)) + topic * width, 1)
    every = documents_of(counts)
    train_part, valid, test = (every.take(range(*part)) for part in ((0, 200), (200, 250), (250, 300)))
    words = Vocabulary(tuple(f"w{i}" for i in range(num_words)), counts[:200].sum(axis=0))
    return DocumentCorpus("topics", train_part, valid, test, words, content_sha256(train_part, valid, words), "")


@pytest.mark.extended
@pytest.mark.parametrize(("layers", "split"), [(2, "order"), (1, "words")])
def test_training_finds_topics(layers, split, tmp_path):
    """The first word of a document has 24 candidates, each later one nearly 8: the perplexity of the true model."""
    corpus = topics_corpus()
    recipe = replace(deepdocnade.RECIPES["tuned"][0], epochs=40, batch_size=20, rate={"*": 0.03}, decay={})
    config = {"num_hidden": 4, "num_layers": layers, "activation": "tanh", "split": split}
    model = train("deepdocnade", corpus, tmp_path, recipe=recipe, config=config).model
    lengths = corpus.test.lengths
    ideal = np.exp(np.mean((np.log(24) + (lengths - 1) * np.log(8)) / lengths))
    perplexity = evaluate(model.document_log_probs(corpus.test, 4), lengths).perplexity
    assert ideal < perplexity < (1.15 if split == "order" else 1.3) * ideal


def test_at_most_three_layers():
    with pytest.raises(UserError, match="from 1 to 3"):
        deepdocnade.MODEL.configure(N_W, None, {"num_layers": 4})


def test_a_document_costs_the_products_of_its_one_hidden_vector():
    config = replace(CONFIG, num_layers=3)
    params = random_params(config)
    found = deepdocnade.cost(config, np.array([4, 8]))
    assert found.operations == 6 * (params.V.size + sum(layer.W.size for layer in params.deep))
    assert (found.read, found.added) == (3 * H, 3 * H), "of half of six words"
