"""The speed benchmark of plain steps compares like with like."""

from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.core import timing
from benchmarks.language.scales import speed_text
from benchmarks.measurement import limits
from benchmarks.speed import plain_steps
from jaxfit.program import Carried
from jaxlm import models as registry
from jaxlm.models import frbm, lbl
from jaxlm.models.recurrent import network
from jaxlm.models.recurrent.windows import Windows


def drawn(name, **options):
    """Return a model of 20 words with random parameters."""
    config = registry.get(name).configure(20, None, {"num_features": 6, **options})
    params = registry.get(name).fitting.init(jax.random.key(0), config, np.arange(20))
    draws = np.random.default_rng(0)
    return config, jax.tree.map(lambda x: x + jnp.float32(0.3 * draws.normal(size=x.shape)), params)


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(timing, "WINDOW", 0.01)
    for name, size in {"MATRIX": 64, "COPIED": 1 << 12, "ROWS": 50, "BLOCK": 8}.items():
        monkeypatch.setattr(limits, name, size)


def after_step(params, batch, config, name, weight, rate, decay):
    """Take a step of plain SGD on the mean loss, by the model's own gradient; biases of cells only decay."""
    loss = registry.get(name).fitting.program(config).loss
    grads = jax.grad(lambda p: loss(p, batch, weight, None, config)[0])(params)
    if hasattr(grads, "cells"):
        grads = grads._replace(cells=jax.tree.map(lambda g: g * (g.ndim > 1), grads.cells))
    moved = jax.tree.map(lambda p, g: p * (1 - rate * decay) - rate * g, params, grads)
    return moved._replace(b=params.b - rate * grads.b)


@pytest.mark.peer
@pytest.mark.parametrize("name", ["lbl", *(pytest.param(n, marks=pytest.mark.extended) for n in ("nplm", "nlbl"))])
def test_the_peer_makes_the_step_that_ours_makes(name):
    pytest.importorskip("torch", reason="PyTorch is not installed (extra `peers`)")
    peer, (config, params) = import_module(f"benchmarks.speed.peers.{name}_torch"), drawn(name, context_size=3)
    k1, k2 = jax.random.split(jax.random.key(1))
    batch = lbl.Batch(jax.random.randint(k1, (8, 3), 0, 20), jax.random.randint(k2, (8,), 0, 20))
    ours = after_step(params, batch, config, name, jnp.full(8, 1 / 8), 0.5, 0.1)
    step, moved = peer.make_step(params, config, "sgd", 0.5, 0.1, compiled=False)
    step(np.array(batch.context), np.array(batch.word, np.int64))
    for p, theirs in zip(jax.tree.leaves(ours), moved, strict=True):
        np.testing.assert_allclose(theirs.detach().numpy(), p, atol=1e-6)


@pytest.mark.peer
@pytest.mark.parametrize("name", ["lstm", pytest.param("gru", marks=pytest.mark.extended)])
def test_the_peer_of_a_recurrent_network_makes_two_steps_as_ours_does(name):
    """The second goes on from the state of the first, before which it is zero.

    Biases of cells only decay, as PyTorch has two of a gate where flax has one.
    """
    pytest.importorskip("torch", reason="PyTorch is not installed (extra `peers`)")
    from benchmarks.speed.peers import recurrent_torch

    config, params = drawn(name, num_hidden=5, num_layers=2, window=4)
    text = np.array(jax.random.randint(jax.random.key(1), (3, 9), 0, 20), np.int64)
    step, moved = recurrent_torch.make_step(params, config, "sgd", 0.5, 0.1, compiled=False)
    for bias in moved[:-1]:
        bias.register_hook(lambda g: g * (g.ndim > 1))
    loss = registry.get(name).fitting.program(config).loss
    state = jax.tree.map(lambda s: jnp.tile(s, (3, 1)), network.start(config))
    for t in (0, 4):
        before, words = text[:, t : t + 4], text[:, t + 1 : t + 5]
        batch = Carried(Windows(jnp.int32(before), jnp.int32(words), jnp.zeros((3, 4), bool)), state)
        after = loss(params, batch, jnp.full(3, 1 / 12), None, config)[2]
        params = after_step(params, batch, config, name, jnp.full(3, 1 / 12), 0.5, 0.1)
        state = after
        step(before, words)
    for ours, theirs in zip(recurrent_torch.Network(params, config).parameters(), moved, strict=True):
        np.testing.assert_allclose(theirs.detach().numpy(), ours.detach().numpy(), atol=1e-6)


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
    step, moved = frbm_torch.make_step(params, config, "sgd", rate, 0.1, compiled=False)
    step(np.array(batch.context), np.array(batch.word, np.int64))
    for p, g, d, theirs in zip(params, grads, (0.1, 0.1, 0, 0), moved, strict=True):
        np.testing.assert_allclose(theirs.detach().numpy(), p * (1 - rate * d) - rate * g, atol=1e-6)


def tiny(name, monkeypatch):
    """Make a case small, with minibatches of 20 words."""
    case = plain_steps.CASES[name]
    small = {"num_features": 4, "num_hidden": 4, "window": 5}
    usual = case.options | ({"window": 35} if case.peer == "recurrent_torch" else {})
    options = {field: small.get(field, value) for field, value in usual.items()}
    monkeypatch.setitem(plain_steps.CASES, name, plain_steps.Case(options, case.peer, 4 if "window" in usual else 20))


@pytest.mark.parametrize(
    "name", ["lbl", *(pytest.param(n, marks=pytest.mark.extended) for n in plain_steps.CASES if n != "lbl")]
)
def test_measures_at_a_tiny_size(name, monkeypatch):
    tiny(name, monkeypatch)
    monkeypatch.setattr(plain_steps, "EVENTS", 500)
    found = plain_steps.measure(name, num_words=50)
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
    monkeypatch.setattr(plain_steps, "_make_ready", lambda: None)
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


@pytest.mark.peer
@pytest.mark.parametrize(
    ("ours", "has_gpu", "why"),
    [
        ("cpu", True, None), ("gpu", True, None), ("gpu", False, "it would train on the CPU"),
        ("tpu", True, "it would train on the CPU"),
    ],
)  # fmt: skip
def test_pytorch_is_compared_on_the_same_device_only(monkeypatch, ours, has_gpu, why):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra `peers`)")
    monkeypatch.setattr(plain_steps.jax, "default_backend", lambda: ours)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    assert plain_steps._make_ready() == why
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("name", plain_steps.CASES)
def test_compiled_pytorch_takes_steps(name, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed (extra `peers`)")
    tiny(name, monkeypatch)
    recipe = plain_steps.Recipe("adam", plain_steps.CASES[name].batch_size, 1, rate={"*": 1e-3}, decay={"*": 0.0})
    for compiled in (False, True):
        assert plain_steps.torch_steps(name, recipe, speed_text(50, 500), compiled)() > 0
