"""Products of users' and items' vectors: their memory, and blocks of any size."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxcf.solvers import products

SHAPES = [(9, 3), (7, 3)]


def test_products_hold_a_few_numbers_of_each_pair():
    """By the compiled program of a hundred million pairs and 50 features, whose rows would take 40 GB."""
    shapes = [jax.ShapeDtypeStruct((rows, 50), np.float32) for rows in (200_000, 50_000)]
    ids = jax.ShapeDtypeStruct((100_000_000,), np.int32)
    memory = products.of_pairs.lower(*shapes, ids, ids).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 1e9


def test_products_in_blocks_are_those_of_all_pairs(monkeypatch):
    X, Y = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in SHAPES)
    user, item = (np.arange(50, dtype=np.int32) % number for number, _ in SHAPES)
    monkeypatch.setattr(products, "PAIRS", 7)
    found = products.of_pairs.__wrapped__(jnp.asarray(X), jnp.asarray(Y), user, item)
    np.testing.assert_allclose(found, np.sum(X[user] * Y[item], axis=1), rtol=1e-5)
