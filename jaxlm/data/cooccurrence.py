"""How often words of a text occur near one another: counts of pairs within a window, weighted by distance.

Memory grows with the number of distinct pairs of words, not with the length of the text: 12 bytes for each pair, and
where there are many pairs, in files (`jaxfit.files.large_arrays`), besides what is added up at a time.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from jaxfit.files.large_arrays import PIECE, filled

CHUNK = 1 << 22  # pairs of positions that are counted at a time
LARGEST = 1 << 25  # pairs of words whose counts are added up in memory: about 1 GB


class Counts(NamedTuple):
    """Counts X_ij = X_ji of pairs of words i <= j.

    Attributes:
        i: int32 [k].
        j: int32 [k].
        X: float64 [k].
    """

    i: NDArray[np.int32]
    j: NDArray[np.int32]
    X: NDArray[np.float64]


class _Rows(NamedTuple):
    """Counts of pairs i <= j as the rows of a sparse matrix: where those of each i end, and their j, in order."""

    ends: NDArray[np.int64]  # [N_w + 1], from 0
    j: NDArray[np.int32]
    X: NDArray[np.float64]

    def block(self, begin: int, end: int) -> sparse.csr_array:
        """Return the rows begin … end - 1, [end - begin, N_w]."""
        first, last = self.ends[begin], self.ends[end]
        ends = self.ends[begin : end + 1] - first
        return sparse.csr_array((self.X[first:last], self.j[first:last], ends), (end - begin, len(self.ends) - 1))


def count(ids: NDArray[np.int32], num_words: int, window: int, eos: int | None = None) -> Iterator[Counts]:
    """Count X_ij = Σ 1/|p - q| over the positions p of word i and q of word j with 1 <= |p - q| <= window.

    Args:
        ids: int32 [events], the words of each line and then its end, which is counted like any word.
        num_words: N_w.
        window: the largest distance, in events.
        eos: id of the line end, if pairs are not counted across line ends; None: they are.

    Returns:
        The nonzero counts, ordered by i and then by j, in several parts.

    Raises:
        UserError: the disk has no room for a file.
    """
    added: list[sparse.csr_array] = []
    stored: list[_Rows] = []
    size = max(1, CHUNK // window)
    for start in range(0, len(ids), size):
        one = _upper(ids[max(0, start - window) : start + size], min(start, window), num_words, window, eos)
        while added and added[-1].nnz <= 2 * one.nnz:  # each pair is added to a larger sum few times
            one = added.pop() + one
        added.append(one)
        if sum(one.nnz for one in added) > LARGEST:
            stored.append(_stored(added))
            added = []
    return _blocks([*stored, _stored(added)] if added else stored, num_words)


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
        weights.append(np.where(later == earlier, 2.0, 1.0) / distance)  # of a word with itself, in both orders
    if not rows:
        return sparse.csr_array((num_words, num_words))
    places = np.concatenate(rows), np.concatenate(columns)
    # adds up what is at the same place
    return sparse.coo_array((np.concatenate(weights), places), shape=(num_words, num_words)).tocsr()


def _stored(added: Sequence[sparse.csr_array]) -> _Rows:
    """Add up counts; the sum is in files if it is large."""
    total = sum(added[1:], added[0])
    total.sort_indices()
    return _Rows(
        total.indptr.astype(np.int64),
        filled(total.nnz, np.int32, lambda piece: total.indices[piece]),
        filled(total.nnz, np.float64, lambda piece: total.data[piece]),
    )


def _blocks(stored: Sequence[_Rows], num_words: int) -> Iterator[Counts]:
    """Add up counts, block by block of rows that have about `PIECE` pairs in all."""
    if not stored:
        return
    ends = np.sum([rows.ends for rows in stored], axis=0)
    begin = 0
    while begin < num_words:
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + PIECE, "right")) - 1)
        blocks = [rows.block(begin, end) for rows in stored]
        total = sum(blocks[1:], blocks[0]).tocoo()
        yield Counts(begin + total.row.astype(np.int32), total.col.astype(np.int32), total.data)
        begin = end
