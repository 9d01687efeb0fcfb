"""How well nearness of document vectors finds documents with the same label: precision at levels of recall.

The documents of a database are ranked by the cosine of their vector with a query's. At a level of recall r, those up
to the rank that holds a share r of the documents with the query's label are taken; precision is the share of them that
have it. Queries with several labels have the mean over their labels.

Source: Lauly et al. 2017, §6.2; Srivastava et al. 2013.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxlm.tasks.intervals import Interval, bootstrap
from jaxlm.tasks.neighbours import unit_vectors

RECALLS = (0.0002, 0.001, 0.004, 0.016, 0.02, 0.064, 0.256, 1.0)  # about those of Figure 9, and 2 %
NUMBERS = 1 << 24  # cosines that are held at a time

Labels = Sequence[Sequence[str]]


class Retrieval(NamedTuple):
    """What queries retrieve.

    Attributes:
        recalls: levels of recall, [R].
        precision: float64 [queries, R], of those queries that have a label of the database.
        by_chance: float64 [R], the expected mean precision, for the same queries, of documents in random order.
    """

    recalls: tuple[float, ...]
    precision: NDArray[np.float64]
    by_chance: NDArray[np.float64]

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean precision over queries at each level, [R]."""
        return self.precision.mean(axis=0)

    def intervals(self) -> list[Interval]:
        """Return the intervals of the means, by the bootstrap over queries."""
        columns = self.precision.T
        return [bootstrap(lambda drawn, c=column: c[drawn].mean(axis=1), len(column)) for column in columns]  # type: ignore[misc]


def retrieve(
    queries: ArrayLike,
    database: ArrayLike,
    query_labels: Labels,
    labels: Labels,
    recalls: Sequence[float] = RECALLS,
) -> Retrieval:
    """Rank a database for each query, and measure precision.

    Documents with equal cosines are in the order of the database; a vector of zeros has the cosine 0 with all.

    Args:
        queries: their vectors, [Q, H].
        database: the vectors of its documents, [N, H].
        query_labels: of each query; queries without a label of the database are left out.
        labels: of each document of the database.
        recalls: in (0, 1].
    """
    found, asked = unit_vectors(np.asarray(database)), unit_vectors(np.asarray(queries))
    owners = _owners(labels)
    known = [[label for label in dict.fromkeys(each) if label in owners] for each in query_labels]
    chosen = [i for i, each in enumerate(known) if each]
    needed = {label: np.ceil(np.asarray(recalls) * len(own) - 1e-9).astype(np.int64).clip(min=1)
              for label, own in owners.items()}  # fmt: skip
    sizes = {len(owners[label]): needed[label] for each in known for label in each}
    chance = {own: _by_chance(len(found), own, k) for own, k in sizes.items()}
    precision, random = np.zeros((2, len(chosen), len(recalls)))
    size = max(1, NUMBERS // max(1, len(found)))
    for first in range(0, len(chosen), size):
        block = chosen[first : first + size]
        order = np.argsort(-(asked[block] @ found.T), axis=1, kind="stable")
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.broadcast_to(np.arange(1, len(found) + 1), order.shape), axis=1)
        for row, query in enumerate(block):
            each = [needed[label] / np.sort(rank[row, owners[label]])[needed[label] - 1] for label in known[query]]
            precision[first + row] = np.mean(each, axis=0)
            random[first + row] = np.mean([chance[len(owners[label])] for label in known[query]], axis=0)
    by_chance = random.mean(axis=0) if len(chosen) else np.full(len(recalls), np.nan)
    return Retrieval(tuple(recalls), precision, by_chance)


def _by_chance(size: int, own: int, needed: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the expected precision where documents are in random order, at the ranks of some with a label: [R].

    The k-th of the K with the label, of N, is at rank r with probability C(r-1, k-1) C(N-r, K-k) / C(N, K), and the
    precision there is k / r. At low levels of recall its mean is above K / N, as some ranks are low by chance.

    Args:
        size: N.
        own: K.
        needed: k, [R].
    """
    rank, k = np.arange(1, size + 1), needed[:, None]
    log_p = _log_choose(rank - 1, k - 1) + _log_choose(size - rank, own - k) - _log_choose(size, own)
    return np.sum(np.exp(log_p) * k / rank, axis=1)


def _log_choose(n: ArrayLike, k: ArrayLike) -> NDArray[np.float64]:
    """Return log C(n, k), -inf where k is above n."""
    from scipy.special import gammaln  # here, as it takes a while, and most commands do without it

    n, k = np.asarray(n), np.asarray(k)
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k + 1, 0))


def _owners(labels: Labels) -> dict[str, NDArray[np.int64]]:
    """Return which documents have each label."""
    owners: dict[str, list[int]] = {}
    for number, each in enumerate(labels):
        for label in dict.fromkeys(each):
            owners.setdefault(label, []).append(number)
    return {label: np.array(own) for label, own in owners.items()}
