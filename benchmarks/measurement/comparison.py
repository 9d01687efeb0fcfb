"""`python -m benchmarks compare`: which differences between two records of speed are more than noise.

A difference is real if the Mann-Whitney test of the samples, corrected for the number of comparisons (Holm), has
p < 0.05, *and* the ratio of the medians lies, by a factor of LEAST, beyond the ratios of the machine's limits, with
their intervals: of all limits that both runs measured in the same rounds, as it depends on the program which of them
applies. The test alone would find differences in equal code, because the rounds of one run share its time and its
memory layout. If both records name the binding limit of a program, the shares of this limit, one for each round, are
tested instead, as they do not depend on what the machine did between rounds; the factor is then BOUND, beyond the
limit's change in the same rounds.

What was measured in two settings is not judged: a search, for example, may have chosen another one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import comb
from pathlib import Path
from textwrap import shorten
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from benchmarks.core.statistics import holm
from benchmarks.measurement.limits import LIMITS
from jaxfit.errors import UserError
from jaxfit.run_dir import json_text

LEAST, BOUND = 1.1, 1.03  # ratio of medians beyond what the machine explains, by any limit and by the binding one
ALPHA = 0.05
EXACT = 50  # total number of samples up to which the test is exact
RESAMPLES = 2000  # of an interval of a ratio
NOT_COMPARED = ("left out", "memory")  # prefixes of settings: peers not installed; whose memory was measured
TRAINING = "training"  # the table of speeds of training, one for each model or workload
# patterns in the names of columns of speeds, or in the title of a table of seconds
RATE, TIME = re.compile(r"/s\b|per second"), re.compile(r"\bseconds\b|^s\b")
FASTER, SLOWER, SAME, FEW, OTHER = "faster", "slower", "no difference", "too few samples", "another setting"


class Measurement(NamedTuple):
    """A speed of a record.

    Attributes:
        place: where it is in the record: the name that was measured, then titles.
        samples: of all rounds, [rounds].
        rate: whether it is a rate; otherwise it is a time, and more is slower.
        setting: data, sizes and options that it was measured with, by name.
        limits: the title of the table of limits that were measured in the same rounds.
        bound: the limits of that table that bind it; () if not known.
        shares: its shares of what binds it, one for each round; None if not known.
    """

    place: tuple[str, ...]
    samples: np.ndarray
    rate: bool
    setting: Mapping[str, Any] = MappingProxyType({})
    limits: str = LIMITS
    bound: tuple[str, ...] = ()
    shares: np.ndarray | None = None

    def speeds(self) -> np.ndarray:
        """Return the samples such that more is faster; a target that was missed has speed 0."""
        with np.errstate(divide="ignore"):
            return self.samples if self.rate else 1 / self.samples


def compare(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Compare the first record with each of the others.

    Returns:
        For each of the others:
        "first", "second": the files;
        "environment": what differs between the environments;
        "machine": the ratio, second over first, of each limit of the machine;
        "only first", "only second": the speeds that one record alone has;
        "measurements": of every speed that both have, its name, both medians, their ratio and its interval of 95 %, p,
        p as corrected, between which ratios the machine explains the difference, what differs between their settings,
        and the verdict on the second;
        "mean": of the ratios of all speeds of training: their number, geometric mean and its interval of 95 %.

    Raises:
        UserError: a file is missing, is not a record of speed, has no samples, or is of another version of the
            benchmark than the first; or two records have no measurement in common.
    """
    (first, known), *others = [_read(path) for path in paths]
    found = []
    for path, (other, theirs) in zip(paths[1:], others, strict=True):
        one, another = first.get("version"), other.get("version")
        if one != another and None not in (one, another):  # tables have none
            what = f"it is of version {another} of the benchmark, and {paths[0]} of {one}"
            raise UserError(what, path, "measure both with the same version")
        common = [(known[place], theirs[place]) for place in known if place in theirs]
        if not common:
            raise UserError(f"it has no measurement in common with {paths[0]}", path, "compare records of equal names")
        machine = [pair for pair in common if _of_machine(pair[0])]
        trained = [(a, b) for a, b in common if a.place[1] == TRAINING and not _other_setting(a, b)]
        found.append({
            "first": str(paths[0]),
            "second": str(path),
            "environment": differences(first, other),
            "machine": {" / ".join(a.place): _ratio(a.samples, b.samples) for a, b in machine},
            "only first": [" / ".join(place) for place in known if place not in theirs],
            "only second": [" / ".join(place) for place in theirs if place not in known],
            "measurements": judged(_once([pair for pair in common if not _of_machine(pair[0])]), machine),
            "mean": _mean(trained),
        })  # fmt: skip
    return found


def _of_machine(measurement: Measurement) -> bool:
    return len(measurement.place) > 1 and measurement.place[1].startswith(LIMITS)


def _once(pairs: Sequence["Pair"]) -> list["Pair"]:
    """Keep one of equal measurements in several tables of a contender, as each test takes power from the others."""
    unique: dict[tuple[Any, ...], Pair] = {}
    for a, b in pairs:
        unique.setdefault((a.place[0], a.place[2:-1], a.samples.tobytes(), b.samples.tobytes()), (a, b))
    return list(unique.values())


def _read(path: Path) -> tuple[dict[str, Any], dict[tuple[str, ...], Measurement]]:
    """Read a record and its measurements, by their places."""
    advice = "name a record of speed of this version, or the record of a table of times"
    try:
        found = json_text.read(path)
        if "rows" not in found and "version" not in found:
            raise ValueError("it holds no samples")
        there = {measurement.place: measurement for measurement in measurements(found)}
        old = any({"minutes", "words"} <= row["cells"].keys() for row in found.get("rows", ()))
    except FileNotFoundError:
        raise UserError("there is no such file", path, advice) from None
    except (ValueError, OSError) as error:
        raise UserError(f"not a record of speed: {error}", path, advice) from None
    except (KeyError, TypeError, AttributeError):
        raise UserError("not a record of speed", path, advice) from None
    if not there and old:
        raise UserError("it holds no samples: an earlier version made it", path, "make the table again")
    if not there:
        what = f"{found['table']} is no record of speed" if "table" in found else "it holds no measurement"
        raise UserError(what, path, advice)
    return found, there


def measurements(found: Mapping[str, Any]) -> Iterator[Measurement]:
    """Yield the speeds of a record: those of models or workloads, or those of a table's cells that are over rounds."""
    data = {"name": None, **(found.get("data") or {})}
    of_table = {f"data, {key}": value for key, value in data.items()} | {
        key: found.get(key) for key in ("scale", "recipe")
    }
    for row in found.get("rows", ()):
        timed = {column: cell for column, cell in row["cells"].items() if cell.get("over") == "rounds"}
        for column, cell in timed.items():
            if column == "words" or "words" not in timed:  # else the same speeds, as times
                place = (found["table"], *filter(None, row["label"]), column)
                yield Measurement(place, _numbers(cell["values"]), column == "words", of_table)
    for name, figures in found.get("figures", {}).items():
        setting = figures["setting"].items()
        of_name = {key: value for key, value in setting if not key.startswith(NOT_COMPARED)}
        for title, table in figures["tables"].items():
            limits = figures.get("limits", {}).get(title, LIMITS)
            for contender, row in table.items():
                for column, value in row.items():
                    rate = RATE.search(column) is not None
                    if isinstance(value, Mapping) and (rate or TIME.search(column) or TIME.search(title)):
                        place = name, title, contender, column
                        setting = {**of_name, f"{contender} in {title}": row.get("setting")}
                        bound, shares = tuple(row.get("binding limits", ())), None
                        if bound:
                            shares = _numbers(row[f"share of the {row['bound by']}"]["samples"])
                        yield Measurement(place, _numbers(value["samples"]), rate, setting, limits, bound, shares)


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.inf if value is None else value for value in values])  # in JSON nothing is infinite


Pair = tuple[Measurement, Measurement]


def judged(pairs: Sequence[Pair], machine: Sequence[Pair]) -> list[dict[str, Any]]:
    """Judge the difference of each pair, given the limits of both runs.

    In tables, which have no limits, the median change of all rows stands for the machine. Pairs with different
    settings, and pairs with too few samples for a p that is small enough for the number of comparisons, are left out of
    the correction.
    """
    bound = [a.bound == b.bound and bool(a.bound) for a, b in pairs]  # not of two machines, or of two programs
    tests = [
        _p(a.shares, b.shares) if by_share else _p(a.samples, b.samples)  # type: ignore[arg-type]
        for (a, b), by_share in zip(pairs, bound, strict=True)
    ]
    other = [_other_setting(a, b) for a, b in pairs]
    alike = [number for number in range(len(pairs)) if not other[number]]
    attainable = [2 / comb(len(a.samples) + len(b.samples), len(a.samples)) for a, b in pairs]
    testable = [number for number in alike if attainable[number] * len(alike) <= ALPHA]
    corrected = dict(zip(testable, holm([tests[number] for number in testable]), strict=True))
    rows, known = [], dict[tuple[str, ...], tuple[float, float]]()
    for number, (a, b) in enumerate(pairs):
        limits = [pair for pair in machine if pair[0].place[:2] == (a.place[0], a.limits)]
        which = (a.place[0], a.limits) if limits else a.place[-1:]
        if which not in known:
            known[which] = explained(limits or [pair for pair in pairs if pair[0].place[-1] == a.place[-1]], not limits)
        speedup = _ratio(a.speeds(), b.speeds())
        low, high = known[which]
        if bound[number]:
            of_limit = speedup / _ratio(a.shares, b.shares)  # type: ignore[arg-type]
            low, high = min(1.0, of_limit) / BOUND, max(1.0, of_limit) * BOUND
        within = [low, high] if a.rate else [1 / high, 1 / low]
        verdict = OTHER if other[number] else SAME if number in corrected else FEW
        if corrected.get(number, 1.0) < ALPHA and not low <= speedup <= high:
            verdict = FASTER if speedup > 1 else SLOWER
        rows.append({
            "name": " / ".join(a.place), "first": float(np.median(a.samples)), "second": float(np.median(b.samples)),
            "ratio": _ratio(a.samples, b.samples), "interval": _interval(_ratios(a.samples, b.samples)),
            "p": tests[number], "corrected p": corrected.get(number),
            "explained": within, "settings": other[number], "verdict": verdict,
        })  # fmt: skip
    return rows


def explained(limits: Sequence[Pair], together: bool) -> tuple[float, float]:
    """Return between which ratios of speeds nothing but the machine may have changed.

    A limit's samples vary, too: its ratio may be anywhere in its interval of 95 %.

    Args:
        limits: of both runs.
        together: whether to take the median of their ratios instead of the interval of each.
    """
    if together:
        ratios = [float(np.median([_ratio(a.speeds(), b.speeds()) for a, b in limits]))]
    else:
        ratios = [bound for a, b in limits for bound in _interval(_ratios(a.speeds(), b.speeds()))]
    return min(1.0, *ratios) / LEAST, max(1.0, *ratios) * LEAST


def _ratio(a: np.ndarray, b: np.ndarray) -> float:
    """Return the second median over the first; 1 where both are infinite, or both zero."""
    first, second = float(np.median(a)), float(np.median(b))
    if first == second:
        return 1.0
    return second / first if first else np.inf


def _ratios(a: np.ndarray, b: np.ndarray, seed: int = 0) -> np.ndarray:
    """Draw ratios of medians as `_ratio`, of samples drawn with replacement (the bootstrap): [RESAMPLES]."""
    draws = np.random.default_rng(seed)
    first, second = (np.median(draws.choice(x, (RESAMPLES, len(x))), axis=1) for x in (a, b))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(first == second, 1.0, second / first)


def _interval(ratios: np.ndarray) -> list[float]:
    """Return between which values 95 % of drawn ratios lie."""
    return [float(bound) for bound in np.quantile(ratios, (0.025, 0.975), method="nearest")]


def _mean(pairs: Sequence["Pair"]) -> dict[str, Any] | None:
    """Return the geometric mean of the ratios of speeds; None where there are fewer than two."""
    if len(pairs) < 2:
        return None
    ratios = [_ratio(a.speeds(), b.speeds()) for a, b in pairs]
    drawn = [_ratios(a.speeds(), b.speeds(), seed) for seed, (a, b) in enumerate(pairs)]
    return {
        "of": len(pairs), "ratio": float(np.exp(np.mean(np.log(ratios)))),
        "interval": _interval(np.exp(np.mean(np.log(drawn), axis=0))),
    }  # fmt: skip


def _p(a: np.ndarray, b: np.ndarray) -> float:
    """Return p of the two-sided Mann-Whitney test: exact for few samples, also with ties."""
    both = np.concatenate([a, b])
    if np.all(both == both[0]):
        return 1.0
    from scipy.stats import mannwhitneyu, rankdata  # here, as it takes a while

    ranks = rankdata(both)  # in place of the samples: some may be infinite
    if len(both) > EXACT:
        return float(mannwhitneyu(ranks[: len(a)], ranks[len(a) :], method="asymptotic").pvalue)
    doubled = (2 * ranks).astype(int)  # ranks of equal samples may end in a half
    # number of ways in which a number of the ranks has a sum: float64 [samples + 1, sums], exact below 2⁵³
    ways = np.zeros((len(a) + 1, doubled.sum() + 1))
    ways[0, 0] = 1
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, :-rank].copy()
    at = doubled[: len(a)].sum()
    tails = ways[-1, : at + 1].sum(), ways[-1, at:].sum()
    return float(min(1.0, 2 * min(tails) / ways[-1].sum()))


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Say what differs in the environments of two records: machine, versions, commit."""
    return _unequal(*map(_environment, (one, other)))


def _unequal(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Say which values differ: "key: one / other"; of lists, what only one of them has."""
    said = []
    for key in dict.fromkeys((*one, *other)):
        a, b = one.get(key), other.get(key)
        if a != b:
            if isinstance(a, list) and isinstance(b, list):
                a, b = (
                    ", ".join(map(str, only)) for only in ([x for x in a if x not in b], [x for x in b if x not in a])
                )
            said.append(f"{key}: {shorten(str(a), 100)} / {shorten(str(b), 100)}")
    return said


def _other_setting(one: Measurement, other: Measurement) -> list[str]:
    """Say which settings differ, of those that both have: others are of further comparisons, or of other versions."""
    both = one.setting.keys() & other.setting.keys()
    return _unequal(*({key: value for key, value in each.setting.items() if key in both} for each in (one, other)))


def settings_in_words(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Say what differs between the settings of measurements, in a line for all with the same differences."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if row["settings"]:
            names.setdefault("; ".join(row["settings"]), []).append(row["name"].split(" / ")[0])
    return [f"another setting of {', '.join(dict.fromkeys(those))}: {which}" for which, those in names.items()]


def _environment(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return all values that a record's environments have of each key."""
    each = [row["environment"] for row in found.get("rows", ())] + list(found.get("environment", {}).values())
    flat = [{**where, **where.get("versions", {})} for where in each]
    keys = dict.fromkeys(key for where in flat for key in where if key not in ("versions", "date"))
    return {key: ", ".join(dict.fromkeys(str(where.get(key)) for where in flat)) for key in keys}


def in_words(machine: Mapping[str, float]) -> str:
    """Say between which ratios each of the machine's limits changed, in all rounds."""
    if not machine:
        return "its limits are not in both records: what all have in common is taken for a change of the machine"
    each: dict[str, list[float]] = {}
    for name, ratio in machine.items():
        each.setdefault(name.split(" / ")[-2], []).append(ratio)
    ends = {name: dict.fromkeys(f"{end(ratios):.3g}" for end in (min, max)) for name, ratios in each.items()}
    return "; ".join(f"{name} x {' to '.join(between)}" for name, between in ends.items())
