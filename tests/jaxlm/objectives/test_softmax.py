"""The full softmax in the form of each platform."""

import jax
import numpy as np
import pytest

from jaxfit.devices import platform as platforms
from jaxfit.devices.platform import tracing_for, tracing_over
from jaxlm.objectives import softmax

N_W, D, B = 50, 6, 7


@pytest.mark.parametrize(  # all pairs of values
    ("platform", "entries", "parts"),
    [("cpu", 2 * N_W, 1), ("cpu", 10**9, 2), ("tpu", 2 * N_W, 2), ("tpu", 10**9, 1)],
)
def test_value_and_gradients_are_those_of_the_definition(monkeypatch, platform: str, entries: int, parts: int) -> None:
    """In blocks that do not divide the minibatch, and in one; with a padding weight; as the compiler splits it."""
    monkeypatch.setattr(softmax, "CACHE_ENTRIES", entries)
    monkeypatch.setattr(softmax, "ROWS", 1)
    monkeypatch.setattr(platforms, "HELD", entries)  # an accelerator adds to dR in parts of the vocabulary, too
    keys = jax.random.split(jax.random.key(0), 4)
    R, r_hat = jax.random.normal(keys[0], (N_W, D)), jax.random.normal(keys[1], (B, D))
    b, weight = jax.random.normal(keys[2], (N_W,)), jax.random.uniform(keys[3], (B,)).at[-1].set(0.0)

    def definition(R: jax.Array, b: jax.Array, r_hat: jax.Array, weight: jax.Array) -> jax.Array:
        return weight @ jax.nn.logsumexp(r_hat @ R.T + b[None], axis=1)

    expected = jax.value_and_grad(definition, (0, 1, 2, 3))(R, b, r_hat, weight)
    with tracing_for(platform), tracing_over(parts):
        found = jax.value_and_grad(softmax.sum_log_normalizer, (0, 1, 2, 3))(R, b, r_hat, weight)
        log_Z = softmax.log_normalizer(R, b, r_hat)
    np.testing.assert_allclose(log_Z, jax.nn.logsumexp(r_hat @ R.T + b[None], axis=1), rtol=3e-5)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=3e-5, atol=3e-6), found, expected)


@pytest.mark.parametrize("words", [7, 25, N_W])
def test_chunks_of_the_vocabulary_change_nothing(monkeypatch, words: int) -> None:
    """Chunks that divide the vocabulary, that do not, and a single one; logits far apart, and a padding weight."""
    monkeypatch.setattr(softmax, "CHUNKED", N_W - 1)
    monkeypatch.setattr(softmax, "CHUNK", words)
    monkeypatch.setattr(softmax, "CACHE_ENTRIES", 1)
    keys = jax.random.split(jax.random.key(0), 4)
    R, r_hat = 9 * jax.random.normal(keys[0], (N_W, D)), jax.random.normal(keys[1], (B, D))
    b, weight = jax.random.normal(keys[2], (N_W,)), jax.random.uniform(keys[3], (B,)).at[-1].set(0.0)

    def definition(R: jax.Array, b: jax.Array, r_hat: jax.Array, weight: jax.Array) -> jax.Array:
        return weight @ jax.nn.logsumexp(r_hat @ R.T + b[None], axis=1)

    assert softmax.in_chunks(N_W)
    expected = jax.value_and_grad(definition, (0, 1, 2, 3))(R, b, r_hat, weight)
    found = jax.jit(jax.value_and_grad(softmax.sum_log_normalizer, (0, 1, 2, 3)))(R, b, r_hat, weight)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=3e-5, atol=3e-5), found, expected)
    with jax.enable_x64(True):  # to rounding
        arrays = [np.asarray(x, np.float64) for x in (R, b, r_hat, weight)]
        expected = jax.value_and_grad(definition, (0, 1, 2, 3))(*arrays)
        found = jax.value_and_grad(softmax.sum_log_normalizer, (0, 1, 2, 3))(*arrays)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12), found, expected)


@pytest.mark.parametrize("chunked", [False, True])
def test_arrays_of_several_types_are_promoted(monkeypatch, chunked: bool) -> None:
    """Such as weights of float64, or parameters of bfloat16; each gradient is of its array's type."""
    if chunked:
        monkeypatch.setattr(softmax, "CHUNKED", N_W - 1)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((N_W, D), (N_W,), (B, D), (B,))]
    for types in (("float32", "float32", "float32", "float64"), ("bfloat16", "bfloat16", "float32", "float32")):
        with jax.enable_x64(types[-1] == "float64"):
            mixed = [x.astype(jax.numpy.dtype(kind)) for x, kind in zip(arrays, types, strict=True)]
            wide = [x.astype(types[-1]) for x in mixed]
            found = jax.value_and_grad(softmax.sum_log_normalizer, (0, 1, 2))(*mixed)
            expected = jax.value_and_grad(softmax.sum_log_normalizer, (0, 1, 2))(*wide)
            log_Z = softmax.log_normalizer(*mixed[:3])
        assert found[0] == expected[0]
        assert log_Z.dtype == np.float32
        for one, two, array in zip(found[1], expected[1], mixed, strict=False):
            np.testing.assert_array_equal(one, two.astype(array.dtype))
            assert one.dtype == array.dtype


def test_temporaries_do_not_grow_with_a_large_vocabulary() -> None:
    """Less than 50 MB, where the logits of 500 examples and 300,000 words would take 600 MB."""
    temporaries = []
    for words in (300_000, 600_000):
        shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((words, 100), (words,), (500, 100), (500,))]
        step = jax.jit(jax.value_and_grad(softmax.sum_log_normalizer, (0, 1, 2))).lower(*shapes).compile()
        temporaries.append(step.memory_analysis().temp_size_in_bytes)
    assert max(temporaries) < 50e6
    assert not softmax.in_chunks(100_000)


def test_blocks_are_nearly_equal_and_bounded_by_memory() -> None:
    with tracing_for("tpu"):
        assert softmax.block_rows(8192, 10_000) == 8192, "in one piece where memory allows it"
        assert softmax.block_rows(4096, 1 << 20) == 256
    with tracing_for("cpu"):
        assert softmax.block_rows(1000, 10_000) == 250
        assert softmax.block_rows(1000, 2000) == 1000
        assert softmax.block_rows(8192, 131_072) == 249, "enough rows for a fast product, whatever the cache"
