"""How often words of a text occur near one another: counts of pairs within a window, weighted by distance.

Memory grows with the number of distinct pairs, not with the length of the text: about 40 bytes for each at most.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

CHUNK = 1 << 22  # pairs that are counted at a time


def count(ids: NDArray[np.int32], num_words: int, window: int, eos: int | None = None) -> sparse.csr_array:
    """Count X_ij = Σ 1/|p - q| over the positions p of word i and q of word j with 1 <= |p - q| <= window.

    Args:
        ids: int32 [events], the words of each line and then its end, which is counted like any word.
        num_words: N_w.
        window: the largest distance, in events.
        eos: id of the line end, where no pair is to be across one; None: pairs are across line ends.

    Returns:
        float64 [N_w, N_w], symmetric, its column indices sorted and without zeros.
    """
    runs: list[sparse.csr_array] = []
    size = max(1, CHUNK // window)
    for start in range(0, len(ids), size):
        runs.append(_upper(ids[max(0, start - window) : start + size], min(start, window), num_words, window, eos))
        while len(runs) > 1 and runs[-2].nnz <= 2 * runs[-1].nnz:  # each pair is added to a larger sum few times
            last = runs.pop()
            runs[-1] = runs[-1] + last
    upper = sum(runs, sparse.csr_array((num_words, num_words)))
    both = upper + upper.T.tocsr()
    both.sort_indices()
    return both


def _upper(ids: NDArray[np.int32], known: int, num_words: int, window: int, eos: int | None) -> sparse.csr_array:
    """Count the pairs whose later position is not among the first `known`, the lower id as the row."""
    line = None if eos is None else np.cumsum(ids == eos) - (ids == eos)  # line ends before each event
    rows, columns, weights = [], [], []
    for distance in range(1, min(window, len(ids) - 1) + 1):
        begin = max(known, distance)  # of the later positions
        later, earlier = ids[begin:], ids[begin - distance : len(ids) - distance]
        if line is not None:
            together = line[begin:] == line[begin - distance : len(ids) - distance]
            later, earlier = later[together], earlier[together]
        rows.append(np.minimum(later, earlier))
        columns.append(np.maximum(later, earlier))
        weights.append(np.full(len(later), 1 / distance))
    if not rows:
        return sparse.csr_array((num_words, num_words))
    places = np.concatenate(rows), np.concatenate(columns)
    # adds up what is at the same place
    return sparse.coo_array((np.concatenate(weights), places), shape=(num_words, num_words)).tocsr()
