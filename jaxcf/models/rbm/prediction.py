"""What an RBM predicts from users' known ratings, for a minibatch and for any number of pairs of user and item."""

import functools
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from jaxcf.contract import KnownUsers, Predictor
from jaxcf.data import user_batches
from jaxcf.data.user_batches import Batch, Data
from jaxcf.models.rbm.chains import hidden_bias, hidden_input, open_tables
from jaxcf.models.rbm.config import Config, expected_stars
from jaxfit.minibatches.bucketing import capacity
from jaxfit.rbm import hidden_free_energy
from jaxfit.row_products import dots, stored
from jaxfit.tables import gather, unscaled

USERS_AT_ONCE = 64
AHEAD = 1  # blocks of users that are computed while the answers of one are read


class Known(NamedTuple):
    """What is known of users, made once for any number of predictions.

    Attributes:
        data: of the users and, after them, one without ratings.
        costs: int64 [users + 1, lists], as `user_batches.costs`.
    """

    data: Data
    costs: NDArray[np.int64]


def make_known(data: Data) -> Known:
    """Return what `data` know of users; ratings to predict are left out."""
    data = user_batches.with_unknown_user(data)
    return Known(data, user_batches.costs(data))


def distribution(params: Any, batch: Batch, config: Config, exact: bool = False) -> Array:
    """Compute P(rating k of the movie | the user's known ratings) for each wanted entry, [n, K].

    By mean field, Eq. 5.10-5.11, or exactly, Eq. 5.9, each rating by itself; a wanted movie must not be among the known
    ones. Differs: Eq. 5.9 lacks the index j on W_l. A movie that is not in training (any past the last) gets the
    average biases.
    """
    assert batch.wanted is not None
    weights = type(params)._make(map(unscaled, params))
    (owner, item, _), K = batch.wanted, config.num_values
    read = open_tables(weights, batch)
    known_rows = batch.known.item * K + batch.known.value
    x = hidden_input(read.W, hidden_bias(read, batch), batch.known.owner, known_rows)
    own = jnp.minimum(owner, x.shape[0] - 1)
    rows = item[:, None] * K + jnp.arange(K, dtype=jnp.int32)[None]
    if exact:
        of_movie = gather(read.W, rows)
        logits = -hidden_free_energy(x[own][:, None] + of_movie) - config.center * jnp.sum(of_movie, axis=2)
    else:
        logits = dots(read.W.value, rows, stored(read.W.scale * (jax.nn.sigmoid(x) - config.center)), own)
    logits += params.b_m.at[item].get(mode="clip")
    average = jnp.mean(params.b_m, axis=0)[None]
    return jax.nn.softmax(jnp.where((item < config.num_items)[:, None], logits, average))


def score(params: Any, batch: Batch, config: Config) -> Array:
    """Return the squared error of the expected stars, by mean field, summed over each user's wanted ratings: [B]."""
    assert batch.wanted is not None
    stars = batch.wanted.value
    if not jnp.issubdtype(stars.dtype, jnp.floating):  # levels
        stars = config.low + config.step * stars
    error = jnp.square(expected_stars(distribution(params, batch, config), config) - stars)
    return jax.ops.segment_sum(error, batch.wanted.owner, batch.user.shape[0], indices_are_sorted=True)


def predict(
    params: Any, data: Data, user: ArrayLike, item: ArrayLike, config: Config, exact: bool = False
) -> NDArray[np.float32]:
    """Return P(rating k | what `data` know of the user) for pairs of user and item: int [n], [n] -> [n, K].

    `expected_stars` converts it to stars.

    Args:
        params: of the RBM, or of the conditional one, which also takes the rated items of `data`.
        data: what is known of users, in training or not.
        user: indices of users in `data`, -1 for a user without known ratings.
        item: indices of items, -1 for one that was not in training.
        config: the model's Config.
        exact: whether to predict by Eq. 5.9, in place of mean field.
    """
    return predict_by(params, make_known(data), user, item, config, exact)


def predict_by(
    params: Any, known: Known, user: ArrayLike, item: ArrayLike, config: Config, exact: bool = False
) -> NDArray[np.float32]:
    """Return what `predict` does, in blocks of users, whose known ratings are read once."""
    wanted, order = user_batches.queries(user, item, len(known.costs) - 1, config.num_items)
    result = np.empty((len(order), config.num_values), np.float32)
    number = np.diff(np.asarray(wanted.offsets))
    asked = np.flatnonzero(number)
    if not len(asked):
        return result
    at_once = min(USERS_AT_ONCE, 1 << (len(asked) - 1).bit_length())
    visits = np.pad(asked, (0, -len(asked) % at_once), mode="edge")
    data = known.data._replace(wanted=wanted)
    entries = capacity(np.insert(known.costs, 1, number, axis=1), visits, at_once)
    blocks = visits.reshape(-1, at_once)
    ends = np.cumsum(number[blocks].sum(axis=1))[:-1]  # the last block is filled up with its last user
    given = deque[tuple[NDArray[np.int32], Array]]()

    def read() -> None:
        place, answers = given.popleft()
        result[place] = np.asarray(answers)[: len(place)]

    for block, place in zip(blocks, np.split(order, ends), strict=True):
        given.append((place, _of_block(params, data, np.asarray(block, np.int32), entries, config, exact)))
        if len(given) > AHEAD:
            read()
    while given:
        read()
    return result


@functools.partial(jax.jit, static_argnames=("entries", "config", "exact"))
def _of_block(params: Any, data: Data, user: Array, entries: tuple[int, ...], config: Config, exact: bool) -> Array:
    return distribution(params, user_batches.gather(data, user, entries, config), config, exact)


def predictor(
    params: Any, config: Config, users: KnownUsers, exact: bool = False, conditional: bool = False
) -> Predictor:
    """Return the predictor for any users, of training or not, from what is known of them.

    Args:
        conditional: whether the model is the conditional RBM, which also reads the users' rated items.
    """
    rated = users.rated_sets if conditional else None
    known = make_known(user_batches.make_data(users.ratings, users.number, config.scale, rated=rated))
    return lambda user, item: expected_stars(predict_by(params, known, user, item, config, exact), config)


exact_predictor = functools.partial(predictor, exact=True)


def fold_in(
    params: Any, config: Config, users: KnownUsers, decay: Mapping[str, float], conditional: bool = False
) -> Predictor:
    """Fold in new users: no parameter is a user's own.

    Args:
        conditional: as in `predictor`.
    """
    return predictor(params, config, users, conditional=conditional)
