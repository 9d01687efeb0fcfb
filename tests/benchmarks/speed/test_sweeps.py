"""The speed benchmark of sweeps: each way of fitting, in turn with another package's."""

import jax
import numpy as np
import pytest

from benchmarks.core import timing
from benchmarks.measurement import limits
from benchmarks.speed import sweeps
from benchmarks.speed.peers import rankers
from jaxcf.data.synthetic import Planted, planted


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(timing, "ROUNDS", 2)
    monkeypatch.setattr(timing, "WINDOW", 0.01)
    for name, size in {"MATRIX": 64, "COPIED": 1 << 12, "ROWS": 50, "BLOCK": 8}.items():
        monkeypatch.setattr(limits, name, size)


def test_sweeps_are_timed_in_turn(monkeypatch):
    fitted = []
    monkeypatch.setattr(sweeps, "missing", lambda package: None)
    monkeypatch.setattr(sweeps, "als_fit", lambda options, problem: lambda: fitted.append((options, problem)))
    data = planted(jax.random.key(0), Planted(num_users=30, num_items=20, num_ratings=300))
    found = sweeps.measure("wmf", peers=True, data=data, sizes=(3,))["tables"]["sweeps of 3 features"]
    assert set(found) == {"jaxcf, cg", "jaxcf, cholesky", "implicit, cg", "implicit, cholesky"}
    ours, theirs = (np.array(found[f"{who}, cg"]["positives/s"]["samples"]) for who in ("jaxcf", "implicit"))
    np.testing.assert_allclose(found["implicit, cg"]["jaxcf / this"]["samples"], ours / theirs)
    assert {options["use_cg"] for options, _ in fitted} == {True, False}
    assert all(len(problem.positives.user) == np.sum(data.train.stars >= 4) for _, problem in fitted)


@pytest.mark.peer
def test_implicit_ranks_as_wmf_does():
    """The same objective: with its confidence α r and ours 1 + (α - 1) r, scores agree after many sweeps."""
    pytest.importorskip("implicit")
    pytest.importorskip("threadpoolctl")
    from jaxcf.data.positives import of_dataset
    from jaxcf.models import wmf

    data = of_dataset(planted(jax.random.key(0), Planted(num_users=40, num_items=30, num_ratings=600)), 4)
    sizes = {"num_users": data.catalogue.num_users, "num_items": data.catalogue.num_items, "num_features": 2}
    options = {"alpha": 3.0, "regularization": 1.0, "iterations": 60, "use_cg": False}
    theirs = rankers.als_fit(options, rankers.Problem(data.train, *sizes.values(), 0))()
    config = wmf.Config(**sizes, alpha=2.0, decay=1.0)
    params, sides = wmf.init(jax.random.key(0), config), wmf.make_data(data.train, config, wmf.in_one_part)
    for _ in range(60):
        params = wmf.sweep(params, sides, config, wmf.solve)
    everybody = np.arange(sizes["num_users"], dtype=np.int32)
    ours = wmf.by_products(*params)(everybody)
    assert np.sqrt(np.mean((ours - theirs(everybody)) ** 2)) < 0.1 * np.std(ours)
