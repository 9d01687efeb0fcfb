"""Which examples a step visits, in training or in scoring, and the part of them that each device takes."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax


class Order(NamedTuple):
    """The order in which some steps of an epoch visit the examples, batch_size / group_size places for each step.

    Attributes:
        visits: int32[...], of each place its example; or group g, which holds the examples from g * group_size on. A
            group that is not whole comes last. A sequential program's are not read.
        first: int32, the step that the first place belongs to.
    """

    visits: Any
    first: Any


class Division(NamedTuple):
    """How examples are divided into minibatches, and these into shards: hashable, as compiled programs depend on it.

    Attributes:
        batch_size: examples of a minibatch, on all devices.
        shards: of a minibatch.
        group_size: the number of neighbouring examples that are visited at once.
        sequential: whether the place in a minibatch is a stream, which visits its examples in their own order.
        streams: their number, if the places past them are fillers; 0: each place is a stream.
    """

    batch_size: int
    shards: int = 1
    group_size: int = 1
    sequential: bool = False
    streams: int = 0

    @property
    def shard_size(self) -> int:
        """The number of examples of a minibatch in each shard."""
        return self.batch_size // self.shards

    def steps(self, size: Any) -> Any:
        """Return the number of minibatches that `size` examples make."""
        return -(-size // (self.streams or self.batch_size))

    def places(self, shard: Array | int) -> Array:
        """Return the places in a minibatch that a shard takes, int32[shard_size]."""
        return shard * self.shard_size + jnp.arange(self.shard_size, dtype=jnp.int32)

    def examples(self, i: Array, shard: Array | int, order: Order | None, size: Array) -> Array:
        """Return the examples of step i that a shard takes, int32[shard_size].

        Args:
            i: number of the step; negative in the burn-in of streams, before their own examples.
            shard: of the minibatch.
            order: of the examples; None: that of the data.
            size: the number of all examples.
        """
        if self.sequential or order is None:
            return jnp.clip(self.positions(i, self.places(shard), size), 0, size - 1)
        groups = self.batch_size // self.group_size
        visited = lax.dynamic_slice(order.visits, ((i - order.first) * groups,), (groups,))
        if self.group_size > 1:
            visited = visited[:, None] * self.group_size + jnp.arange(self.group_size, dtype=jnp.int32)[None]
            visited = visited.reshape(-1)
        if self.shards == 1:
            return visited
        return lax.dynamic_slice(visited, (shard * self.shard_size,), (self.shard_size,))

    def weights(self, i: Array, places: Array, size: Array) -> Array:
        """Return 1 for places of step i that have an example of their own, 0 for those that are filled up: float32."""
        return (self.positions(i, places, size) < size).astype(jnp.float32)

    def used(self, i: Array, size: Array) -> Array:
        """Return the number of examples that step i visits."""
        if self.sequential:  # streams that still have a window
            return jnp.minimum(self.batch_size, -(-(size - i) // self.steps(size)))
        return jnp.minimum(self.batch_size, size - i * self.batch_size)

    def positions(self, i: Array, places: Array, size: Array) -> Array:
        """Return the positions of these places of step i in the order of the examples: int32, like `places`.

        They may be outside of the order: before it in the burn-in of the first stream, past it for fillers.
        """
        if self.sequential:  # fillers are past the last stream, where there are no examples
            return jnp.minimum(places, self.streams or self.batch_size) * self.steps(size) + i
        return i * self.batch_size + places
