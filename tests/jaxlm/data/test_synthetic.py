"""The planted language against the model it is drawn from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlm.data import synthetic
from jaxlm.data.contexts import gather_contexts, text_of


@pytest.fixture(scope="module")
def drawn():
    return synthetic.planted(jax.random.key(7), (8_000, 1_000, 8_000), num_words=60)


def test_planted_text_is_drawn_from_the_model(drawn):
    """Surprisal minus entropy is a martingale, its sum about normal with mean 0: |z| > 4 has p = 1/16,000."""
    corpus, model = drawn
    c, eos = model.C.shape[0], corpus.vocabulary.eos
    text = text_of(corpus.test, eos)
    contexts, words = gather_contexts(text, jnp.arange(len(corpus.test)), c)
    log_p = np.asarray(jax.vmap(lambda w: synthetic.log_prob(model, w))(contexts), np.float64)
    p = np.exp(log_p)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    truth = log_p[np.arange(len(words)), words]
    entropy = -(p * log_p).sum(axis=1)
    variance = (p * log_p**2).sum(axis=1) - entropy**2
    assert abs((-truth - entropy).sum() / np.sqrt(variance.sum())) < 4
    # each word occurs as often as the model predicts
    frequent = p.sum(axis=0) > 20
    excess = np.bincount(np.asarray(words), minlength=p.shape[1]) - p.sum(axis=0)
    z = excess / np.sqrt((p * (1 - p)).sum(axis=0))
    assert frequent.sum() > 30
    assert np.abs(z[frequent]).max() < 4.5
    # contexts are informative: true perplexity is well below that of the best unigram model
    frequency = np.bincount(corpus.test, minlength=60) / len(corpus.test)
    assert -np.log(frequency[corpus.test]).mean() + truth.mean() > 0.3


def test_planted_corpus_has_the_requested_form(drawn):
    corpus, _ = drawn
    assert len(corpus.vocabulary) == 60
    assert corpus.vocabulary.unk is None
    for ids in (corpus.train, corpus.valid, corpus.test):
        assert ids.dtype == np.int32
        assert ids[-1] == corpus.vocabulary.eos
        assert len(ids) > 900
    assert np.bincount(corpus.train, minlength=60).tolist() == corpus.vocabulary.counts.tolist()
    other, _ = synthetic.planted(jax.random.key(8), (300, 300, 300), num_words=60)
    assert other.sha256 != corpus.sha256
