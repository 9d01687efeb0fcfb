"""Products of factors that are rounded to bfloat16."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.measurement.rounding import accelerated, identity
from jaxfit.devices.platform import platform

X, Y = (jax.random.normal(key, (40, 60)) for key in jax.random.split(jax.random.key(0)))


def to_bfloat16(x: jax.Array) -> np.ndarray:
    return np.asarray(x.astype(jnp.bfloat16), np.float64)


def product(x: jax.Array, y: jax.Array) -> jax.Array:
    return x @ y.T


def by_rows(x: jax.Array, y: jax.Array) -> jax.Array:
    return jax.lax.map(lambda row: jax.vmap(jnp.dot, (None, 0))(row, y), x)


@pytest.mark.parametrize("function", [product, by_rows])
def test_factors_are_rounded_and_sums_are_not(function) -> None:
    compiled = jax.jit(function)
    before = compiled(X, Y)
    with accelerated("float32"):
        np.testing.assert_array_equal(compiled(X, Y), before)
    with accelerated("bfloat16"):
        rounded = compiled(X, Y)
    np.testing.assert_allclose(rounded, to_bfloat16(X) @ to_bfloat16(Y).T, atol=1e-5)
    assert np.max(np.abs(rounded - before)) > 1e-2
    np.testing.assert_array_equal(compiled(X, Y), before)
    assert platform() == jax.default_backend()


@pytest.mark.parametrize("function", [product, by_rows])
def test_products_of_the_gradient_are_rounded_likewise(function) -> None:
    with accelerated("bfloat16"):
        found = jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(function(x, Y)))))(X)
    cosine = jnp.cos(jnp.asarray(to_bfloat16(X) @ to_bfloat16(Y).T, jnp.float32))
    np.testing.assert_allclose(found, to_bfloat16(cosine) @ to_bfloat16(Y), atol=0.15)  # of cosines next to a rounding
    assert np.mean(np.abs(found - to_bfloat16(cosine) @ to_bfloat16(Y))) < 1e-3


def test_other_types_are_left_alone() -> None:
    with accelerated("bfloat16"):
        np.testing.assert_array_equal(jnp.arange(300) @ jnp.arange(300), np.sum(np.arange(300) ** 2))


def test_models_without_rounding_are_identified_as_before() -> None:
    assert identity("") == {}
    assert identity("float32")["products"] == "float32"
    assert identity("float32")["rounding"] == identity("bfloat16")["rounding"]
