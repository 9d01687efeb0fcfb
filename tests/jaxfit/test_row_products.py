"""Products of rows with vectors equal plain ones, and so do their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfit.row_products import scores, weighted_sums


@pytest.mark.parametrize(
    ("function", "formula", "shapes"),
    [(scores, "bid,bjd->bij", ((3, 4, 5), (3, 2, 5))), (weighted_sums, "bij,bjd->bid", ((3, 4, 2), (3, 2, 5)))],
)
def test_products_of_many_small_matrices_have_the_gradients_of_plain_ones(function, formula, shapes):
    draws = np.random.default_rng(0)
    factors = [draws.normal(size=shape).astype(np.float32) for shape in shapes]

    def total(product, *factors):
        return jnp.sum(jnp.sin(product(*factors)))

    found = jax.value_and_grad(total, (1, 2))(function, *factors)
    expected = jax.value_and_grad(total, (1, 2))(lambda a, b: jnp.einsum(formula, a, b), *factors)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), found, expected)


@pytest.mark.parametrize("function", [scores, weighted_sums])
def test_gradients_have_the_type_of_their_factors(function):
    first, second = jnp.ones((2, 3, 3), jnp.float32), jnp.ones((2, 3, 3), jnp.bfloat16)
    found = jax.grad(lambda *factors: jnp.sum(function(*factors)), (0, 1))(first, second)
    assert [gradient.dtype for gradient in found] == [jnp.float32, jnp.bfloat16]
