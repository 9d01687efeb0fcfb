"""The speed of any model, by its name."""

import json
from pathlib import Path

import jax
import pytest

from benchmarks import registry
from benchmarks.core import timing
from benchmarks.speed import run as speed
from benchmarks.speed import throughput
from jaxfit.errors import UserError

OTHERS = ("crbm", "svd")  # than those that are compared


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "COPIED", 1 << 16)
    monkeypatch.setattr(timing, "SECONDS", 0.01)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Stores of the smallest scale in place of those that speed is measured on."""

    def stores(models):
        known = registry.engine_models()
        return {name: known[name].open("tiny", None, None, "tuned", tmp_path) for name in models}

    monkeypatch.setattr(speed, "stores", stores)
    return stores


def test_every_model_that_the_engine_fits_has_a_speed():
    assert {"lbl", "hlbl", "pmf", "cpmf", "rbm", "netflix"} <= set(speed.names())
    assert set(speed.names()) - set(speed.usual()) == {"netflix"}
    assert set(registry.engine_models()) <= set(speed.names())
    assert set(speed.names()) - set(speed.COMPARED) >= set(OTHERS)


def test_models_without_a_comparison_are_measured_together_and_recorded(tiny, tmp_path: Path) -> None:
    found = speed.run(list(OTHERS), peers=False, out=tmp_path)
    assert found["figures"].keys() == found["environment"].keys() == set(OTHERS)
    recorded = json.loads((tmp_path / "speed.json").read_text())
    assert recorded == found
    page = (tmp_path / "speed.md").read_text()
    for name, figures in found["figures"].items():
        rate = figures["ratings_per_second"]
        low, high = rate["quartiles"]
        assert 0 < low <= rate["median"] <= high
        assert len(rate["samples"]) == timing.ROUNDS
        assert figures["compile_seconds"] > 0.05, "compiled anew, whatever was compiled before"
        assert figures["padding_ratio"] >= 1
        assert figures["peak_bytes"] > 1e7
        assert found["environment"][name]["matmul_precision"] == "highest"
        assert f"## {name}\n" in page
    assert f"| ratings_per_second | {rate['median']:,.0f} ({low:,.0f} to {high:,.0f}) |" in page


def test_language_models_are_measured_in_words(tiny) -> None:
    figures = throughput.measure(tiny(["hlbl"]))["hlbl"]
    assert figures["words_per_second"]["median"] > 0
    assert figures["model"] == "hlbl-random"


def test_measurements_compile_cold_and_leave_the_cache_as_it_was() -> None:
    before = jax.config.jax_enable_compilation_cache
    with timing.cold_compilation():
        assert not jax.config.jax_enable_compilation_cache
    assert jax.config.jax_enable_compilation_cache == before


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no speed is measured of 'user-bias'"):
        speed.run(["user-bias"], peers=False, out=tmp_path)
