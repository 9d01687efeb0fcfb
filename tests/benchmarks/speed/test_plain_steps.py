"""The speed benchmark of plain steps compares like with like."""

import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.core import timing
from benchmarks.language.scales import speed_text
from benchmarks.measurement import limits
from benchmarks.speed import plain_steps
from jaxlm.models import frbm, lbl

CONFIG = lbl.Config(num_words=20, num_features=6, context_size=3)


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(timing, "WINDOW", 0.01)
    for name, size in {"MATRIX": 64, "COPIED": 1 << 12, "ROWS": 50, "BLOCK": 8}.items():
        monkeypatch.setattr(limits, name, size)


@pytest.mark.peer
def test_the_peer_makes_the_step_that_ours_makes():
    pytest.importorskip("torch", reason="PyTorch is not installed (extra `peers`)")
    from benchmarks.speed.peers import lbl_torch

    params = lbl.init(jax.random.key(0), CONFIG, np.arange(20))
    k1, k2 = jax.random.split(jax.random.key(1))
    batch = lbl.Batch(jax.random.randint(k1, (8, 3), 0, 20), jax.random.randint(k2, (8,), 0, 20))
    rate, decay = 0.5, lbl.Params(R=0.1, C=0.1, b=0.0)
    grads, _ = jax.grad(lbl.batch_loss, has_aux=True)(params, batch, jnp.full(8, 1 / 8), None, CONFIG)
    step, moved = lbl_torch.make_step([np.array(p) for p in params], "sgd", rate, decay.R, compiled=False)
    step(np.array(batch.context), np.array(batch.word, np.int64))
    for p, g, d, theirs in zip(params, grads, decay, moved, strict=True):
        np.testing.assert_allclose(theirs.detach().numpy(), p * (1 - rate * d) - rate * g, atol=1e-6)


@pytest.mark.peer
def test_the_peer_of_the_frbm_makes_the_step_that_ours_makes(monkeypatch):
    """With words that both are given in place of those that are drawn."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra `peers`)")
    from benchmarks.speed.peers import frbm_torch

    config = frbm.Config(num_words=20, num_features=6, context_size=3, num_hidden=5)
    params = frbm.init(jax.random.key(0), config, np.arange(20))
    k1, k2, k3 = jax.random.split(jax.random.key(1), 3)
    batch = lbl.Batch(jax.random.randint(k1, (8, 3), 0, 20), jax.random.randint(k2, (8,), 0, 20))
    drawn = jax.random.randint(k3, (8,), 0, 20)
    monkeypatch.setattr(frbm, "draw", lambda R, b, x, uniform: (drawn[:, None], jnp.zeros(8)))
    monkeypatch.setattr(torch, "searchsorted", lambda sums, u: torch.tensor(np.array(drawn, np.int64))[:, None])
    keys, rate = jax.random.split(jax.random.key(2), 8), 0.5
    grads, _ = jax.grad(frbm.batch_loss, has_aux=True)(params, batch, jnp.full(8, 1 / 8), keys, config)
    step, moved = frbm_torch.make_step([np.array(p) for p in params], "sgd", rate, 0.1, compiled=False)
    step(np.array(batch.context), np.array(batch.word, np.int64))
    for p, g, d, theirs in zip(params, grads, (0.1, 0.1, 0, 0), moved, strict=True):
        np.testing.assert_allclose(theirs.detach().numpy(), p * (1 - rate * d) - rate * g, atol=1e-6)


@pytest.mark.parametrize("name", plain_steps.CASES)
def test_measures_at_a_tiny_size(name, monkeypatch):
    monkeypatch.setitem(plain_steps.CASES, name, {**plain_steps.CASES[name], "num_features": 4})
    monkeypatch.setattr(plain_steps, "EVENTS", 500)
    found = plain_steps.measure(name, num_words=50, batch_size=20)
    rows, device = found["tables"].values()
    assert list(found["limits"].items()) == [tuple(found["tables"])]
    assert device.keys() == limits.ABOUT.keys()
    assert list(rows) == ["jaxlm, sgd", "jaxlm, adam"]
    assert "left out" not in found["setting"]
    for row in rows.values():
        assert all(len(value["samples"]) == timing.ROUNDS for value in row.values())
        assert row["words/s"]["median"] > 0


def test_pytorch_is_measured_in_the_same_rounds(monkeypatch):
    """Of made-up rates: shares and ratios are taken round by round."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=lambda number: None))
    monkeypatch.setattr(plain_steps, "missing", lambda name: None)
    monkeypatch.setattr(plain_steps, "our_steps", lambda *given: lambda: 0.0)
    monkeypatch.setattr(plain_steps, "torch_steps", lambda *given: lambda: 0.0)
    rounds = {name: [1e9, 2e9] for name in limits.ABOUT} | {"jaxlm": [100.0, 300.0], "PyTorch": [50.0, 100.0]}
    monkeypatch.setattr(
        plain_steps,
        "interleaved",
        lambda measures: {m: rounds[m.split(",")[0].split(" e")[0].split(" c")[0]] for m in measures},
    )
    rows, _ = plain_steps.measure("lbl", peers=True, num_words=50)["tables"].values()
    assert len(rows) == 6
    assert rows["PyTorch compiled, adam"]["jaxlm / this"]["samples"] == [2.0, 3.0]
    operations = lbl.cost(lbl.Config(50)).operations
    assert rows["jaxlm, sgd"]["share of the matrix rate"]["samples"] == [100 * operations / 1e9, 300 * operations / 2e9]


def test_pytorch_that_is_not_installed_is_left_out_and_said(monkeypatch):
    monkeypatch.setattr(plain_steps, "missing", lambda name: "not installed")
    monkeypatch.setattr(plain_steps, "our_steps", lambda *given: lambda: 1.0)
    monkeypatch.setattr(plain_steps, "interleaved", lambda measures: {name: [1.0] for name in measures})
    found = plain_steps.measure("lbl", peers=True, num_words=50)
    assert found["setting"]["left out"] == "PyTorch: not installed"
    assert [len(table) for table in found["tables"].values()] == [2, len(limits.ABOUT)]


def test_pytorch_is_not_compared_with_an_accelerator(monkeypatch):
    monkeypatch.setattr(plain_steps.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(plain_steps, "our_steps", lambda *given: lambda: 1.0)
    monkeypatch.setattr(plain_steps, "interleaved", lambda measures: {name: [1.0] for name in measures})
    assert "would train on the CPU" in plain_steps.measure("lbl", peers=True, num_words=50)["setting"]["left out"]


@pytest.mark.peer
@pytest.mark.slow
def test_compiled_pytorch_takes_steps(monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed (extra `peers`)")
    recipe = plain_steps.Recipe("adam", 20, 1, rate={"*": 1e-3}, decay={"*": 0.0})
    corpus = speed_text(50, 500)
    for name in plain_steps.CASES:
        for compiled in (False, True):
            assert plain_steps.torch_steps(name, recipe, corpus, compiled)() > 0
