"""DocNADE against its equations: probabilities that sum to one, the sum of Eq. 6, the tree of Eq. 8-9, ensembles."""

import itertools
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfit import tables
from jaxfit.errors import UserError
from jaxfit.run_dir.run import Run
from jaxlm.data.documents.collection import DocumentCorpus, Documents, content_sha256, counted
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.document_model import log_mean_exp, of_orderings
from jaxlm.model_files import load
from jaxlm.models.docnade import model as docnade
from jaxlm.models.docnade import tree as docnade_tree
from jaxlm.tasks.documents import evaluate
from jaxlm.trained_model import Model
from jaxlm.training import train
from jaxlm.trees import build as trees
from word_trees import walk

N_W, H = 5, 3
ROWS = [[2, 0, 1, 0, 4], [0, 0, 0, 1, 0], [1, 1, 3, 2, 0]]
CONFIG = docnade.Config(num_words=N_W, num_hidden=H)
TREE = trees.build("huffman", jax.random.key(0), num_words=N_W, counts=np.array([9, 5, 2, 2, 1]))
SPECIFICATION = jax.jit(docnade.loss, static_argnums=2)
G = {"sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh}


def random_params(seed=0, scale=1.0, num_words=N_W):
    rng = np.random.default_rng(seed)
    shapes = (num_words, H), (H,), (num_words - 1, H), (num_words - 1,)
    return docnade.Params(*(jnp.asarray(scale * rng.normal(size=shape), jnp.float32) for shape in shapes))


def documents_of(rows):
    rows = np.asarray(rows)
    return Documents(counted(*np.nonzero(rows), rows.shape, rows[rows > 0]), ((),) * len(rows))


def log_p_by_hand(params, words, config=CONFIG, tree=TREE):
    """Algorithm 1, word by word and decision by decision, in float64: log p of each word."""
    W, c, V, b = (np.asarray(x, np.float64) for x in params)
    codes, total, found = dict(walk(tree)), np.array(c), []
    for word in words:
        h = G[config.activation](total)
        found.append(sum(-np.log1p(np.exp(-sign * (V[node] @ h + b[node]))) for node, sign in codes[word]))
        total = total + W[word]
    return found


def batch_of(documents, config=CONFIG, tree=TREE):
    data = docnade.texts(config, -1, tree)(documents)
    costs = docnade.costs(data).sum(axis=0) + 3
    return docnade.gather(data, jnp.arange(docnade.num_documents(data)), tuple(costs.tolist()), config)


def words_of(batch):
    words = batch.words
    return [np.asarray(words.word)[np.asarray(words.owner) == i].tolist() for i in range(len(words.length))]


@pytest.mark.parametrize("activation", ["sigmoid", "tanh"])
def test_the_loss_is_that_of_the_equations(activation):
    config, params = replace(CONFIG, activation=activation), random_params()
    batch = batch_of(documents_of(ROWS), config)
    expected = np.array([-sum(log_p_by_hand(params, words, config)) for words in words_of(batch)])
    found = [SPECIFICATION(params, np.array(words), config, TREE.children) for words in words_of(batch)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(docnade.score(params, batch, config), expected / [7, 1, 7], rtol=1e-5)
    weight = np.float32([1, 0.5, 2])
    rows = tables.gathered(params, docnade.touched(batch, config))
    total, metrics = docnade.batch_loss(rows, batch, weight, None, config)
    np.testing.assert_allclose(total, weight @ expected, rtol=1e-5)
    (mean,) = metrics.values()
    np.testing.assert_allclose((mean.total, mean.count), (weight @ (expected / [7, 1, 7]), 3.5), rtol=1e-5)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh"])
def test_gradients_are_those_of_the_specification(activation):
    config, params = replace(CONFIG, activation=activation), random_params()
    batch = batch_of(documents_of(ROWS), config)
    weight = jnp.array([1, 0.5, 2])

    def batched(params):
        rows = tables.gathered(params, docnade.touched(batch, config))
        return docnade.batch_loss(rows, batch, weight, None, config)[0]

    def in_parts(params):
        weights = jax.tree.map(lambda x: tables.create(x, optax.identity(), by_rows=True), params)
        _, _, parts = docnade.gradient(weights, batch, weight, None, config)
        return [
            tables.add(jnp.zeros_like(x), g, jnp.float32(1)) if isinstance(g, tuple) else g
            for x, g in zip(params, parts, strict=True)
        ]

    gradient = jax.jit(jax.grad(docnade.loss), static_argnums=2)
    each = [gradient(params, np.array(words), config, TREE.children) for words in words_of(batch)]
    expected = [sum(w * np.asarray(g) for w, g in zip(weight, gs, strict=True)) for gs in zip(*each, strict=True)]
    for ours in (jax.grad(batched), in_parts):
        for one, other in zip(jax.jit(ours)(params), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_probabilities_of_all_documents_of_a_length_sum_to_one():
    params = random_params(scale=2.0)
    of_all = jax.jit(jax.vmap(lambda words: docnade.loss(params, words, CONFIG, TREE.children)))
    for length in (1, 2):
        log_p = -of_all(np.array(list(itertools.product(range(N_W), repeat=length))))
        assert np.exp(np.asarray(log_p, np.float64)).sum() == pytest.approx(1, abs=1e-5)
        assert np.std(log_p) > 0.5


@pytest.mark.parametrize("rows", [1, 2, 5, 1000])
def test_scores_in_blocks_are_those_of_a_loop_over_words(rows, monkeypatch):
    """Also where words and documents are cut by blocks: each goes on where the block before has ended."""
    monkeypatch.setattr(docnade, "CACHED", rows)
    config, params = replace(CONFIG, num_words=12), random_params(num_words=12)
    tree = trees.build("huffman", jax.random.key(0), num_words=12, counts=2 ** np.arange(12))
    assert {-(-len(path) // docnade.TILE) for _, path in walk(tree)} == {1, 2, 3}, "tiles of a word"
    batch = batch_of(documents_of(np.random.default_rng(0).poisson(0.8, (4, 12))), config, tree)
    expected = [-np.mean(log_p_by_hand(params, words, config, tree)) for words in words_of(batch)]
    found = jax.jit(lambda params: docnade.score(params, batch, config))(params)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_memory_of_scores_does_not_grow_with_the_hidden_layers_of_words():
    config = docnade.Config(num_words=50_000, num_hidden=64)
    shapes = (50_000, 64), (64,), (49_999, 64), (49_999,)
    params = docnade.Params(*(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes))
    score = jax.jit(docnade.score, static_argnums=2)

    def temporaries(number):
        integers = partial(jax.ShapeDtypeStruct, dtype=jnp.int32)
        words = docnade.Words(integers((number,)), integers((number,)), integers((1,)))
        of_path, of_tiles = (4 * number, docnade.TILE), integers((4 * number,))  # each word has four tiles
        tiles = docnade.Tiles(integers(of_path), jax.ShapeDtypeStruct(of_path, jnp.float32), of_tiles, of_tiles)
        lowered = score.lower(params, docnade.Batch(words, tiles), config)
        return lowered.compile().memory_analysis().temp_size_in_bytes

    few, many = 2_000, 200_000  # words of one document
    assert temporaries(many) - temporaries(few) < 32 * (many - few)  # a hidden layer alone takes 256 bytes a word


def test_the_order_of_earlier_words_does_not_matter_and_that_of_the_predicted_does():
    params = random_params()
    one, other = (log_p_by_hand(params, words) for words in ([0, 1, 2, 3], [2, 0, 1, 3]))
    assert one[3] == pytest.approx(other[3])
    losses = [SPECIFICATION(params, np.array(words), CONFIG, TREE.children) for words in ([0, 1, 2, 3], [3, 2, 1, 0])]
    assert abs(losses[0] - losses[1]) > 0.01


def model_of(params, config=CONFIG):
    words = Vocabulary(tuple("abcde"), np.array([9, 5, 2, 2, 1]))
    return Model(docnade.MODEL, words, config, params, {}, TREE)


def test_an_ensemble_is_the_mean_probability_over_orders():
    """Over so many orders that all come up, it is that of all orders; and it is the mean of those that are drawn."""
    params, documents = random_params(scale=1.5), documents_of([[1, 1, 1, 0, 0], [0, 2, 0, 0, 1], [0, 0, 0, 0, 0]])
    model = model_of(params)
    drawn = list(itertools.islice(of_orderings(model, documents, seed=3), 5))
    for M in (1, 2, 5):
        expected = np.log(np.mean(np.exp(drawn[:M]), axis=0))
        np.testing.assert_allclose(model.document_log_probs(documents, M, seed=3), expected, rtol=1e-12)
    every = [
        np.mean([np.exp(sum(log_p_by_hand(params, order))) for order in itertools.permutations(words)])
        for words in ([0, 1, 2], [1, 1, 4])
    ]
    found = np.exp(model.document_log_probs(documents, 400))
    np.testing.assert_allclose(found[:2], every, rtol=0.15)
    assert found[2] == 1  # a document without words
    assert np.ptp([np.exp(each[0]) for each in drawn]) > 0.1 * every[0]


def test_the_mean_over_orders_of_log_p_is_a_bound_of_the_bag_of_words():
    """By Jensen's inequality; of a document of one word, often, it is exact."""
    params, words = random_params(scale=3.0), [0, 0, 1, 4]
    every = [sum(log_p_by_hand(params, order)) for order in itertools.permutations(words)]
    bag = np.log(np.mean(np.exp(every)))  # of all orders
    model, documents = model_of(params), documents_of([[2, 1, 0, 0, 1], [0, 3, 0, 0, 0]])
    drawn = np.array(list(itertools.islice(of_orderings(model, documents, seed=3), 100)))
    found = model.document_log_probs(documents, 100, seed=3)
    assert abs(drawn[:, 0].mean() - np.mean(every)) < 4 * drawn[:, 0].std() / 10
    assert abs(np.exp(found[0]) - np.exp(bag)) < 4 * np.exp(drawn[:, 0]).std() / 10
    for bound, of_bag in ((np.mean(every), bag), (drawn[:, 0].mean(), found[0])):
        assert bound < of_bag - 0.1
    np.testing.assert_allclose([*drawn[:, 1], found[1]], sum(log_p_by_hand(params, [1, 1, 1])), rtol=1e-5)


def test_the_mean_of_probabilities_is_taken_in_the_log_domain():
    values = [np.array([-1000.0, 5.0]), np.array([-1001.0, -5.0]), np.array([-1002.0, 0.0])]
    expected = [-1000 + np.log(1 + np.exp(-1) + np.exp(-2)), np.log(np.exp(5) + np.exp(-5) + 1)]
    np.testing.assert_allclose(log_mean_exp(iter(values), 3), np.array(expected) - np.log(3), rtol=1e-12)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh"])
def test_a_representation_is_the_hidden_layer_after_all_words(activation):
    params, config = random_params(), replace(CONFIG, activation=activation)
    rows = np.array([[2, 0, 1, 0, 4], [0, 0, 0, 0, 0]])
    expected = G[activation](np.asarray(params.c) + rows @ np.asarray(params.W))
    found = model_of(params, config).features(documents_of(rows))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found.dtype == np.float32


def test_the_perplexity_is_a_mean_over_documents():
    """Eq. 30: a long document counts as much as a short one, and one without words counts nowhere."""
    log_probs, lengths = np.array([-30.0, -4.0, 0.0]), np.array([10, 1, 0])
    found = evaluate(log_probs, lengths, unknown=3)
    assert found.perplexity == pytest.approx(np.exp((3 + 4) / 2))
    assert (found.documents, found.words, found.unknown) == (2, 11, 3)
    low, high = found.interval
    assert (low, high) == pytest.approx((np.exp(3), np.exp(4)))


def topics_corpus(num_words=24, topics=3, documents=300, seed=0):
    """Draw documents of one topic each, whose words are drawn evenly from those of the topic."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((documents, num_words), np.int64)
    of = rng.integers(topics, size=documents)
    for i, topic in enumerate(of):
        words = rng.integers(num_words // topics, size=rng.integers(4, 20)) + topic * (num_words // topics)
        np.add.at(counts[i], words, 1)
    every = documents_of(counts)
    train_part, valid, test = (every.take(range(*part)) for part in ((0, 200), (200, 250), (250, 300)))
    words = Vocabulary(tuple(f"w{i}" for i in range(num_words)), counts[:200].sum(axis=0))
    sha256 = content_sha256(train_part, valid, words)
    return DocumentCorpus("topics", train_part, valid, test, words, sha256, ""), of[250:]


def test_training_finds_topics(tmp_path):
    """The first word of a document has 24 candidates, each later one nearly 8: the perplexity of the true model.

    Documents of one topic have nearer vectors than others.
    """
    corpus, topic = topics_corpus()
    recipe = replace(docnade.RECIPES["tuned"][0], epochs=30, batch_size=20, rate={"*": 0.05})
    config = {"num_hidden": 4}
    trained = train("docnade", corpus, tmp_path / "out", recipe=recipe, config=config, run=Run())
    model, lengths = trained.model, corpus.test.lengths
    ideal = np.exp(np.mean((np.log(24) + (lengths - 1) * np.log(8)) / lengths))
    perplexity = evaluate(model.document_log_probs(corpus.test, 4), lengths).perplexity
    assert ideal < perplexity < 1.1 * ideal
    vectors = load(tmp_path / "out").features(corpus.test)
    distance = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    same = topic[:, None] == topic[None]
    assert distance[same].mean() < 0.5 * distance[~same].mean()


@pytest.mark.extended
def test_a_learned_tree_puts_words_of_a_topic_together(tmp_path):
    """A random tree is trained over first, and the tree is of its representations of documents."""
    corpus, _ = topics_corpus()
    recipe = replace(docnade.RECIPES["tuned"][0], epochs=10, batch_size=20, rate={"*": 0.05})
    structure = docnade_tree.TreeOptions("balanced")
    trained = train("docnade", corpus, tmp_path, recipe=recipe, config={"num_hidden": 4}, structure=structure)
    sides = [{word // 8 for word, path in walk(trained.model.structure) if path[0][1] == side} for side in (1, -1)]
    assert sorted(map(len, sides)) == [2, 2]  # of three topics, one is on both sides
    first = load(tmp_path / "bootstrap")
    assert first.structure.children.tolist() != trained.model.structure.children.tolist()
    kept = docnade_tree.word_features(corpus, corpus.word_counts(), tmp_path / "bootstrap")
    table = corpus.train.counts.toarray()
    expected = (table[:, 5] @ first.features(corpus.train)) / table[:, 5].sum()
    np.testing.assert_allclose(kept[5], expected, rtol=1e-5)


def test_documents_are_not_lines(tmp_path):
    corpus = topics_corpus()[0]
    with pytest.raises(UserError, match="a lbl is trained on text"):
        train("lbl", corpus, tmp_path / "out")
