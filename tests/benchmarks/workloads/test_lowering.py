"""Workloads: every one is of a registered model, and compiles for a TPU where its compiler is installed."""

import dataclasses
import importlib.util
import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks import __main__, registry
from benchmarks.profiling.hlo import Module
from benchmarks.workloads import lowering
from benchmarks.workloads.registry import PRECISIONS, WORKLOADS, Words, Workload
from benchmarks.workloads.setup import SweepsSetup, set_up
from jaxcf.solvers import tiles
from jaxfit.devices import platform as devices
from jaxfit.devices import sharding
from jaxfit.devices.platform import platform, tracing_for
from jaxfit.errors import UserError
from jaxlm.objectives import softmax

SMALL = [name for name, workload in WORKLOADS.items() if workload.small]


def test_every_workload_is_of_a_model_that_the_engine_trains() -> None:
    assert {workload.model for workload in WORKLOADS.values()} <= set(registry.engine_models())
    assert all(workload.batch_size % 8 == 0 for workload in WORKLOADS.values()), "for eight chips"
    assert all(workload.precision in PRECISIONS for workload in WORKLOADS.values())


@pytest.mark.parametrize("name", SMALL)
def test_a_workload_is_set_up_from_part_of_its_data(name: str) -> None:
    setup = set_up(WORKLOADS[name], 20_000)
    assert 0 < setup.share <= 0.25
    assert jax.tree.leaves(jax.eval_shape(setup.init, jax.random.key(0)))
    assert setup.num_ratings if isinstance(setup, SweepsSetup) else setup.program.size(setup.data) > 0


def test_programs_are_traced_for_the_platform_that_is_asked_for() -> None:
    assert platform() == jax.default_backend()
    with tracing_for("tpu"):
        assert platform() == "tpu"
    assert platform() == jax.default_backend()


def test_an_unknown_workload_is_one_line(capsys: pytest.CaptureFixture) -> None:
    assert __main__.main(["lower", "lbl-x"]) == 2
    assert capsys.readouterr().err.startswith("benchmarks: there is no workload 'lbl-x' - ")


@pytest.mark.parametrize("platform", ["cpu", "nope"])
def test_what_cannot_be_compiled_for_is_one_line(platform: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert __main__.main(["lower", "pmf-s", "--platform", platform, "--out", str(tmp_path)]) == 2
    what = f"`lower` cannot compile for {platform}: topology not implemented for {platform}"
    assert capsys.readouterr().err == f"benchmarks: {what} (--platform) - give tpu\n"


def test_the_compiler_for_tpus_is_named_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(**_: str) -> None:
        raise RuntimeError("JAX TPU support not installed")

    monkeypatch.setattr("jax.experimental.topologies.get_topology_desc", absent)
    for there, said in ((None, r"\(--platform\) - pip install libtpu"), ("here", r"\(--topology\) - name one such as")):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, there=there: there)
        with pytest.raises(UserError, match=said):
            lowering.described("tpu", "v5e:2x2", 1)


@pytest.mark.parametrize("chips", [1, 2])
def test_a_workload_compiles_for_a_tpu(chips: int) -> None:
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("the TPU's compiler is not installed (package libtpu)")
    row = lowering.measure(["pmf-s"], "tpu", "v5e:2x2", chips)["pmf-s"]
    assert row["fits"]
    assert row["cycles a step, at least"] > 0
    assert (row["collectives, MB a step"] > 0) == (chips > 1)


def test_the_memory_of_data_grows_with_their_number_but_that_of_a_tree_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lowering, "SAMPLE", 200_000)
    workload = WORKLOADS["hlbl-s"]
    grown = lowering._growth(workload, set_up(workload, lowering.SAMPLE))
    events = workload.data.events - lowering.SAMPLE
    assert grown == pytest.approx(4 * events, rel=0.15), "a word of the text is four bytes"


def of_this_machine(platform: str, topology: str, number: int, row_shards: int = 1) -> lowering.Devices:
    return lowering.Devices((jax.local_devices()[0],), None)


def test_a_sweep_is_lowered_from_part_of_its_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures are those of all; the part is large enough, in comparison with tiles and chunks."""
    monkeypatch.setattr(lowering, "described", of_this_machine)
    monkeypatch.setattr(tiles, "TILE", 2)
    monkeypatch.setattr(tiles, "CHUNK_TILES", 512)
    whole, sampled = (measured_from(ratings, monkeypatch) for ratings in (100_000, 20_000))
    assert sampled["instructions a step"] == pytest.approx(whole["instructions a step"], rel=0.1)
    workload = WORKLOADS["als-s"]
    everything, part = set_up(workload), set_up(workload, 20_000)
    assert lowering._growth(workload, everything) == 0
    needed = lowering._bytes(part.data) + lowering._growth(workload, part)
    assert needed == pytest.approx(lowering._bytes(everything.data), rel=0.1)
    assert sampled["memory, GB"] > needed / 1e9


def test_part_of_the_ratings_of_sweeps_are_all_of_some_users() -> None:
    setup = set_up(WORKLOADS["als-s"], 20_000)
    assert isinstance(setup, SweepsSetup)
    assert setup.sweeps.params.U.shape == (943, 50), "tables keep their sizes"
    users = np.asarray(setup.data[0].row)
    assert np.sum(users < 943) == 189
    assert setup.num_ratings == pytest.approx(20_000, rel=0.1)


@pytest.mark.parametrize("precision", [None, "float32"])
def test_matrix_products_have_the_precision_that_is_asked_for_or_the_workload_s_own(
    precision: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def lowered(workload: Workload, devices: lowering.Devices, setup: object) -> None:
        seen.append(jax.config.jax_default_matmul_precision)
        raise StopIteration

    monkeypatch.setattr(lowering, "described", of_this_machine)
    monkeypatch.setattr(lowering, "set_up", lambda *given: None)
    monkeypatch.setattr(lowering, "lowered", lowered)
    with pytest.raises(StopIteration):
        lowering.measure(["lbl-l"], "cpu", "", 1, precision)
    assert seen == [PRECISIONS[precision or "bfloat16"]]


def measured_from(ratings: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    monkeypatch.setattr(lowering, "OF_SWEEPS", ratings)
    return lowering.measure(["als-s"], "cpu", "", 1)["als-s"]


def test_a_sweep_is_of_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "described", of_this_machine)
    row = lowering.measure(["als-s"], "cpu", "", 2, "bfloat16")["als-s"]
    assert row == {"precision": "float32", "does not compile": "it runs on one device"}


@pytest.mark.parametrize(
    ("name", "scopes"),
    [
        ("lbl-s", ["context", "prediction", "softmax", "update"]),
        ("nplm-m", ["context", "prediction", "softmax", "update"]),
        ("hlbl-s", ["context", "tree", "tree_gradient", "update"]),
        ("rbm-s", ["gibbs_step", "update"]),
        ("pmf-s", ["prediction", "update"]),
        ("cpmf-s", ["visit"]),
        ("als-s", ["normal_equations", "solution"]),
    ],
)
def test_operations_are_named_by_the_part_of_the_model_that_they_are_of(name: str, scopes: list[str]) -> None:
    """Profiles show these names."""
    workload = WORKLOADS[name]
    devices = lowering.Devices((jax.local_devices()[0],), None)
    text = lowering.lowered(workload, devices, set_up(workload, 20_000)).as_text(debug_info=True)
    assert [scope for scope in scopes if not re.search(rf'[/("]{scope}[/)]', text)] == []


def compiled_over(devices: int, row_shards: int, words: int, batch_size: int) -> Module:
    """Compile a step of the LBL whose words are split over some of this machine's devices."""
    config = {"num_features": 8, "context_size": 2}
    workload = dataclasses.replace(WORKLOADS["lbl-s"], data=Words(words, 20_000), batch_size=batch_size, config=config)
    each = tuple(jax.devices()[:devices])
    split = lowering.Devices(each, sharding.over(each, row_shards))
    return Module(lowering.lowered(workload, split, set_up(workload)).compile().as_text())


@pytest.mark.parametrize("way", ["", "in chunks of words", "for an accelerator"])
def test_words_that_are_split_are_not_exchanged(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step of the LBL moves does not grow with the vocabulary; nor is anything as large as a table moved."""
    if way == "in chunks of words":
        for name, value in {"CHUNKED": 500, "CHUNK": 100, "CACHE_ENTRIES": 0}.items():
            monkeypatch.setattr(softmax, name, value)
    monkeypatch.setattr(devices, "HELD", 2500)
    with tracing_for("tpu" if way == "for an accelerator" else "cpu"):
        small, large = (sum(compiled_over(8, 8, words, 64).collectives().values()) for words in (1000, 2000))
    assert 0 < large <= small + (2000 if way == "for an accelerator" else 0)  # two numbers of an example in each block
    assert large < 1000 * 8 * 4


def test_devices_that_do_not_share_words_divide_the_minibatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "ROWS", 32)
    monkeypatch.setattr(softmax, "CACHE_ENTRIES", 0)  # 8 blocks
    few, many = (lowering._products(compiled_over(number, 2, 1000, 256)) for number in (4, 8))
    assert many == pytest.approx(few / 2, rel=0.05)


def test_a_record_has_no_times_and_keeps_other_workloads_of_the_same_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"platform": "tpu", "topology": "v5e:2x4", "chips": 8}
    row = {"cycles a step, at least": 123456, "padding": 1.23456789, **dict.fromkeys(lowering.SECONDS, 1.0)}
    lowering.save(tmp_path, {"pmf-s": row}, about)
    lowering.save(tmp_path, {"lbl-s": row}, about)
    path = tmp_path / "lower.tpu.v5e-2x4.8.json"
    kept = json.loads(path.read_text())["workloads"]
    assert list(kept) == ["lbl-s", "pmf-s"]
    assert kept["pmf-s"] == {"cycles a step, at least": 123456, "padding": 1.235}
    assert "| pmf-s | 123,456 | 1.235 |" in path.with_suffix(".md").read_text()
    lowering.save(tmp_path, {"pmf-m": row}, {**about, "chips": 1})
    assert len(list(tmp_path.glob("*.json"))) == 2, "of another number of chips"
    monkeypatch.setattr(lowering, "_version", lambda package: "9")
    lowering.save(tmp_path, {"lbl-s": row}, about)
    assert list(json.loads(path.read_text())["workloads"]) == ["lbl-s"], "of another compiler"
