"""The items of the highest scores: those that are recommended to users, and those like an item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxcf.contract import KnownUsers, Scorer
from jaxcf.data.ratings import grouped
from jaxfit.recipe import require_number

SCORES_AT_ONCE = 1 << 18  # of pairs of user and item, at most


class Answer(NamedTuple):
    """A recommended or similar item."""

    item: Any  # its id
    value: float  # stars, clipped to the scale; the score of a model that ranks items; or a cosine


class Known(NamedTuple):
    """Items that users rated, not to be recommended to them: of user i, item[order[offsets[i] : offsets[i + 1]]]."""

    item: NDArray[np.int32]  # [N]
    offsets: NDArray[np.int32]  # [users + 1]
    order: NDArray[np.int32]  # [N]


def known_items(users: KnownUsers) -> list[Known]:
    """Return the items of users' ratings, and of their rated pairs."""
    return [Known(part.item, *grouped(part.user, users.number)) for part in (users.ratings, users.rated)]


def best(
    scorer: Scorer, known: Sequence[Known], users: Sequence[int], num_items: int, top: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield the indices of the items with the highest scores for each user, and these scores.

    Args:
        scorer: scorer of the users.
        known: items that are left out.
        users: indices of users, which are scored in blocks.
        num_items: the number of items.
        top: maximum number of items.
    """
    size = max(1, SCORES_AT_ONCE // num_items)
    for block in (np.asarray(users[at : at + size], np.int32) for at in range(0, len(users), size)):
        for row, user in zip(np.array(scorer(block)), block, strict=True):
            for item, offsets, order in known:
                row[item[order[offsets[user] : offsets[user + 1]]]] = -np.inf
            places = highest(row, top)
            yield places, row[places]


def highest(scores: np.ndarray, top: int) -> NDArray[np.int64]:
    """Return the indices of the highest finite scores, at most `top`, ties in their order; scores: [items]."""
    require_number(top, "top", int)
    order = np.argsort(-scores, kind="stable")[:top]
    return order[np.isfinite(scores[order])]
