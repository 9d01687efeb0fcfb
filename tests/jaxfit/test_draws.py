"""Draws by key: orders of examples."""

import jax
import numpy as np
import pytest

from jaxfit.draws import permutation, power_of_two


@pytest.mark.parametrize("n", [1, 2, 4, 5, 127, 128, 129, 1025, 5000])
def test_an_order_has_every_index_once_and_is_the_same_whatever_it_is_padded_to(n):
    key = jax.random.key(n)
    exact = np.asarray(permutation(key, n, n))
    np.testing.assert_array_equal(np.sort(exact), np.arange(n))
    padded = np.asarray(permutation(key, np.int32(n), power_of_two(n)))
    np.testing.assert_array_equal(padded[:n], exact)


def test_orders_of_nearly_as_many_examples_share_what_is_compiled():
    key = jax.random.key(0)
    permutation(key, np.int32(900), 1024)
    before = permutation._cache_size()
    for n in (901, 950, 1024):
        permutation(key, np.int32(n), 1024)
    assert permutation._cache_size() == before
