"""Classes of words: the counts and the objective that `exchange` and `brown` share.

The likelihood of a class bigram model, P(w | v) = P(w | class(w)) P(class(w) | class(v)), with relative frequencies
and n(·) the counts of words, of classes and of pairs of neighbours, is (Martin, Liermann and Ney 1998)

    log P = Σ_{g,h} n(g, h) log n(g, h) - 2 Σ_g n(g) log n(g) + Σ_w n(w) log n(w),

where the last sum is the same for all classes. The average mutual information of neighbouring classes, which Brown et
al. (1992) maximise, is the first two sums divided by the number N of events, plus log N.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Ints = NDArray[np.integer]
Floats = NDArray[np.float64]


def bigrams(ids: NDArray[np.int32], num_words: int) -> "csr_array":
    """Count the pairs of neighbours of a text, int64 [N_w, N_w]: rows are the first words, columns the second ones.

    The last event, a line end, comes before the first one, so that every event is once a first and once a second word.
    """
    from scipy.sparse import coo_array  # here, as it takes a while, and a trained model does without it

    pairs = np.roll(ids, 1), ids
    return coo_array((np.ones(len(ids), np.int64), pairs), shape=(num_words, num_words)).tocsr()


def class_bigrams(counts: "csr_array", classes: Ints, num_classes: int) -> NDArray[np.int64]:
    """Return n(g, h), [C, C], from those of words, [N_w, N_w], and the classes of words, [N_w]."""
    first = np.repeat(classes, np.diff(counts.indptr)).astype(np.int64)
    cells = first * num_classes + classes[counts.indices]
    total = np.bincount(cells, counts.data, num_classes**2)
    return total.astype(np.int64).reshape(num_classes, num_classes)


def neighbours(counts: "csr_array", word: int, classes: Ints, num_classes: int) -> tuple[NDArray[np.int64], int]:
    """Return how often other words of each class come after a word, [C], and how often it comes after itself.

    With the transpose of `bigrams` as `counts`, it is what comes before the word.
    """
    row = slice(counts.indptr[word], counts.indptr[word + 1])
    others, times = counts.indices[row], counts.data[row]
    itself = int(times[others == word].sum())
    of_class = np.bincount(classes[others], times, num_classes).astype(np.int64)
    of_class[classes[word]] -= itself
    return of_class, itself


def by_frequency(frequency: Ints, first: int) -> NDArray[np.int64]:
    """Return all words, [N_w], `first` and then the others by decreasing frequency, of equal ones the lower id."""
    order = np.argsort(-frequency, kind="stable")
    return np.concatenate([[first], order[order != first]])


def x_log_x(largest: int) -> Floats:
    """Return x log x for x = 0..`largest`: a table, since a look-up takes a fraction of the time of a logarithm."""
    x = np.arange(largest + 1, dtype=np.float64)
    return x * np.log(np.maximum(x, 1))
