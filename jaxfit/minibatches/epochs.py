"""The order in which epochs visit their examples.

It is a function of the key and the number of the epoch. Where examples are of one size, it is drawn for a window of
steps at a time, so that memory does not grow with their number. Where they are not, an epoch is laid out before it
begins.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxfit.devices.platform import platform
from jaxfit.devices.precision import for_thread
from jaxfit.draws import permutation, permuted
from jaxfit.minibatches.bucketing import Buckets, EpochPlan, Stretch, capacity_step, plan
from jaxfit.minibatches.division import Division, Order
from jaxfit.program import Program

WINDOW = 1 << 22  # places of an order that are drawn at a time


class Epochs:
    """The epochs of a training over the same data.

    Attributes:
        division: of examples into minibatches.
        sections: number of sections of the groups, which are visited one after another.
        steps: number of steps of an epoch.
        places: places of the order in a step: examples, or groups of them.
        window: steps whose order is drawn at a time.
    """

    def __init__(
        self, program: Program, size: int, division: Division, bucketed: Buckets | None, key: jax.Array,
        place: Callable[[Order], Order], planner: Executor, window: int | None = None,
    ):  # fmt: skip
        """Prepare the epochs over some data.

        Args:
            program: what is trained.
            size: number of examples.
            division: of examples into minibatches, and of these into the shards by which they are laid out.
            bucketed: how examples of unequal size are divided; None where they are of one size.
            key: of all orders.
            place: puts an order where it is read.
            planner: lays out epochs in the background.
            window: steps whose order is drawn at a time; None: as many as have WINDOW places.
        """
        self.size, self.division, self.bucketed, self.key, self.place = size, division, bucketed, key, place
        self.steps, self.places = -(-size // division.batch_size), division.batch_size // division.group_size
        self.sections = max(1, min(program.sections, size // division.group_size))
        self.window = window or max(1, WINDOW // self.places)
        self.planner, self.ahead = planner, dict[int, Future[EpochPlan]]()

    def plan(self, number: int) -> EpochPlan:
        """Cut an epoch into stretches; where examples are of unequal size, lay out its order, too."""
        if self.bucketed is None:
            length = self.steps if self.division.sequential else self.window
            firsts = range(0, self.steps, length)
            return EpochPlan(None, [Stretch(first, min(first + length, self.steps), 0) for first in firsts])
        ahead = self.ahead.get(number)
        return self._laid_out(*self._drawn(number)) if ahead is None else ahead.result()

    def plan_ahead(self, number: int) -> None:
        """Lay out an epoch in the background, while an accelerator trains."""
        self.ahead = {known: plan for known, plan in self.ahead.items() if known == number}
        if platform() != "cpu" and self.bucketed is not None and number not in self.ahead:
            laid_out = partial(self._laid_out, *self._drawn(number))
            self.ahead[number] = self.planner.submit(for_thread(laid_out))

    def orders(self, number: int, planned: EpochPlan) -> Callable[[Stretch], Order]:
        """Return a function that puts the order of a stretch of an epoch in its place, and keeps the last one."""
        capacity = capacity_step(self.steps)  # so that one program serves data sets of nearly the same size

        def order(begin: int) -> Order:
            if self.division.sequential:
                visits: Any = np.zeros(0, np.int32)
            elif planned.visits is None:
                groups, rest = divmod(self.size, self.division.group_size)
                of_epoch = np.uint32(number), np.uint32(groups), np.bool_(rest), np.uint32(begin * self.places)
                visits = _window(self.key, *of_epoch, min(capacity, self.window) * self.places, self.sections)
            else:
                visits = np.pad(planned.visits, (0, capacity * self.places - len(planned.visits)))
            return self.place(Order(visits, np.int32(begin)))

        kept = lru_cache(maxsize=1)(order)
        return lambda stretch: kept(stretch.begin if planned.visits is None else 0)

    def _drawn(self, number: int) -> tuple[jax.Array, jax.Array]:
        """Draw the key of an epoch and the order of all examples, without waiting for them."""
        return _epoch_order(self.key, np.uint32(number), np.int32(self.size), capacity_step(self.size))

    def _laid_out(self, key: jax.Array, order: jax.Array) -> EpochPlan:
        assert self.bucketed is not None
        return plan(self.bucketed, np.asarray(order)[: self.size], self.division.batch_size, self.division.shards, key)


@partial(jax.jit, static_argnums=3)
def _epoch_order(key: jax.Array, epoch: jax.Array, number: jax.Array, most: int) -> tuple[jax.Array, jax.Array]:
    """Return the key of an epoch, and the order of so many examples in it; one program, as each costs start-up time."""
    key = jax.random.fold_in(key, epoch)
    return key, permutation(key, number, most)


@partial(jax.jit, static_argnums=(5, 6))
def _window(
    key: jax.Array, epoch: jax.Array, groups: jax.Array, rest: jax.Array, first: jax.Array, number: int, sections: int
) -> jax.Array:
    """Return the elements first … first + number - 1 of an epoch's order of groups, int32[number].

    Sections come in a drawn order and have the same number of whole groups each. One drawn order of groups is used
    within all of them. Groups that are left over follow.

    Args:
        key: of all orders.
        epoch: its number.
        groups: how many whole ones there are; their order is drawn.
        rest: whether one that is not whole follows them.
        first: index of the first element that is wanted.
        number: of elements; those past the end are 0.
        sections: their number.
    """
    key, place = jax.random.fold_in(key, epoch), first + jnp.arange(number, dtype=jnp.uint32)
    last = jnp.where(rest & (place == groups), groups, 0).astype(jnp.int32)
    if sections == 1:
        drawn = permuted(key, groups, place)
    else:
        length = groups // sections
        section = permuted(jax.random.fold_in(key, 1), sections, place // length)
        drawn = section * length.astype(jnp.int32) + permuted(key, length, place % length)
        drawn = jnp.where(place < sections * length, drawn, place.astype(jnp.int32))
    return jnp.where(place < groups, drawn, last)


def group_size(program: Program, size: int, batch_size: int) -> int:
    """Return the number of examples visited at once, such that a minibatch holds at least two whole groups."""
    most = min(program.group_size, size, batch_size // 2)
    return max(number for number in range(1, max(1, most) + 1) if batch_size % number == 0)
