"""How well items are ranked: precision, recall and NDCG at k. The thesis has no such measures; peers do.

Items of equal scores are taken in random order, and the expected value is given, in closed form: no order of
items in memory is favoured.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxcf.contract import Predictor
from jaxcf.data.ratings import Ratings, Vectors, by_user

PAIRS_AT_ONCE = 1 << 21  # of user and item that are ranked at once, about


@dataclass(frozen=True)
class Ranking:
    """Sums over `users` with anything relevant to find, each of the items ranked at the first k places."""

    k: int
    precision_sum: float = 0.0
    recall_sum: float = 0.0
    ndcg_sum: float = 0.0
    users: int = 0
    skipped: int = 0  # users without a relevant item

    def __add__(self, other: Ranking) -> Ranking:
        if self.k != other.k:
            raise ValueError(f"rankings at {self.k} and at {other.k} do not add up")
        sums = zip(astuple(self)[1:], astuple(other)[1:], strict=True)
        return Ranking(self.k, *(a + b for a, b in sums))

    @property
    def precision(self) -> float:
        """Relevant items at the first k places / k, averaged over users."""
        return self.precision_sum / self.users if self.users else math.nan

    @property
    def recall(self) -> float:
        """Relevant items at the first k places / all relevant ones, averaged over users."""
        return self.recall_sum / self.users if self.users else math.nan

    @property
    def ndcg(self) -> float:
        """DCG / the best possible DCG, averaged over users; DCG = Σ_{place p=1}^k gain / log2(p + 1)."""
        return self.ndcg_sum / self.users if self.users else math.nan

    def record(self) -> dict[str, float | str]:
        """Return the fields that records and JSON output hold."""
        return {
            f"precision@{self.k}": self.precision,
            f"recall@{self.k}": self.recall,
            f"ndcg@{self.k}": self.ndcg,
            "ranked_users": self.users,
            "users_without_relevant_items": self.skipped,
            "ranking_measures": "not the thesis'",
        }


def rank(query: ArrayLike, scores: ArrayLike, gains: ArrayLike, k: int = 10) -> Ranking:
    """Rank each query's (user's) items by falling score.

    Args:
        query: the query (user) of each item, integers [N] in any order.
        scores: what items are ranked by, [N]: predicted stars.
        gains: what finding an item is worth, [N], ≥ 0; relevant is what has a gain above 0. Ones and zeros give the
            binary NDCG.
        k: places, at least 1; a list shorter than k counts as filled up with irrelevant items.

    Returns:
        sums over the queries that have a relevant item, each the expected value over orders of equal scores.
    """
    query, scores = np.asarray(query), np.asarray(scores, np.float64)
    gains = np.asarray(gains, np.float64)
    if k < 1 or not np.isfinite(scores).all() or (gains < 0).any():
        raise ValueError("scores must be finite, gains not negative, and k at least 1")
    if len(query) == 0:
        return Ranking(k)
    # the discounts of the first p places, summed
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2.0, k + 2)))])
    order = np.lexsort((-scores, query))
    query, scores, gains = query[order], scores[order], gains[order]
    new_query = np.concatenate([[True], query[1:] != query[:-1]])
    starts = np.flatnonzero(new_query)
    number = np.cumsum(new_query) - 1  # of the query, from 0
    ties = np.flatnonzero(new_query | np.concatenate([[True], scores[1:] != scores[:-1]]))
    owner = number[ties]
    length = np.diff(np.append(ties, len(query)))
    first = np.minimum(ties - starts[owner], k)  # the places of a group of ties, from 0, as far as they count
    after = np.minimum(ties - starts[owner] + length, k)
    relevant = np.add.reduceat((gains > 0).astype(np.float64), ties)
    gain = np.add.reduceat(gains, ties)
    count = len(starts)
    hits = np.bincount(owner, relevant * (after - first) / length, count)
    dcg = np.bincount(owner, gain * (discounts[after] - discounts[first]) / length, count)
    best = np.lexsort((-gains, query))
    place = np.arange(len(query)) - starts[number]
    discount = np.diff(discounts, append=discounts[-1])[np.minimum(place, k)]  # 0 from place k on
    ideal = np.bincount(number, gains[best] * discount, count)
    wanted = np.bincount(owner, relevant, count)
    some = wanted > 0
    return Ranking(
        k,
        float(hits[some].sum() / k),
        float((hits[some] / wanted[some]).sum()),
        float((dcg[some] / ideal[some]).sum()),
        int(some.sum()),
        int(count - some.sum()),
    )


def unseen(
    users: NDArray[np.int32], seen: Vectors, test: Vectors, num_items: int, relevant: float
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Return the pairs to rank: each user with every item that they have not rated in training.

    Args:
        users: some users, [B], so few that B times num_items pairs fit into memory.
        seen: training ratings by user.
        test: test ratings by user.
        num_items: the number of items.
        relevant: test ratings of at least so many stars have gain 1, everything else 0.

    Returns:
        user int32 [N], item int32 [N], gain float32 [N].
    """
    open_ = np.ones((len(users), num_items), bool)
    gain = np.zeros((len(users), num_items), np.float32)
    for row, user in enumerate(users):
        open_[row, seen.item[seen.offsets[user] : seen.offsets[user + 1]]] = False
        mine = slice(test.offsets[user], test.offsets[user + 1])
        gain[row, test.item[mine]] = test.stars[mine] >= relevant
    row_of, item = np.nonzero(open_)
    return np.asarray(users)[row_of].astype(np.int32), item.astype(np.int32), gain[open_]


def recommended(
    predictor: Predictor, seen: Ratings, test: Ratings, num_users: int, num_items: int, k: int, relevant: float
) -> Ranking:
    """Rank, for each user with test ratings, all items that the user is not known to have rated.

    Args:
        predictor: gives the stars that items are ranked by.
        seen: the users' known ratings.
        test: test ratings.
        num_users: the number of users.
        num_items: the number of items.
        k: places, as in `rank`.
        relevant: stars, as in `unseen`.
    """
    users, result = np.unique(test.user), Ranking(k)
    known, wanted = by_user(seen, num_users), by_user(test, num_users)
    size = max(1, PAIRS_AT_ONCE // num_items)
    for block in (users[at : at + size] for at in range(0, len(users), size)):
        user, item, gain = unseen(block, known, wanted, num_items, relevant)
        result += rank(user, predictor(user, item), gain, k)
    return result
