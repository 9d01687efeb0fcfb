"""Room for ragged minibatches, and epochs of minibatches that need very different room."""

import itertools

import jax
import numpy as np
import pytest

from jaxfit.bucketing import Plan, buckets, capacity, plan


def lay(costs: np.ndarray, order: np.ndarray, batch_size: int, lanes: int, key: jax.Array) -> Plan:
    return plan(buckets(costs, batch_size, lanes), order, batch_size, lanes, key)


def test_room_for_ragged_entries_covers_every_lane_and_the_fillers():
    costs = np.array([50, 1, 1, 1, 1, 40], np.int32)
    visits = np.array([0, 5, 1, 2, 3, 4, 4, 4])
    assert capacity(costs, visits, 4) >= 92
    assert capacity(np.full(1000, 20), np.arange(1000), 100) == 2048  # a multiple of 128 at least 2000
    assert capacity(np.stack([costs, 1000 * costs], axis=1), visits, 2)[1] >= 90_000


def test_like_examples_share_one_room():
    costs = np.full(1000, 20)
    laid = lay(costs, np.arange(1000, dtype=np.int32), 100, 1, jax.random.key(0))
    assert laid.stretches == [(0, 10, 2048)]
    np.testing.assert_array_equal(laid.visits, np.arange(1000))


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("kinds", [None, 2])
def test_unlike_examples_go_by_size_each_once_and_padding_stays_under_two(batch_size, kinds):
    draws = np.random.default_rng(0)
    costs = np.maximum(20, 10 ** draws.normal(2.2, 0.5, 2999)).astype(np.int64)
    costs = costs if kinds is None else np.stack([costs, costs + 7], axis=1)
    order = draws.permutation(2999).astype(np.int32)
    laid = lay(costs, order, batch_size, 1, jax.random.key(0))

    assert sorted(laid.visits[:2999]) == list(range(2999))  # only the end is filled up
    assert len(laid.visits) == -(-2999 // batch_size) * batch_size
    at, room_in_all = 0, np.zeros(kinds or 1)
    for begin, end, room in laid.stretches:
        assert begin == at < end
        at = end
        needs = costs[laid.visits[begin * batch_size : end * batch_size]]
        needs = needs.reshape(end - begin, batch_size, -1).sum(axis=1)
        assert np.all(needs <= np.ravel(room))
        room_in_all += (end - begin) * np.ravel(room)
    assert at * batch_size == len(laid.visits)
    # rooms start at 128 entries, under which nothing is saved
    assert np.all(room_in_all <= 2 * np.maximum(costs.reshape(2999, -1), 128 / batch_size).sum(axis=0))
    # never bucket after bucket
    rooms = [np.ravel(room)[0] for _, _, room in laid.stretches]
    assert sum(a != b for a, b in itertools.pairwise(rooms)) > len(set(rooms))

    for lanes in {1, batch_size // 2, batch_size} - {0}:
        spread = lay(costs, order, batch_size, lanes, jax.random.key(0))
        np.testing.assert_array_equal(spread.visits, laid.visits)
        assert [s[:2] for s in spread.stretches] == [s[:2] for s in laid.stretches]
    other = lay(costs, order, batch_size, 1, jax.random.key(1))
    assert [s.room for s in other.stretches] != [s.room for s in laid.stretches]


@pytest.mark.parametrize("batch_size", [1, 20, 50])
def test_a_training_needs_few_programs_however_its_epochs_are_drawn(batch_size):
    """Sizes as long-tailed as users' are: seven powers of two."""
    draws = np.random.default_rng(1)
    costs = np.clip(10 ** draws.normal(2, 0.5, 943), 20, 800).astype(np.int64)
    rooms, padding = set(), []
    for epoch in range(30):
        laid = lay(costs, draws.permutation(943).astype(np.int32), batch_size, 1, jax.random.key(epoch))
        rooms |= {stretch.room for stretch in laid.stretches}
        padding.append(sum((s.end - s.begin) * s.room for s in laid.stretches) / costs.sum())
    assert max(padding) < 2
    assert len(rooms) <= {1: 4, 20: 4, 50: 2}[batch_size]


@pytest.mark.parametrize(("users", "batch_size", "most"), [(1000, 20, 1.6), (200, 50, 2), (100, 20, 2)])
@pytest.mark.parametrize("outlier", [0, 20_000])
def test_neither_a_few_examples_nor_one_very_large_one_waste_room(users, batch_size, most, outlier):
    draws = np.random.default_rng(2)
    costs = np.clip(10 ** draws.normal(2, 0.5, users), 20, 800).astype(np.int64)
    costs[0] = outlier or costs[0]
    laid = lay(costs, draws.permutation(users).astype(np.int32), batch_size, 1, jax.random.key(0))
    assert sum((s.end - s.begin) * s.room for s in laid.stretches) <= most * costs.sum()
