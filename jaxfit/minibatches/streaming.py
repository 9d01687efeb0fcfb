"""Training data that stay in the host's memory, or in its files: devices receive minibatches, some steps at a time.

The CPU gathers the minibatches of the next steps while an accelerator trains. A process gathers the shards of its own
devices alone, and reads no other examples. The order of examples, and what is trained, are those of data on devices.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding

from jaxfit.devices import sharding
from jaxfit.minibatches.bucketing import Capacity, Stretch, capacity_step
from jaxfit.minibatches.division import Division, Order
from jaxfit.program import Program

HELD = 1 << 26  # bytes of minibatches that a device receives at a time; it holds two such parts


class Stream:
    """Minibatches of data in the host's memory, for the devices of this process."""

    def __init__(self, program: Program, data: Any, size: int, division: Division, mesh: Mesh | None):
        """Prepare to gather minibatches.

        Args:
            program: what is trained.
            data: on the CPU.
            size: number of examples.
            division: of minibatches.
            mesh: devices; None for one.
        """
        self.program, self.division, self.mesh, self.size = program, division, mesh, size
        self.data = data
        devices: list[Any] = [None] if mesh is None else mesh.devices.ravel().tolist()
        mine = [n for n, device in enumerate(devices) if device is None or device.process_index == jax.process_index()]
        self.devices = [devices[n] for n in mine]
        self.own = np.array(mine if division.shards > 1 else [0], np.int32)  # shards

    def steps(self, capacity: Capacity) -> int:
        """Return for how many steps devices receive minibatches at a time."""
        gather = _gather(self.program, self.division, capacity, 1)
        number = np.int32(0)
        order = Order(np.zeros(self.division.batch_size // self.division.group_size, np.int32), number)
        shapes = jax.eval_shape(gather, self.data, order, number, number, self.own[:1])
        one = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
        most = capacity_step(-(-self.size // self.division.batch_size))
        return max(1, min(HELD // max(1, one), most))

    def cut(self, stretches: Sequence[Stretch]) -> list[Stretch]:
        """Cut stretches of an epoch into those for which devices receive minibatches at a time."""
        cut = []
        for begin, end, capacity in stretches:
            length = self.steps(capacity)
            cut += [Stretch(at, min(at + length, end), capacity) for at in range(begin, end, length)]
        return cut

    def minibatches(self, stretch: Stretch, order: Order) -> tuple[Any, Order]:
        """Put the minibatches of a stretch on the devices: arrays of [steps, shards, …], and their order.

        Args:
            stretch: one of `cut`.
            order: that has its steps, in the host's memory.
        """
        gather = _gather(self.program, self.division, stretch.capacity, self.steps(stretch.capacity))
        first = np.int32(stretch.begin)
        gathered = gather(self.data, order, np.int32(self.size), first, self.own)
        return self._placed(gathered), sharding.replicate(Order(np.zeros(0, np.int32), first), self.mesh)

    def _placed(self, gathered: Any) -> Any:
        if self.mesh is None or self.division.shards == 1:
            return sharding.replicate(gathered, self.mesh)
        spec, shards = NamedSharding(self.mesh, sharding.STREAMED), self.division.shards

        def place(array: Array) -> Array:
            parts = [jax.device_put(array[:, k : k + 1], device) for k, device in enumerate(self.devices)]
            return jax.make_array_from_single_device_arrays((len(array), shards, *array.shape[2:]), spec, parts)

        return jax.tree.map(place, gathered)


@lru_cache(maxsize=64)
def _gather(program: Program, division: Division, capacity: Capacity, steps: int) -> Callable[..., Any]:
    """Compile `gather(data, order, size, first, shards)`: these shards of the minibatches of `steps` steps."""

    def gather(data: Any, order: Order, size: Array, first: Array, shards: Array) -> Any:
        def minibatch(i: Array, shard: Array) -> Any:
            index = division.examples(i, shard, order, size)
            return program.batch(data, index, capacity, program.config)

        return lax.map(lambda i: lax.map(partial(minibatch, i), shards), first + jnp.arange(steps, dtype=jnp.int32))

    return jax.jit(gather)
