"""What the device can do at most is measured on the device, as a median of many repetitions."""

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.core import timing
from benchmarks.measurement import limits


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "WINDOW", 0.01)
    for name, size in {"MATRIX": 32, "COPIED": 1 << 12, "ROWS": 50, "BLOCK": 8, "BLOCKS": 2}.items():
        monkeypatch.setattr(limits, name, size)


def test_every_limit_has_a_rate() -> None:
    rates = limits.measures()
    assert list(rates) == list(limits.ABOUT) == ["matrix product", "copy", "gather", "scatter-add"]
    for measure in rates.values():
        assert measure() > 0
        assert measure() > 0, "again, with what was written in place"
    assert list(limits.measures("copy")) == ["copy"]


def test_one_slow_or_fast_repetition_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "windowed", lambda once: [0.5, 0.001, 0.5, 0.5, 9.0])
    assert limits.measures("matrix product")["matrix product"]() == pytest.approx(2 * 32**3 / 0.5)


def test_operations_and_bytes_are_of_the_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(limits, "_rate", lambda work, function, *arrays, **_: seen.append((work, function, arrays)))
    limits.measures()
    (product, _, factors), (copy, _, (copied,)), (read, gather, to_read), (added, scatter, to_add) = seen
    assert product == 2 * factors[0].shape[0] * factors[0].shape[1] * factors[1].shape[1]
    assert copy == 2 * copied.nbytes
    into, table, ids = to_read
    assert read == added == 2 * ids.size * table[0].nbytes
    rows = jnp.asarray(np.random.default_rng(0).normal(size=table.shape), jnp.float32)
    np.testing.assert_array_equal(gather(into, rows, ids), rows[ids[-1]])
    expected = np.asarray(rows).copy()
    for block in np.asarray(to_add[1]):
        np.add.at(expected, block, 1.0)
    np.testing.assert_allclose(scatter(rows, to_add[1], jnp.ones_like(to_add[2])), expected, rtol=1e-5)
