"""Latent Dirichlet allocation against enumeration of the words' topics, and against scikit-learn's inference."""

import itertools

import jax
import numpy as np
import pytest
from scipy.special import gammaln
from sklearn.decomposition import LatentDirichletAllocation

from jaxfit.errors import UserError
from jaxlm.contract import ByCounting
from jaxlm.data.documents.collection import DocumentCorpus, Documents, content_sha256, counted
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.model_files import load
from jaxlm.models import lda
from jaxlm.models.docnade import model as docnade
from jaxlm.tasks.documents import evaluate
from jaxlm.trained_model import Model
from jaxlm.training import train

ALPHA, K, N_W = 0.3, 3, 5
BETA = np.random.default_rng(0).dirichlet(np.full(N_W, 0.5), K).astype(np.float32)
ROWS = [[2, 0, 1, 0, 1], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 0, 2, 0]]


def documents_of(rows):
    rows = np.asarray(rows)
    return Documents(counted(*np.nonzero(rows), rows.shape, rows[rows > 0]), ((),) * len(rows))


def words_of(row):
    return np.repeat(np.arange(N_W), row)


def exact(words, alpha=ALPHA):
    """log p(v), of a sum over all topics of all words, whose proportions are integrated out."""
    terms = []
    for topics in itertools.product(range(K), repeat=len(words)):
        n = np.bincount(topics, minlength=K)
        of_topics = gammaln(K * alpha) - gammaln(len(words) + K * alpha) + (gammaln(n + alpha) - gammaln(alpha)).sum()
        terms.append(of_topics + np.log(BETA.astype(np.float64)[list(topics), words]).sum())
    return np.logaddexp.reduce(terms)


def test_the_particle_filter_is_without_bias_and_does_not_mind_padding():
    words, keys = np.array([0, 2, 4, 0, 3]), jax.random.split(jax.random.key(1), 4000)
    of_keys = jax.jit(jax.vmap(lambda key, words: lda.log_prob(BETA, words, key, ALPHA, 2), (0, None)))
    ratio = np.exp(np.asarray(of_keys(keys, words), np.float64) - exact(words))
    assert ratio.std() > 0.01
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / len(keys) ** 0.5
    ratio = np.exp(np.asarray(of_keys(keys, np.array([0, 2, 4, 0, 3, -1, -1, -1])), np.float64) - exact(words))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / len(keys) ** 0.5


def test_no_number_of_a_key_is_drawn_twice(monkeypatch):
    """For each of three words, one by which particles are chosen, and one for the topic of each of two."""
    seen, inner = [], lda.uniform
    monkeypatch.setattr(lda, "uniform", lambda key, number: seen.append(np.asarray(number)) or inner(key, number))
    with jax.disable_jit():
        lda.log_prob(BETA, np.array([0, 2, 4]), jax.random.key(0), ALPHA, 2)
    assert [len(numbers) for numbers in seen] == [3] * 3
    assert len(np.unique(seen)) == 9


def test_probabilities_of_documents_are_exact_for_many_particles_and_orders():
    config = lda.Config(num_words=N_W, num_topics=K, alpha=ALPHA)
    made = Model(lda.MODEL, Vocabulary(tuple("abcde")), config, lda.Params(BETA), {})
    found = made.document_log_probs(documents_of(ROWS), orderings=400, seed=3)
    expected = [exact(words_of(row)) if sum(row) else 0.0 for row in ROWS]
    np.testing.assert_allclose(found, expected, atol=0.03)
    assert found[2] == pytest.approx(0, abs=1e-12)


def test_the_bound_is_below_the_probability_and_inference_is_scikit_learns():
    documents = documents_of(ROWS)
    gamma, bound = lda.infer(lda.Params(BETA), documents, ALPHA)
    expected = np.array([exact(words_of(row)) if sum(row) else 0.0 for row in ROWS])
    assert np.all(bound <= expected + 1e-9)
    assert np.all(bound > expected - 1)
    np.testing.assert_allclose(gamma[2], ALPHA)
    assert bound[2] == pytest.approx(0)
    theirs = LatentDirichletAllocation(K, doc_topic_prior=ALPHA, mean_change_tol=1e-9, max_doc_update_iter=1000)
    theirs.fit(documents.counts)
    theirs.exp_dirichlet_component_ = BETA.astype(np.float64)  # what it takes for topics in inference
    ours = lda.encode(lda.Params(BETA), documents, lda.Config(num_words=N_W, num_topics=K, alpha=ALPHA))
    np.testing.assert_allclose(ours, theirs.transform(documents.counts), atol=2e-3)
    alone = lda.infer(lda.Params(BETA), documents.take([3]), ALPHA)
    np.testing.assert_array_equal(alone.gamma[0], gamma[3])


@pytest.mark.parametrize("rows", ["01", "10", "101", "1001", "11000", "00011", "0", "010100", ""])
def test_inference_of_a_document_does_not_depend_on_empty_ones_beside_it(rows):
    full = [row == "1" for row in rows]
    documents = documents_of(np.where(np.reshape(full, (-1, 1)), [[2, 0, 1, 3, 1]], 0))
    gamma, bound = lda.infer(lda.Params(BETA), documents, ALPHA)
    alone = lda.infer(lda.Params(BETA), documents_of([[2, 0, 1, 3, 1]]), ALPHA)
    assert gamma.shape == (len(rows), K)
    np.testing.assert_array_equal(gamma[full], np.repeat(alone.gamma, sum(full), axis=0))
    np.testing.assert_array_equal(bound[full], np.repeat(alone.bound, sum(full)))
    np.testing.assert_array_equal(gamma[np.logical_not(full)], ALPHA)
    np.testing.assert_allclose(bound[np.logical_not(full)], 0, atol=1e-12)


def test_priors_are_one_to_the_number_of_topics_unless_given():
    assert lda.Config(num_words=9, num_topics=128).priors() == (1 / 128, 1 / 128)
    assert lda.Config(num_words=9, num_topics=10, alpha=0.3).priors() == (0.3, 0.1)
    assert lda.Config(num_words=9, num_topics=10, eta=0.2).priors() == (0.1, 0.2)


def planted(number, seed):
    draws = np.random.default_rng(seed)
    topics = np.kron(np.eye(3), np.full(4, 0.25))  # of twelve words, four to a topic
    rows = np.stack([draws.multinomial(30, draws.dirichlet(np.full(3, 0.2)) @ topics) for _ in range(number)])
    return documents_of(rows), topics


def test_topics_are_fitted_by_scikit_learn_with_the_priors_of_topics_and_of_words():
    documents, _ = planted(60, 0)
    config = lda.Config(num_words=12, num_topics=3, alpha=0.7, eta=0.01)
    found = lda.estimate(documents, 12, -1, config, lda.Passes(5), seed=4)
    theirs = LatentDirichletAllocation(
        3, doc_topic_prior=0.7, topic_word_prior=0.01, max_iter=5, random_state=4
    ).fit(documents.counts)  # fmt: skip
    expected = theirs.components_ / theirs.components_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.beta, expected, rtol=1e-5)


def train_on(documents, valid, folder, **config):
    words = Vocabulary(tuple(f"w{i}" for i in range(documents.counts.shape[1])))
    corpus = DocumentCorpus("made", documents, valid, valid, words, content_sha256(documents, valid, words), "")
    return train("lda", corpus, folder, config=config).model


def test_planted_topics_are_found(tmp_path):
    documents, topics = planted(300, 1)
    model = train_on(documents, planted(50, 2)[0], tmp_path / "lda", num_topics=3, alpha=0.2)
    near = [np.abs(model.params.beta - topic).sum(axis=1).min() for topic in topics]
    assert max(near) < 0.1
    test = planted(100, 3)[0]
    found = evaluate(model.document_log_probs(test, 4), test.lengths).perplexity
    assert found < 8, "twelve equal words would have 12, four have 4"
    again = load(tmp_path / "lda")
    np.testing.assert_array_equal(again.document_log_probs(test, 1), model.document_log_probs(test, 1))
    assert again.document_bounds(test).mean() < model.document_log_probs(test, 8).mean()
    assert again.info["seed"] == 1
    assert again.config.priors() == (0.2, 1 / 3)


def test_probabilities_are_computed_in_full_precision(monkeypatch):
    """By default a GPU or TPU rounds the factors of matrix products."""
    seen, log_prob = [], lda.log_prob
    monkeypatch.setattr(
        lda, "log_prob", lambda *args: seen.append(jax.config.jax_default_matmul_precision) or log_prob(*args)
    )
    config = lda.Config(num_words=N_W, num_topics=K, alpha=0.7)  # of no other test: compiled here
    made = Model(lda.MODEL, Vocabulary(tuple("abcde")), config, lda.Params(BETA), {})
    assert jax.config.jax_default_matmul_precision is None
    made.document_log_probs(documents_of(ROWS))
    assert seen
    assert set(seen) == {"highest"}


def test_what_a_library_fits_takes_no_initial_parameters_nor_a_recipe_of_sgd(tmp_path):
    documents, words = planted(5, 1)[0], Vocabulary(tuple(f"w{i}" for i in range(12)))
    corpus = DocumentCorpus("made", documents, documents, documents, words, "", "")
    with pytest.raises(UserError, match="lda is fitted at one go, and has no initial parameters"):
        train("lda", corpus, tmp_path / "lda", initial=tmp_path)
    with pytest.raises(UserError, match="lda is fitted by a recipe of Passes, and this is of Recipe"):
        train("lda", corpus, tmp_path / "lda", recipe=docnade.RECIPES["tuned"][0])
    made = train("lda", corpus, tmp_path / "lda", recipe=lda.Passes(epochs=3), config={"num_topics": 2}).model
    assert made.info["recipe"] == {"epochs": 3}
    assert not isinstance(lda.MODEL.fitting, ByCounting)


def test_damaged_topics_are_one_line(tmp_path):
    train_on(planted(30, 1)[0], planted(5, 2)[0], tmp_path / "lda", num_topics=2)
    config = lda.Config(num_words=12, num_topics=2)
    for beta in (np.ones((2, 12), np.float32), np.full((2, 12), 1 / 12), np.full((3, 12), 1 / 12, np.float32)):
        lda.save(lda.Params(beta), tmp_path / "lda")
        with pytest.raises(UserError, match="not a file of topics"):
            lda.load(tmp_path / "lda", 12, -1, config)
