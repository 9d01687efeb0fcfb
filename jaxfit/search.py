"""Search of settings: what `--try` says, the settings of a grid or drawn at random, and the order of results.

A setting is the texts of option values, by the names of the options.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxfit.errors import UserError

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})")
LOG_FROM = 10  # the ratio of a range's ends from which on its logarithm is uniform
DIGITS = 4  # significant ones of numbers that are drawn, so that commands stay short
PATIENCE = 1000  # draws for each setting, after which no new one is expected
EXAMPLE = "write --try num_features=10,20 or, with --trials N, --try rate=0.01..0.1"

Setting = dict[str, str]


class SearchOption(NamedTuple):
    """An option and what is tried of it: values, or numbers from `low` to `high`.

    Attributes:
        option: its name, "num_features".
        values: of a list; () of a range.
        low: of a range, as is `high`.
        whole: whether only whole numbers are drawn from the range.
    """

    option: str
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False


def parse(text: str) -> SearchOption:
    """Read "num_features=10,20,50", "rate=0.01..0.1", or "drops=none;0.5,0.1", of values that have commas themselves.

    Raises:
        UserError: There is no option, no value or an empty one, or a range ends before it begins.
    """
    option, _, given = text.partition("=")
    if not option or not given:
        raise UserError(f"{text!r} has no {'values' if option else 'option'}", "--try", EXAMPLE)
    found = RANGE.fullmatch(given)
    if found is None:
        values = [part.strip() for part in given.split(";" if ";" in given else ",")]
        if "" in values:
            raise UserError(f"a value of {text!r} is empty", "--try", EXAMPLE)
        distinct: dict[int | float | str, str] = {}  # the text of each number; that of a whole one, if there is one
        for value in values:
            number = as_number(value)
            if number not in distinct or isinstance(number, int):
                distinct[number] = value
        return SearchOption(option, tuple(distinct.values()))
    low, high = float(found[1]), float(found[2])
    if not -math.inf < low < high < math.inf:
        raise UserError(f"the range {given} is empty", f"--try {option}", "write the lower end first")
    return SearchOption(option, low=low, high=high)


def grid(tried: Sequence[SearchOption]) -> list[Setting]:
    """Return all settings, those that differ in the last option beside each other.

    Raises:
        UserError: There is a range.
    """
    for each in tried:
        if not each.values:
            what = f"a range, {each.low:g}..{each.high:g}, needs a number of trials"
            raise UserError(what, f"--try {each.option}", "add --trials N")
    return [
        dict(zip((each.option for each in tried), values, strict=True))
        for values in itertools.product(*(each.values for each in tried))
    ]


def draw(tried: Sequence[SearchOption], number: int, seed: int) -> list[Setting]:
    """Draw different settings at random; those of a larger number begin with those of a smaller one.

    Raises:
        UserError: There are not so many settings.
    """
    there = math.prod(map(number_of_values, tried))
    if there < number:
        what = f"there are only {there:.0f} different settings"
        raise UserError(what, "--trials", f"give at most {there:.0f}, or leave it out to try all values of lists")
    draws = np.random.Generator(np.random.Philox(key=seed))
    names, found = [each.option for each in tried], dict[tuple[str, ...], None]()
    for _ in range(PATIENCE * number):
        found[tuple(value_at(each, u) for each, u in zip(tried, draws.random(len(tried)), strict=True))] = None
        if len(found) == number:
            return [dict(zip(names, values, strict=True)) for values in found]
    raise UserError(f"only {len(found)} different settings were drawn", "--trials", f"give at most {len(found)}")


def number_of_values(tried: SearchOption) -> float:
    """Return how many values can be drawn of an option; infinite for a range of numbers that need not be whole."""
    if tried.values:
        return len(tried.values)
    return math.floor(tried.high) - math.floor(tried.low) + 1 if tried.whole else math.inf


def value_at(tried: SearchOption, u: float) -> str:
    """Return the value that a uniform draw 0 <= u < 1 selects.

    Every value of a list is as probable. A number is uniform over its range, or its logarithm is, where both ends are
    above 0 and the higher is at least LOG_FROM times the lower.
    """
    if tried.values:
        return tried.values[int(u * len(tried.values))]
    low, high = tried.low, tried.high + (1 if tried.whole else 0)
    value = low * (high / low) ** u if low > 0 and tried.high / low >= LOG_FROM else low + u * (high - low)
    if tried.whole:
        return str(min(math.floor(value), int(tried.high)))
    return f"{min(max(float(f'{value:.{DIGITS}g}'), low), high)!r}"


def best_first(trials: Sequence[Mapping[str, Any]], higher_is_better: bool) -> list[Mapping[str, Any]]:
    """Return trials in the order of their "score", those without a finite one last; equal ones in their order."""

    def key(trial: Mapping[str, Any]) -> float:
        score = trial["score"]
        if score is None or not math.isfinite(score):
            return math.inf
        return -score if higher_is_better else score

    return sorted(trials, key=key)


def as_number(text: str) -> int | float | str:
    """Return the number that a text is, else the text."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if math.isfinite(value) else text
    return text
