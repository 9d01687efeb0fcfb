"""Drawing sentences from a model, word by word."""

import numpy as np

from jaxlm.trained_model import Model


def sentence(model: Model, seed: int, line: int, longest: int = 100) -> tuple[list[str], bool]:
    """Draw the words of one line, each from P(w | words before), by the inverse of its distribution function.

    Args:
        model: a model that predicts words.
        seed: of all lines.
        line: number of the line; line k of a seed is the same however many are drawn.
        longest: number of words after which a line is cut.

    Returns:
        The words, and whether the line came to its end.
    """
    vocabulary, generator = model.vocabulary, np.random.default_rng([seed, line])
    words: list[str] = []
    for _ in range(longest):
        cumulative = np.cumsum(np.exp(model.log_prob(words).astype(np.float64)))
        drawn = np.searchsorted(cumulative, generator.random() * cumulative[-1], side="right")
        word = vocabulary.words[min(int(drawn), len(vocabulary) - 1)]
        if drawn == vocabulary.eos:
            return words, True
        words.append(word)
    return words, False
