"""A pass over many ratings, at a tiny size."""

import jax
import numpy as np
import pytest

from benchmarks.core import timing
from benchmarks.measurement import limits
from benchmarks.speed import netflix as speed_netflix
from jaxcf.data.synthetic import NETFLIX_SHARES, Planted, planted

TINY = Planted(num_users=200, num_items=60, num_ratings=6000)


@pytest.mark.parametrize("model", ["pmf", "rbm"])
def test_passes_are_measured_after_a_first_one(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "WINDOW", 0.01)
    for name, size in {"MATRIX": 32, "COPIED": 1 << 12, "ROWS": 50, "BLOCK": 8}.items():
        monkeypatch.setattr(limits, name, size)
    models = {"pmf": {"num_features": 2, "batch_size": 20}, "rbm": {"num_hidden": 2, "batch_size": 5}}
    monkeypatch.setattr(speed_netflix, "MODELS", models)
    order, pass_seconds = [], speed_netflix.pass_seconds

    def counted(trainer, number):
        order.append(number)
        return pass_seconds(trainer, number)

    monkeypatch.setattr(speed_netflix, "pass_seconds", counted)
    tables = speed_netflix.measure(model, TINY)["tables"]
    assert speed_netflix.ROUNDS >= 5
    assert order == [*range(speed_netflix.ROUNDS + 1)]
    row = tables["a pass"][model]
    for column in ("ratings/s", "seconds", "seconds of shuffling"):
        assert len(row[column]["samples"]) == speed_netflix.ROUNDS
    shuffling, seconds = row["seconds of shuffling"], row["seconds"]
    assert all(0 < a < b for a, b in zip(shuffling["samples"], seconds["samples"], strict=True))
    events = len(planted(jax.random.key(0), TINY, *NETFLIX_SHARES).train.user)
    np.testing.assert_allclose(np.multiply(row["ratings/s"]["samples"], seconds["samples"]), events)
    assert row["training RMSE of the last"] < 2
    assert all(row["MB"] > 10 for row in tables["peak memory"].values())
    assert tables["limits of the device"].keys() == limits.ABOUT.keys()
