"""The speed benchmark of the log-bilinear model compares like with like."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.speed import lbl as speed_lbl
from jaxlm.models import lbl

CONFIG = lbl.Config(num_words=20, num_features=6, context_size=3)


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


def test_operations_are_those_of_the_products():
    """Forward, and the gradients to both factors: three products of [B, D] by [D, N_w], three by each C_i."""
    assert speed_lbl.flops_per_word(CONFIG) == 3 * 2 * (20 * 6 + 3 * 6 * 6)


def test_measures_at_a_tiny_size(monkeypatch):
    monkeypatch.setattr(speed_lbl, "MATMUL", 64)
    monkeypatch.setattr(speed_lbl, "EVENTS", 500)
    figures = speed_lbl.measure(num_words=50, batch_size=20)
    for name in ("sgd", "adam"):
        found = figures[name]
        gflops = found["words_per_second"] * figures["flops_per_word"] / 1e9
        assert found["gflops"] == pytest.approx(gflops)
        assert found["of_matmul_rate"] == pytest.approx(gflops / figures["matmul_gflops"])
