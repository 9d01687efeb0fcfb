"""Drawing sentences from a model, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxlm.trained_model import Model


def sentence(
    model: Model, seed: int, line: int, longest: int = 100, prefix: Sequence[str] = (), temperature: float = 1.0
) -> tuple[list[str], bool]:
    """Draw the words of one line, each from P(w | words before)^(1/T), by the inverse of its distribution function.

    Args:
        model: a model that predicts words.
        seed: of all lines.
        line: number of the line; line k of a seed is the same however many are drawn.
        longest: number of words after which a line is cut, those of the prefix included.
        prefix: the first words of the line.
        temperature: T, above 0; below 1, probable words become more probable.

    Returns:
        The words, the prefix included, and whether the line came to its end.
    """
    vocabulary, generator = model.vocabulary, np.random.default_rng([seed, line])
    words = list(prefix)
    while len(words) < longest:
        log_p = model.log_prob(words).astype(np.float64)
        cumulative = np.cumsum(np.exp((log_p - log_p.max()) / temperature))
        drawn = np.searchsorted(cumulative, generator.random() * cumulative[-1], side="right")
        word = vocabulary.words[min(int(drawn), len(vocabulary) - 1)]
        if drawn == vocabulary.eos:
            return words, True
        words.append(word)
    return words, False
