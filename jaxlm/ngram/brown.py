"""Classes of words by merging, the pair first that loses the least average mutual information (Brown et al. 1992)."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from jaxlm.ngram.word_classes import Floats, by_frequency, class_bigrams, neighbours, x_log_x

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def brown(counts: "csr_array", num_classes: int, alone: int) -> NDArray[np.int64]:
    """Merge words to C classes, so that little average mutual information is lost: int64 [N_w], 0 to C - 1.

    The C most frequent words begin as classes of their own. Each other word, by decreasing frequency, becomes one
    more class, and the pair of classes is merged for which the loss is least: the difference of the sums in
    `word_classes`. This takes O(N_w C²).

    Source: Brown et al. 1992, §3.
    Differs: the words that are not yet classes count as one more class, which is not merged, so that the loss is
    always that of classes of all words; the paper does not say what becomes of these words' counts.

    Args:
        counts: `word_classes.bigrams`, [N_w, N_w].
        num_classes: C, 2 to N_w.
        alone: a word that keeps a class of its own: the line end.
    """
    window = Window(counts, num_classes, alone)
    for word in window.words[num_classes:].tolist():
        window.add(word)
        window.merge()
    return np.unique(window.slots, return_inverse=True)[1]


class Window:
    """The classes of the words so far, in C + 1 slots, and what the merge of each pair would lose.

    With f(x) = x log x and h(x, y) = f(x + y) - f(x) - f(y), merging i and j changes the sums of `word_classes` by

        Σ_k h(n(i, k), n(j, k)) + Σ_k h(n(k, i), n(k, j)) - 2 h(n(i), n(j)),

    but the four cells n(i, i), n(i, j), n(j, i) and n(j, j) become one. As h(x, 0) = 0, adding a word, or merging
    its class, changes little where the word has few neighbours.
    """

    def __init__(self, counts: "csr_array", num_classes: int, alone: int) -> None:
        self.frequency = counts.sum(axis=1)
        self.words = by_frequency(self.frequency, alone)
        self.following, self.preceding = counts, counts.T.tocsr()
        self.table = x_log_x(2 * int(self.frequency.sum()))  # twice: `_update` adds a class to itself, too
        first, self.free, self.rest = self.words[:num_classes], num_classes, num_classes + 1
        self.slots = np.full(counts.shape[0], self.rest)  # of each word; the words to come are in the last slot
        self.slots[first] = np.arange(num_classes)
        self.n = class_bigrams(counts, self.slots, num_classes + 2)
        self.size = self.n.sum(axis=1)
        self.loss = np.full(self.n.shape, np.inf)  # infinite for what cannot be merged
        self.mergeable = np.zeros(len(self.n), bool)
        for slot in range(1, num_classes):  # the word in slot 0 is alone
            self.open(slot)

    def open(self, slot: int) -> None:
        """Allow the class of a slot to be merged."""
        self.mergeable[slot] = True
        self.renew(slot)

    def add(self, word: int) -> None:
        """Make a class of one more word."""
        slot, old = self.free, self._beside(self.free, self.rest)
        after, itself = neighbours(self.following, word, self.slots, len(self.n))
        before, _ = neighbours(self.preceding, word, self.slots, len(self.n))
        for where, sign in ((self.rest, -1), (slot, 1)):
            self.n[where] += sign * after
            self.n[:, where] += sign * before
            self.n[where, where] += sign * itself
            self.size[where] += sign * self.frequency[word]
        self.slots[word] = slot
        self._update(old, self._beside(slot, self.rest))
        self.open(slot)

    def merge(self) -> None:
        """Merge the two classes that lose least."""
        pair = divmod(int(np.argmin(self.loss)), len(self.loss))
        dropped, kept = sorted(pair, key=lambda slot: np.count_nonzero(self._beside(slot)))
        old = self._beside(kept, dropped)
        self.n[kept] += self.n[dropped]
        self.n[:, kept] += self.n[:, dropped]
        self.size[kept] += self.size[dropped]
        self.n[dropped] = self.n[:, dropped] = self.size[dropped] = 0
        self.loss[dropped] = self.loss[:, dropped] = np.inf
        self.mergeable[dropped], self.free = False, dropped
        self.slots[self.slots == dropped] = kept
        self._update(old, self._beside(kept, dropped))
        self.renew(kept)

    def _beside(self, *slots: int) -> NDArray[np.int64]:
        """Return n(·, k) and n(k, ·) of some slots k, a row for each."""
        return np.concatenate([self.n[:, slots].T, self.n[slots, :]])

    def _update(self, old: NDArray[np.int64], new: NDArray[np.int64]) -> None:
        """Update the losses of pairs for changes of what is beside them: rows of n(·, k) or n(k, ·), old and new."""
        for x, y in zip(old, new, strict=True):
            some = np.flatnonzero(x != y)
            self.loss[some] += self._h(x[some, None], x) - self._h(y[some, None], y)
            self.loss[:, some] = self.loss[some].T

    def renew(self, i: int) -> None:
        """Compute what the merge of class i with each other one would lose."""
        n, f, h = self.n, self.table.take, self._h
        j = np.flatnonzero(self.mergeable & (np.arange(len(n)) != i))
        to, of = np.flatnonzero(n[i]), np.flatnonzero(n[:, i])
        gain = h(n[np.ix_(j, to)], n[i, to]).sum(axis=1) + h(n[np.ix_(of, j)], n[of, i][:, None]).sum(axis=0)
        four = n[i, i], n[i, j], n[j, i], n[j, j]
        gain -= h(four[2], four[0]) + h(four[3], four[1]) + h(four[1], four[0]) + h(four[3], four[2])
        gain += f(sum(four)) - sum(map(f, four))
        self.loss[i, j] = self.loss[j, i] = 2 * h(self.size[j], self.size[i]) - gain

    def _h(self, x: NDArray[np.int64], y: NDArray[np.int64]) -> Floats:
        f = self.table.take
        return f(x + y) - f(x) - f(y)
