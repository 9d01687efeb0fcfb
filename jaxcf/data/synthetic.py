"""Ratings drawn from a planted PMF, so that the best possible prediction is known.

Users and movies are long-tailed: the activity of users and the popularity of movies are log-normal. A user rates
movies according to their popularity and the user's taste, so which movies are rated is informative, too. Ratings
are drawn for some millions of pairs at a time, those of a user in one chunk.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxcf.data import splits
from jaxcf.data.ratings import Catalogue, Dataset, Ratings, RatingScale, digest, join, take
from jaxfit.devices.precision import full_float32
from jaxfit.draws import normal

CHUNK = 1 << 21  # pairs proposed at a time


@dataclass(frozen=True)
class Planted:
    """The data to draw. Spreads are standard deviations, in stars unless noted otherwise."""

    num_users: int = 2_000
    num_items: int = 400
    num_ratings: int = 100_000  # approximate
    num_features: int = 4
    mean: float = 3.6
    user_spread: float = 0.35  # of b
    item_spread: float = 0.45  # of c
    feature_spread: float = 0.55  # of U·V
    noise: float = 0.75
    taste: float = 1.0  # how strongly U·V decides which movies a user rates; 0: not at all
    user_tail: float = 1.0  # spread of the logarithm of users' activity
    item_tail: float = 1.0  # spread of the logarithm of movies' popularity
    rounded: bool = True  # to whole stars of 1 to 5
    timed: bool = True  # with time stamps, in random order


NETFLIX = Planted(
    num_users=480_189, num_items=17_770, num_ratings=103_297_638, num_features=10,
    user_tail=1.27, item_tail=2.1, timed=False,
)  # fmt: skip
NETFLIX_SHARES = (1_408_395 / 103_297_638, 2_817_131 / 103_297_638)  # of the probe and of the qualifying set


class Truth(NamedTuple):
    """The planted model: ratings are mean + b_i + c_j + U_i·V_j plus noise (Eq. 5.20), rounded if so configured."""

    U: np.ndarray  # float32 [num_users, D]
    V: np.ndarray  # float32 [num_items, D]
    b: np.ndarray  # float32 [num_users]
    c: np.ndarray  # float32 [num_items]
    mean: float
    planted: Planted

    def predict(self, user: np.ndarray, item: np.ndarray) -> np.ndarray:
        """Return the expected ratings of pairs before rounding, float32."""
        product = np.einsum("nd,nd->n", self.U[user], self.V[item])
        return self.mean + self.b[user] + self.c[item] + product


@full_float32()
def planted(
    key: jax.Array,
    config: Planted = Planted(),
    valid: float = 0.1,
    test: float = 0.1,
    scheme: Literal["random", "thesis"] = "random",
) -> Dataset:
    """Draw a data set. The ids of users and movies are 1, 2, …; some may have no rating.

    Args:
        key: of all draws.
        config: what to draw.
        valid: expected share of validation ratings; not used by the thesis' scheme.
        test: expected share of test ratings, likewise.
        scheme: how they are chosen: at random, or the latest ratings of each user (`jaxcf.data.splits.thesis`).
    """
    _, draw_key, split_key = jax.random.split(key, 3)
    if scheme == "thesis":
        valid = test = 0.0  # all are drawn as training ratings, of which `splits.thesis` holds out the latest
    parts: list[list[Ratings]] = [[], [], []]
    for ratings, uniform in chunks(draw_key, true_model(key, config)):
        part = (uniform >= 1 - valid - test).astype(np.int8) + (uniform >= 1 - test)
        for i, pieces in enumerate(parts):
            pieces.append(take(ratings, part == i))
    train, validation, test_ratings = (join(*pieces) for pieces in parts)
    if scheme == "thesis":
        train, validation, test_ratings = splits.thesis(split_key, train)
    scale = RatingScale(1.0, 5.0, 1.0)
    if not config.rounded:
        stars = join(train, validation, test_ratings).stars
        scale = RatingScale(float(stars.min()), float(stars.max()), 0.0)
    catalogue = Catalogue(np.arange(1, config.num_users + 1), np.arange(1, config.num_items + 1), scale)
    note = f"drawn from a planted PMF of {config.num_features} features, {config.num_users} users, "
    note += f"{config.num_items} movies" + (", rounded to whole stars" if config.rounded else "")
    sha256 = digest(train, validation, catalogue)
    return Dataset("planted", train, validation, test_ratings, catalogue, sha256, note)


@full_float32()
def true_model(key: jax.Array, config: Planted = Planted()) -> Truth:
    """Draw the model that `planted` draws from, given the same key, from its priors (Eq. 5.16-5.19)."""
    keys = jax.random.split(jax.random.split(key, 3)[0], 4)
    spread = np.float32(np.sqrt(config.feature_spread / np.sqrt(config.num_features)))
    U = spread * np.asarray(normal(keys[0], (config.num_users, config.num_features)))
    V = spread * np.asarray(normal(keys[1], (config.num_items, config.num_features)))
    b = np.float32(config.user_spread) * np.asarray(jax.random.normal(keys[2], (config.num_users,)))
    c = np.float32(config.item_spread) * np.asarray(jax.random.normal(keys[3], (config.num_items,)))
    return Truth(U, V, b, c, config.mean, config)


def chunks(key: jax.Array, truth: Truth) -> Iterator[tuple[Ratings, np.ndarray]]:
    """Draw the ratings in chunks, each of which has all ratings of its users.

    Yields:
        ratings, and for each a uniform random number of [0, 1), float32, to split by.
    """
    config = truth.planted
    activity_key, popularity_key, key = jax.random.split(key, 3)
    deck = _deck(np.exp(config.item_tail * np.asarray(jax.random.normal(popularity_key, (config.num_items,)))))
    activity = np.exp(config.user_tail * np.asarray(jax.random.normal(activity_key, (config.num_users,)), np.float64))
    proposals = _proposals(activity, deck, config)
    ends = np.cumsum(proposals)
    size = min(CHUNK, 1 << int(ends[-1] - 1).bit_length())
    tables = jax.device_put(truth[:4])
    device_deck = jax.device_put(deck)
    begin, number = 0, 0
    while begin < config.num_users:
        before = ends[begin - 1] if begin else 0
        end = int(np.searchsorted(ends, before + size, side="right"))
        owner = np.repeat(np.arange(begin, end, dtype=np.int32), proposals[begin:end])
        pair_key, star_key = jax.random.split(jax.random.fold_in(key, number))
        item, accepted = _propose(pair_key, _padded(owner, size), tables[0], tables[1], device_deck, config)
        chosen = np.asarray(accepted)[: len(owner)]
        pairs = np.sort(owner[chosen].astype(np.int64) * config.num_items + np.asarray(item)[: len(owner)][chosen])
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # np.unique takes several times as long, since it hashes
        user, item = (x.astype(np.int32) for x in np.divmod(pairs, config.num_items))
        capacity = size if len(pairs) > size // 2 else size // 2  # most proposals are rejected or duplicates
        drawn = _rate(star_key, _padded(user, capacity), _padded(item, capacity), tables, config)
        stars, uniform, time = (np.asarray(x)[: len(pairs)] for x in drawn)
        times = time.astype(np.int64) + 946_684_800 if config.timed else None  # from the year 2000
        yield Ratings(user, item, stars, times), uniform
        begin, number = end, number + 1


def _deck(popularity: np.ndarray) -> np.ndarray:
    """Return an array of movies to draw from uniformly, each repeated in proportion to its popularity.

    Its size is a power of two, and each movie occurs at least once.
    """
    size = 1 << int(64 * len(popularity) - 1).bit_length()
    counts = 1 + np.floor(popularity / popularity.sum() * (size - len(popularity))).astype(np.int64)
    counts[np.argmax(counts)] += size - counts.sum()
    return np.repeat(np.arange(len(popularity), dtype=np.int32), counts)


def _proposals(activity: np.ndarray, deck: np.ndarray, config: Planted) -> np.ndarray:
    """Return the number of draws of each user for about `num_ratings` distinct ratings in total.

    K draws, each accepted with probability σ, give Σ_j 1 - (1 - σ w_j)^K distinct movies on average.
    """
    share = np.bincount(deck, minlength=config.num_items) / len(deck)
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    accepted = 1 / (1 + np.exp(-config.taste * nodes)) if config.taste else np.ones(5)
    draws = np.geomspace(1, CHUNK, 120)
    expected = np.zeros(len(draws))
    for sigma, weight in zip(accepted, weights / weights.sum(), strict=True):
        stay = np.log1p(-np.minimum(sigma * share, 1 - 1e-9))
        expected += weight * np.array([-np.expm1(K * stay).sum() for K in draws])
    most = min(config.num_items / 2, expected[-1])
    low, high = 0.0, config.num_items / activity.min()
    for _ in range(60):  # bisection for the number of ratings per unit of activity
        middle = (low + high) / 2
        wanted = np.clip(middle * activity, 2, most)
        low, high = (middle, high) if wanted.sum() < config.num_ratings else (low, middle)
    return np.maximum(1, np.round(np.interp(wanted, expected, draws))).astype(np.int64)


def _padded(values: np.ndarray, size: int) -> jax.Array:
    return jax.device_put(np.concatenate([values, np.zeros(size - len(values), values.dtype)]))


@functools.partial(jax.jit, static_argnums=5)
def _propose(
    key: jax.Array, owner: jax.Array, U: jax.Array, V: jax.Array, deck: jax.Array, config: Planted
) -> tuple[jax.Array, jax.Array]:
    """Draw a movie for each owner, and whether it is accepted: with probability σ(taste · standardised U·V)."""
    draw_key, accept_key = jax.random.split(key)
    shift = 32 - (deck.shape[0].bit_length() - 1)
    item = deck[jax.random.bits(draw_key, owner.shape) >> shift]
    if not config.taste:
        return item, jnp.ones(owner.shape, bool)
    product = jnp.sum(U[owner] * V[item], axis=1) / config.feature_spread
    return item, jax.random.uniform(accept_key, owner.shape) < jax.nn.sigmoid(config.taste * product)


@functools.partial(jax.jit, static_argnums=4)
def _rate(
    key: jax.Array, user: jax.Array, item: jax.Array, tables: tuple[jax.Array, ...], config: Planted
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draw stars, a uniform number and a time, in seconds within about eight years, for each pair."""
    U, V, b, c = tables
    noise_key, uniform_key, time_key = jax.random.split(key, 3)
    stars = config.mean + b[user] + c[item] + jnp.sum(U[user] * V[item], axis=1)
    stars = stars + config.noise * jax.random.normal(noise_key, user.shape)
    if config.rounded:
        stars = jnp.clip(jnp.round(stars), 1.0, 5.0)
    uniform = jax.random.uniform(uniform_key, user.shape)
    shape = user.shape
    time = jax.random.randint(time_key, shape, 0, 1 << 28) if config.timed else jnp.zeros(shape, jnp.int32)
    return stars, uniform, time
