"""Peak memory, by phase where the system allows it."""

import jax
import numpy as np
import pytest

from benchmarks.measurement import memory

MEGABYTE = 1 << 20


def test_the_peak_begins_anew_in_each_phase() -> None:
    if memory.restart_peak() != "of this process, in each phase":
        pytest.skip("this system does not count the peak of a phase")
    before = memory.memory_in_use()
    assert before is not None
    held = np.ones(100 * MEGABYTE, np.uint8)
    assert memory.peak_memory() > before + 90 * MEGABYTE
    del held
    assert memory.peak_memory() > before + 90 * MEGABYTE
    memory.restart_peak()
    assert memory.peak_memory() < before + 50 * MEGABYTE


def test_the_peak_of_an_accelerator_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Device:
        def memory_stats(self):
            return {"peak_bytes_in_use": 7, "bytes_in_use": 5}

    monkeypatch.setattr(jax, "devices", lambda: [Device()])
    assert memory.restart_peak() == "of the accelerator, since this process began"
    assert (memory.peak_memory(), memory.memory_in_use()) == (7, 5)


def test_where_linux_counts_nothing_the_peak_is_since_the_beginning(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(memory, "CLEAR", tmp_path / "no" / "such")
    monkeypatch.setattr(memory, "STATUS", tmp_path / "none")
    assert memory.restart_peak() == "of this process, since it began"
    assert memory.memory_in_use() is None
    assert memory.peak_memory() > MEGABYTE
