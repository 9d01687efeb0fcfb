"""What a GPU's sensors say is read from its vendor's program."""

import time
from pathlib import Path

import jax
import pytest

from benchmarks.measurement import sensors


def program(folder: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / sensors.PROGRAM
    path.write_text(f'#!/bin/sh\necho "$@" > {folder}/asked\n{says}\n')
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(sensors, "EVERY", 0.01)


def test_clock_and_power_are_read_while_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "echo '1980, 512.5, [N/A]'", monkeypatch)
    with sensors.watched() as seen:
        deadline = time.monotonic() + 10
        while not seen.get("power, W") and time.monotonic() < deadline:
            time.sleep(0.01)
    assert seen["clock, MHz"][0] == 1980
    assert seen["power, W"][0] == 512.5
    assert "temperature, °C" not in seen
    assert "--query-gpu=clocks.sm,power.draw,temperature.gpu" in (tmp_path / "asked").read_text()


def test_a_program_that_fails_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "exit 9", monkeypatch)
    with sensors.watched() as seen:
        time.sleep(0.05)
    assert seen == {}


def test_a_cpu_has_no_sensors() -> None:
    with sensors.watched() as seen:
        pass
    assert seen == {}
