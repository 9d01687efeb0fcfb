"""Draws by key: orders of examples."""

import jax
import numpy as np
import pytest

from jaxfit.draws import normal, permutation, permuted


@pytest.mark.parametrize("n", [1, 2, 4, 5, 127, 128, 129, 1025, 5000])
def test_an_order_has_every_index_once_and_its_beginning_is_that_of_the_whole(n):
    key = jax.random.key(n)
    whole = np.asarray(permutation(key, n, n))
    np.testing.assert_array_equal(np.sort(whole), np.arange(n))
    part = np.asarray(permutation(key, np.int32(n), 130))
    np.testing.assert_array_equal(part, np.pad(whole[:130], (0, max(0, 130 - n)), mode="edge"))


def test_places_may_come_in_any_order_and_again():
    key, n = jax.random.key(3), 3000
    place = np.random.default_rng(0).integers(0, n + 50, 2500).astype(np.uint32)  # some past the end
    found = np.asarray(permuted(key, n, place))
    np.testing.assert_array_equal(found, np.asarray(permutation(key, n, n))[np.minimum(place, n - 1)])


def test_parts_of_one_length_share_what_is_compiled():
    key = jax.random.key(0)
    permutation(key, np.int32(900), 64)
    before = permutation._cache_size()
    for n in (901, 950, 5000):
        permutation(key, np.int32(n), 64)
    assert permutation._cache_size() == before


@pytest.mark.parametrize("shape", [(), (7,), (1000, 10), (4, 3, 5), (0, 3)])
def test_normal_numbers_are_those_of_jax(shape):
    key = jax.random.key(4)
    np.testing.assert_array_equal(normal(key, shape), jax.random.normal(key, shape))


def test_a_permutation_of_nothing_is_empty():
    assert permutation(jax.random.key(0), 0, 0).shape == (0,)
