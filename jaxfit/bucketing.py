"""Static capacity for minibatches of unequal examples: how much, and which minibatches share a compiled program.

A minibatch's ragged entries (a word's tree nodes, a user's ratings) are concatenated into arrays of a fixed capacity.
Large minibatches all need nearly the same capacity, and one program serves them. Minibatches of one or a few users do
not: the capacity for a user of 2,000 ratings would be wasted on one of 20. Then examples of similar size form a bucket,
each bucket has its own compiled program, and runs of minibatches are visited in an order drawn by key, never bucket
after bucket. As each program takes seconds to compile, there are as few buckets as the limit on padding allows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxfit.devices.platform import block, platform
from jaxfit.draws import permutation

LAYOUT = 4  # version of `plan` and of draws: a training can be resumed only by the same one
RUNS = 64  # of minibatches of one bucket, about so many in an epoch of several buckets
SINGLE_BUCKET = 2.0  # maximum mean padding ratio for a single bucket
BUCKET = 1.5  # maximum mean padding ratio for one bucket of several
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
    """Which examples share a compiled program, throughout a training.

    Attributes:
        costs: int[N] or int[N, lists], entries of each example; of the smallest type, each list contiguous.
        of: int8[N], each example's bucket; None where all share one.
        filler: the example of fewest entries.
        usual: for each bucket the capacity, for each list of entries, that nearly all shards of its minibatches need.
    """

    costs: np.ndarray
    of: np.ndarray | None
    filler: int
    usual: list[np.ndarray]


def capacity(costs: np.ndarray | None, visits: np.ndarray, shard_size: int) -> Capacity:
    """Static capacity for the ragged entries of any shard of a minibatch among these visits.

    It is one of few fixed values (`capacity_step`) and depends on costs and visits alone, so that a resumed epoch
    compiles to the same program.

    Args:
        costs: [N] or [N, lists], entries of each example; None where examples are of one size.
        visits: the examples in order, fillers of the last minibatch included.
        shard_size: examples of a minibatch on each device.
    """
    return 0 if costs is None else _capacity(costs, visits, shard_size, _usual(costs, costs, shard_size))


def _capacity(costs: np.ndarray, visits: np.ndarray, shard_size: int, usual: np.ndarray) -> Capacity:
    steps = []
    for entries, first in zip(_lists(costs), np.ravel(usual), strict=True):
        most = entries[visits].reshape(-1, shard_size).sum(axis=1, dtype=np.int64).max()
        steps.append(capacity_step(max(most, first)))
    return tuple(steps) if costs.ndim > 1 else steps[0]


def _lists(costs: np.ndarray) -> list[np.ndarray]:
    """Return the entries of each example, [N], for each list."""
    return list(costs.T) if costs.ndim > 1 else [costs]


def _usual(costs: np.ndarray, all_costs: np.ndarray, shard_size: int) -> np.ndarray:
    """The most entries expected in some thousand shards of such examples, so that nearly all epochs need one program.

    It is a quantile of the normal distribution with the first term for skewness (Cornish and Fisher 1938), and at most
    what the largest shard can hold.

    Args:
        costs: of the examples that shards are drawn from.
        all_costs: of these and of others that may fill up a minibatch.
        shard_size: examples of a shard.
    """
    # moments and largest costs follow from histograms, far faster than from the costs themselves
    histograms = [np.bincount(entries) for entries in _lists(costs)]
    of_all = histograms if all_costs is costs else [np.bincount(entries) for entries in _lists(all_costs)]
    usual = [_usual_of(*both, shard_size) for both in zip(histograms, of_all, strict=True)]
    return np.array(usual).reshape(costs.shape[1:])


def _usual_of(histogram: np.ndarray, of_all: np.ndarray, shard_size: int) -> float:
    """Compute `_usual` of one list, from the histograms of its costs."""
    number, cost = histogram.sum(), np.arange(len(histogram))
    mean = histogram @ cost / number
    spread = max(np.sqrt(histogram @ (cost - mean) ** 2 / number), 1e-9)
    skewness = histogram @ ((cost - mean) / spread) ** 3 / number / shard_size**0.5
    likely = mean * shard_size + (3.5 + (3.5**2 - 1) / 6 * skewness) * spread * shard_size**0.5
    taken = np.minimum(np.cumsum(of_all[::-1]), shard_size)  # of the largest examples
    most = np.diff(taken, prepend=0) @ np.arange(len(of_all))[::-1]
    return float(most) if shard_size == 1 else min(likely, float(most))


def capacity_step(most: float) -> int:
    """The smallest of 128, 144, 160, … that is at least `most`: few values, so that few programs are compiled."""
    octaves = np.ceil(8 * np.log2(max(most, LEAST) / LEAST)) / 8
    return int(-(-(LEAST * 2**octaves) // 8) * 8)


def buckets(costs: np.ndarray, batch_size: int, shards: int) -> Buckets:
    """Divide examples into buckets by size; into one, where padding allows it.

    Sizes a power of two apart are joined, smallest first, as long as the padding of whole minibatches allows it: the
    buckets do not depend on the number of devices.
    """
    filler = int(np.argmin(costs.reshape(len(costs), -1).sum(axis=1)))
    costs = np.asfortranarray(costs, np.min_scalar_type(costs.max(initial=0)))
    if _fits(costs, costs, batch_size, SINGLE_BUCKET):
        return Buckets(costs, None, filler, [_usual(costs, costs, batch_size // shards)])
    of = np.zeros(len(costs), np.int8)
    size = np.ceil(np.log2(np.maximum(costs.reshape(len(costs), -1).max(axis=1), 16)))
    number, members = 0, np.zeros(len(costs), bool)
    for kind in np.unique(size):
        joined = members | (size == kind)
        if members.any() and not _fits(costs[joined], costs[size <= kind], batch_size, BUCKET):
            number, joined = number + 1, size == kind
        of[size == kind], members = number, joined
    numbers = range(int(of.max(initial=0)) + 1)
    return Buckets(costs, of, filler, [_usual(costs[of == n], costs[of <= n], batch_size // shards) for n in numbers])


def _fits(costs: np.ndarray, all_costs: np.ndarray, batch_size: int, most: float) -> bool:
    """Whether one capacity for minibatches of these examples is at most so many times their mean number of entries."""
    capacities = np.array([capacity_step(usual) for usual in np.ravel(_usual(costs, all_costs, batch_size))])
    mean = np.ravel(costs.mean(axis=0)) * batch_size
    return bool(np.all(capacities <= most * np.maximum(mean, LEAST)))


def plan(bucketed: Buckets, order: np.ndarray, batch_size: int, shards: int, key: jax.Array) -> EpochPlan:
    """Divide an epoch's examples into minibatches, and choose the capacity of each.

    Examples that do not fill a bucket's last minibatch move to the next bucket. The epoch's last minibatch may be
    short; it is filled up with the smallest example, at weight 0.

    Args:
        bucketed: by the same batch_size and shards.
        order: int32[N], the examples in the order of this epoch.
        batch_size: examples of a minibatch.
        shards: devices that share a minibatch.
        key: of the epoch; draws the order of runs.
    """
    steps = -(-len(order) // batch_size)

    def filled(examples: np.ndarray) -> np.ndarray:
        missing = -len(examples) % batch_size
        return np.concatenate([examples, np.full(missing, bucketed.filler, np.int32)]) if missing else examples

    if bucketed.of is None:
        visits = filled(order)
        needed = _capacity(bucketed.costs, visits, batch_size // shards, bucketed.usual[0])
        return EpochPlan(visits, [Stretch(0, steps, needed)])
    runs: list[tuple[np.ndarray, Capacity]] = []
    rest = np.zeros(0, np.int32)
    last, length = len(bucketed.usual) - 1, -(-steps // RUNS) * batch_size
    for number, usual in enumerate(bucketed.usual):
        examples = np.concatenate([rest, order[bucketed.of[order] == number]])
        whole = len(examples) if number == last else len(examples) // batch_size * batch_size
        examples, rest = examples[:whole], examples[whole:]
        if whole:
            needed = _capacity(bucketed.costs, filled(examples), batch_size // shards, usual)
            runs += [(examples[i : i + length], needed) for i in range(0, whole, length)]
    short = [run for run in runs if len(run[0]) % batch_size]
    runs = [run for run in runs if len(run[0]) % batch_size == 0]
    if len(runs) > 1:
        drawn = permutation(jax.random.fold_in(key, 1), np.int32(len(runs)), capacity_step(len(runs)))
        runs = [runs[i] for i in np.asarray(drawn)[: len(runs)]]
    stretches, at = [], 0
    for examples, needed in runs + short:
        end = at + -(-len(examples) // batch_size)
        stretches.append(Stretch(at, end, needed))
        at = end
    return EpochPlan(filled(np.concatenate([examples for examples, _ in runs + short])), stretches)


def spread(start: Array, which: Array, capacity: int) -> tuple[Array, Array, Array]:
    """Concatenate the ranges start[w] … start[w + 1] - 1, for each w of `which` [B], padded to `capacity` entries.

    Returns:
        Of each entry: the number of its range (B for padding), its value, and whether it is no padding.
    """
    first, length = start[which], start[which + 1] - start[which]
    end = jnp.cumsum(length)
    owner = jnp.cumsum(jnp.zeros(capacity, jnp.int32).at[end].add(1, mode="drop"))
    place = jnp.arange(capacity, dtype=jnp.int32)
    at = jnp.minimum(owner, which.shape[0] - 1)
    real = place < end[-1]
    return owner, jnp.where(real, place + (first - end + length)[at], 0), real


def dots(table: Array, ids: Array, vectors: Array, owner: Array) -> Array:
    """table[ids[j, k]] · vectors[owner[j]]: [rows, D], int32 [n, K], [B, D], int32[n] -> [n, K].

    On a CPU a sum along rows is written as some additions and a product with ones, as XLA does not vectorise plain
    sums there; no array of [n, K, D] is needed. Elsewhere there may be one, in blocks by memory.
    """
    if platform() != "cpu":
        return _dots_in_blocks(table, ids, vectors, owner)
    pieces = next(n for n in (4, 5, 3, 2, 1) if vectors.shape[1] % n == 0)
    width = vectors.shape[1] // pieces
    table, vectors = table.reshape(-1, pieces, width), vectors.reshape(-1, pieces, width)
    row, column = ids.reshape(-1), jnp.repeat(owner, ids.shape[1])
    partial = table.at[row, 0].get(mode="clip") * vectors.at[column, 0].get(mode="clip")
    for j in range(1, pieces):
        partial += table.at[row, j].get(mode="clip") * vectors.at[column, j].get(mode="clip")
    partial = lax.optimization_barrier(partial)  # not to be fused into a product that could not be one
    return (partial @ jnp.ones((width, 1), partial.dtype)).reshape(ids.shape)


def _dots_in_blocks(table: Array, ids: Array, vectors: Array, owner: Array) -> Array:
    """Compute `dots` by multiplying and summing gathered rows, in blocks that memory allows."""

    def of_block(part: tuple[Array, Array]) -> Array:
        ids, owner = part
        return jnp.sum(table.at[ids].get(mode="clip") * vectors.at[owner].get(mode="clip")[:, None], axis=-1)

    n, K = ids.shape
    number = block(n, K * vectors.shape[1])
    if number == n:
        return of_block((ids, owner))
    padded = [jnp.pad(x, ((0, -n % number), *[(0, 0)] * (x.ndim - 1))) for x in (ids, owner)]
    blocks = [x.reshape(-1, number, *x.shape[1:]) for x in padded]
    return lax.map(of_block, tuple(blocks)).reshape(-1, K)[:n]
