"""The Gibbs chains of a minibatch of users, laid flat, and the gradient of CD from their states.

Source: Mnih 2010, §5.2.1 (Eq. 5.4-5.8), §5.2.2. `rbm` and `crbm` differ in the hidden units' biases alone.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxcf.data.user_batches import Batch, Entries
from jaxcf.models.rbm.config import Config, covariance
from jaxfit.draws import uniform
from jaxfit.program import Mean, Metrics
from jaxfit.rbm import bernoulli, gibbs, multinomial
from jaxfit.row_products import dots, stored
from jaxfit.tables import Part, Products, Rows, Weights, gather, outer, zero_after


class Chain(NamedTuple):
    """The states of the Gibbs chains of a minibatch."""

    value: Array  # int32[n], the ratings
    mean: Array  # [n], their expectation given the hidden units that they were drawn from
    p: Array  # [B, N_h], the hidden units' probabilities given the ratings


def hidden_bias(read: Any, batch: Batch) -> Array:
    """Compute each user's biases of the hidden units, [B, N_h]: b_h, or in the conditional RBM b_h + U f_v (Eq. 5.12).

    Differs: Eq. 5.14 lacks its sum over m. U is transposed here: it has a row for each movie.

    Args:
        read: parameters; of U, the rows [n, N_h] of the movies of `batch.rated`.
        batch: a minibatch of users; `rated` is None for the plain RBM.
    """
    shared = jnp.broadcast_to(read.b_h[None], (batch.user.shape[0], read.b_h.shape[0]))
    if batch.rated is None:
        return shared
    return shared + jax.ops.segment_sum(read.U, batch.rated.owner, shared.shape[0], indices_are_sorted=True)


def hidden_input(W: Weights, bias: Array, owner: Array, rows: Array) -> Array:
    """Compute the argument of σ in Eq. 5.8, [B, N_h].

    Args:
        W: the table of weights.
        bias: [B, N_h], from `hidden_bias`.
        owner: int32[n], the user of each rating, B for padding.
        rows: int32[n], the row of W of each rating.
    """
    return bias + jax.ops.segment_sum(gather(W, rows), owner, bias.shape[0], indices_are_sorted=True)


def chains(read: Any, at: Array, bias: Array, batch: Batch, keys: Array, center: float) -> tuple[Chain, Chain]:
    """Run every user's chain from the data for T full steps (Eq. 5.7-5.8); return its first and last states.

    Args:
        read: parameters: b_m [n, K] of each entry's movie, and W as a table.
        at: int32[n]: the movie of entry j has the rows at[j] K + k of the table W.
        bias: [B, N_h], from `hidden_bias`.
        batch: a minibatch of users.
        keys: key[B].
        center: constant subtracted from hidden units (`rbm.Config`).
    """
    (owner, item, value), (users, _), K = batch.known, bias.shape, read.b_m.shape[1]
    own = jnp.minimum(owner, users - 1)
    levels = jnp.arange(K, dtype=jnp.int32)[None]

    def state(value: Array, mean: Array) -> Chain:
        return Chain(value, mean, jax.nn.sigmoid(hidden_input(read.W, bias, owner, at * K + value)))

    def step(chain: Chain, keys: Array) -> Chain:
        for_hidden, for_ratings = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        h = bernoulli(for_hidden, chain.p)  # Eq. 5.8
        p = jax.nn.softmax(
            read.b_m + dots(read.W.value, at[:, None] * K + levels, stored(read.W.scale * (h - center)), own)
        )  # Eq. 5.7
        value = multinomial(uniform(for_ratings[own], item), p)
        return state(value, jnp.sum(p * levels, axis=1))

    start = state(value, value.astype(bias.dtype))
    return start, gibbs(step, start, keys, batch.cd_steps)


def of_entries(weight: Array, entries: Entries) -> Array:
    """Spread the weights of users over their entries: [B] -> [n], 0 for padding."""
    return weight.at[entries.owner].get(mode="fill", fill_value=0)


def reconstruction_metrics(end: Chain, batch: Batch, weight: Array, step: float) -> Metrics:
    """Return the squared error of the expected reconstruction, in squared stars.

    Args:
        step: stars from one rating to the next.
    """
    of_rating = of_entries(weight, batch.known)
    error = jnp.sum(of_rating * jnp.square(end.mean - batch.known.value))
    return {"reconstruction RMSE": Mean(step**2 * error, jnp.sum(of_rating))}


def gradient(weights: Any, batch: Batch, weight: Array, keys: Array, config: Config) -> tuple[None, Metrics, Any]:
    """Compute the Metrics of `rbm.batch_loss` and its gradient, in parts: Eq. 5.4-5.6, and for U Eq. 5.15.

    Of a movie's K rows in W, only two are written: those of the rating and of its reconstruction; differentiation would
    write all K. With `smooth`, all K are written: then W_m = √P Θ_m for each movie, where P is `covariance` and Θ has
    independent weights. What is returned for W is P ∂loss/∂W, by which W moves when Θ follows its own gradient, by SGD;
    decaying Θ decays W.
    """
    (owner, item, value), K, P = batch.known, config.num_values, covariance(config)
    read = open_tables(weights, batch)
    start, end = chains(read, item, hidden_bias(read, batch), batch, keys, config.center)
    weight = weight + zero_after(end.p[0, 0] + end.mean[0])  # all that is read of tables has been read
    of_rating = of_entries(weight, batch.known)
    own = jnp.minimum(owner, weight.shape[0] - 1)
    terms = ((-of_rating, value, start.p - config.center), (of_rating, end.value, end.p - config.center))
    of_W: tuple[Part, ...]
    if P is None:
        of_W = tuple(outer(item * K + v, share, own, p) for share, v, p in terms)
    else:
        shares = jnp.stack([share[:, None] * jnp.asarray(P)[v] for share, v, _ in terms], axis=2)
        of_W = (Products(item, shares, own, jnp.stack([p for _, _, p in terms], axis=1)),)
    chosen, sampled = (jax.nn.one_hot(v, K, dtype=weight.dtype) for v in (value, end.value))
    of_b_m = (Rows(item, of_rating[:, None] * (sampled - chosen)),)
    by_bias = weight[:, None] * (end.p - start.p)  # of each user
    found = weights._replace(W=of_W, b_m=of_b_m, b_h=jnp.sum(by_bias, axis=0))
    if batch.rated is not None:
        rated_owner, rated_item, _ = batch.rated
        of_user = jnp.minimum(rated_owner, by_bias.shape[0] - 1)
        ones = jnp.ones(rated_item.shape, by_bias.dtype)
        found = found._replace(U=(outer(rated_item, ones, of_user, by_bias),))
    return None, reconstruction_metrics(end, batch, weight, config.step), found


def open_tables(weights: Any, batch: Batch) -> Any:
    """Return what `chains` reads: W as the table itself, and the rows of other tables that a minibatch touches."""
    read = weights._replace(b_m=gather(weights.b_m, batch.known.item), b_h=weights.b_h.value)
    return read if batch.rated is None else read._replace(U=gather(weights.U, batch.rated.item))
