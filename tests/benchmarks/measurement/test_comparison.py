"""`compare` tells changes of speed from noise, and from what the machine did meanwhile."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__
from benchmarks.core.statistics import over_rounds, quartiles
from benchmarks.measurement import comparison
from jaxfit.errors import UserError
from jaxfit.run_dir import json_text

WHERE = {"commit": "one", "cpu": "a", "versions": {"jax": "1"}}
LIMITS = ("matrix product", "copy", "gather", "scatter-add")


FIRST = "limits of the device in the rounds of first steps"


def record(
    path: Path,
    seed: int,
    drift: float = 1.0,
    rounds: int = 10,
    noise: float = 0.02,
    bound: bool = False,
    weather: float = 0.0,
    **speedups: float,
) -> Path:
    """Write a record of three models whose speeds have this noise; `drift` makes all of the machine faster.

    Args:
        bound: it is known that they are bound by copying.
        weather: noise that all have in common in a round.
    """
    draws = np.random.default_rng(seed)

    in_common = 1 + weather * draws.normal(size=rounds)

    def samples(rate: float) -> dict:
        return quartiles(rate * drift * in_common * (1 + noise * draws.normal(size=rounds)))

    def seconds(rate: float) -> dict:
        return quartiles([1 / sample for sample in samples(rate)["samples"]])

    figures = {}
    for name in ("lbl", "pmf", "rbm"):
        faster = speedups.get(name, 1.0)
        figures[name] = {
            "setting": {"model": name, "data": "ratings"},
            "tables": {
                "training": {
                    name: {"words/s": samples(1e5 * faster), "operations of an event": 5},
                },
                "until the first step": {"cold cache": {"compilation, seconds": seconds(0.5 * faster)}},
                **{
                    title: {limit: {"10⁹/s": samples(300), "of": "what"} for limit in LIMITS}
                    for title in ("limits of the device", FIRST)
                },
            },
            "limits": {"until the first step": FIRST},
        }
        if bound:
            row, limit = (figures[name]["tables"][title] for title in ("training", "limits of the device"))
            share = np.divide(row[name]["words/s"]["samples"], limit["copy"]["10⁹/s"]["samples"]) / 1e3
            row[name] |= {"bound by": "copy", "binding limits": ["copy"], "share of the copy": quartiles(share)}
    environment = dict.fromkeys(figures, WHERE)
    json_text.write(path, {"version": 2, "figures": figures, "environment": environment})
    return path


def verdicts(one: Path, other: Path) -> dict[str, str]:
    (found,) = comparison.compare([one, other])
    return {row["name"]: row["verdict"] for row in found["measurements"]}


@pytest.mark.parametrize("drift", [1.0, 1.1, 0.9])
def test_a_drift_of_everything_is_no_difference(tmp_path: Path, drift: float) -> None:
    one, other = record(tmp_path / "a.json", 0), record(tmp_path / "b.json", 1, drift)
    found = verdicts(one, other)
    assert set(found.values()) == {"no difference"}
    assert len(found) == 6
    (result,) = comparison.compare([one, other])
    assert result["machine"]["pmf / limits of the device / copy / 10⁹/s"] == pytest.approx(drift, rel=0.03)


@pytest.mark.parametrize(("drift", "speedup"), [(1.0, 1.2), (1.0, 1 / 1.2), (1.1, 1.2), (0.9, 1 / 1.2)])
def test_a_change_of_one_thing_alone_is_found(tmp_path: Path, drift: float, speedup: float) -> None:
    one, other = record(tmp_path / "a.json", 0), record(tmp_path / "b.json", 1, drift, pmf=speedup)
    word = "faster" if speedup > 1 else "slower"
    for name, verdict in verdicts(one, other).items():
        assert verdict == (word if name.startswith("pmf") else "no difference"), name
    (result,) = comparison.compare([one, other])
    rows = {row["name"]: row for row in result["measurements"]}
    assert rows["pmf / training / pmf / words/s"]["ratio"] == pytest.approx(drift * speedup, rel=0.03)
    inverse = rows["pmf / until the first step / cold cache / compilation, seconds"]["ratio"]
    assert inverse == pytest.approx(1 / (drift * speedup), rel=0.03)


def changed(path: Path, change: Callable[[dict], None]) -> Path:
    """Change what a record holds."""
    found = json.loads(path.read_text())
    change(found)
    json_text.write(path, found)
    return path


def test_a_drift_of_one_limit_explains_as_much_in_its_rounds_only(tmp_path: Path) -> None:
    one, other = record(tmp_path / "a.json", 0), record(tmp_path / "b.json", 1, pmf=0.8, rbm=0.8)

    def slower(found: dict) -> None:
        gather = found["figures"]["pmf"]["tables"]["limits of the device"]["gather"]["10⁹/s"]
        gather["samples"] = [0.8 * sample for sample in gather["samples"]]

    changed(other, slower)
    assert {n for n, verdict in verdicts(one, other).items() if verdict == "slower"} == {
        "pmf / until the first step / cold cache / compilation, seconds",
        "rbm / training / rbm / words/s", "rbm / until the first step / cold cache / compilation, seconds",
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_noise_within_a_run_does_not_hide_a_difference(tmp_path: Path, seed: int) -> None:
    one, other = (record(tmp_path / f"{n}.json", 2 * seed + n, noise=0.06, pmf=1 - 0.25 * n) for n in range(2))
    found = verdicts(one, other)
    assert {name for name, verdict in found.items() if verdict == "slower"} == {n for n in found if n.startswith("pmf")}


@pytest.mark.parametrize(("drift", "weather"), [(1.0, 0.0), (0.9, 0.0), (1.0, 0.1), (0.9, 0.1)])
def test_a_tenth_is_found_where_the_binding_limit_is_known(tmp_path: Path, drift: float, weather: float) -> None:
    name, found = "lbl / training / lbl / words/s", {}
    for bound in (False, True):
        one = record(tmp_path / "a.json", 2, noise=0.01, bound=bound, weather=weather)
        other = record(tmp_path / "b.json", 3, drift, noise=0.01, bound=bound, weather=weather, lbl=0.92)
        found[bound] = verdicts(one, other)
    assert found[False][name] == comparison.SAME
    assert found[True].pop(name) == comparison.SLOWER
    assert set(found[True].values()) <= {comparison.SAME}


def test_another_setting_is_not_judged(tmp_path: Path) -> None:
    one, other = record(tmp_path / "a.json", 0), record(tmp_path / "b.json", 1, pmf=0.5, rbm=0.5)

    def another(found: dict) -> None:
        found["figures"]["pmf"]["tables"]["training"]["pmf"]["setting"] = "batch_size 7"
        found["figures"]["rbm"]["setting"]["data"] = "other ratings"
        found["figures"]["lbl"]["setting"]["left out: PyTorch"] = "not installed"
        found["figures"]["lbl"]["setting"]["memory"] = "of an accelerator"

    found = verdicts(one, changed(other, another))
    assert {name: verdict for name, verdict in found.items() if verdict != "no difference"} == {
        "pmf / training / pmf / words/s": "another setting",
        "pmf / until the first step / cold cache / compilation, seconds": "slower",
        "rbm / training / rbm / words/s": "another setting",
        "rbm / until the first step / cold cache / compilation, seconds": "another setting",
    }


def test_settings_that_one_record_lacks_are_not_compared(tmp_path: Path) -> None:
    one, other = record(tmp_path / "a.json", 0), record(tmp_path / "b.json", 1)
    changed(other, lambda found: found["figures"]["lbl"]["setting"].update(options=["decay 1"], budget="of peers"))
    assert comparison.OTHER not in verdicts(one, other).values()
    assert comparison.compare([one, other])[0]["mean"]["of"] == 3
    changed(one, lambda found: found["figures"]["lbl"]["setting"].update(options=["decay 2"]))
    assert verdicts(one, other)["lbl / training / lbl / words/s"] == comparison.OTHER


def test_what_differs_between_settings_is_said(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """As of two suites whose samples are of other lengths, and of one model by another search."""
    one, other = record(tmp_path / "a.json", 0), record(tmp_path / "b.json", 1)
    for path, seconds in ((one, 5.0), (other, 1.0)):

        def set_seconds(found: dict, seconds: float = seconds) -> None:
            for name in ("lbl", "pmf"):
                found["figures"][name]["setting"]["seconds of a sample"] = seconds
            found["figures"]["pmf"]["setting"]["options"] = ["decay 1", f"rate {seconds:g}"]
            found["figures"]["rbm"]["tables"]["training"]["rbm"]["setting"] = f"batch size {seconds:g}"

        changed(path, set_seconds)
    (result,) = comparison.compare([one, other])
    said = {row["name"]: row["settings"] for row in result["measurements"]}
    assert said["lbl / training / lbl / words/s"] == ["seconds of a sample: 5.0 / 1.0"]
    assert said["rbm / training / rbm / words/s"] == ["rbm in training: batch size 5 / batch size 1"]
    assert said["rbm / until the first step / cold cache / compilation, seconds"] == []
    assert __main__.main(["compare", str(one), str(other)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "another setting of lbl: seconds of a sample: 5.0 / 1.0" in lines
    assert "another setting of pmf: seconds of a sample: 5.0 / 1.0; options: rate 5 / rate 1" in lines
    assert "another setting of rbm: rbm in training: batch size 5 / batch size 1" in lines


def test_what_stands_in_several_tables_is_tested_once(tmp_path: Path) -> None:
    def again(found: dict) -> None:
        tables = found["figures"]["pmf"]["tables"]
        tables["again"] = tables["training"]

    one, other = (changed(record(tmp_path / f"{n}.json", n), again) for n in range(2))
    assert len(verdicts(one, other)) == 6


def test_what_one_record_alone_has_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    one, other = record(tmp_path / "a.json", 0), record(tmp_path / "b.json", 1)
    changed(other, lambda found: found["figures"]["pmf"]["tables"].pop("training"))
    (result,) = comparison.compare([one, other])
    assert result["only first"] == ["pmf / training / pmf / words/s"]
    assert result["only second"] == []
    assert __main__.main(["compare", str(other), str(one)]) == 0
    assert "in the second only: pmf / training / pmf / words/s\n" in capsys.readouterr().out


def test_few_samples_tell_nothing_after_the_correction(tmp_path: Path) -> None:
    one, other = (record(tmp_path / f"{n}.json", n, rounds=3, pmf=n + 1.0) for n in range(2))
    assert set(verdicts(one, other).values()) == {"too few samples"}


def test_a_target_that_was_missed_is_slower_than_any_time(tmp_path: Path) -> None:
    one, other = record(tmp_path / "a.json", 0), record(tmp_path / "b.json", 1)

    def never(found: dict) -> None:
        row = found["figures"]["pmf"]["tables"]["until the first step"]["cold cache"]
        row["compilation, seconds"]["samples"] = [None] * 10

    changed(other, never)
    name = "pmf / until the first step / cold cache / compilation, seconds"
    assert verdicts(one, other)[name] == "slower"
    assert verdicts(other, one)[name] == "faster"
    assert verdicts(other, other)[name] == "no difference"


@pytest.mark.parametrize(
    ("title", "column", "rate"),
    [
        ("training", "words/s", True),
        ("a pass", "ratings per second", True),
        ("to .85", "s of training", False),
        ("to .85", "seconds from process start", False),
        ("time by phase, seconds", "start and imports", False),
        ("to .85", "test RMSE", None),
        ("training", "share of the copy bandwidth", None),
        ("plain steps", "jaxlm / this", None),
    ],
)
def test_rates_and_times_are_told_by_their_names(title: str, column: str, rate: bool | None) -> None:
    tables = {title: {"jaxcf": {column: quartiles([1.0, 2.0]), "setting": "x"}}}
    found = list(comparison.measurements({"figures": {"pmf": {"setting": {}, "tables": tables}}}))
    assert [(each.place, each.rate) for each in found] == (
        [] if rate is None else [(("pmf", title, "jaxcf", column), rate)]
    )


def table(path: Path, rates: dict[str, float], seed: int) -> Path:
    draws = np.random.default_rng(seed)
    rows = []
    for label, rate in rates.items():
        words = list(rate * (1 + 0.02 * draws.normal(size=10)))
        cells = {"words": over_rounds(words), "minutes": over_rounds([1 / rate for rate in words]), "loss": {"mean": 1}}
        rows.append({"label": ["HLBL", label, ""], "cells": cells, "environment": WHERE})
    json_text.write(path, {"table": "table-4.5", "rows": rows})
    return path


def test_tables_of_times_are_compared_by_what_their_rows_have_in_common(tmp_path: Path) -> None:
    one = table(tmp_path / "a.json", {"T1": 100, "T2": 80, "T3": 50, "T4": 30}, 0)
    other = table(tmp_path / "b.json", {"T1": 110, "T2": 88, "T3": 55, "T4": 45}, 1)
    assert verdicts(one, other) == {
        f"table-4.5 / HLBL / T{i} / words": "faster" if i == 4 else "no difference" for i in range(1, 5)
    }
    changed(other, lambda found: found.update(data={"name": "others"}))
    assert set(verdicts(one, other).values()) == {"another setting"}


def test_the_command_prints_a_table_and_says_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    one, other = record(tmp_path / "a.json", 0), record(tmp_path / "b.json", 1, pmf=1.3)
    found = json.loads(other.read_text())
    found["environment"] = {
        name: {**WHERE, "commit": "two", "versions": {"jax": "2"}, "date": "2026-01-31"} for name in found["figures"]
    }
    json_text.write(other, found)
    assert __main__.main(["compare", str(one), str(other), str(one)]) == 0
    out = capsys.readouterr().out
    assert "environments: commit: one / two; jax: 1 / 2\n" in out
    assert "environments: equal\n" in out
    assert "the machine: matrix product x 0.9" in out
    assert "the machine: matrix product x 1; copy x 1; gather x 1; scatter-add x 1\n" in out, "of equal ends, one"
    assert "2 of 6 measurements differ" in out
    assert "0 of 6 measurements differ" in out
    assert __main__.main(["compare", str(one), str(other), "--json"]) == 0
    out, err = capsys.readouterr()
    (result,) = json.loads(out)["comparisons"]
    assert (result["first"], result["second"], err) == (str(one), str(other), "")
    assert sum(row["verdict"] == "faster" for row in result["measurements"]) == 2


BAD = [
    (None, "benchmarks: there is no such file ("),
    ("{", "benchmarks: not a record of speed: Expecting"),
    ("[1]", "benchmarks: not a record of speed: it holds no samples ("),
    ('{"figures": {}, "environment": {}}', "benchmarks: not a record of speed: it holds no samples ("),
    ('{"version": 2, "figures": {"lbl": 3}}', "benchmarks: not a record of speed ("),
    ('{"version": 2, "figures": {}}', "benchmarks: it holds no measurement ("),
    (
        '{"table": "table-4.4", "rows": [{"label": ["LBL"], "cells": {"perplexity": {"mean": 1}}}]}',
        "benchmarks: table-4.4 is no record of speed (",
    ),
    (
        '{"table": "table-4.5", "rows": [{"label": ["LBL"], "cells": {"minutes": {"mean": 1}, "words": {"mean": 1}}}]}',
        "benchmarks: it holds no samples: an earlier version made it (",
    ),
]


@pytest.mark.parametrize(("text", "line"), BAD)
def test_what_is_no_record_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture, text: str, line: str) -> None:
    one, other = record(tmp_path / "a.json", 0), tmp_path / "bad.json"
    if text is not None:
        other.write_text(text)
    assert __main__.main(["compare", str(one), str(other)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(line)


def test_records_without_a_measurement_in_common_or_of_two_versions_are_not_compared(tmp_path: Path) -> None:
    one, other = record(tmp_path / "a.json", 0), record(tmp_path / "b.json", 1)
    with pytest.raises(UserError, match=r"no measurement in common with .*a.json \(.*t.json\) - compare records of"):
        comparison.compare([one, table(tmp_path / "t.json", {"T1": 100}, 0)])
    changed(other, lambda found: found.update(version=3))
    with pytest.raises(UserError, match=r"it is of version 3 of the benchmark, and .*a.json of 2 "):
        comparison.compare([one, other])


def test_two_records_are_needed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert __main__.main(["compare", str(record(tmp_path / "a.json", 0))]) == 2
    assert capsys.readouterr().err.startswith("benchmarks: B is missing")


def test_ratios_have_intervals_and_those_of_training_a_geometric_mean(tmp_path: Path) -> None:
    one, other = record(tmp_path / "a.json", 0), record(tmp_path / "b.json", 1, lbl=1.2, pmf=1 / 1.2)
    (found,) = comparison.compare([one, other])
    ratios = {row["name"]: row for row in found["measurements"]}
    for name, true in (("lbl", 1.2), ("pmf", 1 / 1.2), ("rbm", 1.0)):
        low, high = ratios[f"{name} / training / {name} / words/s"]["interval"]
        assert 0.95 * true < low < high < 1.05 * true
    mean = found["mean"]
    assert mean["of"] == 3
    low, high = mean["interval"]
    assert 0.97 < low < mean["ratio"] < high < 1.03
