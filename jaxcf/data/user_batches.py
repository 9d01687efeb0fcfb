"""Users' rating vectors on the device, and minibatches of them laid flat."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from jaxcf.data.ratings import Pairs, Ratings, Scale, by_user, grouped, rated_sets
from jaxfit.bucketing import spread


class Lists(NamedTuple):
    """One list a user: user i has entries offsets[i] … offsets[i+1]-1.

    offsets: int32 [users + 1]; item: int32 [entries and room]; value: int8 (int32 from 128 values on),
    likewise, 0 … K-1; empty where there are identities only.
    """

    offsets: Array
    item: Array
    value: Array


class Data(NamedTuple):
    """The known ratings of each user; the ratings to predict from them (None in training); and whom it rated.

    rated: the identities that conditional models condition on (f_v of §5.2.2), None for others.
    """

    known: Lists
    wanted: Lists | None
    rated: Lists | None


class Entries(NamedTuple):
    """The lists of a minibatch, end to end: owner int32[n], whose of the B users an entry is, B for padding.

    item: int32[n], the number of items for padding; value: int32[n], 0 … K-1.
    """

    owner: Array
    item: Array
    value: Array


class Batch(NamedTuple):
    """A minibatch of users: user int32[B]; cd_steps: int32 scalar, T of CD-T."""

    user: Array
    known: Entries
    wanted: Entries | None
    rated: Entries | None
    cd_steps: Array


def lists(ratings: Ratings, num_users: int, scale: Scale) -> Lists:
    """One list for each of the users, on the device, with ratings numbered from 0."""
    offsets, item, stars = by_user(ratings, num_users)
    level = scale.level(stars).astype(np.int8 if scale.levels < 128 else np.int32)
    return Lists(jnp.asarray(offsets, jnp.int32), _roomy(np.asarray(item, np.int32)), _roomy(level))


def _roomy(entries: NDArray[Any]) -> Array:
    """On the device, with room up to a multiple of a 16th to an 8th: alike data compile to the same program."""
    number = max(len(entries), 16)
    grain = 1 << (number.bit_length() - 4)
    return jnp.asarray(np.pad(entries, (0, -(-number // grain) * grain - len(entries))))


def make_data(
    known: Ratings,
    num_users: int,
    scale: Scale,
    *,
    wanted: Ratings | None = None,
    rated: tuple[Ratings | Pairs, ...] | None = None,
) -> Data:
    """Users' rating vectors on the device.

    wanted: ratings to predict, for validation. rated: who rated what, for conditional models, as the union of any
    number of sets; what these hold of ratings is not read.
    """
    sets = None
    if rated is not None:
        offsets, item = rated_sets(*rated, num_users=num_users)
        sets = Lists(jnp.asarray(offsets), _roomy(item), jnp.zeros(0, jnp.int8))
    ask = None if wanted is None else lists(wanted, num_users, scale)
    return Data(lists(known, num_users, scale), ask, sets)


def costs(data: Data) -> NDArray[np.int64]:
    """Entries of each user in each of the lists that there are: int[users, kinds]."""
    return np.stack([np.diff(np.asarray(part.offsets)) for part in data if part is not None], axis=1)


def num_users(data: Data) -> int:
    """How many users the data have, with ratings or without."""
    return int(data.known.offsets.shape[0]) - 1


def num_events(data: Data) -> int:
    """How many ratings a score or a loss is about: those to predict, in training the known ones."""
    return int((data.known if data.wanted is None else data.wanted).offsets[-1])


def with_nobody(data: Data) -> Data:
    """One user more, of whom nothing is known; without the ratings to predict."""

    def longer(part: Lists | None) -> Lists | None:
        return None if part is None else part._replace(offsets=jnp.append(part.offsets, part.offsets[-1]))

    known = longer(data.known)
    assert known is not None
    return Data(known, None, longer(data.rated))


def queries(
    user: ArrayLike, item: ArrayLike, num_users: int, num_items: int
) -> tuple[Lists, NDArray[np.int32]]:
    """Pairs to predict as lists of `with_nobody`'s users, and which pair each entry is: int32[n].

    A user -1 becomes the one of whom nothing is known, a movie -1 one past the last.
    """
    user, item = np.asarray(user, np.int32), np.asarray(item, np.int32)
    user = np.where(user < 0, num_users, user).astype(np.int32)
    offsets, order = grouped(user, num_users + 1)
    items = np.where(item < 0, num_items, item)[order].astype(np.int32)
    return Lists(jnp.asarray(offsets, jnp.int32), _roomy(items), jnp.zeros(0, jnp.int8)), order


def gather(data: Data, index: Array, capacity: tuple[int, ...], num_items: int, cd_steps: int) -> Batch:
    """The users `index` int32[B]; capacity: room for each of the lists that there are."""
    rooms = iter(capacity)

    def entries(part: Lists | None) -> Entries | None:
        if part is None:
            return None
        owner, position, real = spread(part.offsets, index, next(rooms))
        item = jnp.where(real, part.item.at[position].get(mode="fill"), num_items)
        value = jnp.zeros_like(item)
        if part.value.shape[0]:
            value = jnp.where(real, part.value.at[position].get(mode="fill").astype(jnp.int32), 0)
        return Entries(owner, item, value)

    known, wanted, rated = map(entries, data)
    assert known is not None
    return Batch(index, known, wanted, rated, jnp.int32(cd_steps))
