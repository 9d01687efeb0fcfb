"""What a record of speed says about machine and programs."""

from importlib import metadata

import jax
import pytest

from benchmarks.core import record
from benchmarks.measurement import machine
from jaxfit.devices.precision import full_precision


def test_processor_memory_threads_versions_and_precision_are_given() -> None:
    with full_precision():
        where = machine.environment(peers=False)
        assert record.environment().items() <= where.items()
    assert where["matmul_precision"] == "highest"
    assert where["cpu"]
    assert where["memory"] > 1e8
    assert where["threads"] >= 1
    assert where["versions"] == {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy", "scipy")}
    assert {"commit", "python", "XLA_FLAGS", "os", "date"} <= where.keys()
    assert "driver" not in where


def test_versions_of_peers_that_are_installed_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"jax": "1", "cornac": "2"}

    def version(package: str) -> str:
        if package not in known:
            raise metadata.PackageNotFoundError(package)
        return known[package]

    monkeypatch.setattr(machine.record, "environment", dict)
    monkeypatch.setattr(machine.metadata, "version", version)
    assert machine.environment(peers=True)["versions"] == known
    assert machine.environment(peers=False)["versions"] == {"jax": "1"}


def test_an_accelerator_has_a_driver_and_its_own_memory(monkeypatch, tmp_path) -> None:
    class Device:
        platform = "gpu"
        client = type("Client", (), {"platform_version": "CUDA 13"})

        def memory_stats(self):
            return {"bytes_limit": 80}

    driver = tmp_path / "version"
    driver.write_text("NVRM version: 590\nGCC version\n")
    monkeypatch.setattr(machine, "DRIVER", driver)
    monkeypatch.setattr(machine.record, "environment", dict)
    monkeypatch.setattr(jax, "devices", lambda: [Device()])
    where = machine.environment(peers=False)
    assert (where["driver"], where["memory"]) == ("NVRM version: 590 CUDA 13", 80)
