"""Means, spreads and comparisons of what was measured several times."""

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np


def quartiles(samples: Sequence[float]) -> dict[str, Any]:
    """Return the median of samples, their first and third quartile, and the samples themselves.

    What is infinite, a time that never came, is None there.
    """
    never = 1e300  # in place of infinity, between which and a number there is no quantile
    values = [*np.quantile(np.minimum(samples, never), (0.25, 0.5, 0.75)), *samples]
    low, middle, high, *all_samples = (None if value > 1e200 else float(value) for value in values)
    return {"median": middle, "quartiles": [low, high], "samples": all_samples}


def falls(values: Sequence[float]) -> bool:
    """Return whether each value is below the one before."""
    return all(later < earlier for earlier, later in pairwise(values))


def wins(one: Sequence[float], other: Sequence[float]) -> int:
    """Count the pairs in which the first is lower."""
    return sum(a < b for a, b in zip(one, other, strict=True))


def paired(rows: list[dict[str, Any]], column: str) -> tuple[list[str], list[str]]:
    """Compare all pairs of rows of a table, seed by seed.

    Returns:
        The pairs closer than two standard errors of their difference, and, of the others, those whose order is the
        reverse of the thesis'. Rows of one seed are in neither: nothing is known of their spread.
    """
    unresolved, reverse = [], []
    for one, other in combinations(rows, 2):
        difference = np.subtract(*(row["cells"][column]["values"] for row in (one, other)))
        if len(difference) < 2:
            continue
        pair = "/".join(row["label"][1] for row in (one, other))
        if abs(difference.mean()) < 2 * np.std(difference, ddof=1) / len(difference) ** 0.5:
            unresolved.append(pair)
        elif difference.mean() * (one["thesis"][column] - other["thesis"][column]) < 0:
            reverse.append(pair)
    return unresolved, reverse
