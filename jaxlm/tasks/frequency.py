"""Words by how often they occur in the training text, in bins of about equal mass.

Source: Mnih 2010, §3.4.2 (Tables 3.3 and 3.4), §4.6.7 (Tables 4.10 to 4.12).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

BINS = 10


def equal_mass_bins(counts: ArrayLike, num_bins: int = BINS) -> NDArray[np.int64]:
    """Sort words into bins that have about equal shares of a text, from the rarest words to the most frequent.

    The shares of all words are laid end to end, the rarest first (of equally frequent words, in the order of their
    ids). A word belongs to the bin in which the middle of its share lies, so that the limits of bins are off those of
    equal shares by half a word's share at most. A word of more than a bin's share can leave bins empty.

    Differs: the thesis says that each bin has about 10% of the word occurrences, not how its limits were found.

    Args:
        counts: int [N_w], how often each word occurs in the training text, once at least in all.
        num_bins: number of bins.

    Returns:
        The bin of each word, int64 [N_w], from 0 for the rarest words.
    """
    counts = np.asarray(counts, np.int64)
    order = np.argsort(counts, kind="stable")
    mass = counts[order]
    ends = np.cumsum(mass)
    bins = np.empty(len(counts), np.int64)
    bins[order] = (2 * ends - mass) * num_bins // (2 * ends[-1])
    return bins


def previous_words(ids: NDArray[np.int32], eos: int) -> NDArray[np.int32]:
    """Return the last context word of each event of a text, int32 [events]; that of the first is a line end."""
    return np.concatenate([np.array([eos], np.int32), ids[:-1]])
