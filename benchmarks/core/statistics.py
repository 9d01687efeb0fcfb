"""Summaries of what was measured several times."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def quartiles(samples: Sequence[float]) -> dict[str, Any]:
    """Return the median of samples, their first and third quartile, and the samples themselves."""
    low, middle, high = (float(value) for value in np.quantile(samples, (0.25, 0.5, 0.75)))
    return {"median": middle, "quartiles": [low, high], "samples": [float(sample) for sample in samples]}
