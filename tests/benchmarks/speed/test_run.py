"""The speed of any model, by its name."""

import subprocess
from pathlib import Path

import jax
import pytest

from benchmarks import registry
from benchmarks.__main__ import main
from benchmarks.core import record, timing
from benchmarks.measurement import compilation, limits, machine, speed_record
from benchmarks.ratings.store import USUAL
from benchmarks.speed import page, throughput
from benchmarks.speed import run as speed
from jaxfit.devices import cores
from jaxfit.errors import UserError

OTHERS = ("svd", "svd-bias")  # than those that are compared


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "WINDOW", 0.01)
    monkeypatch.setattr(timing, "ROUNDS", 2)
    for name, size in {"MATRIX": 32, "COPIED": 1 << 12, "ROWS": 50, "BLOCK": 8}.items():
        monkeypatch.setattr(limits, name, size)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Put stores of the smallest scale in place of those that speed is measured on."""

    def stores(models):
        known = registry.engine_models()
        return {name: known[name].open("tiny", None, None, "tuned", tmp_path) for name in models}

    monkeypatch.setattr(speed, "stores", stores)
    return stores


def test_every_model_that_the_engine_fits_has_a_speed() -> None:
    assert {"lbl", "hlbl", "pmf", "cpmf", "rbm"} <= set(speed.names())
    assert set(speed.names()) - set(speed.usual()) == {"netflix-pmf", "netflix-rbm"}
    assert set(registry.engine_models()) <= set(speed.names())


@pytest.mark.extended
def test_models_are_measured_together_and_recorded(tiny, tmp_path: Path) -> None:
    found = speed.run(list(OTHERS), peers=False, out=tmp_path)
    assert found == speed_record.read(tmp_path)
    assert found["figures"].keys() == found["environment"].keys() == set(OTHERS)
    written = (tmp_path / "speed.md").read_text()
    for name, figures in found["figures"].items():
        assert found["environment"][name]["matmul_precision"] == "highest"
        assert figures["setting"]["rounds"] == 2
        tables = figures["tables"]
        assert all(memory["MB"] > 10 for memory in tables["peak memory"].values())
        assert list(tables["peak memory"]) == ["preparation of the data", "compilation", "training"]
        cold, warm = tables["until the first step"].values()
        assert cold["compilation, seconds"]["median"] > 0.05, "compiled anew, whatever was compiled before"
        assert warm["compilation, seconds"]["median"] < cold["compilation, seconds"]["median"]
        row = tables["training"][name]
        assert all(len(row[what]["samples"]) == 2 for what in ("ratings/s", "share of the copy bandwidth"))
        copies = tables["limits of the device"]["copy"]["10⁹/s"]["samples"]
        rates, work = row["ratings/s"]["samples"], row["bytes of an event"] / 1e9
        shares = [rate * work / copy for rate, copy in zip(rates, copies, strict=True)]
        assert row["share of the copy bandwidth"]["samples"] == pytest.approx(shares)
        assert tables[figures["limits"]["until the first step"]].keys() == limits.ABOUT.keys()
        assert f"## {name}\n" in written
        assert f"| {name} | {page.in_words(row['ratings/s'])} |" in written


def test_a_quick_run_compiles_nothing_anew_and_searches_nothing(tiny, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(timing, "ROUNDS", 7)
    monkeypatch.setattr(timing, "QUICK_WINDOW", 0.005)
    monkeypatch.setattr(compilation, "cold", lambda: pytest.fail("it compiles anew"))
    monkeypatch.setattr(
        speed, "PEERED", dict.fromkeys(("pmf", "svd"), lambda _: {"setting": {"compared": 1}, "tables": {}})
    )
    found = speed.run(["svd", "pmf"], peers=False, out=tmp_path, quick=True)["figures"]
    assert found["svd"]["setting"]["rounds"] == timing.QUICK_ROUNDS < timing.ROUNDS == 7
    options = dict(one.rsplit(" ", 1) for one in found["svd"]["setting"]["options"])
    assert options["num_features"] == str(tiny(["svd"])["svd"].scale.features[USUAL])
    assert options["optimizer"] == "sgd"
    assert "biases" not in options, "which svd has not"
    assert found["svd"]["setting"]["seconds of a round"] == 0.005 < timing.WINDOW
    assert {"pmf", "docnade", "hlbl"} < set(speed.LONG_COMPARISONS)
    assert [name for name in found if "compared" in found[name]["setting"]] == ["svd"], (
        "times of PMF to errors are searched"
    )
    for name in found:
        assert "until the first step" not in found[name]["tables"]
        assert len(found[name]["tables"]["training"][name]["ratings/s"]["samples"]) == timing.QUICK_ROUNDS


def test_models_that_are_compared_have_what_all_have(monkeypatch, tmp_path: Path) -> None:
    """By the same path, as is what it is compared with; the matrix precision is set for both."""
    general = {"setting": {"model": "x"}, "tables": {"training": {"x": {"words/s": 1.0}}}}
    monkeypatch.setattr(speed, "stores", list)
    monkeypatch.setattr(throughput, "measure", lambda names, **_: dict.fromkeys(names, general))

    def compared(peers: bool) -> dict:
        assert jax.config.jax_default_matmul_precision == "highest"
        return {"setting": {"left out": str(peers)}, "tables": {"training": {"peer": {"words/s": 2.0}}, "more": {}}}

    monkeypatch.setattr(speed, "PEERED", {"lbl": compared})
    monkeypatch.setattr(speed, "ALONE", {"hlbl": lambda: compared(False)})
    found = speed.run(["lbl", "hlbl", "nplm"], peers=True, out=tmp_path)
    assert found["figures"]["lbl"] == {
        "setting": {"model": "x", "left out": "True"},
        "tables": {"training": {"x": {"words/s": 1.0}, "peer": {"words/s": 2.0}}, "more": {}},
    }
    assert found["figures"]["hlbl"]["setting"]["left out"] == "False"
    assert found["figures"]["nplm"] == general
    assert {where["matmul_precision"] for where in found["environment"].values()} == {"highest"}


def test_other_figures_stay_but_those_of_another_version_are_left_out(monkeypatch, tmp_path: Path, capsys) -> None:
    general = {"setting": {}, "tables": {}}
    monkeypatch.setattr(speed, "stores", list)
    monkeypatch.setattr(throughput, "measure", lambda names, **_: dict.fromkeys(names, general))
    monkeypatch.setattr(speed, "PEERED", {})
    path = tmp_path / "speed.lbl.json"
    path.write_text('{"figures": {"lbl": {"cores": 2}}, "environment": {"lbl": {}}}')
    assert speed.run(["svd"], peers=False, out=tmp_path)["figures"].keys() == {"svd"}
    assert f"benchmarks: {path} is of another version of the benchmark: left out" in capsys.readouterr().err
    assert speed.run(["nplm"], peers=False, out=tmp_path)["figures"].keys() == {"nplm"}
    assert speed_record.read(tmp_path)["figures"].keys() == {"svd", "nplm"}
    assert {"## svd", "## nplm"} <= {*(tmp_path / page.PAGE).read_text().splitlines()}


def test_beside_what_is_no_record_nothing_is_measured(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(speed, "_measured", lambda *_: pytest.fail("it is measured"))
    (tmp_path / "speed.lbl.json").write_text("[]")
    with pytest.raises(UserError, match=r"not a record: it is no JSON object \(.*speed.lbl.json\) - remove it"):
        speed.run(["svd"], peers=False, out=tmp_path)
    with pytest.raises(UserError, match=r"cannot write: .* \(/proc/x\) - choose another --out"):
        speed.run(["svd"], peers=False, out=Path("/proc/x"))


@pytest.mark.parametrize(
    ("name", "expected"), [("pmf", True), ("cbow", True), ("netflix-pmf", True), ("hlbl", False), ("outputs", False)]
)
def test_models_have_the_threads_that_their_commands_take(name: str, expected: bool) -> None:
    assert speed._on_one_thread(name) == expected


@pytest.mark.parametrize("chosen", [["pmf"], ["pmf", "rbm", "svd"], ["rbm"]])
def test_threads_of_a_name_do_not_depend_on_what_is_measured_with_it(monkeypatch, tmp_path: Path, chosen) -> None:
    """JAX takes its threads once: models that the commands train on one have a process of their own beside others."""
    taken: dict[str, str] = {}

    def measured(names: list[str], *_: bool):
        for name in names:
            taken[name] = cores.chosen_threads()
            yield name, {"setting": {}, "tables": {}}

    def aside(command: list[str], env: dict[str, str], stdout: int) -> subprocess.CompletedProcess:
        names = command[4 : command.index("--out")]
        with monkeypatch.context() as process:
            process.setenv(cores.NPROC, env[cores.NPROC])
            speed.run(names, peers="--peers" in command, out=Path(command[command.index("--out") + 1]))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.delenv(cores.NPROC, raising=False)
    monkeypatch.setattr(speed, "use_threads", lambda number: monkeypatch.setenv(cores.NPROC, str(number)))
    monkeypatch.setattr(speed, "_measured", measured)
    monkeypatch.setattr(subprocess, "run", aside)
    monkeypatch.setattr(record, "commit", lambda: {"commit": None, "dirty": None})
    found = speed.run(chosen, peers=True, out=tmp_path)
    assert list(found["figures"]) == chosen
    assert taken == {name: "" if name == "rbm" else "1" for name in chosen}


def test_settings_say_how_many_threads_each_program_has(monkeypatch) -> None:
    monkeypatch.setattr(machine, "cores", lambda: 8)
    monkeypatch.setenv(cores.NPROC, "1")
    assert machine.threads("jaxcf") == "jaxcf 1; other programs 8, where they have threads"
    monkeypatch.delenv(cores.NPROC)
    assert machine.threads("jaxcf") == "jaxcf 8; other programs 8, where they have threads"


@pytest.mark.parametrize(
    ("option", "platform", "folder"),
    [("--record", "cpu", "results"), ("--record", "gpu", "results/gpu"), ("--out", "gpu", "there")],
)
def test_recorded_speeds_of_a_gpu_have_a_folder_of_their_own(monkeypatch, tmp_path: Path, option, platform, folder):
    """Threads are chosen before JAX begins, which is asked for its platform."""
    begun = []

    def backend() -> str:
        begun.append("jax")
        return platform

    def measured(chosen: list[str], *_: bool):
        return ((name, {"setting": {}, "tables": {}}) for name in chosen)

    monkeypatch.delenv(cores.NPROC, raising=False)
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(jax, "default_backend", backend)
    monkeypatch.setattr(speed, "use_threads", begun.append)
    monkeypatch.setattr(speed, "_measured", measured)
    assert main(["speed", "netflix-pmf", option, *[str(tmp_path / "there")] * (option == "--out")]) == 0
    assert begun == ([1, "jax"] if option == "--record" else [1])
    written = {path.parent for path in tmp_path.rglob("speed.netflix-pmf.json")}
    assert written == {tmp_path / folder}


def test_language_models_are_measured_in_words(tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "ROUNDS", 1)
    figures = throughput.measure(tiny(["lbl"]))["lbl"]
    row = figures["tables"]["training"]["lbl"]
    assert row["words/s"]["median"] > 0
    assert row["share of the matrix rate"]["median"] > 0
    assert figures["setting"]["model"] == "lbl"


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no speed is measured of 'user-bias'"):
        speed.run(["user-bias"], peers=False, out=tmp_path)


def test_a_share_of_a_limit_is_of_the_same_round() -> None:
    rates = {"lbl": [1.0, 2.0, 3.0], "copy": [10.0, 40.0, 15.0]}
    assert throughput.share(rates, "lbl", "copy", 2.0)["samples"] == pytest.approx([0.2, 0.1, 0.4])
