"""Random search for the settings with which a program trains fastest to given errors, with the same budget for all.

Settings are drawn in batches, and a batch is halved again and again (successive halving, Jamieson and Talwalkar 2016):
all are trained for a few passes, the better half anew for twice as many, since few programs report errors by pass, and
so on. Those that reached the lowest error asked for need no more passes. After a batch, the space is widened where a
setting that would be chosen lies near its edge; after the last, the best setting that missed an error is given more
passes while they help. Only validation errors are seen here.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

BATCHES, BATCH = 3, 8  # settings: their product is the budget of every program
PASSES = (4, 8, 16, 32)  # of a whole batch, of at most a half, a quarter, an eighth of it
PASS = "passes"  # its name among the settings on an edge
LONGEST = 20.0  # seconds: no training is begun that, by the one before, would take longer
EDGE = 0.2  # of a range, in its logarithm: what is nearer to an end than that …
WIDER = 3.0  # … has this end moved by this factor
SEED = 1


@dataclass(frozen=True)
class Range:
    """Numbers between two positive ones, drawn uniformly in their logarithm.

    Attributes:
        low, high: the two numbers.
        ratio: only low, low * ratio, low * ratio², … are drawn, as integers; None: all numbers.
    """

    low: float
    high: float
    ratio: int | None = None

    def draw(self, random: np.random.Generator) -> float:
        """Draw a number; without a ratio, it has three significant digits."""
        if self.ratio is not None:
            return int(self.low * self.ratio ** random.integers(round(math.log(self.high / self.low, self.ratio)) + 1))
        return float(f"{math.exp(random.uniform(math.log(self.low), math.log(self.high))):.3g}")

    def widened(self, values: Sequence[float]) -> "Range":
        """Move the ends to which any of the values is near."""
        factor = self.ratio or WIDER
        near = (self.high / self.low) ** EDGE
        low = self.low / factor if min(values) < self.low * near else self.low
        high = self.high * factor if max(values) > self.high / near else self.high
        return replace(self, low=low if self.ratio is None else max(1, int(low)), high=high)

    def __str__(self) -> str:
        steps = "" if self.ratio is None else f" by factors of {self.ratio}"
        return f"{self.low:.3g} to {self.high:.3g}{steps}"


FEATURES = Range(8, 32, 2)  # of a factorization

# name of a setting -> its range, or a tuple of its possible values, in no order
Space = Mapping[str, Range | tuple[Any, ...]]


class Tried(NamedTuple):
    """A training of the search: seconds without compilation, and the validation error it reached."""

    setting: dict[str, Any]
    passes: int
    seconds: float
    error: float


Try = Callable[[dict[str, Any], int], Tried]  # trains with a setting for so many passes


class Found(NamedTuple):
    """What a search made: all trainings, the number of settings, the space at first and at last."""

    tried: list[Tried]
    settings: int
    first: Space
    last: Space

    def lowest(self) -> Tried:
        """Return the training with the lowest error."""
        return min(self.tried, key=lambda each: each.error)

    def on_edge(self, best: Tried, error: float) -> list[str]:
        """Return the names of settings near an end of their last range, beyond which values might be better.

        Passes are on the edge if more might reach the error.

        Args:
            best: the training that was chosen for an error, or came closest to it.
            error: the validation error to reach.
        """
        ranges = {name: side for name, side in self.last.items() if isinstance(side, Range)}
        found = [name for name, side in ranges.items() if side.widened([best.setting[name]]) != side]
        alike = [each.passes for each in self.tried if each.setting == best.setting]
        return [*found, *([PASS] if best.error > error and best.passes == max(alike) else [])]

    def in_words(self) -> str:
        """Say what was tried, in the words of a record."""
        ranges = [
            f"{name} {' or '.join(map(str, side)) if isinstance(side, tuple) else side}"
            + (f", widened to {self.last[name]}" if self.last[name] != side else "")
            for name, side in self.first.items()
        ]
        passes = sorted({each.passes for each in self.tried})
        tried = f"{self.settings} settings, {len(self.tried)} trainings of {passes[0]} to {passes[-1]} passes"
        return "; ".join([*ranges, tried])

    def record(self) -> dict[str, Any]:
        """Return what was searched, in words, and every training: its setting, passes, seconds, validation error."""
        rows = [
            [*each.setting.values(), each.passes, round(each.seconds, 4), _rounded(each.error)] for each in self.tried
        ]
        return {
            "space": self.in_words(),
            "columns": [*self.first, PASS, "seconds", "validation RMSE"],
            "trainings": rows,
        }


def _rounded(error: float) -> float | None:
    return round(error, 5) if math.isfinite(error) else None


def search(attempt: Try, space: Space, errors: Sequence[float]) -> Found:
    """Try BATCHES batches of BATCH settings each.

    Args:
        attempt: trains with a setting for a number of passes.
        space: ranges of the settings at first.
        errors: the validation errors to reach.
    """
    random, first, tried = np.random.default_rng(SEED), space, list[Tried]()
    for number in range(BATCHES):
        if number:
            space = _widened(space, [best.setting for best in _candidates(tried, errors)])
        tried += _halved(attempt, [_drawn(space, random) for _ in range(BATCH)], min(errors))
    for error in sorted(errors):
        if shortest(tried, error) is None:
            tried += _prolonged(attempt, min(tried, key=lambda each: each.error), error)
    return Found(tried, BATCHES * BATCH, first, space)


def shortest(tried: Sequence[Tried], error: float) -> Tried | None:
    """Return the shortest training that reached an error, or None."""
    return min((each for each in tried if each.error <= error), key=lambda each: each.seconds, default=None)


def fewest_passes(attempt: Try, found: Tried, tried: Sequence[Tried], error: float) -> Tried:
    """Bisect for the fewest passes with which a setting that reached an error still does."""
    missed = max((t.passes for t in tried if t.setting == found.setting and t.passes < found.passes), default=0)
    while found.passes - missed > 1:
        again = attempt(found.setting, (missed + found.passes) // 2)
        if again.error <= error:
            found = again
        else:
            missed = again.passes
    return found


def _drawn(space: Space, random: np.random.Generator) -> dict[str, Any]:
    return {
        name: side.draw(random) if isinstance(side, Range) else side[random.integers(len(side))]
        for name, side in space.items()
    }


def _halved(attempt: Try, settings: Sequence[dict[str, Any]], error: float) -> list[Tried]:
    """Train settings for more and more passes: each time at most half as many, the best that missed the error."""
    tried: list[Tried] = []
    for passes, more in zip(PASSES, (*PASSES[1:], math.inf), strict=True):
        last = [attempt(setting, passes) for setting in settings]
        tried += last
        short = [each for each in last if each.error > error and each.seconds * more / passes <= LONGEST]
        better = sorted(short, key=lambda each: each.error)[: len(last) // 2]
        settings = [each.setting for each in better if each.error < math.inf]
    return tried


def _prolonged(attempt: Try, best: Tried, error: float) -> list[Tried]:
    """Train a setting for twice as many passes again and again, while its error falls and does not reach this one."""
    made: list[Tried] = []
    while error < best.error < math.inf and 2 * best.seconds <= LONGEST:
        made.append(attempt(best.setting, 2 * best.passes))
        if made[-1].error >= best.error:
            break
        best = made[-1]
    return made


def _candidates(tried: Sequence[Tried], errors: Sequence[float]) -> list[Tried]:
    """Return the training chosen for each error; for an error that none reached, the one with the lowest error."""
    best = min(tried, key=lambda each: each.error)
    return [shortest(tried, error) or best for error in errors]


def _widened(space: Space, settings: Sequence[Mapping[str, Any]]) -> Space:
    return {
        name: side.widened([setting[name] for setting in settings]) if isinstance(side, Range) else side
        for name, side in space.items()
    }
