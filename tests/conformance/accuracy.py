"""Bounds on the errors of trained models that no constant predictor passes, not even one chosen on the answers."""

import numpy as np


def assert_better_than_constants(rmse: float, stars: np.ndarray, margin: float) -> None:
    """Assert that an error on these ratings is below that of all constants, by a part of it."""
    best = float(np.std(stars, dtype=np.float64))
    assert rmse < (1 - margin) * best, f"RMSE {rmse:.4f}; that of a constant is {best:.4f}"


def assert_better_than_unigrams(perplexity: float, words: np.ndarray, margin: float) -> None:
    """Assert that a perplexity of these words is below that of all models without context, by a part of it."""
    share = np.unique(words, return_counts=True)[1] / len(words)
    best = float(np.exp(-np.sum(share * np.log(share))))
    assert perplexity < (1 - margin) * best, f"perplexity {perplexity:.2f}; that of a unigram is {best:.2f}"
