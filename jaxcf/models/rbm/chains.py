"""The Gibbs chains of a minibatch of users, laid flat, and the gradient of CD from their states.

Source: Mnih 2010, §5.2.1 (Eq. 5.4-5.8). `rbm` and `crbm` differ in the hidden units' biases alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf.data.user_batches import Batch, Entries
from jaxcf.models.rbm.config import Config
from jaxfit.bucketing import dots
from jaxfit.program import Mean, Metrics
from jaxfit.rbm import bernoulli, gibbs, multinomial
from jaxfit.tables import Outer, Part, Rows, Weights, gather, zero_after


class Chain(NamedTuple):
    """The states of the Gibbs chains of a minibatch.

    value: int32[n], the ratings; mean: [n], their expectation given the hidden units that they were drawn from;
    p: [B, N_h], the hidden units' probabilities given the ratings.
    """

    value: Array
    mean: Array
    p: Array


def hidden_input(W: Weights, bias: Array, owner: Array, rows: Array) -> Array:
    """What Eq. 5.8 applies σ to, [B, N_h], from the row of W that each rating names, int32[n]."""
    return bias + jax.ops.segment_sum(gather(W, rows), owner, bias.shape[0], indices_are_sorted=True)


def chains(read: Any, at: Array, bias: Array, batch: Batch, keys: Array, center: float) -> tuple[Chain, Chain]:
    """Run every user's chain from the data for T full steps (Eq. 5.7-5.8); return its first and last states.

    read: b_m [n, K] of each entry's movie, and W as a table, where entry j's movie has the rows at[j] K + k. center:
    what hidden units are counted from (`rbm.Config`).
    """
    (owner, item, value), (users, _), K = batch.known, bias.shape, read.b_m.shape[1]
    own = jnp.minimum(owner, users - 1)
    levels = jnp.arange(K, dtype=jnp.int32)[None]

    def state(value: Array, mean: Array) -> Chain:
        return Chain(value, mean, jax.nn.sigmoid(hidden_input(read.W, bias, owner, at * K + value)))

    def step(chain: Chain, keys: Array) -> Chain:
        for_hidden, for_ratings = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        h = bernoulli(for_hidden, chain.p)  # Eq. 5.8
        p = jax.nn.softmax(read.b_m + dots(read.W, at[:, None] * K + levels, h - center, own))  # Eq. 5.7
        for_movie = jax.vmap(jax.random.fold_in)(for_ratings[own], item)
        value = multinomial(jax.vmap(jax.random.uniform)(for_movie), p)
        return state(value, jnp.sum(p * levels, axis=1))

    start = state(value, value.astype(bias.dtype))
    return start, gibbs(step, start, keys, batch.cd_steps)


def of_entries(weight: Array, entries: Entries) -> Array:
    """Spread the weights of users over their entries: [B] -> [n], 0 for padding."""
    return weight.at[entries.owner].get(mode="fill", fill_value=0)


def reconstruction_metrics(end: Chain, batch: Batch, weight: Array, step: float) -> Metrics:
    """Return the squared error of the expected reconstruction, in squared stars; step: from one rating to the next."""
    of_rating = of_entries(weight, batch.known)
    error = jnp.sum(of_rating * jnp.square(end.mean - batch.known.value))
    return {"reconstruction RMSE": Mean(step**2 * error, jnp.sum(of_rating))}


def contrast(
    weights: Any,
    batch: Batch,
    weight: Array,
    keys: Array,
    bias: Callable[[Any, Batch], Array],
    config: Config,
    covariance: NDArray[np.float32] | None,
) -> tuple[Metrics, Array, tuple[Part, ...], tuple[Part, ...]]:
    """Compute the Metrics, and CD's gradient by the hidden biases of each user [B, N_h], by W, and by b_m.

    This is Eq. 5.4-5.6. Of a movie's K rows in W only two are written, of the rating and of its reconstruction,
    where differentiation would write all K. With `covariance`, [K, K], the gradient by W is that in its metric, by
    which all K are: multiplied by it from the left, for each movie.
    """
    (owner, item, value), K = batch.known, weights.b_m.value.shape[1]
    num_items, center = config.num_items, config.center
    read = open_tables(weights, batch)
    start, end = chains(read, item, bias(read, batch), batch, keys, center)
    weight = weight + zero_after(end.p[0, 0] + end.mean[0])  # all that is read of tables has been read
    of_rating = of_entries(weight, batch.known)
    own = jnp.minimum(owner, weight.shape[0] - 1)

    def parts(value: Array, sign: float, p: Array) -> list[Outer]:
        shares: list[tuple[Any, Any]] = [(value, 1.0)]
        if covariance is not None:
            shares = [(k, jnp.asarray(covariance[k])[value]) for k in range(K)]
        rows = [(jnp.where(item < num_items, item * K + k, num_items * K), share) for k, share in shares]
        return [Outer(ids, sign * share * of_rating, own, p - center) for ids, share in rows]

    of_W = (*parts(value, -1.0, start.p), *parts(end.value, 1.0, end.p))
    chosen, sampled = (jax.nn.one_hot(v, K, dtype=weight.dtype) for v in (value, end.value))
    of_b_m = (Rows(item, of_rating[:, None] * (sampled - chosen)),)
    metrics = reconstruction_metrics(end, batch, weight, config.step)
    return metrics, weight[:, None] * (end.p - start.p), of_W, of_b_m


def open_tables(weights: Any, batch: Batch) -> Any:
    """Return what `chains` reads: W as the table itself, of others the rows that a minibatch touches."""
    read = weights._replace(b_m=gather(weights.b_m, batch.known.item), b_h=weights.b_h.value)
    return read if batch.rated is None else read._replace(U=gather(weights.U, batch.rated.item))
