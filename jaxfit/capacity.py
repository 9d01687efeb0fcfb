"""Static room for minibatches of unequal examples: how much, and which minibatches share a compiled program.

A minibatch's ragged entries (a word's tree nodes, a user's ratings) are laid flat into arrays of a fixed size.
Large minibatches all need nearly the same room, and one size serves them. Minibatches of one or a few users do
not: a user of 2,000 ratings would size the room for one of 20. Then examples of like size are put together, a
power of two apart, each bucket has its own compiled program, and runs of minibatches are visited in an order
drawn by key, never bucket after bucket.
"""

from typing import NamedTuple

import jax
import numpy as np

from jaxfit.order import permutation

RUNS = 64  # of minibatches of the same bucket, in an epoch of several buckets

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


def capacity(costs: np.ndarray | None, visits: np.ndarray, lane_size: int) -> Room:
    """Static room for the ragged entries of any minibatch (or device's part of one) among these visits.

    costs: [N] or [N, kinds], entries per example; visits: the examples in order, fillers of the last minibatch
    included. One number for each kind. Chosen from a fixed ladder by the visits alone, so that a resumed
    epoch compiles to the same program.
    """
    if costs is None:
        return 0
    return _room(costs, visits, lane_size, costs)


def _room(costs: np.ndarray, visits: np.ndarray, lane_size: int, alike: np.ndarray) -> Room:
    most = costs[visits].reshape(-1, lane_size, *costs.shape[1:]).sum(axis=1, dtype=np.int64).max(axis=0)
    # where the largest of some thousand minibatches lies: so that nearly all epochs need but one program
    usual = alike.mean(axis=0) * lane_size + 3.5 * alike.std(axis=0) * lane_size**0.5
    rungs = [rung(max(m, first)) for m, first in zip(np.ravel(most), np.ravel(usual), strict=True)]
    return tuple(rungs) if costs.ndim > 1 else rungs[0]


def rung(most: float) -> int:
    """One of 128, 144, 160, … that is enough: few, so that alike models compile to the same program."""
    octaves = np.ceil(8 * np.log2(max(most, 128.0) / 128)) / 8
    return int(-(-(128 * 2**octaves) // 8) * 8)


def plan(costs: np.ndarray | None, order: np.ndarray, batch_size: int, lanes: int, key: jax.Array) -> Plan:
    """Lay an epoch's examples, `order`, into minibatches, and say in which room each is run.

    Where one room would be more than twice what the minibatches need on average, examples go by size: what a
    bucket has too few of for a last whole minibatch moves up to the next. The last minibatch of all may be
    short; it is filled up with an example that costs little, whose weight is 0.
    """
    steps = -(-len(order) // batch_size)
    filler = 0 if costs is None else int(np.argmin(costs.reshape(len(order), -1).sum(axis=1)))

    def filled(examples: np.ndarray) -> np.ndarray:
        missing = -len(examples) % batch_size
        return np.concatenate([examples, np.full(missing, filler, np.int32)]) if missing else examples

    visits = filled(order)
    # decided by whole minibatches, so that any number of devices gets the same ones
    if costs is None or not _wasteful(costs, capacity(costs, visits, batch_size), batch_size):
        return Plan(visits, [Stretch(0, steps, capacity(costs, visits, batch_size // lanes))])

    size = costs.reshape(len(costs), -1).max(axis=1)[order]
    bucket = np.ceil(np.log2(np.maximum(size, 16))).astype(np.int64)
    runs: list[tuple[np.ndarray, Room]] = []
    rest = np.zeros(0, np.int32)
    length = -(-steps // RUNS) * batch_size
    kinds = np.unique(bucket)
    for kind in kinds:
        alike = order[bucket == kind]
        examples = np.concatenate([rest, alike])
        whole = len(examples) if kind == kinds[-1] else len(examples) // batch_size * batch_size
        examples, rest = examples[:whole], examples[whole:]
        if whole:
            # of a single example a bucket's bound is enough, whatever the epoch
            bound = np.full_like(costs[:1], 2**kind) if batch_size == lanes else costs[alike]
            needed = _room(costs, filled(examples), batch_size // lanes, bound)
            runs += [(examples[i : i + length], needed) for i in range(0, whole, length)]
    short = [run for run in runs if len(run[0]) % batch_size]
    runs = [run for run in runs if len(run[0]) % batch_size == 0]
    if runs:
        runs = [runs[i] for i in np.asarray(permutation(key, len(runs)))]
    stretches, at = [], 0
    for examples, needed in runs + short:
        end = at + -(-len(examples) // batch_size)
        stretches.append(Stretch(at, end, needed))
        at = end
    return Plan(filled(np.concatenate([examples for examples, _ in runs + short])), stretches)


def _wasteful(costs: np.ndarray, room: Room, batch_size: int) -> bool:
    mean = np.ravel(costs.mean(axis=0)) * batch_size
    return bool(np.any(np.ravel(room) > 2 * np.maximum(mean, 128)))
