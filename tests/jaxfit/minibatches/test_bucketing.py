"""Capacities of ragged minibatches, and epochs of minibatches that need very different capacities."""

import itertools

import jax
import numpy as np
import pytest

from jaxfit.minibatches import bucketing
from jaxfit.minibatches.bucketing import EpochPlan, buckets, capacity, plan


def planned(costs: np.ndarray, order: np.ndarray, batch_size: int, shards: int, key: jax.Array) -> EpochPlan:
    return plan(buckets(costs, batch_size, shards), order, batch_size, shards, key)


def test_capacity_covers_every_shard_and_the_fillers():
    costs = np.array([50, 1, 1, 1, 1, 40], np.int32)
    visits = np.array([0, 5, 1, 2, 3, 4, 4, 4])
    assert capacity(costs, visits, 4) >= 92
    assert capacity(np.full(1000, 20), np.arange(1000), 100) == 2048  # a multiple of 128 at least 2000
    assert capacity(np.stack([costs, 1000 * costs], axis=1), visits, 2)[1] >= 90_000


def test_examples_of_equal_cost_share_one_capacity():
    costs = np.full(1000, 20)
    epoch = planned(costs, np.arange(1000, dtype=np.int32), 100, 1, jax.random.key(0))
    assert epoch.stretches == [(0, 10, 2048)]
    np.testing.assert_array_equal(epoch.visits, np.arange(1000))


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("kinds", [None, 2])
def test_buckets_visit_every_example_once_with_padding_below_two(batch_size, kinds):
    draws = np.random.default_rng(0)
    costs = np.maximum(20, 10 ** draws.normal(2.2, 0.5, 2999)).astype(np.int64)
    costs = costs if kinds is None else np.stack([costs, costs + 7], axis=1)
    order = draws.permutation(2999).astype(np.int32)
    epoch = planned(costs, order, batch_size, 1, jax.random.key(0))

    assert sorted(epoch.visits[:2999]) == list(range(2999))  # only the last minibatch is padded
    assert len(epoch.visits) == -(-2999 // batch_size) * batch_size
    at, total_capacity = 0, np.zeros(kinds or 1)
    for begin, end, entries in epoch.stretches:
        assert begin == at < end
        at = end
        needs = costs[epoch.visits[begin * batch_size : end * batch_size]]
        needs = needs.reshape(end - begin, batch_size, -1).sum(axis=1)
        assert np.all(needs <= np.ravel(entries))
        total_capacity += (end - begin) * np.ravel(entries)
    assert at * batch_size == len(epoch.visits)
    # the smallest capacity is 128 entries
    assert np.all(total_capacity <= 2 * np.maximum(costs.reshape(2999, -1), 128 / batch_size).sum(axis=0))
    # buckets alternate
    capacities = [np.ravel(entries)[0] for _, _, entries in epoch.stretches]
    assert sum(a != b for a, b in itertools.pairwise(capacities)) > len(set(capacities))

    for shards in {1, batch_size // 2, batch_size} - {0}:
        spread = planned(costs, order, batch_size, shards, jax.random.key(0))
        np.testing.assert_array_equal(spread.visits, epoch.visits)
        assert [s[:2] for s in spread.stretches] == [s[:2] for s in epoch.stretches]
        if shards > 1:  # capacities are of parts of minibatches
            of_parts, of_all = (sum(np.sum(s.capacity) for s in laid.stretches) for laid in (spread, epoch))
            assert of_parts < of_all
    other = planned(costs, order, batch_size, 1, jax.random.key(1))
    assert [s.capacity for s in other.stretches] != [s.capacity for s in epoch.stretches]


@pytest.mark.parametrize("batch_size", [1, 20, 50])
def test_thirty_epochs_need_at_most_four_programs(batch_size):
    """Sizes span seven powers of two, as the number of ratings of users does."""
    draws = np.random.default_rng(1)
    costs = np.clip(10 ** draws.normal(2, 0.5, 943), 20, 800).astype(np.int64)
    capacities, padding = set(), []
    for number in range(30):
        epoch = planned(costs, draws.permutation(943).astype(np.int32), batch_size, 1, jax.random.key(number))
        capacities |= {stretch.capacity for stretch in epoch.stretches}
        padding.append(sum((s.end - s.begin) * s.capacity for s in epoch.stretches) / costs.sum())
    assert max(padding) < {1: 1.6, 20: 1.25, 50: 1.25}[batch_size]
    assert len(capacities) <= {1: 4, 20: 1, 50: 1}[batch_size]


@pytest.mark.parametrize("minibatches", [1, 65, 66, 129])  # windows of 64, or of fewer
@pytest.mark.parametrize("batch_size", [20, 50])
def test_epochs_of_any_number_of_minibatches_need_one_or_two_programs(minibatches, batch_size):
    draws, number = np.random.default_rng(3), minibatches * batch_size
    costs = np.clip(10 ** draws.normal(2, 0.5, number), 20, 800).astype(np.int64)
    capacities = set()
    for epoch in range(10):
        laid = planned(costs, draws.permutation(number).astype(np.int32), batch_size, 1, jax.random.key(epoch))
        capacities |= {stretch.capacity for stretch in laid.stretches}
        assert sum((s.end - s.begin) * s.capacity for s in laid.stretches) < 1.3 * costs.sum()
    assert len(capacities) <= 2


@pytest.mark.parametrize("other", [0, 8])
def test_a_list_that_always_fits_makes_no_buckets(other):
    draws = np.random.default_rng(4)
    costs = np.clip(10 ** draws.normal(2, 0.5, 1000), 20, 800).astype(np.int64)
    both = np.stack([costs, draws.integers(0, other + 1, 1000)], axis=1)
    assert len(buckets(both, 20, 1).usual) == len(buckets(costs, 20, 1).usual) == 1


def test_bounds_of_several_lists_rise_and_epochs_share_programs():
    draws, capacities = np.random.default_rng(5), set()
    costs = np.clip(10 ** draws.normal(2, 0.5, (3000, 2)), 20, 2000).astype(np.int64)
    found = buckets(costs, 4, 1)
    assert len(found.usual) > 2
    assert np.all(np.diff(found.bounds, axis=0) >= 0)
    assert np.all(np.diff(found.usual, axis=0) >= 0)
    for epoch in range(5):
        laid = plan(found, draws.permutation(3000).astype(np.int32), 4, 1, jax.random.key(epoch))
        capacities |= {stretch.capacity for stretch in laid.stretches}
    assert len(capacities) <= len(found.usual) + 1


@pytest.mark.parametrize(("users", "batch_size", "most"), [(1000, 20, 1.3), (200, 50, 1.3), (100, 20, 1.3)])
@pytest.mark.parametrize("outlier", [0, 20_000])
def test_padding_is_limited_for_few_examples_and_with_an_outlier(users, batch_size, most, outlier):
    draws = np.random.default_rng(2)
    costs = np.clip(10 ** draws.normal(2, 0.5, users), 20, 800).astype(np.int64)
    costs[0] = outlier or costs[0]
    epoch = planned(costs, draws.permutation(users).astype(np.int32), batch_size, 1, jax.random.key(0))
    assert sum((s.end - s.begin) * s.capacity for s in epoch.stretches) <= most * costs.sum()


@pytest.mark.parametrize("seed", range(4))
def test_bounds_have_the_least_padding_of_the_fewest_buckets_that_the_limit_allows(seed):
    sizes = 10 ** np.random.default_rng(seed).normal(2.6, 0.25, 60)
    each = np.array([bucketing.capacity_step(size) for size in sizes])
    steps = np.unique(each)

    def padded(bounds):
        return sum(np.append(bounds, steps[-1])[np.searchsorted(bounds, each)])

    for number in range(len(steps)):
        least = min(padded(np.array(bounds)) for bounds in itertools.combinations(steps[:-1], number))
        if least <= bucketing.PADDING * np.maximum(sizes, bucketing.LEAST).sum():
            break
    found = bucketing._bounds(sizes)
    assert len(found) == number
    assert padded([bucketing.capacity_step(bound) for bound in found]) == least


def test_random_minibatches_stay_as_they_are_where_they_need_nearly_the_same():
    costs = np.random.default_rng(0).integers(50, 300, 5000)
    order = np.random.default_rng(1).permutation(5000).astype(np.int32)
    np.testing.assert_array_equal(planned(costs, order, 100, 1, jax.random.key(0)).visits, order)
    assert not np.array_equal(planned(costs, order, 4, 1, jax.random.key(0)).visits, order)


@pytest.mark.parametrize("shard_size", [1, 4, 64])
@pytest.mark.parametrize("lists", [None, 1, 3])
def test_usual_capacities_follow_from_moments_and_the_largest_costs(lists, shard_size):
    """The definition in NumPy, over the costs themselves."""
    draws = np.random.default_rng(0)
    costs = draws.zipf(1.7, 1000 if lists is None else (1000, lists)).clip(0, 50_000).astype(np.int32)
    mean, spread = costs.mean(axis=0), costs.std(axis=0)
    skewness = (((costs - mean) / spread) ** 3).mean(axis=0) / shard_size**0.5
    likely = mean * shard_size + (3.5 + (3.5**2 - 1) / 6 * skewness) * spread * shard_size**0.5
    most = np.sort(costs, axis=0)[-shard_size:].sum(axis=0)
    expected = most if shard_size == 1 else np.minimum(likely, most)
    np.testing.assert_allclose(bucketing._usual(costs, shard_size), expected, rtol=1e-12)
