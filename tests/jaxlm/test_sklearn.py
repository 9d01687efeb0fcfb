"""Models of documents as a transformer: scikit-learn's own checks; in pipelines; what it refuses."""

import importlib
import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import coo_array, csr_matrix

from jaxfit.recipe import Recipe
from jaxlm import models
from jaxlm.capabilities import EncodesDocuments
from jaxlm.data.documents.reading import from_files
from jaxlm.models.docnade.tree import TreeOptions
from jaxlm.training import train

pytest.importorskip("sklearn", reason="no scikit-learn: pip install -e '.[topics]'")
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from jaxlm.sklearn import DocumentEncoder

TOPICS, WORDS, TRAINING = 3, 12, 240
ENCODING = [name for name in models.names() if models.get(name).capability(EncodesDocuments)]


def planted(documents=360):
    """Draw counts of words, nine in ten of which are of a document's topic, and the topics."""
    draws = np.random.default_rng(0)
    topic = draws.integers(TOPICS, size=documents)
    shares = 0.1 / WORDS + 0.9 * TOPICS / WORDS * (np.arange(WORDS) % TOPICS == topic[:, None])
    return draws.multinomial(10, shares / shares.sum(axis=1, keepdims=True)), topic


COUNTS, TOPIC = planted()


def encoder(name, **more):
    """Return an encoder of three features by the model's own recipe, of few documents at a time."""
    recipe, config = models.get(name).recipes["tuned"]
    if isinstance(recipe, Recipe):
        recipe = replace(recipe, batch_size=10, rate={"*": 0.03})
    return DocumentEncoder(name, 3, **{"epochs": 4, "recipe": recipe, "config": config, "random_state": 0, **more})


CHECKED = "lda"  # in every run of the tests: the others, of the same class, take longer
drawn_normally = pytest.mark.filterwarnings("ignore:X has values that are not whole:UserWarning")


@drawn_normally
@parametrize_with_checks([DocumentEncoder(CHECKED, 2, epochs=1)])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.extended
@drawn_normally
@parametrize_with_checks([DocumentEncoder(name, 2, epochs=1) for name in ENCODING if name != CHECKED])
def test_checks_of_scikit_learn_of_other_models(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", ENCODING)
def test_vectors_of_every_model_tell_planted_topics(name):
    pipeline = make_pipeline(encoder(name), LogisticRegression(max_iter=1000))
    pipeline.fit(csr_matrix(COUNTS[:TRAINING]), TOPIC[:TRAINING])
    assert pipeline.score(COUNTS[TRAINING:], TOPIC[TRAINING:]) > 0.8, "by chance it is 0.33"
    fitted = pipeline[0]
    vectors = fitted.transform(COUNTS[TRAINING:])
    assert vectors.shape == (len(COUNTS) - TRAINING, 3)
    assert list(fitted.get_feature_names_out()) == [f"documentencoder{i}" for i in range(3)]
    score = fitted.score(COUNTS[TRAINING:])
    assert -np.log(WORDS) < score < 0, "better than equal probabilities"
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.transform(COUNTS[TRAINING:]), vectors)
    assert again.score(COUNTS[TRAINING:]) == score
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "params_")


def test_vectors_are_those_of_the_model_that_the_same_files_give(tmp_path):
    """Recipe, Config, structure and seed are those of a training by `jaxlm train`."""
    lines = [" ".join(f"{word}:{count}" for word, count in enumerate(row) if count) for row in COUNTS[:TRAINING]]
    (tmp_path / "train.feat").write_text("\n".join(f"0 {line}" for line in lines))
    corpus = from_files([str(tmp_path / "train.feat")]).corpus
    ours = encoder("docnade", structure=TreeOptions("balanced"), random_state=7, epochs=2)
    ours.fit(COUNTS[:TRAINING])
    config = {**ours.config, "num_hidden": 3}
    theirs = train("docnade", corpus, tmp_path / "model", recipe=replace(ours.recipe, epochs=2), config=config,
                   structure=ours.structure, seed=7).model  # fmt: skip
    assert_array_equal(ours.transform(COUNTS[:TRAINING]), theirs.features(_whole(corpus)))
    assert ours.info_["corpus"]["sha256"] == theirs.info["corpus"]["sha256"]


def _whole(corpus):
    """Return the training and validation documents in the order of their files."""
    return replace(corpus.train, counts=csr_matrix(COUNTS[:TRAINING]), labels=((),) * TRAINING)


def test_counts_are_rounded_and_logarithms_taken():
    fitted = encoder("lda").fit(COUNTS[:TRAINING])
    rows = coo_array(COUNTS[:2])
    assert_array_equal(fitted.transform(rows), fitted.transform(COUNTS[:2].astype(np.float32)))
    twice = coo_array((np.tile(rows.data, 2), np.tile(rows.coords, 2)), shape=rows.shape)
    assert_array_equal(fitted.transform(twice), fitted.transform(2 * COUNTS[:2]), "entries of one place add up")
    with pytest.warns(UserWarning, match="not whole, which are rounded"):
        assert_array_equal(fitted.transform(COUNTS[:2] + 0.2 * (COUNTS[:2] > 0)), fitted.transform(COUNTS[:2]))
    logs = encoder("lda", log_counts=True).fit(COUNTS[:TRAINING])
    of_logs = encoder("lda").fit(np.rint(np.log1p(COUNTS[:TRAINING])))
    assert_array_equal(logs.params_.beta, of_logs.params_.beta)


def test_documents_without_words_have_vectors_but_are_not_trained_on():
    empty = np.zeros_like(COUNTS[:5])
    fitted, without = (encoder("lda").fit(X) for X in (np.concatenate([empty, COUNTS[:TRAINING]]), COUNTS[:TRAINING]))
    assert_array_equal(fitted.params_.beta, without.params_.beta)
    assert np.ptp(fitted.transform(empty)) == pytest.approx(0, abs=1e-6)
    assert fitted.score(np.concatenate([empty, COUNTS[:9]])) == fitted.score(COUNTS[:9])
    with pytest.raises(ValueError, match="no document has words"):
        fitted.score(empty)


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({}, -COUNTS, "Negative values in data passed to DocumentEncoder"),
        ({}, np.where(COUNTS > 3, np.nan, COUNTS), "contains NaN"),
        ({}, np.zeros((4, 3)), "0 documents have words"),
        ({}, np.full((3, 2), 2.0**31), "counts more than 2,147,483,647 words"),
        ({"model": "nothing"}, COUNTS, "there is no language model 'nothing'"),
        ({"model": "kn"}, COUNTS, "DocumentEncoder needs document vectors; kn has none"),
        ({"recipe": "nothing"}, COUNTS, "nothing"),
        ({"num_features": 0}, COUNTS, "give a whole number of at least 1"),
        ({"epochs": 0}, COUNTS, "give a whole number of at least 1"),
        ({"config": {"depth": 2}}, COUNTS, "the configuration has no field 'depth'"),
        ({"config": {"num_hidden": 7}}, COUNTS, "without num_hidden, which num_features is"),
        ({"config": [1]}, COUNTS, "give a mapping"),
        ({"recipe": None}, COUNTS, "recipe=None: give the name of one"),
        ({"structure": "huffman"}, COUNTS, "structure='huffman': give an instance of "),
        ({"num_features": 2.5}, COUNTS, "num_features=2.5: give a whole number"),
        ({"random_state": -1}, COUNTS, "random_state=-1: give a whole number of at least 0"),
    ],
)
def test_wrong_data_and_parameters_are_value_errors(parameters, X, message):
    with pytest.raises(ValueError, match=message):
        DocumentEncoder(**{"num_features": 3, **parameters}).fit(X)


def test_without_scikit_learn_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "jaxlm.sklearn")
    with pytest.raises(ImportError, match=r"scikit-learn 1\.6 is not installed .* pip install -e '\.\[topics\]'$"):
        importlib.import_module("jaxlm.sklearn")
