"""Classes of words by the exchange algorithm: each word in turn moves to the class where the likelihood is highest."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from jaxlm.ngram.word_classes import Floats, by_frequency, class_bigrams, neighbours, x_log_x

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LEAST_GAIN = 1e-6  # nats; below this, a gain may be rounding, and two classes could exchange a word for ever


def exchange(counts: "csr_array", num_classes: int, alone: int, passes: int) -> NDArray[np.int64]:
    """Exchange words between classes until no word moves, at most `passes` times over all words.

    Words begin in the classes 1..C - 1 in turn, by decreasing frequency. Each pass visits them in this order. A word is
    taken out of its class and put where the likelihood of the class bigram model (`word_classes`) is then highest.

    Source: Kneser and Ney 1993; Martin, Liermann and Ney 1998.
    Differs: there the most frequent words begin alone and all others in one class. Classes of a text that was drawn
    from a class model are then hardly ever found, and mostly found from this start; on the Penn Treebank both starts
    end at about the same likelihood.

    Args:
        counts: `word_classes.bigrams`, [N_w, N_w].
        num_classes: C, at most N_w.
        alone: a word that keeps a class of its own, 0: the line end.
        passes: number of passes at most.

    Returns:
        The class of each word, int64 [N_w]; no class is empty.
    """
    words = by_frequency(counts.sum(axis=1), alone)
    classes = np.empty(len(words), np.int64)
    classes[words] = np.append(0, 1 + np.arange(len(words) - 1) % max(1, num_classes - 1))
    state = Exchange(counts, classes, num_classes)
    for _ in range(passes):
        moved = False
        for word in words[1:].tolist():
            own, gains = state.take_out(word), state.gains()
            best = 1 + int(np.argmax(gains[1:]))
            if gains[best] < gains[own] + LEAST_GAIN:
                best = own
            state.put_in(word, best)
            moved |= best != own
        if not moved:
            break
    return np.unique(state.classes, return_inverse=True)[1]  # a class's only word could leave it without a loss


class Exchange:
    """Classes and the counts of their words, from which one word at a time is taken out."""

    def __init__(self, counts: "csr_array", classes: NDArray[np.int64], num_classes: int) -> None:
        self.classes, self.num_classes = classes, num_classes
        self.frequency = counts.sum(axis=1)
        self.following, self.preceding = counts, counts.T.tocsr()
        self.to = class_bigrams(counts, classes, num_classes)  # n(g, h); row g has what comes after class g
        self.of = self.to.T.copy()  # n(g, h) at [h, g], since reading a few rows is faster than a few columns
        self.size = np.bincount(classes, self.frequency, num_classes).astype(np.int64)
        self.table = x_log_x(int(self.frequency.sum()))

    def take_out(self, word: int) -> int:
        """Take a word out of its class, which is returned."""
        self.after, self.itself = neighbours(self.following, word, self.classes, self.num_classes)
        self.before, _ = neighbours(self.preceding, word, self.classes, self.num_classes)
        self.count = self.frequency[word]
        self._add(int(self.classes[word]), -1)
        return int(self.classes[word])

    def put_in(self, word: int, g: int) -> None:
        """Put the word that was taken out into class g."""
        self.classes[word] = g
        self._add(g, 1)

    def gains(self) -> Floats:
        """Return by how much log P rises when the word that was taken out is put into each class, [C]."""
        f = self.table.take
        g = np.arange(self.num_classes)
        twice, once = self.to[g, g], self.after + self.before + self.itself
        gain = self._rise(self.of, self.after) + self._rise(self.to, self.before)
        # the word's neighbours within the class itself: one cell, where the sums above have two
        gain += f(twice + once) - f(twice + self.after) - f(twice + self.before) + f(twice)
        return gain - 2 * (f(self.size + self.count) - f(self.size))

    def _rise(self, rows: NDArray[np.int64], added: NDArray[np.int64]) -> Floats:
        """Return Σ_h (f(n(g, h) + added(h)) - f(n(g, h))) of each class g, where n(g, h) is at [h, g] of `rows`."""
        some = np.flatnonzero(added)
        cells = rows[some]
        return (self.table.take(cells + added[some, None]) - self.table.take(cells)).sum(axis=0)

    def _add(self, g: int, sign: int) -> None:
        after, before = sign * self.after, sign * self.before
        self.to[g] += after
        self.of[:, g] += after
        self.of[g] += before
        self.to[:, g] += before
        self.to[g, g] += sign * self.itself
        self.of[g, g] += sign * self.itself
        self.size[g] += sign * self.count
