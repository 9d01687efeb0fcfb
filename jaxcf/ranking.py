"""How well items are ranked: precision, recall and NDCG at k, and coverage. The thesis has no such measures; peers do.

Items of equal scores are taken in random order; measures are expected values over these orders, in closed form, so that
no order of items in memory is favoured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxcf.contract import Scorer
from jaxcf.data.ratings import Ratings, Vectors, by_user

RANKED_AT_ONCE = 1 << 21  # of user and item that are ranked at once, about


def _none() -> NDArray[np.float64]:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Ranking:
    """How well items are ranked at the first k places, for each user with at least one relevant item.

    Attributes:
        k: number of places.
        users: indices of these users, integers [n].
        precisions: of each user, float64 [n].
        recalls: of each user, float64 [n].
        ndcgs: of each user, float64 [n].
        skipped: number of users none of whose ranked items is relevant.
        listed: which items are at the first k places of any user, bool [items]; of equal scores the first items. Empty
            if it is not known.
    """

    k: int
    users: NDArray[np.integer] = field(default_factory=lambda: np.zeros(0, np.int32))
    precisions: NDArray[np.float64] = field(default_factory=_none)
    recalls: NDArray[np.float64] = field(default_factory=_none)
    ndcgs: NDArray[np.float64] = field(default_factory=_none)
    skipped: int = 0
    listed: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))

    def __repr__(self) -> str:
        return f"<Ranking: {self} ({len(self.users):,} users)>"

    def __add__(self, other: Ranking) -> Ranking:
        """Return the ranking of both sets of users, of the same items; raises ValueError for different k."""
        if self.k != other.k:
            raise ValueError(f"rankings at {self.k} and at {other.k} do not add up")
        return Ranking(
            self.k,
            np.concatenate([self.users, other.users]),
            np.concatenate([self.precisions, other.precisions]),
            np.concatenate([self.recalls, other.recalls]),
            np.concatenate([self.ndcgs, other.ndcgs]),
            self.skipped + other.skipped,
            self.listed | other.listed,
        )

    @property
    def precision(self) -> float:
        """Relevant items at the first k places / k, averaged over users."""
        return _mean(self.precisions)

    @property
    def recall(self) -> float:
        """Relevant items at the first k places / all relevant ones, averaged over users."""
        return _mean(self.recalls)

    @property
    def ndcg(self) -> float:
        """DCG / the best possible DCG, averaged over users; DCG = Σ 1 / log2(p + 1) over places p of relevant items."""
        return _mean(self.ndcgs)

    @property
    def coverage(self) -> float:
        """Items at the first k places of any user / all items."""
        return _mean(self.listed)

    def record(self) -> dict[str, float | str]:
        """Return the fields that records and JSON output hold."""
        return {
            f"precision@{self.k}": self.precision,
            f"recall@{self.k}": self.recall,
            f"ndcg@{self.k}": self.ndcg,
            **({f"coverage@{self.k}": self.coverage} if len(self.listed) else {}),
            "ranked_users": len(self.users),
            "users_without_relevant_items": self.skipped,
            "ranking_measures": "not in the thesis",
        }

    def __str__(self) -> str:
        if not len(self.users):
            return "not ranked: no relevant item is new to its user"
        named = {"NDCG": self.ndcg, "precision": self.precision, "recall": self.recall, "coverage": self.coverage}
        return ", ".join(f"{name}@{self.k} {value:.4f}" for name, value in named.items() if not math.isnan(value))


def _mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def rank(query: ArrayLike, scores: ArrayLike, relevant: ArrayLike, k: int = 10) -> Ranking:
    """Rank each query's (user's) items by falling score.

    Args:
        query: the query (user) of each item, integers [N] in any order.
        scores: what items are ranked by, [N]: predicted stars.
        relevant: whether an item was worth finding, bool [N].
        k: places, at least 1; a list shorter than k counts as filled up with irrelevant items.

    Returns:
        The measures of the queries that have a relevant item: expected values over the orders of equal scores.

    Raises:
        ValueError: a score is not finite, or k is below 1.
    """
    query, scores = np.asarray(query), np.asarray(scores, np.float64)
    found = np.asarray(relevant, bool)
    if k < 1 or not np.isfinite(scores).all():
        raise ValueError("scores must be finite, and k at least 1")
    if len(query) == 0:
        return Ranking(k)
    most = min(k, len(query))  # places that are filled
    # the discounts of the first p places, summed
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2.0, most + 2)))])
    order = np.lexsort((-scores, query))
    query, scores, found = query[order], scores[order], found[order]
    new_query = np.concatenate([[True], query[1:] != query[:-1]])
    starts = np.flatnonzero(new_query)
    number = np.cumsum(new_query) - 1  # of the query, from 0
    ties = np.flatnonzero(new_query | np.concatenate([[True], scores[1:] != scores[:-1]]))
    owner = number[ties]
    length = np.diff(np.append(ties, len(query)))
    first = np.minimum(ties - starts[owner], most)  # the places of a group of ties, from 0, as far as they count
    after = np.minimum(ties - starts[owner] + length, most)
    tied = np.add.reduceat(found.astype(np.float64), ties)  # relevant items of each group
    count = len(starts)
    hits = np.bincount(owner, tied * (after - first) / length, count)
    dcg = np.bincount(owner, tied * (discounts[after] - discounts[first]) / length, count)
    wanted = np.bincount(owner, tied, count)
    ideal = discounts[np.minimum(wanted, most).astype(np.int64)]
    some = wanted > 0
    return Ranking(
        k,
        query[starts][some],
        hits[some] / k,
        hits[some] / wanted[some],
        dcg[some] / ideal[some],
        int(count - some.sum()),
    )


def unseen(
    users: NDArray[np.int32], seen: Vectors, test: Vectors, num_items: int, relevant: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which items are ranked for each user, those not rated in training, and which of these are relevant.

    Args:
        users: some users, [B], so few that B times num_items pairs fit into memory.
        seen: training ratings by user.
        test: test ratings by user.
        num_items: the number of items.
        relevant: minimum stars of a test rating that makes its item relevant.

    Returns:
        The ranked items, bool [B, items], and the relevant ones among them, bool [B, items].
    """
    ranked = np.ones((len(users), num_items), bool)
    wanted = np.zeros((len(users), num_items), bool)
    for row, user in enumerate(users):
        ranked[row, seen.item[seen.offsets[user] : seen.offsets[user + 1]]] = False
        mine = slice(test.offsets[user], test.offsets[user + 1])
        wanted[row, test.item[mine]] = test.stars[mine] >= relevant
    return ranked, wanted & ranked


def recommended(
    scorer: Scorer, seen: Ratings, test: Ratings, num_users: int, num_items: int, k: int, relevant: float = -np.inf
) -> Ranking:
    """Rank, for each user with test ratings, all items that the user is not known to have rated.

    Args:
        scorer: scores by which items are ranked.
        seen: the users' known ratings.
        test: ratings that are to be ranked high.
        num_users: the number of users.
        num_items: the number of items.
        k: places, as in `rank`.
        relevant: minimum stars, as in `unseen`; by default all items of test ratings are relevant.

    Raises:
        ValueError: a score is not finite.
    """
    users, result = np.unique(test.user), Ranking(k, listed=np.zeros(num_items, bool))
    known, wanted = by_user(seen, num_users), by_user(test, num_users)
    size = max(1, RANKED_AT_ONCE // num_items)
    for block in (users[at : at + size] for at in range(0, len(users), size)):
        result += _of_block(block, np.asarray(scorer(block)), *unseen(block, known, wanted, num_items, relevant), k)
    return result


def _of_block(
    users: NDArray[np.int32],
    scores: NDArray[np.float32],
    ranked: NDArray[np.bool_],
    relevant: NDArray[np.bool_],
    k: int,
) -> Ranking:
    """Rank the items of some users.

    What is below the first k places matters only if it is relevant: the rest is left out before anything is sorted.

    Args:
        scores, ranked, relevant: [B, items].
    """
    if not np.isfinite(scores).all():
        raise ValueError("scores must be finite")
    rows, num_items = scores.shape
    scores = np.where(ranked, scores, np.float32(-np.inf))
    least = np.partition(scores, num_items - k, axis=1)[:, num_items - k] if k < num_items else np.full(rows, -np.inf)
    first = ranked & (scores >= least[:, None])  # k of them, or more of equal scores
    row, item = np.nonzero(first | relevant)
    result = rank(users[row], scores[row, item], relevant[row, item], k)
    row, item = np.nonzero(first)
    order = np.lexsort((item, -scores[row, item], row))
    place = np.arange(len(row)) - np.searchsorted(row, row)  # `row` is sorted, before as after
    listed = np.zeros(num_items, bool)
    listed[item[order[place < k]]] = True
    skipped = len(users) - len(result.users)  # also those with no item left to rank
    return Ranking(k, result.users, result.precisions, result.recalls, result.ndcgs, skipped, listed)


def by_popularity(ratings: Ratings, num_items: int) -> Scorer:
    """Return the scorer that ranks items by their numbers of ratings, the same for every user."""
    number = np.bincount(ratings.item, minlength=num_items).astype(np.float32)
    return lambda users: np.broadcast_to(number, (len(users), num_items))
