"""The suite of standard workloads: what it measures, how far that is from float64, and how it is compared."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest

from benchmarks import __main__
from benchmarks.core import timing
from benchmarks.measurement import comparison, limits
from benchmarks.workloads import error, scaling, scorecard, suite, sweeps
from benchmarks.workloads.registry import VERSION, WORKLOADS, Words, Workload
from benchmarks.workloads.setup import SweepsSetup, set_up
from jaxcf.data.synthetic import Planted
from jaxcf.models import pmf
from jaxcf.solvers import als
from jaxfit.devices import sharding
from jaxfit.registry import Cost

TEXT, RATINGS = Words(50, 3000), Planted(num_users=40, num_items=30, num_ratings=900, timed=False)
TINY = {
    workload.name: workload
    for workload in (
        Workload("words", "lbl", "", TEXT, 64, {"num_features": 8, "context_size": 2}, small=True),
        Workload("tree", "hlbl", "", TEXT, 64, {"num_features": 8, "context_size": 2}, {"tree": "random"}),
        Workload("factors", "pmf", "", RATINGS, 64, {"num_features": 4}),
        Workload("drawn", "rbm", "", RATINGS, 8, {"num_hidden": 4}),
        Workload("visits", "cpmf", "", RATINGS, 8, {"num_features": 4}, reduction="sum"),
        Workload("sweeps", "pmf", "", RATINGS, 0, {"num_features": 4}, solver="als"),
    )
}


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "WINDOW", 0.01)
    monkeypatch.setattr(timing, "ROUNDS", 2)
    monkeypatch.setattr(error, "STEPS", 3)
    for name, size in {"MATRIX": 32, "COPIED": 1 << 12, "ROWS": 50, "BLOCK": 8}.items():
        monkeypatch.setattr(limits, name, size)
    for name, workload in TINY.items():
        monkeypatch.setitem(WORKLOADS, name, workload)


def test_a_workload_is_measured_beside_the_limits_and_recorded(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    command = ["suite", "--workload", "words", "factors", "--seconds", "0.01", "--json", "--out", str(tmp_path)]
    assert __main__.main(command) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed == json.loads((tmp_path / "suite.json").read_text())
    assert set(printed["figures"]) == {"words", "factors"}
    row = printed["figures"]["words"]["tables"]["training"]["float32"]
    assert len(row["words/s"]["samples"]) == 2
    assert row["bound by"] == "matrix rate"
    assert 0 <= row[error.OF_LOSS] < 1e-5
    assert 0 < row[error.OF_STEPS] < 1e-4
    assert row["compilation, s"] > 0
    assert len(row["program"]) == 16
    page = (tmp_path / "suite.md").read_text()
    assert "words, float32" in page
    assert "| factors, float32 |" in page
    assert (tmp_path / scorecard.PICTURE).stat().st_size > 0


@pytest.mark.extended
def test_workloads_that_are_not_measured_again_stay(tmp_path: Path) -> None:
    suite.run(["words"], ["float32"], 0.01, None, 1, tmp_path)
    only = suite.run(["factors"], ["float32"], 0.01, 32, 1, tmp_path)
    assert list(only["figures"]) == ["factors"]
    assert only["figures"]["factors"]["setting"]["batch size"] == 32
    kept = json.loads((tmp_path / "suite.json").read_text())
    assert set(kept["figures"]) == {"words", "factors"}
    (found,) = comparison.compare([tmp_path / "suite.json", tmp_path / "suite.json"])
    assert {row["verdict"] for row in found["measurements"]} == {comparison.FEW}
    assert any(name.startswith("words") for name in found["machine"])


@pytest.mark.extended
def test_sweeps_are_measured_in_float32(tmp_path: Path) -> None:
    found = suite.run(["sweeps"], ["tf32", "bfloat16"], 0.01, 32, 1, tmp_path)["figures"]["sweeps"]
    assert list(found["tables"]["training"]) == ["float32"]
    row = found["tables"]["training"]["float32"]
    assert all(rate > 0 for rate in row["ratings/s"]["samples"])
    ratings = set_up(TINY["sweeps"]).num_ratings  # about 900
    operations = als.cost(pmf.Config(40, 30, num_features=4), ratings).operations
    rates = [1e9 * rate for rate in found["tables"][limits.LIMITS]["matrix product, float32"]["10⁹/s"]["samples"]]
    expected = [rate * operations / most for rate, most in zip(row["ratings/s"]["samples"], rates, strict=True)]
    assert row["share of the matrix rate"]["samples"] == pytest.approx(expected, rel=1e-6)
    assert 0 < row[error.OF_STEPS] < 1e-4
    assert row["compilation, s"] > 0
    assert row["arguments, GB"] > 0
    assert len(row["program"]) == 16
    assert found["setting"]["optimizer"] == "als"
    assert "batch size" not in found["setting"], "they have no minibatches"
    assert found["setting"]["padding ratio"] > 1


def test_the_rate_of_sweeps_is_of_all_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(step: Callable[[], object], window: float | None) -> list[float]:
        step()
        return [0.5, 1.5]

    monkeypatch.setattr(sweeps, "windowed", timed)
    setup = set_up(TINY["sweeps"])
    assert isinstance(setup, SweepsSetup)
    timer = sweeps.SweepTimer(setup)
    assert timer.rate() == setup.num_ratings
    slots = [side.stars.size for side in setup.data]
    assert timer.padding() == max(slots) / setup.num_ratings


@pytest.mark.extended
def test_minibatches_are_split_over_devices(tmp_path: Path) -> None:
    found = suite.run(["words"], ["float32"], 0.01, None, 2, tmp_path)["figures"]["words"]
    assert found["setting"]["devices"] == 2


@pytest.mark.extended
def test_scaling_is_measured_up_to_a_number_of_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, Trainer = list[int](), scaling.Trainer

    def make(*arguments: Any) -> Any:
        made.append(sharding.shards(arguments[-1]))
        return Trainer(*arguments)

    monkeypatch.setattr(scaling, "Trainer", make)
    found = suite.run(["words"], ["float32"], 0.01, None, 2, tmp_path, scaled=True)["figures"]["words"]
    assert found["setting"]["devices"] == 1
    rows = found["tables"]["scaling, float32"]
    assert {name: row["batch size"] for name, row in rows.items()} == {
        "1 device": 64, "strong, 2 devices": 64, "weak, 2 devices": 128,
    }  # fmt: skip
    assert rows["1 device"]["efficiency"]["median"] == pytest.approx(1)
    for row in rows.values():
        assert row["efficiency"]["median"] == pytest.approx(
            row["words/s"]["median"] / rows["1 device"]["words/s"]["median"] / (1 if row is rows["1 device"] else 2)
        )
    assert made == [1, 2, 2]
    assert scaling.numbers(7) == [1, 2, 4]
    assert "| weak, 2 devices | 128 |" in (tmp_path / "suite.md").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workload", "words", "--scaling"], "scaling needs at least two devices"),
        (["--workload", "word"], "there is no workload 'word'"),
        (["--workload", "words", "--devices", "3"], "a minibatch of 64 examples does not divide among 3 devices"),
        (["--workload", "words", "--devices", "99"], "99 devices asked for"),
        (["--workload", "words", "sweeps", "--devices", "2"], "sweeps cannot be split: it runs on one device"),
        (["--workload", "words", "--seconds", "0"], "'0' is not a number of seconds"),
        (["--workload", "words", "--dtype", "float16"], "--dtype"),
        (["--workload", "words", "--dtype", "float32", "tf32"],
         "benchmarks: a CPU has no matrix products in tf32 (--dtype) - choose others, such as float32"),
        (["--quick", "--workload", "words", "tree"],
         "benchmarks: tree is too large for the quick suite (--quick) - leave --quick out, or choose lbl-s, hlbl-s, "),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_one_line(
    tmp_path: Path, options: list[str], said: str, capsys: pytest.CaptureFixture
) -> None:
    assert __main__.main(["suite", *options, "--out", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def unmeasured(monkeypatch: pytest.MonkeyPatch, out: Path | str) -> None:
    """Run the suite, which is to end before it measures anything."""
    monkeypatch.setattr(suite, "measure", lambda *_: pytest.fail("it is measured"))
    assert __main__.main(["suite", "--workload", "words", "--out", str(out)]) == 2


@pytest.mark.parametrize(
    ("out", "line"),
    [
        (__file__, f"benchmarks: a file was given instead of a directory ({__file__}) - choose another --out\n"),
        ("/proc/x", "benchmarks: cannot write: No such file or directory (/proc/x) - choose another --out\n"),
    ],
)
def test_where_no_record_can_be_written_nothing_is_measured(
    out: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    unmeasured(monkeypatch, out)
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    "text",
    [
        "[]", "[1]", '{"a": 1}', f'{{"version": "workloads {VERSION}"}}',
        f'{{"version": "workloads {VERSION}", "figures": {{"lbl-s": 3}}}}',
    ],
)  # fmt: skip
def test_what_is_no_record_of_the_suite_stays_and_nothing_is_measured(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "suite.json"
    path.write_text(text)
    unmeasured(monkeypatch, tmp_path)
    said = capsys.readouterr().err
    assert said.startswith("benchmarks: not a record")
    assert said.endswith(f"({path}) - remove it, or choose another --out\n")
    assert said.count("\n") == 1
    assert path.read_text() == text


@pytest.mark.parametrize("name", ["words", "tree", "factors", "visits", "sweeps"])
def test_errors_are_those_of_rounding(name: str) -> None:
    """Float32 departs from float64, and by little."""
    found = error.errors(TINY[name], {"float32": "highest"})["float32"]
    assert 0 <= found[error.OF_LOSS] < 1e-5
    assert 1e-9 < found[error.OF_STEPS] < 1e-4


def test_no_error_is_given_of_what_is_drawn() -> None:
    assert error.errors(TINY["drawn"], {"float32": "highest"}) == {"float32": {}}


def test_steps_that_diverge_are_no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error, "RATE_OF_VISITS", 1e6)
    with pytest.raises(ValueError, match="visits diverge in float64"):
        error.errors(TINY["visits"], {"float32": "highest"})


def test_a_wrong_program_has_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    right = error.mean_score
    calls: list[int] = []

    def wrong(trainer: object) -> float:
        calls.append(1)
        return right(trainer) * (1.01 if len(calls) > 2 else 1.0)  # type: ignore[arg-type]

    monkeypatch.setattr(error, "mean_score", wrong)
    found = error.errors(TINY["words"], {"float32": "highest"})["float32"]
    assert found[error.OF_LOSS] == pytest.approx(0.01, rel=1e-3)


def test_shares_are_of_the_limit_that_takes_longest() -> None:
    limits_of_rounds = {"matrix product, float32": [1e9], "copy": [1e8], "gather": [8e6], "scatter-add": [4e6]}
    rates = {**limits_of_rounds, "float32": [1000.0]}
    found = suite._shares(rates, "float32", Cost(operations=1e5, read=100, added=100, formula=""))
    assert found["share of the matrix rate"]["median"] == pytest.approx(0.1)
    assert found["share of the rate of rows"]["median"] == pytest.approx(1000 * (800 / 8e6 + 800 / 4e6))
    assert found["share of the copy bandwidth"]["median"] == pytest.approx(1000 * 800 / 1e8)
    assert found["bound by"] == "rate of rows"
    assert "binding limits" not in found, "a share of .3: most of the time goes elsewhere"
    for rate, binds in ((2000.0, True), (3000.0, True), (4000.0, False)):  # shares of .6, .9 and 1.2
        found = suite._shares({**rates, "float32": [rate]}, "float32", Cost(1e5, 100, 100, ""))
        assert found.get("binding limits") == (["gather", "scatter-add"] if binds else None)
    assert suite._shares(rates, "float32", None) == {}


def test_a_program_is_known_by_what_it_computes() -> None:
    one = 'ROOT %add = f32[] add(%a, %b), metadata={op_name="jit(run)/add" source_line=3}'
    assert suite.digest(one) == suite.digest(one.replace("source_line=3", "source_line=4"))
    assert suite.digest(one) != suite.digest(one.replace("add(", "multiply("))


def test_every_precision_has_a_name_that_jax_knows() -> None:
    for precision in suite.PRECISIONS.values():
        with jax.default_matmul_precision(precision):
            pass
    assert all(set(names) <= set(suite.PRECISIONS) for names in suite.SWEPT.values())
