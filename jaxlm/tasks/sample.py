"""Drawing sentences from a model, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxlm.capabilities import CarriesState, PredictsWords

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
    generator, words = np.random.default_rng([seed, line]), list(prefix)
    if len(words) >= longest:
        return words, False
    carries = model.record.capability(CarriesState) or _with_histories(model.require(PredictsWords, "sample"))
    with model.precision():
        state, log_p = carries.start(model, model.encode(words))
        while True:
            word = _draw(log_p, generator.random(), temperature)
            if word == model.vocabulary.eos:
                return words, True
            words.append(model.vocabulary.words[word])
            if len(words) == longest:
                return words, False
            state, log_p = carries.advance(model, state, word)


def _draw(log_p: np.ndarray, share: float, temperature: float) -> int:
    """Return the id of the word at a share of the distribution function, in [0, 1).

    Args:
        log_p: [N_w], nats.
    """
    log_p = log_p.astype(np.float64)
    cumulative = np.cumsum(np.exp((log_p - log_p.max()) / temperature))
    drawn = np.searchsorted(cumulative, share * cumulative[-1], side="right")
    return min(int(drawn), len(log_p) - 1)


def _with_histories(predicts: PredictsWords) -> CarriesState:
    """Return the capability for a model that reads all words before: its state is the history, int32 [n]."""

    def advance(model: Model, history: np.ndarray, word: int) -> tuple[np.ndarray, np.ndarray]:
        longer = np.append(history, np.int32(word))
        return longer, predicts.log_prob(model, longer)

    return CarriesState(lambda model, history: (history, predicts.log_prob(model, history)), advance)
