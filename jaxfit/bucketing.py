"""Static room for minibatches of unequal examples: how much, and which minibatches share a compiled program.

A minibatch's ragged entries (a word's tree nodes, a user's ratings) are laid flat into arrays of a fixed size.
Large minibatches all need nearly the same capacity, and one size serves them. Minibatches of one or a few users do
not: a user of 2,000 ratings would size the room for one of 20. Then examples of like size are put together, each
bucket has its own compiled program, and runs of minibatches are visited in an order drawn by key, never bucket
after bucket. As each program takes seconds to compile, there are as few buckets as little padding allows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxfit.shuffle import permutation
from jaxfit.tables import Weights

LAYOUT = 3  # to be raised when equal epochs are laid out in another way: their checkpoints then are others
RUNS = 64  # of minibatches of the same bucket, in an epoch of several buckets
SINGLE_BUCKET = 2.0  # maximum padding ratio, on average, for a single bucket
BUCKET = 1.5  # likewise for one bucket in place of two, once there are several
LEAST = 128  # entries, under which nothing is saved

Room = int | tuple[int, ...]


class Stretch(NamedTuple):
    """The steps begin <= i < end of an epoch, whose minibatches fit into `room`."""

    begin: int
    end: int
    room: Room


class Plan(NamedTuple):
    """An epoch: visits, int32[steps * batch_size], examples (or equal groups of them, which are then what a batch is
    counted in) in order; and the stretches it is cut into.
    """

    visits: np.ndarray
    stretches: list[Stretch]


class Buckets(NamedTuple):
    """Which examples are put together, throughout a training.

    costs: int[N] or int[N, kinds], entries of each; of: int8[N], the bucket of each; usual: for each bucket the room,
    for each kind of entries, that nearly all of its minibatches need, or their equal parts where devices share them.
    """

    costs: np.ndarray
    of: np.ndarray
    usual: list[np.ndarray]


def capacity(costs: np.ndarray | None, visits: np.ndarray, shard_size: int) -> Room:
    """Static capacity for the ragged entries of any minibatch (or device's part of one) among these visits.

    costs: [N] or [N, kinds], entries per example; visits: the examples in order, fillers of the last minibatch
    included. One number for each kind. Chosen from fixed steps by costs and visits alone, so that a resumed
    epoch compiles to the same program.
    """
    return 0 if costs is None else _room(costs, visits, shard_size, _usual(costs, costs, shard_size))


def _room(costs: np.ndarray, visits: np.ndarray, shard_size: int, usual: np.ndarray) -> Room:
    most = costs[visits].reshape(-1, shard_size, *costs.shape[1:]).sum(axis=1, dtype=np.int64).max(axis=0)
    steps = [capacity_step(max(m, first)) for m, first in zip(np.ravel(most), np.ravel(usual), strict=True)]
    return tuple(steps) if costs.ndim > 1 else steps[0]


def _usual(costs: np.ndarray, company: np.ndarray, shard_size: int) -> np.ndarray:
    """Where the largest of some thousand minibatches of such examples lies: so that nearly all epochs need but one
    program.

    A normal distribution's, with the first term for skewness (Cornish and Fisher 1938); at most what there can be
    where minibatches are filled from `company`, costs of those and others.
    """
    mean, spread = costs.mean(axis=0), np.maximum(costs.std(axis=0), 1e-9)
    skewness = (((costs - mean) / spread) ** 3).mean(axis=0) / shard_size**0.5
    likely = mean * shard_size + (3.5 + (3.5**2 - 1) / 6 * skewness) * spread * shard_size**0.5
    number = min(shard_size, len(company))
    most = np.partition(company, len(company) - number, axis=0)[-number:].sum(axis=0, dtype=np.int64)
    return most if shard_size == 1 else np.minimum(likely, most)


def capacity_step(most: float) -> int:
    """One of 128, 144, 160, … that is enough: few, so that alike models compile to the same program."""
    octaves = np.ceil(8 * np.log2(max(most, LEAST) / LEAST)) / 8
    return int(-(-(LEAST * 2**octaves) // 8) * 8)


def buckets(costs: np.ndarray, batch_size: int, shards: int) -> Buckets:
    """Put examples of like size together, or all of them.

    From sizes a power of two apart, small ones first, as many as a bucket's room allows. Decided by whole
    minibatches, so that any number of devices gets the same ones.
    """
    of = np.zeros(len(costs), np.int8)
    if not _fits(costs, costs, batch_size, SINGLE_BUCKET):
        size = np.ceil(np.log2(np.maximum(costs.reshape(len(costs), -1).max(axis=1), 16)))
        number, members = 0, np.zeros(len(costs), bool)
        for kind in np.unique(size):
            joined = members | (size == kind)
            if members.any() and not _fits(costs[joined], costs[size <= kind], batch_size, BUCKET):
                number, joined = number + 1, size == kind
            of[size == kind], members = number, joined
    numbers = range(int(of.max(initial=0)) + 1)
    return Buckets(costs, of, [_usual(costs[of == n], costs[of <= n], batch_size // shards) for n in numbers])


def _fits(costs: np.ndarray, company: np.ndarray, batch_size: int, most: float) -> bool:
    """Whether one room for minibatches of these examples is at most so many times what is in them on average."""
    rooms = np.array([capacity_step(usual) for usual in np.ravel(_usual(costs, company, batch_size))])
    mean = np.ravel(costs.mean(axis=0)) * batch_size
    return bool(np.all(rooms <= most * np.maximum(mean, LEAST)))


def plan(
    bucketed: Buckets | None,
    order: np.ndarray,
    batch_size: int,
    shards: int,
    key: jax.Array,
) -> Plan:
    """Lay an epoch's examples, `order`, into minibatches, and say in which room each is run.

    bucketed: by the same batch_size and shards; None for examples of one size.
    What a bucket has too few of for a last whole minibatch moves up to the next. The last minibatch of all may be
    short; it is filled up with an example that costs little, whose weight is 0.
    """
    steps = -(-len(order) // batch_size)
    filler = 0 if bucketed is None else int(np.argmin(bucketed.costs.reshape(len(order), -1).sum(axis=1)))

    def filled(examples: np.ndarray) -> np.ndarray:
        missing = -len(examples) % batch_size
        return np.concatenate([examples, np.full(missing, filler, np.int32)]) if missing else examples

    if bucketed is None:
        return Plan(filled(order), [Stretch(0, steps, 0)])
    runs: list[tuple[np.ndarray, Room]] = []
    rest = np.zeros(0, np.int32)
    last = len(bucketed.usual) - 1
    length = (-(-steps // RUNS) if last else steps) * batch_size
    for number, usual in enumerate(bucketed.usual):
        examples = np.concatenate([rest, order[bucketed.of[order] == number]])
        whole = len(examples) if number == last else len(examples) // batch_size * batch_size
        examples, rest = examples[:whole], examples[whole:]
        if whole:
            needed = _room(bucketed.costs, filled(examples), batch_size // shards, usual)
            runs += [(examples[i : i + length], needed) for i in range(0, whole, length)]
    short = [run for run in runs if len(run[0]) % batch_size]
    runs = [run for run in runs if len(run[0]) % batch_size == 0]
    if len(runs) > 1:
        runs = [runs[i] for i in np.asarray(permutation(key, len(runs)))]
    stretches, at = [], 0
    for examples, needed in runs + short:
        end = at + -(-len(examples) // batch_size)
        stretches.append(Stretch(at, end, needed))
        at = end
    return Plan(filled(np.concatenate([examples for examples, _ in runs + short])), stretches)


def spread(start: Array, which: Array, capacity: int) -> tuple[Array, Array, Array]:
    """Lay the ranges start[w] … start[w + 1] - 1, for each w of `which` [B], end to end in `capacity` places.

    Returns for each place: which of the ranges it belongs to (B for padding), the position, and whether it is
    real.
    """
    first, length = start[which], start[which + 1] - start[which]
    end = jnp.cumsum(length)
    owner = jnp.cumsum(jnp.zeros(capacity, jnp.int32).at[end].add(1, mode="drop"))
    place = jnp.arange(capacity, dtype=jnp.int32)
    at = jnp.minimum(owner, which.shape[0] - 1)
    real = place < end[-1]
    return owner, jnp.where(real, place + (first - end + length)[at], 0), real


def dots(table: Weights, ids: Array, vectors: Array, owner: Array) -> Array:
    """table[ids[j, k]] · vectors[owner[j]]: int32 [n, K], [B, D], int32[n] -> [n, K].

    A sum along rows is written as some additions and a product with ones, as XLA does not vectorise plain sums on a
    CPU; nothing as large as [n, K, D] is held.
    """
    pieces = next(n for n in (4, 5, 3, 2, 1) if vectors.shape[1] % n == 0)
    width = vectors.shape[1] // pieces
    value, vectors = (
        table.value.reshape(-1, pieces, width),
        (table.scale * vectors).reshape(-1, pieces, width),
    )
    row, column = ids.reshape(-1), jnp.repeat(owner, ids.shape[1])
    partial = value.at[row, 0].get(mode="clip") * vectors.at[column, 0].get(mode="clip")
    for j in range(1, pieces):
        partial += value.at[row, j].get(mode="clip") * vectors.at[column, j].get(mode="clip")
    partial = lax.optimization_barrier(partial)  # not to be fused into a product that could not be one
    return (partial @ jnp.ones((width, 1), partial.dtype)).reshape(ids.shape)
