"""What `doctor` finds."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest

from benchmarks import __main__
from benchmarks.measurement import doctor


@pytest.mark.parametrize(
    ("version", "platform", "issues"),
    [
        ((0, 10, 2), "cpu", []),
        ((0, 11, 1), "cpu", [40101]),
        ((0, 11, 1), "gpu", []),
        ((0, 10, 2), "gpu", [38806]),
        ((0, 12, 0), "tpu", []),
    ],
)
def test_known_faults_are_of_some_releases_on_one_platform(version, platform, issues) -> None:
    assert [known.issue for known in doctor.FAULTS if known.holds(version, platform)] == issues


def test_a_known_fault_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    import jaxlib

    monkeypatch.setattr(jaxlib, "__version__", "0.11.1")
    monkeypatch.setattr(doctor.jax, "default_backend", lambda: "cpu")
    found = {what: (state, said) for what, state, said in doctor.checks()}
    assert found["JAX issue 40101"] == (doctor.BAD, "steps copy whole tables - pip install 'jaxlib!=0.11.1'")
    assert found["jax, jaxlib"][0] == doctor.BAD
    assert __main__.main(["doctor"]) == 0
    assert "steps copy whole tables" in capsys.readouterr().out


def test_a_platform_without_a_device_is_said_and_the_other_checks_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def local_devices() -> None:
        raise AssertionError  # as JAX where CUDA is asked for and there is no GPU

    usual = [what for what, _, _ in doctor.checks()]
    without = SimpleNamespace(local_devices=local_devices, config=SimpleNamespace(jax_platforms="cuda"))
    monkeypatch.setitem(sys.modules, "jax", without)
    found = {what: (state, said) for what, state, said in doctor.checks()}
    state, said = found["devices"]
    assert state == doctor.BAD
    assert said.startswith("JAX finds no device for JAX_PLATFORMS=cuda - unset it")
    assert set(usual) - set(found) <= {"memory"}


def test_packages_that_some_commands_need_are_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = {what: (state, said) for what, state, said in doctor.checks()}
    said = "not installed; for `benchmarks lower` (compiling for TPUs): pip install libtpu"
    assert found["libtpu"] == (doctor.OPTIONAL, said)


def test_what_the_environment_sets_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    assert ("XLA_FLAGS", doctor.CHECK, "--xla_dump_to=x") in list(doctor.checks())
