"""Minibatches of nearly equal cost."""

import numpy as np
import pytest

from jaxfit.minibatches import balancing
from jaxfit.minibatches.balancing import balanced


def sizes(number, seed=0):
    """Draw sizes as the number of ratings of users: the largest of 1000 is some 40 times the mean."""
    return np.clip(10 ** np.random.default_rng(seed).normal(2, 0.6, number), 5, 5000).astype(np.int16)


@pytest.mark.parametrize(("number", "batch_size"), [(0, 4), (3, 4), (4, 4), (1000, 7), (5003, 20), (2560, 20), (50, 1)])
def test_every_example_comes_once_and_what_fills_no_minibatch_is_last(number, batch_size):
    costs, order = sizes(number), np.random.default_rng(1).permutation(number).astype(np.int32)
    found = balanced(costs, order, batch_size)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(np.sort(found), np.arange(number))
    np.testing.assert_array_equal(found, balanced(costs, order, batch_size))


def test_minibatches_cost_nearly_the_same_and_differ_between_orders():
    costs, rng = sizes(5005), np.random.default_rng(0)
    orders = [rng.permutation(5005).astype(np.int32) for _ in range(2)]
    members = []
    for order in orders:
        found = balanced(costs, order, 50)
        sums = costs[found[:5000]].reshape(-1, 50).sum(axis=1, dtype=np.int64)
        assert sums.max() < 1.1 * sums.mean()
        assert costs[order[:5000]].reshape(-1, 50).sum(axis=1, dtype=np.int64).max() > 1.3 * sums.mean()
        assert costs[found[5000:]].sum() < 1.5 * sums.mean() * 5 / 50
        members.append({frozenset(each) for each in found[:5000].reshape(-1, 50).tolist()})
        largest = np.array([costs[each].max() for each in found[:5000].reshape(-1, 50)])
        assert abs(np.corrcoef(largest[:64], np.arange(64))[0, 1]) < 0.4, "not in the order of size"
    assert not members[0] & members[1]


def test_a_window_is_divided_as_by_a_plain_loop(monkeypatch):
    monkeypatch.setattr(balancing, "WINDOW", 6)
    costs, order = sizes(48), np.random.default_rng(2).permutation(48).astype(np.int32)
    found = balanced(costs, order, 8).reshape(6, 8)
    minibatches = [[] for _ in range(6)]
    for example in sorted(order, key=lambda i: -costs[i]):
        free = [each for each in minibatches if len(each) < 8]
        min(free, key=lambda each: sum(int(costs[i]) for i in each)).append(example)
    expected = sorted(sum(int(costs[i]) for i in each) for each in minibatches)
    assert sorted(costs[found].sum(axis=1, dtype=np.int64)) == expected


def test_parts_of_a_minibatch_have_examples_of_all_sizes():
    costs, order = np.arange(640), np.arange(640, dtype=np.int32)
    for part in costs[balanced(costs, order, 10)].reshape(64, 2, 5).reshape(-1, 5):
        assert part.min() < 300 < part.max()


def test_an_example_larger_than_a_minibatch_has_the_smallest_beside_it():
    costs = np.array([100, *[1] * 3, *[10] * 8])
    found = balanced(costs, np.random.default_rng(0).permutation(12).astype(np.int32), 4)
    sums = sorted(costs[found].reshape(3, 4).sum(axis=1))
    assert sums == [40, 40, 103]
