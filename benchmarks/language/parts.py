"""Parts of a text, the units of its bootstrap: of consecutive lines, as neighbouring lines are of one subject."""

import numpy as np

from benchmarks.core.verdict import Scores

# Blocks of ten lines are still correlated with their neighbours (.5 on the Penn Treebank), so that they are added up to
# 50 parts. Blocks of a short text are shorter, so that there are 20. One of 50 parts of WikiText-2 is about as long as
# an article, and neighbouring parts are still correlated (.45), so that it has 25.
BLOCK, PARTS, LEAST_PARTS = 10, 50, 20
PARTS_OF = {"wikitext-2": 25}


def described(name: str = "") -> str:
    """Say what the parts of the text of this name are; without a name, those of most texts."""
    return f"up to {PARTS_OF.get(name, PARTS)} parts of consecutive lines"


def blocks(ends: np.ndarray) -> np.ndarray:
    """Return the number of each event's block of lines, int64 [events]; ends: bool [events], whether a line ends."""
    lines = max(1, min(BLOCK, int(ends.sum()) // LEAST_PARTS))
    return (np.cumsum(ends) - ends) // lines


def grouped(scores: Scores, name: str) -> Scores:
    """Add scores of blocks up to the number of parts that the text of this name has, if there are more.

    They are grouped into PARTS first: so those that were kept when every text had PARTS end in the same parts.
    """
    return scores.grouped(PARTS).grouped(PARTS_OF.get(name, PARTS))
