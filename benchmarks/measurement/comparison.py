"""`python -m benchmarks compare`: which differences between two records of speed are more than noise.

A difference is real where the Mann-Whitney test of the samples, corrected for the number of comparisons (Holm), has
p < 0.05, *and* the speeds' medians differ by LEAST more than the machine's limits did, from quartile to quartile: all
limits that both runs measured in the same rounds, as it depends on the program which one holds it up. The test alone
would find differences in equal code, because the rounds of one run share its hour and its places in memory.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import PermutationMethod, mannwhitneyu, rankdata

from benchmarks.core.statistics import holm
from benchmarks.measurement.limits import LIMITS
from jaxfit.errors import UserError
from jaxfit.run_dir import json_text

LEAST = 1.1  # ratio of medians beyond what the machine explains
ALPHA = 0.05
EXACT = 50  # samples in both, up to which the exact test is made
PERMUTATIONS = 200_000  # where samples are equal: exact up to ten and ten, and drawn above
# what the names of columns of speeds have in them; a table of seconds has it in its title
RATE, TIME = re.compile(r"/s\b|per second"), re.compile(r"\bseconds\b|^s\b")
FASTER, SLOWER, SAME, FEW = "faster", "slower", "no difference", "too few samples"


class Measurement(NamedTuple):
    """Where it stands in a record, and its samples; a rate, or a time in which more is slower."""

    place: tuple[str, ...]
    samples: np.ndarray
    rate: bool

    def speeds(self) -> np.ndarray:
        """Return the samples such that more is faster; a target that was missed has speed 0."""
        with np.errstate(divide="ignore"):
            return self.samples if self.rate else 1 / self.samples


def compare(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Compare the first record with each of the others.

    Returns:
        For each of the others: both files; what differs in the environments; by how much the machine's limits differ;
        and of every speed that both have the name, medians, ratio (the second's over the first's), p, p as corrected,
        between which ratios the machine explains the difference, and the verdict on the second.

    Raises:
        UserError: a file is missing or no record, or two have no measurement in common.
    """
    (first, known), *others = [_read(path) for path in paths]
    found = []
    for path, (other, theirs) in zip(paths[1:], others, strict=True):
        common = [(known[place], theirs[place]) for place in known if place in theirs]
        if not common:
            raise UserError(f"it has no measurement in common with {paths[0]}", path, "compare records of equal names")
        machine = [pair for pair in common if LIMITS in pair[0].place]
        found.append({
            "first": str(paths[0]),
            "second": str(path),
            "environment": differences(first, other),
            "machine": {" / ".join(a.place): _ratio(a.samples, b.samples) for a, b in machine},
            "measurements": judged([pair for pair in common if LIMITS not in pair[0].place], machine),
        })  # fmt: skip
    return found


def _read(path: Path) -> tuple[dict[str, Any], dict[tuple[str, ...], Measurement]]:
    """Read a record and its measurements, by their places."""
    advice = "name a speed.json of this version, or the record of a table of times"
    try:
        found = json_text.read(path)
        if "rows" not in found and "version" not in found:
            raise ValueError("it holds no samples")
        return found, {measurement.place: measurement for measurement in measurements(found)}
    except FileNotFoundError:
        raise UserError("there is no such file", path, advice) from None
    except (ValueError, OSError) as error:
        raise UserError(f"not a record of speed: {error}", path, advice) from None
    except (KeyError, TypeError, AttributeError):
        raise UserError("not a record of speed", path, advice) from None


def measurements(found: Mapping[str, Any]) -> Iterator[Measurement]:
    """Yield the speeds of a record: those of `speed.json`, or those of a table's cells that are over rounds."""
    for row in found.get("rows", ()):
        for column, cell in row["cells"].items():
            if cell.get("over") == "rounds":
                place = (found["table"], *filter(None, row["label"]), column)
                yield Measurement(place, _numbers(cell["values"]), column == "words")
    for name, figures in found.get("figures", {}).items():
        for title, table in figures["tables"].items():
            for contender, row in table.items():
                for column, value in row.items():
                    rate = RATE.search(column) is not None
                    if isinstance(value, Mapping) and (rate or TIME.search(column) or TIME.search(title)):
                        yield Measurement((name, title, contender, column), _numbers(value["samples"]), rate)


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.inf if value is None else value for value in values])  # in JSON nothing is infinite


Pair = tuple[Measurement, Measurement]


def judged(pairs: Sequence[Pair], machine: Sequence[Pair]) -> list[dict[str, Any]]:
    """Judge the difference of each pair, given the limits of both runs.

    Without limits, in tables, what most rows have in common stands for the machine. Pairs of which no samples could
    have a p small enough for the number of comparisons are left out of the correction.
    """
    tests = [_p(a.samples, b.samples) for a, b in pairs]
    attainable = [2 / comb(len(a.samples) + len(b.samples), len(a.samples)) for a, b in pairs]
    testable = [number for number, p in enumerate(attainable) if p * len(pairs) <= ALPHA]
    corrected = dict(zip(testable, holm([tests[number] for number in testable]), strict=True))
    rows = []
    for number, (a, b) in enumerate(pairs):
        limits = [pair for pair in machine if pair[0].place[0] == a.place[0]]
        low, high = explained(limits or [pair for pair in pairs if pair[0].place[-1] == a.place[-1]], not limits)
        within = [low, high] if a.rate else [1 / high, 1 / low]
        speedup = _ratio(a.speeds(), b.speeds())
        verdict = FEW if number not in corrected else SAME
        if corrected.get(number, 1.0) < ALPHA and not low <= speedup <= high:
            verdict = FASTER if speedup > 1 else SLOWER
        rows.append({
            "name": " / ".join(a.place), "first": float(np.median(a.samples)), "second": float(np.median(b.samples)),
            "ratio": _ratio(a.samples, b.samples), "p": tests[number], "corrected p": corrected.get(number),
            "explained": within, "verdict": verdict,
        })  # fmt: skip
    return rows


def explained(limits: Sequence[Pair], together: bool) -> tuple[float, float]:
    """Return between which ratios of speeds nothing but the machine may have changed.

    together: take what most of them have in common, the median of their ratios; else each for itself.
    """
    ratios = [1.0]
    for a, b in limits:
        (slow, fast), (slow_b, fast_b) = (np.quantile(x.speeds(), (0.25, 0.75)) for x in (a, b))
        ratios += [slow_b / fast, fast_b / slow]
    if together:
        ratios = [1.0, float(np.median(ratios[1:]))]
    return min(ratios) / LEAST, max(ratios) * LEAST


def _ratio(a: np.ndarray, b: np.ndarray) -> float:
    """Return the second median over the first; 1 where both are infinite, or both zero."""
    first, second = float(np.median(a)), float(np.median(b))
    if first == second:
        return 1.0
    return second / first if first else np.inf


def _p(a: np.ndarray, b: np.ndarray) -> float:
    """Return p of the two-sided Mann-Whitney test: exact for few samples; of more equal ones, by permutations."""
    both = np.concatenate([a, b])
    if np.all(both == both[0]):
        return 1.0
    method: Any = "asymptotic"
    if len(both) <= EXACT:
        equal = len(np.unique(both)) < len(both)
        method = PermutationMethod(n_resamples=PERMUTATIONS, rng=np.random.default_rng(0)) if equal else "exact"
    ranks = rankdata(both)  # in place of the samples: some may be infinite
    return float(mannwhitneyu(ranks[: len(a)], ranks[len(a) :], method=method).pvalue)


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Say what differs in the environments of two records: machine, versions, commit."""
    first, second = ({**_environment(found), "benchmark version": found.get("version")} for found in (one, other))
    return [
        f"{key}: {first.get(key)} / {second.get(key)}"
        for key in dict.fromkeys((*first, *second))
        if first.get(key) != second.get(key)
    ]


def _environment(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return all values that a record's environments have of each key."""
    each = [row["environment"] for row in found.get("rows", ())] + list(found.get("environment", {}).values())
    flat = [{**where, **where.get("versions", {})} for where in each]
    keys = dict.fromkeys(key for where in flat for key in where if key != "versions")
    return {key: ", ".join(dict.fromkeys(str(where.get(key)) for where in flat)) for key in keys}
