"""The full softmax in the form of each platform."""

import jax
import numpy as np
import pytest

from jaxfit.devices import platform as platforms
from jaxfit.devices.platform import tracing_for
from jaxlm.objectives import softmax

N_W, D, B = 50, 6, 7


@pytest.mark.parametrize("entries", [2 * N_W, 10**9])
@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_value_and_gradients_are_those_of_the_definition(monkeypatch, platform: str, entries: int) -> None:
    """In blocks that do not divide the minibatch, and in one; with a padding weight."""
    monkeypatch.setattr(softmax, "CACHE_ENTRIES", entries)
    monkeypatch.setattr(softmax, "ROWS", 1)
    monkeypatch.setattr(platforms, "HELD", entries)  # an accelerator adds to dR in parts of the vocabulary, too
    keys = jax.random.split(jax.random.key(0), 4)
    R, r_hat = jax.random.normal(keys[0], (N_W, D)), jax.random.normal(keys[1], (B, D))
    b, weight = jax.random.normal(keys[2], (N_W,)), jax.random.uniform(keys[3], (B,)).at[-1].set(0.0)

    def definition(R: jax.Array, b: jax.Array, r_hat: jax.Array, weight: jax.Array) -> jax.Array:
        return weight @ jax.nn.logsumexp(r_hat @ R.T + b[None], axis=1)

    expected = jax.value_and_grad(definition, (0, 1, 2, 3))(R, b, r_hat, weight)
    with tracing_for(platform):
        found = jax.value_and_grad(softmax.sum_log_normalizer, (0, 1, 2, 3))(R, b, r_hat, weight)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=3e-5, atol=3e-6), found, expected)


def test_blocks_are_nearly_equal_and_bounded_by_memory() -> None:
    with tracing_for("tpu"):
        assert softmax.block_rows(8192, 10_000) == 8192, "in one piece where memory allows it"
        assert softmax.block_rows(4096, 1 << 20) == 256
    with tracing_for("cpu"):
        assert softmax.block_rows(1000, 10_000) == 250
        assert softmax.block_rows(1000, 2000) == 1000
        assert softmax.block_rows(8192, 131_072) == 249, "enough rows for a fast product, whatever the cache"
