"""Data that stay in the host's memory, or in its files: devices receive blocks of minibatches.

The CPU gathers the next block while the devices work on the one before. A process gathers its own devices' shards alone
(where the compiler splits tables, whole minibatches), and reads no other examples. The order of examples, and what is
trained, are those of data on the devices.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding

from jaxfit.devices import sharding
from jaxfit.devices.platform import default_device
from jaxfit.devices.precision import for_thread
from jaxfit.minibatches.bucketing import Capacity, Stretch
from jaxfit.minibatches.division import Division, Order
from jaxfit.program import Program

BLOCK_BYTES = 1 << 24  # of a device's minibatches; it holds two blocks
BLOCKS = 8  # about so many in an epoch, or more


class Block(NamedTuple):
    """The minibatches of some steps, in place of the data.

    Attributes:
        batches: like a minibatch, with arrays [shards, steps, …]; None for the arrays that all minibatches share.
        shared: like a minibatch: the arrays that all minibatches share; None for the others.
        first: int32, the first step.
    """

    batches: Any
    shared: Any
    first: Any

    def at(self, i: Array) -> Any:
        """Return this shard of the minibatch of step i."""
        own = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x[0], i - self.first, keepdims=False), self.batches)
        return jax.tree.map(lambda x, y: y if x is None else x, own, self.shared, is_leaf=lambda x: x is None)


class _Form(NamedTuple):
    """What the minibatches of one capacity consist of.

    Attributes:
        tree: their structure.
        of_data: for each of their arrays, its place among the arrays of the data, if it is one of them.
        steps: steps of a block.
    """

    tree: Any
    of_data: tuple[int | None, ...]
    steps: int


SPECS = Block(sharding.SHARDED, sharding.WHOLE, sharding.WHOLE)  # how blocks are split over devices
NO_ORDER = Order(np.zeros(0, np.int32), np.int32(0))


class HostData:
    """Data in the host's memory, and the blocks of minibatches that are gathered of them."""

    def __init__(
        self, program: Program, data: Any, size: int, division: Division, mesh: Mesh | None,
        blocks: int | None = None,
    ):  # fmt: skip
        """Prepare to gather minibatches.

        Args:
            program: whose data they are.
            data: on the CPU.
            size: number of examples.
            division: of minibatches.
            mesh: devices; None for one.
            blocks: about so many in an epoch, or more, as BLOCK_BYTES allow; None: BLOCKS.
        """
        self.program, self.data, self.size, self.division, self.mesh = program, data, size, division, mesh
        self.max_steps = _rounded(-(-size // (division.batch_size * (blocks or BLOCKS))))  # of a block
        devices: list[Any] = [None] if mesh is None else mesh.devices.ravel().tolist()
        me = jax.process_index()
        self.devices = {n: device for n, device in enumerate(devices) if device is None or device.process_index == me}
        self.replicate: Callable[[Any], Any] = partial(sharding.replicate, mesh=mesh)
        if mesh is None:  # the default device of this thread, which is not that of others
            self.replicate = partial(jax.device_put, device=default_device())
        self.forms: dict[Capacity, _Form] = {}
        self.shared: dict[tuple[int | None, ...], list[Any]] = {}
        self.held: dict[Stretch, Future[Block]] = {}
        self.worker = ThreadPoolExecutor(1)  # gathers while this thread waits for the devices

    def steps(self, capacity: Capacity) -> int:
        """Return how many steps a block of minibatches of this capacity has."""
        return self._form(capacity).steps

    def cut(self, stretches: Sequence[Stretch]) -> list[Stretch]:
        """Cut stretches of an epoch into those of a block each."""
        cut: list[Stretch] = []
        for begin, end, capacity in stretches:
            length = self.steps(capacity)
            cut += [Stretch(at, min(at + length, end), capacity) for at in range(begin, end, length)]
        return cut

    def prepare(self, stretch: Stretch, order: Callable[[Stretch], Order | None] = lambda _: None) -> None:
        """Begin to put the minibatches of a stretch on the devices; this block and the one before are kept.

        Args:
            stretch: one of `cut`.
            order: (stretch) -> an order that has its steps, on the CPU; or None for the order of the data.
        """
        if stretch not in self.held:
            for earlier in list(self.held)[:-1]:
                del self.held[earlier]
            self.held[stretch] = self.worker.submit(for_thread(self._gathered), stretch, order)

    def block(self, stretch: Stretch, order: Callable[[Stretch], Order | None] = lambda _: None) -> Block:
        """Return the minibatches of a stretch, on the devices; arguments as in `prepare`."""
        self.prepare(stretch, order)
        self.held[stretch] = block = self.held.pop(stretch)  # the newest: `prepare` of the next one keeps it
        return block.result()

    def forget(self) -> None:
        """Drop the blocks."""
        self.held.clear()

    def _form(self, capacity: Capacity) -> _Form:
        if capacity not in self.forms:
            index = jax.ShapeDtypeStruct((self.division.shard_size,), np.int32)
            traced, shapes = jax.make_jaxpr(
                lambda data, index: self.program.batch(data, index, capacity, self.program.config), return_shape=True
            )(self.data, index)
            given = {id(variable): n for n, variable in enumerate(traced.jaxpr.invars[:-1])}  # without the index
            of_data = tuple(given.get(id(variable)) for variable in traced.jaxpr.outvars)
            leaves, tree = jax.tree.flatten(shapes)
            own = [leaf for leaf, place in zip(leaves, of_data, strict=True) if place is None]
            size = sum(leaf.size * leaf.dtype.itemsize for leaf in own)
            self.forms[capacity] = _Form(tree, of_data, max(1, min(BLOCK_BYTES // max(1, size), self.max_steps)))
        return self.forms[capacity]

    def _gathered(self, stretch: Stretch, order: Callable[[Stretch], Order | None]) -> Block:
        tree, of_data, steps = self._form(stretch.capacity)
        if of_data not in self.shared:
            leaves = jax.tree.leaves(self.data)
            self.shared[of_data] = self.replicate([None if n is None else leaves[n] for n in of_data])
        gather = _gather(self.program, self.division, stretch.capacity, steps, of_data)
        size, first, number = np.int32(self.size), np.int32(stretch.begin), np.int32(stretch.end - stretch.begin)
        shards, visits = self.devices if self.division.shards > 1 else [0], order(stretch)
        own = self._placed([gather(self.data, visits, size, first, number, np.int32(shard)) for shard in shards])
        batches = [own.pop(0) if n is None else None for n in of_data]
        return Block(tree.unflatten(batches), tree.unflatten(self.shared[of_data]), self.replicate(first))

    def _placed(self, parts: list[list[Array]]) -> list[Array]:
        """Put the arrays of each shard on its device."""
        if self.mesh is None or self.division.shards == 1:
            return self.replicate(parts[0])
        spec, number = NamedSharding(self.mesh, sharding.SHARDED), self.division.shards
        placed: list[Array] = []
        for arrays in zip(*parts, strict=True):
            own = [jax.device_put(array, device) for array, device in zip(arrays, self.devices.values(), strict=True)]
            placed.append(jax.make_array_from_single_device_arrays((number, *arrays[0].shape[1:]), spec, own))
        return placed


def _rounded(number: int) -> int:
    """Round up to one of few numbers, so that data of nearly the same size share a compiled program."""
    unit = 1 << max(0, number.bit_length() - 4)
    return -(-number // unit) * unit


@lru_cache(maxsize=64)
def _gather(
    program: Program, division: Division, capacity: Capacity, steps: int, of_data: tuple[int | None, ...]
) -> Callable[..., list[Array]]:
    """Compile `gather(data, order, size, first, number, shard)`: a shard of some minibatches, arrays [1, steps, …].

    Args:
        of_data: of each array of a minibatch the place among the data's, for those that are left out.
    """

    def gather(data: Any, order: Order | None, size: Array, first: Array, number: Array, shard: Array) -> list[Array]:
        def minibatch(i: Array) -> list[Array]:
            batch = program.batch(data, division.examples(i, shard, order, size), capacity, program.config)
            return [x for x, place in zip(jax.tree.leaves(batch), of_data, strict=True) if place is None]

        def put(k: Array, block: list[Array]) -> list[Array]:
            return [x.at[0, k].set(own) for x, own in zip(block, minibatch(first + k), strict=True)]

        empty = [jnp.zeros((1, steps, *x.shape), x.dtype) for x in jax.eval_shape(minibatch, first)]
        return lax.fori_loop(0, number, put, empty)

    return jax.jit(gather)
