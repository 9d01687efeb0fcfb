"""Static capacity for minibatches of unequal examples: how much, and which minibatches share a compiled program.

A minibatch's ragged entries (a word's tree nodes, a user's ratings) are concatenated into arrays of a fixed capacity.
If minibatches drawn at random need nearly the same capacity, one program serves them all. Otherwise minibatches of
nearly equal cost are formed (`jaxfit.minibatches.balancing`). Those that still differ, such as minibatches of one user,
with 20 ratings or 2,000, are divided into buckets, each with its own compiled program. Runs of minibatches are visited
in an order drawn by key, never bucket after bucket. As each program takes seconds to compile, there are as few buckets
as the limit on padding allows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxfit.draws import permutation
from jaxfit.minibatches.balancing import balanced

LAYOUT = 5  # version of `plan`: a training of unequal examples can be resumed only by the same one
ORDER = 4  # version of orders of examples of one size, likewise
RUNS = 64  # of minibatches of one bucket, about so many in an epoch of several buckets
PADDING = 1.25  # maximum mean padding ratio, unless it takes more than MOST_BUCKETS buckets
MOST_BUCKETS = 6
MARGIN = 1.02  # factor on a bucket's capacity, so that nearly all epochs need the same programs
SCALE = 1 << 20  # of whole numbers in place of fractions
LEAST = 128  # entries; a smaller capacity saves no time

Capacity = int | tuple[int, ...]  # of ragged entries; one for each kind of entries


class Stretch(NamedTuple):
    """The steps begin <= i < end of an epoch, whose minibatches fit into `capacity`."""

    begin: int
    end: int
    capacity: Capacity


class EpochPlan(NamedTuple):
    """An epoch's order.

    Attributes:
        visits: int32[steps * batch_size], the examples in order; None where the order of each stretch is drawn when
            its steps are taken.
        stretches: what the epoch is cut into.
    """

    visits: np.ndarray | None
    stretches: list[Stretch]


class Buckets(NamedTuple):
    """Which minibatches share a compiled program, throughout a training.

    Attributes:
        costs: int[N] or int[N, lists], entries of each example; of the smallest type, each list contiguous.
        filler: the example of fewest entries.
        bounds: int[buckets - 1, lists], for each bucket but the last, the maximum number of entries of its minibatches;
            None where minibatches are random.
        usual: for each bucket, the capacity that suffices for nearly all shards of its minibatches, for each list of
            entries.
    """

    costs: np.ndarray
    filler: int
    bounds: np.ndarray | None
    usual: list[np.ndarray]


def capacity(costs: np.ndarray | None, visits: np.ndarray, shard_size: int) -> Capacity:
    """Choose a static capacity for the ragged entries of any shard of a minibatch among these visits.

    It is one of few fixed values (`capacity_step`) and depends on costs and visits alone, so that a resumed epoch
    compiles to the same program.

    Args:
        costs: [N] or [N, lists], entries of each example; None where examples are of one size.
        visits: the examples in order, fillers of the last minibatch included.
        shard_size: examples of a minibatch on each device.
    """
    return 0 if costs is None else _capacity(costs, visits, shard_size, _usual(costs, shard_size))


def _capacity(costs: np.ndarray, visits: np.ndarray, shard_size: int, usual: np.ndarray) -> Capacity:
    steps = []
    for entries, first in zip(_lists(costs), np.ravel(usual), strict=True):
        most = entries[visits].reshape(-1, shard_size).sum(axis=1, dtype=np.int64).max()
        steps.append(capacity_step(max(most, first)))
    return tuple(steps) if costs.ndim > 1 else steps[0]


def _lists(costs: np.ndarray) -> list[np.ndarray]:
    """Return the entries of each example, [N], for each list."""
    return list(costs.T) if costs.ndim > 1 else [costs]


def _usual(costs: np.ndarray, shard_size: int) -> np.ndarray:
    """Estimate the most entries in some thousand random shards, so that nearly all epochs need one program.

    It is a quantile of the normal distribution with the first term for skewness (Cornish and Fisher 1938), and at most
    what the largest shard can hold.
    """
    # moments and largest costs follow from histograms, far faster than from the costs themselves
    usual = [_usual_of(np.bincount(entries), shard_size) for entries in _lists(costs)]
    return np.array(usual).reshape(costs.shape[1:])


def _usual_of(histogram: np.ndarray, shard_size: int) -> float:
    """Compute `_usual` of one list, from the histogram of its costs."""
    number, cost = histogram.sum(), np.arange(len(histogram))
    mean = histogram @ cost / number
    spread = max(np.sqrt(histogram @ (cost - mean) ** 2 / number), 1e-9)
    skewness = histogram @ ((cost - mean) / spread) ** 3 / number / shard_size**0.5
    likely = mean * shard_size + (3.5 + (3.5**2 - 1) / 6 * skewness) * spread * shard_size**0.5
    taken = np.minimum(np.cumsum(histogram[::-1]), shard_size)  # of the largest examples
    most = np.diff(taken, prepend=0) @ cost[::-1]
    return float(most) if shard_size == 1 else min(likely, float(most))


def capacity_step(most: float) -> int:
    """Round `most` up to the next of 128, 144, 160, …: few values, so that few programs are compiled."""
    octaves = np.ceil(8 * np.log2(max(most, LEAST) / LEAST)) / 8
    return int(-(-(LEAST * 2**octaves) // 8) * 8)


def buckets(costs: np.ndarray, batch_size: int, shards: int) -> Buckets:
    """Divide minibatches into buckets by size; one bucket, of random minibatches, if its padding is within the limit.

    Bounds are chosen for the minibatches of one epoch, and do not depend on the number of devices.

    Args:
        costs: int[N] or int[N, lists], entries of each example.
        batch_size: examples of a minibatch.
        shards: devices that share a minibatch.
    """
    filler = int(np.argmin(costs.reshape(len(costs), -1).sum(axis=1)))
    costs = np.asfortranarray(costs, np.min_scalar_type(costs.max(initial=0)))
    capacities = np.array([capacity_step(most) for most in np.ravel(_usual(costs, batch_size))])
    if np.all(capacities <= PADDING * np.maximum(np.ravel(costs.mean(axis=0)) * batch_size, LEAST)):
        return Buckets(costs, filler, None, [_usual(costs, batch_size // shards)])
    visits = _formed(costs, np.random.default_rng(0).permutation(len(costs)).astype(np.int32), batch_size, filler)
    sums = _sums(costs, visits, batch_size)
    held = np.maximum(sums, LEAST)
    # with several lists, by the one that needs most relative to its mean
    size = np.max(held / held.mean(axis=0), axis=1) * held.mean(axis=0).sum()
    of = np.searchsorted(_bounds(size), size)
    of_shards = _sums(costs, visits, batch_size // shards).reshape(len(sums), shards, -1).max(axis=1)
    margin = MARGIN if batch_size > 1 else 1.0

    def largest(sums: np.ndarray) -> np.ndarray:  # in a bucket and those before it
        return margin * np.maximum.accumulate([sums[of == n].max(axis=0) for n in np.unique(of)])

    usual = [needed.reshape(costs.shape[1:]) for needed in largest(of_shards)]
    return Buckets(costs, filler, np.ceil(largest(sums)[:-1]).astype(np.int64), usual)


def _formed(costs: np.ndarray, order: np.ndarray, batch_size: int, filler: int) -> np.ndarray:
    """Form balanced minibatches of all examples in this order, the last one filled up: int32[steps * batch_size]."""
    if batch_size > 1:
        total = costs
        if costs.ndim > 1:  # each list relative to what a minibatch has of it
            mean = np.maximum(costs.mean(axis=0) * batch_size, LEAST)
            total = np.rint(costs @ (SCALE / mean)).astype(np.int64)
        order = balanced(total, order, batch_size)
    return _filled(order, batch_size, filler)


def _filled(visits: np.ndarray, batch_size: int, filler: int) -> np.ndarray:
    return np.append(visits, np.full(-len(visits) % batch_size, filler, np.int32))


def _sums(costs: np.ndarray, visits: np.ndarray, size: int) -> np.ndarray:
    """Return the entries of each list that each minibatch, or shard, of so many examples has: [minibatches, lists]."""
    of_lists = [entries[visits].reshape(-1, size).sum(axis=1, dtype=np.int64) for entries in _lists(costs)]
    return np.stack(of_lists, axis=1)


def _bounds(sizes: np.ndarray) -> np.ndarray:
    """Return the largest size in each bucket but the last.

    There are as few buckets as PADDING allows, and of these divisions it is the one with the least padding. Sizes of
    one `capacity_step` are in the same bucket. The least padding of k buckets for the sizes up to each step follows
    from that of k - 1 buckets.
    """
    values, of_value = np.unique(sizes, return_inverse=True)
    steps, at = np.unique([capacity_step(value) for value in values], return_inverse=True)
    at = at[of_value]
    number = np.bincount(at)
    before = np.concatenate([[0], np.cumsum(number)])
    # the capacity of sizes i … j-1 in one bucket, for i < j
    single = np.where(np.tri(len(steps), dtype=bool).T, (before[None, 1:] - before[:-1, None]) * steps[None], np.inf)
    cuts: list[np.ndarray] = []
    least = single[0]
    while least[-1] > PADDING * np.maximum(sizes, LEAST).sum() and len(cuts) < min(MOST_BUCKETS, len(steps)) - 1:
        with_one_more = least[:-1, None] + single[1:]
        cuts.append(np.argmin(with_one_more, axis=0))
        least = np.min(with_one_more, axis=0)
    last, found = len(steps) - 1, []
    for cut in reversed(cuts):
        last = cut[last]
        found.append(sizes[at == last].max())
    return np.array(found[::-1])


def plan(bucketed: Buckets, order: np.ndarray, batch_size: int, shards: int, key: jax.Array) -> EpochPlan:
    """Divide an epoch's examples into minibatches, and choose the capacity of each.

    The epoch's last minibatch may be short; it is filled up with the smallest example, at weight 0.

    Args:
        bucketed: from `buckets` with the same batch_size and shards.
        order: int32[N], the examples in the order of this epoch.
        batch_size: examples of a minibatch.
        shards: devices that share a minibatch.
        key: of the epoch; draws the order of runs.
    """
    costs, filler, bounds, usual = bucketed
    steps, shard_size = -(-len(order) // batch_size), batch_size // shards
    if bounds is None:
        visits = _filled(order, batch_size, filler)
        return EpochPlan(visits, [Stretch(0, steps, _capacity(costs, visits, shard_size, usual[0]))])
    minibatches = _formed(costs, order, batch_size, filler).reshape(steps, batch_size)
    sums = _sums(costs, minibatches.ravel(), batch_size)
    of = np.sum(np.any(sums[None] > bounds[:, None], axis=2), axis=0)
    needed = {n: _capacity(costs, minibatches[of == n].ravel(), shard_size, usual[n]) for n in np.unique(of).tolist()}
    whole, length = len(order) // batch_size, steps if len(usual) == 1 else -(-steps // RUNS)  # of a run
    runs: list[np.ndarray] = []
    for n in needed:
        members = np.flatnonzero(of[:whole] == n)
        runs += [members[part : part + length] for part in range(0, len(members), length)]
    if len(runs) > 1:
        drawn = permutation(jax.random.fold_in(key, 1), np.int32(len(runs)), capacity_step(len(runs)))
        runs = [runs[i] for i in np.asarray(drawn)[: len(runs)]]
    if whole < steps:
        runs.append(np.array([whole]))
    ends = np.cumsum([len(run) for run in runs]).tolist()
    stretches = [Stretch(end - len(run), end, needed[int(of[run[0]])]) for run, end in zip(runs, ends, strict=True)]
    return EpochPlan(minibatches[np.concatenate(runs)].ravel(), stretches)


def spread(start: Array, which: Array, capacity: int) -> tuple[Array, Array, Array]:
    """Concatenate the ranges start[w] … start[w + 1] - 1 for each w of `which`, padded to `capacity` entries.

    Args:
        start: int32 [ranges + 1].
        which: int32 [B].
        capacity: number of entries, static.

    Returns:
        For each entry, [capacity]: the index of its range in `which` (B for padding), its value (0 for padding), and
        whether it is real.
    """
    first, length = start[which], start[which + 1] - start[which]
    end = jnp.cumsum(length)
    owner = jnp.cumsum(jnp.zeros(capacity, jnp.int32).at[end].add(1, mode="drop"))
    place = jnp.arange(capacity, dtype=jnp.int32)
    at = jnp.minimum(owner, which.shape[0] - 1)
    real = place < end[-1]
    return owner, jnp.where(real, place + (first - end + length)[at], 0), real
