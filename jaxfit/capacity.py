"""Static room for minibatches of unequal examples: how much, and which minibatches share a compiled program.

A minibatch's ragged entries (a word's tree nodes, a user's ratings) are laid flat into arrays of a fixed size.
Large minibatches all need nearly the same room, and one size serves them. Minibatches of one or a few users do
not: a user of 2,000 ratings would size the room for one of 20. Then examples of like size are put together, each
bucket has its own compiled program, and runs of minibatches are visited in an order drawn by key, never bucket
after bucket. As each program takes seconds to compile, there are as few buckets as little padding allows.
"""

from typing import NamedTuple

import jax
import numpy as np

from jaxfit.order import permutation

RUNS = 64  # of minibatches of the same bucket, in an epoch of several buckets
ONE_ROOM = 2.0  # how much room over what is in it, on average, is borne to have a single bucket
BUCKET = 1.5  # likewise to have one bucket in place of two, once there are several
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

    of: int8[N], the bucket of each; usual: what nearly all minibatches of a bucket need, entries of each kind, as
    long as it is one device's part of a minibatch.
    """

    of: np.ndarray
    usual: list[np.ndarray]


def capacity(costs: np.ndarray | None, visits: np.ndarray, lane_size: int) -> Room:
    """Static room for the ragged entries of any minibatch (or device's part of one) among these visits.

    costs: [N] or [N, kinds], entries per example; visits: the examples in order, fillers of the last minibatch
    included. One number for each kind. Chosen from a fixed ladder by the visits alone, so that a resumed
    epoch compiles to the same program.
    """
    return 0 if costs is None else _room(costs, visits, lane_size, _usual(costs, lane_size))


def _room(costs: np.ndarray, visits: np.ndarray, lane_size: int, usual: np.ndarray) -> Room:
    most = costs[visits].reshape(-1, lane_size, *costs.shape[1:]).sum(axis=1, dtype=np.int64).max(axis=0)
    rungs = [rung(max(m, first)) for m, first in zip(np.ravel(most), np.ravel(usual), strict=True)]
    return tuple(rungs) if costs.ndim > 1 else rungs[0]


def _usual(costs: np.ndarray, lane_size: int) -> np.ndarray:
    """Where the largest of some thousand minibatches lies: so that nearly all epochs need but one program.

    A normal distribution's, with the first term for skewness (Cornish and Fisher 1938); of single examples, the most.
    """
    if lane_size == 1:
        return costs.max(axis=0)
    mean, spread = costs.mean(axis=0), np.maximum(costs.std(axis=0), 1e-9)
    skewness = (((costs - mean) / spread) ** 3).mean(axis=0) / lane_size**0.5
    return mean * lane_size + (3.5 + (3.5**2 - 1) / 6 * skewness) * spread * lane_size**0.5


def rung(most: float) -> int:
    """One of 128, 144, 160, … that is enough: few, so that alike models compile to the same program."""
    octaves = np.ceil(8 * np.log2(max(most, LEAST) / LEAST)) / 8
    return int(-(-(LEAST * 2**octaves) // 8) * 8)


def buckets(costs: np.ndarray | None, batch_size: int, lanes: int) -> Buckets | None:
    """Put examples of like size together, or all of them; None for examples of one size.

    From sizes a power of two apart, small ones first, as many as a bucket's room allows. Decided by whole
    minibatches, so that any number of devices gets the same ones.
    """
    if costs is None:
        return None
    if _fits(costs, batch_size, ONE_ROOM):
        return Buckets(np.zeros(len(costs), np.int8), [_usual(costs, batch_size // lanes)])
    size = np.ceil(np.log2(np.maximum(costs.reshape(len(costs), -1).max(axis=1), 16))).astype(np.int8)
    of, members = np.zeros(len(costs), np.int8), [np.zeros(len(costs), bool)]
    for kind in np.unique(size):
        joined = members[-1] | (size == kind)
        if members[-1].any() and not _fits(costs[joined], batch_size, BUCKET):
            members.append(size == kind)
        else:
            members[-1] = joined
        of[size == kind] = len(members) - 1
    return Buckets(of, [_usual(costs[alike], batch_size // lanes) for alike in members])


def _fits(costs: np.ndarray, batch_size: int, most: float) -> bool:
    """Whether one room for minibatches of these examples is at most so many times what is in them on average."""
    rooms = np.array([rung(usual) for usual in np.ravel(_usual(costs, batch_size))])
    mean = np.ravel(costs.mean(axis=0)) * batch_size
    return bool(np.all(rooms <= most * np.maximum(mean, LEAST)))


def plan(
    costs: np.ndarray | None,
    alike: Buckets | None,
    order: np.ndarray,
    batch_size: int,
    lanes: int,
    key: jax.Array,
) -> Plan:
    """Lay an epoch's examples, `order`, into minibatches, and say in which room each is run.

    What a bucket has too few of for a last whole minibatch moves up to the next. The last minibatch of all may be
    short; it is filled up with an example that costs little, whose weight is 0.
    """
    steps = -(-len(order) // batch_size)
    filler = 0 if costs is None else int(np.argmin(costs.reshape(len(order), -1).sum(axis=1)))

    def filled(examples: np.ndarray) -> np.ndarray:
        missing = -len(examples) % batch_size
        return np.concatenate([examples, np.full(missing, filler, np.int32)]) if missing else examples

    if costs is None or alike is None:
        return Plan(filled(order), [Stretch(0, steps, 0)])
    runs: list[tuple[np.ndarray, Room]] = []
    rest = np.zeros(0, np.int32)
    last = len(alike.usual) - 1
    length = (-(-steps // RUNS) if last else steps) * batch_size
    for number, usual in enumerate(alike.usual):
        examples = np.concatenate([rest, order[alike.of[order] == number]])
        whole = len(examples) if number == last else len(examples) // batch_size * batch_size
        examples, rest = examples[:whole], examples[whole:]
        if whole:
            needed = _room(costs, filled(examples), batch_size // lanes, usual)
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
