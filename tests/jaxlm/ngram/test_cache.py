"""The cache model against a loop over the words before each event."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from jaxlm.capabilities import PredictsWords
from jaxlm.ngram import cache, unigram
from jaxlm.ngram.cache import Config

VOCAB_SIZE, EOS = 40, 0
PREDICTS = cache.MODEL.capability(PredictsWords)


def model(text, **options):
    return SimpleNamespace(params=unigram.train(text, VOCAB_SIZE, EOS), config=Config(**options))


def probability(word, before, unigrams, config):
    """Compute P(w | the words before) word by word."""
    weights = [math.exp(-config.decay * d) for d in range(1, min(len(before), config.window) + 1)]
    if not weights:
        return unigrams[word]
    recent = sum(weight for d, weight in enumerate(weights, 1) if before[-d] == word)
    return config.cache_weight * recent / sum(weights) + (1 - config.cache_weight) * unigrams[word]


OPTIONS = [
    {"window": window, "decay": decay, "cache_weight": weight}
    for window, decay, weight in [(1, 0.0, 0.5), (7, 0.0, 0.9), (50, 0.0, 0.3), (7, 0.2, 0.9), (50, 1.0, 0.9),
                                  (10**9, 0.0, 0.9), (10**9, 0.01, 0.9), (7, 0.0, 0.0)]
]  # fmt: skip


@pytest.mark.parametrize("fresh_lines", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_texts_are_scored_by_the_words_before_each_event(text, fresh_lines, options):
    trained, test = model(text, **options), text[100:500]
    unigrams = (np.bincount(text, minlength=VOCAB_SIZE) + 1) / (len(text) + VOCAB_SIZE)
    expected, before = [], []
    for word in test.tolist():
        expected.append(math.log(probability(word, before, unigrams, trained.config)))
        before = [] if fresh_lines and word == EOS else [*before, word]
    found = PREDICTS.event_log_probs(trained, test, fresh_lines)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_distributions_sum_to_one_and_are_those_of_the_words_before(text, options):
    trained = model(text, **options)
    unigrams = (np.bincount(text, minlength=VOCAB_SIZE) + 1) / (len(text) + VOCAB_SIZE)
    for history in ([], [3], [5, 5, 39], text[:60].tolist()):
        found = np.exp(PREDICTS.log_prob(trained, np.array(history, np.int32)))
        expected = [probability(word, history, unigrams, trained.config) for word in range(VOCAB_SIZE)]
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        assert found.sum() == pytest.approx(1, abs=1e-12)


def test_words_that_have_left_the_cache_leave_nothing_behind():
    """Rounding could make what is left of frequent words, long ago, more or less than nothing."""
    ids = np.array([1] * 3000 + [2] * 500 + [1], np.int32)
    fresh = np.arange(len(ids)) == 0
    for decay in (0.0, 0.003, 0.7):
        probs, empty = cache.cache_probs(ids, fresh, Config(window=500, decay=decay))
        assert 0 <= probs[-1] < 1e-12
        assert np.flatnonzero(empty).tolist() == [0]
        np.testing.assert_allclose(probs[1:3000], 1, rtol=1e-12)


def test_a_text_that_repeats_itself_is_better_predicted_the_second_time(text):
    trained = model(text, window=500)
    rare = np.random.default_rng(0).permutation(np.arange(1, VOCAB_SIZE)).astype(np.int32)[:20]
    log_p = PREDICTS.event_log_probs(trained, np.concatenate([rare, rare]), False)
    assert np.mean(log_p[20:]) > np.mean(log_p[:20]) + 1


def test_empty_texts_have_no_log_probabilities(text):
    assert PREDICTS.event_log_probs(model(text), np.zeros(0, np.int32), False).shape == (0,)
