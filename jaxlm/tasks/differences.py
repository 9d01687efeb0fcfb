"""Where the predictions of models differ on the same text, and what of that text the training text has.

Source: Mnih 2010, §3.4.2 (Figure 3.2, Tables 3.5 and 3.6).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxlm.ngram import counts
from jaxlm.ngram.model import NGram, Table

DECADES = 8


def decades(log_probs: ArrayLike, num_bins: int = DECADES) -> NDArray[np.int64]:
    """Sort predictions into bins by the order of magnitude of their probability (Figure 3.2).

    Args:
        log_probs: log P of each event, in nats, float [events].
        num_bins: number of bins.

    Returns:
        int64 [events], numbers from 0: bin i holds probabilities above 10^-(i+1), up to 10^-i; the last bin holds all
        below, too.
    """
    magnitude = np.asarray(log_probs, np.float64) / -np.log(10)
    return np.clip(np.floor(magnitude), 0, num_bins - 1).astype(np.int64)


def most_in_favour(first: ArrayLike, second: ArrayLike, top: int) -> NDArray[np.intp]:
    """Find the events on which the first model is most ahead of the second (Tables 3.5 and 3.6).

    Args:
        first: log P of each event under a model, in nats, float [events].
        second: the same under another model.
        top: how many events to find, at most.

    Returns:
        Positions of the events with the largest ratios of probabilities, first over second, the largest first.
    """
    behind = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    return np.argsort(behind, kind="stable")[:top]


def longest_seen(
    train: NDArray[np.int32], ids: NDArray[np.int32], num_words: int, eos: int, longest: int
) -> NDArray[np.int64]:
    """Return how many last words of each event's line, the event included, occur in a row in the training text.

    The beginning of a line counts as a word, as in n-gram models.

    Args:
        train: the training text, int32 [training events], the words of each line and then eos.
        ids: another text, int32 [events].
        num_words: N_w.
        eos: id of the line end.
        longest: the most words to look for, 1 to 9.

    Returns:
        int64 [events], from 1 (also for a word that the training text does not have) to `longest`.
    """
    grams = counts.count(train, num_words, eos, longest)
    tables = (Table(gram.keys, *[np.zeros(len(gram.keys))] * 2) for gram in grams)
    _, order = NGram(num_words, eos, tuple(tables)).score_events(ids)
    return order
