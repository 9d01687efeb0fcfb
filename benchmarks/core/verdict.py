"""Verdicts: whether a claim of the thesis holds here, drawn from the test with intervals, not from point estimates.

An interval is of the mean over seeds. Its variance is that of the test, by a paired bootstrap over units that are
nearly independent (users; parts of a text), plus that of the mean over seeds. The degrees of freedom of their sum are
by Satterthwaite's formula, so that few seeds widen the interval where they differ much, and few units do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

SEEDS = 3  # at least, for a verdict
RESAMPLES = 1000
LEVEL = 0.95
BELOW, ABOVE = (-np.inf, 0.0), (0.0, np.inf)  # what is claimed of a difference
NOT_CLAIMED = "not claimed there"  # in the section of a claim that the thesis does not make
TARGET = "our target"  # in place of a section, of what we set out to reach


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model scored on each unit of the test.

    Attributes:
        total: sum of squared errors, of nats or of percent, float64 [units]; scores of one set of units have one order.
        count: ratings or events, float64 [units].
        finish: function from the mean to the figure that is reported: square root, exp or identity.
        seeded: whether another seed would have given other scores.
    """

    total: np.ndarray
    count: np.ndarray
    finish: Callable[[Any], Any]
    seeded: bool = True

    def grouped(self, groups: int) -> "Scores":
        """Add consecutive units up to `groups` groups of nearly equal size; scores of fewer units stay as they are."""
        if len(self.total) <= groups:
            return self
        begins = [int(part[0]) for part in np.array_split(np.arange(len(self.total)), groups)]
        total, count = (np.add.reduceat(each, begins) for each in (self.total, self.count))
        return replace(self, total=total, count=count)

    @cached_property
    def value(self) -> float:
        """The figure on the test."""
        return float(self.finish(self.total.sum() / self.count.sum()))

    @cached_property
    def resampled(self) -> np.ndarray:
        """The figure on bootstrap samples, the same samples for all scores of as many units: float64 [RESAMPLES]."""
        weights, both = _weights(len(self.total)), np.stack([self.total, self.count], axis=1)
        sums = np.concatenate([part.astype(np.float64) @ both for part in np.array_split(weights, RESAMPLES // 50)])
        # also the value of an empty sample, possible with very few units
        found = np.full(RESAMPLES, self.total.sum() / self.count.sum())
        return self.finish(np.divide(sums[:, 0], sums[:, 1], out=found, where=sums[:, 1] > 0))


@lru_cache(maxsize=4)
def _weights(units: int) -> np.ndarray:
    """Draw how often each unit is in each bootstrap sample, by the Poisson bootstrap: uint8 [resamples, units]."""
    return np.random.default_rng(units).poisson(1.0, (RESAMPLES, units)).astype(np.uint8)


@dataclass(frozen=True)
class Comparison:
    """A quantity that lies in a range, according to a claim.

    Attributes:
        label: what is compared: a size, a pair.
        draws: for each seed, the scores that the quantity is of.
        claimed: the range's ends.
        quantity: function of the scores' figures; by default, the first less the second.
        percent: whether the quantity is a share, which is shown in %.
    """

    label: str
    draws: Sequence[Sequence[Scores]]
    claimed: tuple[float, float] = BELOW
    quantity: Callable[..., Any] = lambda one, other: one - other
    percent: bool = False

    @property
    def seeds(self) -> int | None:
        """The number of seeds; None where nothing compared depends on a seed."""
        return len(self.draws) if any(scores.seeded for scores in self.draws[0]) else None


class Estimate(NamedTuple):
    """A quantity's mean over seeds, its standard error, and the degrees of freedom of the error."""

    value: float
    error: float
    freedom: float

    def interval(self, level: float) -> tuple[float, float]:
        """Return the confidence interval of this level."""
        from scipy.stats import t as student  # here, as it takes a while

        half = self.error * float(student.ppf((1 + level) / 2, self.freedom))
        return self.value - half, self.value + half


@dataclass(frozen=True)
class Claim:
    """A claim of the thesis: that all comparisons lie in their ranges."""

    section: str
    text: str
    comparisons: Sequence[Comparison]


def estimate(comparison: Comparison) -> Estimate:
    """Estimate a comparison's quantity."""
    values = [float(comparison.quantity(*(scores.value for scores in draw))) for draw in comparison.draws]
    resampled = [comparison.quantity(*(scores.resampled for scores in draw)) for draw in comparison.draws]
    # the bootstrap's variance divides by the number of units, not by one less
    units = max(2, min(int(np.count_nonzero(scores.count)) for draw in comparison.draws for scores in draw))
    of_test = float(np.var(np.mean(resampled, axis=0), ddof=1)) * units / (units - 1)
    n = len(values)
    of_seeds = float(np.var(values, ddof=1)) / n if n > 1 else 0.0
    total = of_test + of_seeds
    uncertain = of_test**2 / (units - 1) + (of_seeds**2 / (n - 1) if of_seeds else 0.0)
    freedom = total**2 / uncertain if uncertain else np.inf
    return Estimate(float(np.mean(values)), total**0.5, freedom)


def spread(values: Sequence[float | Scores | tuple[Scores, Scores]]) -> dict[str, Any]:
    """Summarise the measurements of all seeds as a cell of a table; of two scores, the first less the second.

    Returns:
        `mean`; `sd` over seeds (None for one); `values`; and, of measurements on units of the test, the `interval` of
        the mean.
    """
    draws = [value if isinstance(value, tuple) else (value,) for value in values if not isinstance(value, float)]
    numbers = [value for value in values if isinstance(value, float)]
    numbers += [draw[0].value - sum(scores.value for scores in draw[1:]) for draw in draws]
    cell: dict[str, Any] = {"mean": float(np.mean(numbers)), "sd": None}
    if len(numbers) > 1:
        same = min(numbers) == max(numbers)  # rounding would leave a small deviation
        cell["sd"] = 0.0 if same else float(np.std(numbers, ddof=1))
    if draws:
        found = estimate(Comparison("", draws, quantity=lambda one, *other: one - sum(other)))
        cell["interval"] = list(found.interval(LEVEL))
    return {**cell, "values": numbers}


def judge(claim: Claim) -> dict[str, Any]:
    """Answer a claim.

    Returns:
        `answer`: "yes" if every comparison's interval lies in its range; "no" if one lies wholly outside, at a level
        that allows for their number (Bonferroni); "unresolved" otherwise, and with fewer than SEEDS seeds.
        `seeds`: the fewest of a comparison. `comparisons`: the figures, and whether each holds.
    """
    found = [(comparison, estimate(comparison)) for comparison in claim.comparisons]
    strict = 1 - (1 - LEVEL) / len(found)
    holds = [
        "yes" if _within(e.interval(LEVEL), comparison.claimed)
        else "no" if _apart(e.interval(strict), comparison.claimed) else "unresolved"
        for comparison, e in found
    ]  # fmt: skip
    seeds = min((c.seeds for c, _ in found if c.seeds is not None), default=None)
    answer = "no" if "no" in holds else "yes" if set(holds) == {"yes"} else "unresolved"
    return {
        "answer": "unresolved" if seeds is not None and seeds < SEEDS else answer,
        "seeds": seeds,
        "comparisons": [
            {
                "label": comparison.label,
                "holds": held,
                "value": e.value,
                "interval": list(e.interval(LEVEL)),
                "claimed": [end if np.isfinite(end) else None for end in comparison.claimed],
                "percent": comparison.percent,
            }
            for (comparison, e), held in zip(found, holds, strict=True)
        ],
    }


def _within(interval: tuple[float, float], claimed: tuple[float, float]) -> bool:
    return claimed[0] < interval[0] and interval[1] < claimed[1]


def _apart(interval: tuple[float, float], claimed: tuple[float, float]) -> bool:
    return interval[1] <= claimed[0] or claimed[1] <= interval[0]


def verdicts(on_test: Sequence[Claim], on_validation: Sequence[Claim]) -> list[dict[str, Any]]:
    """Answer claims from the test, and also give the answer of validation.

    A claim that only validation could answer is unresolved. Claims without comparisons, on sizes that the scale does
    not have, are left out.
    """
    test, validation = ({c.text: c for c in claims if c.comparisons} for claims in (on_test, on_validation))
    found = []
    for text, claim in {**validation, **test}.items():
        judged = judge(test[text]) if text in test else None
        found.append(
            {
                "claim": text,
                "section": claim.section,
                "answer": "unresolved" if judged is None else judged["answer"],
                "test": judged,
                "validation": judge(validation[text]) if text in validation else None,
            }
        )
    return found
