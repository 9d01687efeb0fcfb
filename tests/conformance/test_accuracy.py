"""The bounds that other tests accept trained models by reject constant predictors."""

import numpy as np
import pytest

from accuracy import assert_better_than_constants, assert_better_than_unigrams


def test_constants_are_rejected():
    random = np.random.default_rng(0)
    train, test = (random.integers(1, 6, number).astype(np.float32) for number in (500, 100))
    for constant in (train.mean(), test.mean(), np.median(test), *np.linspace(1, 5, 9)):
        with pytest.raises(AssertionError, match="that of a constant is"):
            assert_better_than_constants(np.sqrt(np.mean((test - constant) ** 2)), test, 0.0)
    assert_better_than_constants(0.9 * test.std(), test, 0.05)
    with pytest.raises(AssertionError, match="that of a constant is"):
        assert_better_than_constants(0.9 * test.std(), test, 0.15)


def test_unigrams_are_rejected():
    random = np.random.default_rng(0)
    train, test = (np.minimum(random.geometric(0.3, number), 9) for number in (2000, 300))
    for words in (train, test, np.arange(1, 10)):  # the last is uniform
        p = np.bincount(words, minlength=10) / len(words)
        with pytest.raises(AssertionError, match="that of a unigram is"):
            assert_better_than_unigrams(np.exp(-np.mean(np.log(p[test]))), test, 0.0)
    p = np.bincount(test, minlength=10) / len(test)
    perplexity = np.exp(-np.mean(np.log(p[test])))
    assert_better_than_unigrams(0.9 * perplexity, test, 0.05)
