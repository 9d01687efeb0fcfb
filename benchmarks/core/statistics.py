"""Summaries of what was measured several times."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def over_rounds(samples: Sequence[float]) -> dict[str, Any]:
    """Summarise rounds of a timing as a cell of a table: their median, standard deviation, and all of them."""
    deviation = float(np.std(samples, ddof=1)) if len(samples) > 1 else None
    return {"mean": float(np.median(samples)), "sd": deviation, "values": list(samples), "over": "rounds"}


def quartiles(samples: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """Return the median of samples, their first and third quartile, and the samples themselves.

    Infinite samples, such as the time to a target that was never reached, are None there.
    """
    never = 1e300  # in place of infinity, as no quantile lies between infinity and a number
    values = [*np.quantile(np.minimum(samples, never), (0.25, 0.5, 0.75)), *samples]
    low, middle, high, *all_samples = (None if value > 1e200 else float(value) for value in values)
    return {"median": middle, "quartiles": [low, high], "samples": all_samples}


def holm(ps: Sequence[float]) -> list[float]:
    """Correct p-values for their number by Holm's step-down method, which bounds the family-wise error rate."""
    corrected, largest = [0.0] * len(ps), 0.0
    for rank, number in enumerate(np.argsort(ps)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[number]))
        corrected[number] = largest
    return corrected
