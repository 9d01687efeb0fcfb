"""How well ratings are predicted: RMSE and MAE, by bins of users.

A result is sums and counts, so that the results of disjoint sets of ratings add up.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxcf.data.ratings import RatingScale


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Errors of predictions, summed over `count` ratings: squared (in stars²) and absolute (in stars).

    The clipped errors are those of predictions that are first clipped to the scale of the ratings.
    """

    squared: float = 0.0
    squared_clipped: float = 0.0
    absolute: float = 0.0
    absolute_clipped: float = 0.0
    count: int = 0

    def __repr__(self) -> str:
        return f"<Evaluation: RMSE {self.rmse:.4f}, MAE {self.mae:.4f} ({self.count:,} ratings)>"

    def __add__(self, other: Evaluation) -> Evaluation:
        return Evaluation(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @property
    def rmse(self) -> float:
        """√(Σ (prediction - rating)² / count) in stars, of predictions clipped to the scale.

        Differs: Mnih 2010, §5.4.3, does not say that predictions are clipped; those of `rmse_unclipped` are not.
        """
        return math.sqrt(self._mean(self.squared_clipped))

    @property
    def rmse_unclipped(self) -> float:
        """RMSE in stars, of predictions as they are."""
        return math.sqrt(self._mean(self.squared))

    @property
    def mae(self) -> float:
        """Σ |prediction - rating| / count in stars, of clipped predictions. Not in the thesis."""
        return self._mean(self.absolute_clipped)

    @property
    def mae_unclipped(self) -> float:
        """MAE in stars, of predictions as they are. Not in the thesis."""
        return self._mean(self.absolute)

    def record(self) -> dict[str, float]:
        """Return the fields that records and JSON output hold."""
        return {
            "rmse_clipped": self.rmse,
            "rmse_unclipped": self.rmse_unclipped,
            "mae_clipped": self.mae,
            "mae_unclipped": self.mae_unclipped,
            "squared_error_clipped": self.squared_clipped,
            "squared_error_unclipped": self.squared,
            "ratings": self.count,
        }

    def _mean(self, total: float) -> float:
        return total / self.count if self.count else math.nan


class Bins(NamedTuple):
    """Users, or items, grouped by their number of training ratings, from few to many."""

    of: NDArray[np.int32]  # [number of users]: bin, or -1 for users left out
    fewest: NDArray[np.int64]  # [bins]: the smallest number of training ratings of the bin's users
    most: NDArray[np.int64]  # [bins]: the largest


def evaluate(predicted: ArrayLike, stars: ArrayLike, scale: RatingScale) -> Evaluation:
    """Sum the errors of predictions [N] of ratings [N], in float64.

    Raises:
        ValueError: the shapes differ, or a prediction is not finite.
    """
    predicted, stars = np.asarray(predicted, np.float64), np.asarray(stars, np.float64)
    if predicted.shape != stars.shape or not np.isfinite(predicted).all():
        raise ValueError(f"predictions {predicted.shape} of {stars.shape} ratings, or some not finite")
    error, clipped = predicted - stars, scale.clip(predicted) - stars
    return Evaluation(
        squared=float(np.sum(error**2)),
        squared_clipped=float(np.sum(clipped**2)),
        absolute=float(np.sum(np.abs(error))),
        absolute_clipped=float(np.sum(np.abs(clipped))),
        count=len(stars),
    )


def bins(counts: ArrayLike, number: int = 10) -> Bins:
    """Sort users into bins of equal size by their numbers of training ratings, [num_users].

    Sizes differ by at most one. Users with equal numbers may be in neighbouring bins, in the order of their indices;
    users without training ratings are in no bin. Source: Mnih 2010, §5.4.5-5.4.6, Figures 5.4 and 5.6-5.8.
    """
    counts = np.asarray(counts)
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    ends = np.arange(number + 1) * len(order) // number
    of = np.full(len(counts), -1, np.int32)
    of[order] = np.repeat(np.arange(number, dtype=np.int32), np.diff(ends))
    pieces = [counts[order[a:b]] for a, b in itertools.pairwise(ends)]
    ranges = np.array([(piece.min(), piece.max()) if len(piece) else (0, 0) for piece in pieces])
    return Bins(of, *ranges.T)
