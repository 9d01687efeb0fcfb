"""Users' rating vectors on the device, and minibatches of them laid flat."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from jaxcf.data.ratings import Dataset, Pairs, Ratings, RatingScale, by_user, grouped, rated_sets
from jaxfit.minibatches.bucketing import capacity_step, spread


class Lists(NamedTuple):
    """One list of entries per user: user i has entries offsets[i] … offsets[i+1]-1."""

    offsets: Array  # int32 [num_users + 1]
    item: Array  # int32 [capacity], at least the number of entries
    value: Array  # [capacity]: stars, or levels 0 … K-1 (int8 for fewer than 128 levels); empty for items alone


class Data(NamedTuple):
    """Users' ratings, and what is predicted from them."""

    known: Lists  # the ratings; with `wanted`, those that are given
    wanted: Lists | None  # the ratings to predict from them
    rated: Lists | None  # what conditional models condition on: the items each user rated (f_v of §5.2.2)


class Entries(NamedTuple):
    """The concatenated lists of a minibatch of B users."""

    owner: Array  # int32 [n], the entry's user within the minibatch, B for padding
    item: Array  # int32 [n], the number of items for padding
    value: Array  # [n], stars float32, or levels int32


class Batch(NamedTuple):
    """A minibatch of users, with the entries of `Data`."""

    user: Array  # int32 [B]
    known: Entries
    wanted: Entries | None
    rated: Entries | None
    cd_steps: Any = None  # int32 scalar, T of CD-T, for models that are trained by it


def lists(ratings: Ratings, num_users: int, scale: RatingScale) -> Lists:
    """Return the ratings of each user, as levels, on the device."""
    offsets, item, stars = by_user(ratings, num_users)
    return on_device(offsets, item, scale.level(stars).astype(np.int8 if scale.levels < 128 else np.int32))


def wanted_lists(ratings: Ratings, num_users: int, scale: RatingScale) -> Lists:
    """Return each user's ratings to predict: as levels, or as stars if some lie between levels; none is rounded."""
    if scale.contains(ratings.stars).all():
        return lists(ratings, num_users, scale)
    return on_device(*by_user(ratings, num_users))


def on_device(offsets: NDArray[np.int32], item: NDArray[np.int32], value: NDArray[Any] | None = None) -> Lists:
    """Put lists of items on the device, with a value for each item, or without."""
    padded = np.zeros(0, np.int8) if value is None else _padded(value)
    return Lists(*jax.device_put((offsets, _padded(item), padded)))


def _padded(entries: NDArray[Any]) -> NDArray[Any]:
    """Pad to one of a few capacities, so that data of similar size share a compiled program."""
    return np.pad(entries, (0, capacity_step(len(entries)) - len(entries)))


def make_data(
    known: Ratings,
    num_users: int,
    scale: RatingScale,
    *,
    wanted: Ratings | None = None,
    rated: tuple[Ratings | Pairs, ...] | None = None,
) -> Data:
    """Lay out users' rating vectors on the device.

    Args:
        known: the known ratings.
        num_users: the number of users.
        scale: scale with steps, to which ratings are rounded.
        wanted: ratings to predict, for validation.
        rated: for conditional models, any number of sets of pairs whose union says which items a user rated; the stars
            of ratings among them are ignored.
    """
    return Data(
        lists(known, num_users, scale),
        None if wanted is None else wanted_lists(wanted, num_users, scale),
        None if rated is None else on_device(*rated_sets(*rated, num_users=num_users)),
    )


def training_data(
    data: Dataset, scale: RatingScale, rated: tuple[Ratings | Pairs, ...] | None = None
) -> tuple[Data, Data]:
    """Return training and validation data of a data set's users.

    Args:
        scale, rated: as in `make_data`.
    """
    users = data.catalogue.num_users
    known = make_data(data.train, users, scale, rated=rated)
    return known, known._replace(wanted=wanted_lists(data.valid, users, scale))


def costs(data: Data) -> NDArray[np.int64]:
    """Return the number of entries of each user in each of the lists: int64 [num_users, number of lists]."""
    return np.stack([np.diff(np.asarray(part.offsets)) for part in data if part is not None], axis=1)


def num_users(data: Data) -> int:
    """Return the number of users, with ratings or without."""
    return int(data.known.offsets.shape[0]) - 1


def num_events(data: Data) -> int:
    """Return the number of ratings that a score averages over: those to predict, or in training the known ones."""
    return int((data.known if data.wanted is None else data.wanted).offsets[-1])


def with_unknown_user(data: Data) -> Data:
    """Append a user without ratings, and drop the ratings to predict."""

    def appended(part: Lists) -> Lists:
        return part._replace(offsets=jnp.append(part.offsets, part.offsets[-1]))

    return Data(appended(data.known), None, None if data.rated is None else appended(data.rated))


def queries(user: ArrayLike, item: ArrayLike, num_users: int, num_items: int) -> tuple[Lists, NDArray[np.int32]]:
    """Return pairs to predict as lists of the users of `with_unknown_user`, and the pair of each entry, int32 [n].

    User -1 becomes the user without ratings, item -1 the number of items.
    """
    user, item = np.asarray(user, np.int32), np.asarray(item, np.int32)
    offsets, order = grouped(np.where(user < 0, num_users, user), num_users + 1)
    return on_device(offsets, np.where(item < 0, num_items, item)[order]), order


def gather(data: Data, index: Array, capacity: tuple[int, ...], config: Any) -> Batch:
    """Gather a minibatch of users.

    Args:
        index: int32 [B], the users.
        capacity: number of entries in each of the minibatch's lists.
        config: the model's Config, of which `num_items` is read.
    """
    capacities = iter(capacity)

    def entries(part: Lists | None) -> Entries | None:
        if part is None:
            return None
        owner, position, real = spread(part.offsets, index, next(capacities))
        item = jnp.where(real, part.item.at[position].get(mode="fill"), config.num_items)
        if not part.value.shape[0]:
            return Entries(owner, item, jnp.zeros_like(item))
        value = part.value.at[position].get(mode="fill")
        value = value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(jnp.int32)
        return Entries(owner, item, jnp.where(real, value, 0))

    known, wanted, rated = map(entries, data)
    assert known is not None
    return Batch(index, known, wanted, rated)
