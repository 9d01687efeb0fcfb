"""Drawing sentences from a model, word by word."""

import numpy as np

from jaxlm.trained_model import Model


def sentence(generator: np.random.Generator, model: Model, longest: int = 100) -> tuple[list[str], bool]:
    """Draw the words of one line, each from P(w | words before), by the inverse of its distribution function.

    Args:
        generator: of the draws; equal generators give equal lines.
        model: a model that predicts words.
        longest: number of words after which a line is cut.

    Returns:
        The words, and whether the line came to its end.
    """
    vocabulary = model.vocabulary
    words: list[str] = []
    for _ in range(longest):
        cumulative = np.cumsum(np.exp(model.log_prob(words).astype(np.float64)))
        drawn = np.searchsorted(cumulative, generator.random() * cumulative[-1], side="right")
        word = vocabulary.words[min(int(drawn), len(vocabulary) - 1)]
        if drawn == vocabulary.eos:
            return words, True
        words.append(word)
    return words, False


def line_generator(seed: int, line: int) -> np.random.Generator:
    """Return the generator of one line of a seed: line k is the same however many are drawn."""
    return np.random.default_rng([seed, line])
