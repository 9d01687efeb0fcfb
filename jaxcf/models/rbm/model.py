"""The restricted Boltzmann machine for ratings: multinomial visible units, one for each movie that a user rated.

Source: Mnih 2010, §5.2.1 (Eq. 5.1-5.11), §5.4.2. Every user has an RBM of its own, over the movies that it rated, and
all share their weights; nothing is computed for a movie that a user did not rate. Functions take the hidden units'
biases from `bias`, so that `jaxcf.models.crbm` is the same program with others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike, NDArray

from jaxcf.contract import (
    BySGD,
    FoldsIn,
    KnownUsers,
    Predictor,
    PredictsExactly,
    PredictsRatings,
    RatingModel,
    SimilarItems,
    TrainingSetup,
)
from jaxcf.data import user_batches as vectors
from jaxcf.data.ratings import Dataset, Pairs, Ratings
from jaxcf.data.user_batches import Batch, Data
from jaxcf.models.rbm.by_users import distributions
from jaxcf.models.rbm.chains import (
    chains,
    contrast,
    hidden_input,
    of_entries,
    open_tables,
    reconstruction_metrics,
)
from jaxcf.models.rbm.config import Config as Config
from jaxcf.models.rbm.config import covariance, scale, stars
from jaxcf.models.rbm.config import expected_stars as expected_stars
from jaxfit.bucketing import dots
from jaxfit.program import Decay, Metric, Metrics, Program, Ragged, Sparse
from jaxfit.rbm import bernoulli, contrastive_divergence, gibbs, hidden_free_energy, multinomial
from jaxfit.recipe import Recipe
from jaxfit.tables import Gathered, Weights, gather, require_whole, rows_of


class Params(NamedTuple):
    """W: [N_m K, N_h], row m K + k for rating k of movie m; b_m: [N_m, K] rating biases; b_h: [N_h] hidden biases."""

    W: Array
    b_m: Array
    b_h: Array


def init(key: Array, config: Config, known: Ratings, values: NDArray[np.int32]) -> Params:
    """Parameters before training: small Gaussian weights, and biases that give each movie's own rating frequencies.

    known: the training ratings, whose levels 0 … K-1 are `values`. Differs: the thesis does not state its initial
    parameters; these biases are logs of each movie's frequencies, with K ratings distributed like those of all
    movies added, so that none is zero.
    """
    I, K = config.num_items, config.num_values
    traced = isinstance(values, jax.core.Tracer) or isinstance(known.item, jax.core.Tracer)
    counts: Any
    if traced:
        counts = jnp.zeros((I, K)).at[known.item, values].add(1.0)
    else:
        counts = np.stack([np.bincount(known.item[values == k], minlength=I) for k in range(K)], axis=1)
    overall = (counts.sum(axis=0) + 1.0) / (counts.sum() + K)
    frequencies = (counts + K * overall[None]) / (counts.sum(axis=1, keepdims=True) + K)
    return Params(
        W=config.init_scale * jax.random.normal(key, (I * K, config.num_hidden)),
        b_m=jnp.asarray((jnp if traced else np).log(frequencies), jnp.float32),
        b_h=jnp.zeros(config.num_hidden),
    )


def loss(
    params: Any,
    example: tuple[Array, Array],
    key: Array,
    cd_steps: int,
    bias: Array,
    config: Config,
    mask: Array | None = None,
) -> Array:
    """CD-T's loss of ONE user: F of its ratings less F of their reconstruction; the specification.

    example: the movies it rated, int32[n], and how, int32[n], 0 … K-1; bias: [N_h] of the user's hidden units, b_h;
    mask: bool[n], False for padding; None where there is none.
    F(r) = -Σ_m r_m·b_m - Σ_j log(1 + exp(b_hj + Σ_m r_m·W_mj)), by Eq. 5.1; its gradient gives Eq. 5.4-5.6. A
    reconstruction is one sample of T full steps of the sampler, Eq. 5.7-5.8; of its hidden units the probabilities
    are taken.
    """
    require_whole(params)
    (item, value), K, c = example, config.num_values, config.center
    tables = (
        params.W.reshape(-1, K, params.W.shape[1]),
        params.b_m,
    )  # of which padding, past the end, reads zeros
    W, b_m = (table.at[item].get(mode="fill", fill_value=0) for table in tables)  # [n, K, N_h], [n, K]
    n = jnp.arange(item.shape[0])
    if mask is not None:
        W, b_m = jnp.where(mask[:, None, None], W, 0.0), jnp.where(mask[:, None], b_m, 0.0)

    def hidden_input(W: Array, bias: Array, value: Array) -> Array:
        return bias + jnp.sum(W[n, value], axis=0)

    def free_energy(value: Array) -> Array:
        of_ratings = jnp.sum(b_m[n, value]) - c * jnp.sum(W[n, value])
        return hidden_free_energy(hidden_input(W, bias, value)) - of_ratings

    fixed_W, fixed_b_m, fixed_bias = lax.stop_gradient((W, b_m, bias))

    def step(value: Array, key: Array) -> Array:
        for_hidden, for_ratings = jax.random.split(key[0])
        on = jax.nn.sigmoid(hidden_input(fixed_W, fixed_bias, value))  # Eq. 5.8
        h = bernoulli(for_hidden[None], on[None])[0]
        p = jax.nn.softmax(fixed_b_m + fixed_W @ (h - c))  # Eq. 5.7
        uniform = jax.vmap(lambda m: jax.random.uniform(jax.random.fold_in(for_ratings, m)))(item)
        return multinomial(uniform, p)

    return contrastive_divergence(free_energy, value, gibbs(step, value, key[None], cd_steps))


Bias = Callable[[Any, Batch], Array]


def hidden_bias(read: Any, batch: Batch) -> Array:
    """The hidden units' biases of each user, [B, N_h]: here those of all."""
    return jnp.broadcast_to(read.b_h[None], (batch.user.shape[0], read.b_h.shape[0]))


def batch_loss(
    params: Gathered, batch: Batch, weight: Array, keys: Array, config: Config, bias: Bias = hidden_bias
) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`, from the rows that `touched` names.

    CD's own value says nothing about how good a model is: the metric is the reconstruction error.
    """
    read = rows_of(params)
    (owner, _, value), K = batch.known, config.num_values
    at, biases = jnp.arange(owner.shape[0], dtype=jnp.int32), bias(read, batch)
    W = Weights(read.W, jnp.ones((), read.W.dtype), None, None)
    fixed, fixed_biases = lax.stop_gradient((read._replace(W=W), biases))
    _, end = chains(fixed, at, fixed_biases, batch, keys, config.center)

    def free_energy(value: Array) -> Array:
        of_ratings = jnp.take_along_axis(read.b_m, value[:, None], axis=1)[:, 0]
        of_ratings -= config.center * jnp.sum(gather(W, at * K + value), axis=1)
        of_user = jax.ops.segment_sum(of_ratings, owner, weight.shape[0], indices_are_sorted=True)
        return hidden_free_energy(hidden_input(W, biases, owner, at * K + value)) - of_user

    total = weight @ contrastive_divergence(free_energy, value, end.value)
    return total, reconstruction_metrics(end, batch, weight, config.step)


def gradient(weights: Params, batch: Batch, weight: Array, keys: Array, config: Config) -> tuple[None, Metrics, Any]:
    """Compute the Metrics of `batch_loss` and its gradient, in parts, by the fast way of `contrast`.

    With `smooth` W_m = √P Θ_m for each movie, where P is `covariance`, and Θ has independent weights. What is
    returned for W is P ∂loss/∂W, by which W moves when Θ descends its own gradient, by SGD; decaying Θ decays W.
    """
    metrics, by_bias, of_W, of_b_m = contrast(weights, batch, weight, keys, hidden_bias, config, covariance(config))
    return None, metrics, Params(of_W, of_b_m, jnp.sum(by_bias, axis=0))  # type: ignore[arg-type]


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows of W and b_m that a minibatch reads; b_h has a dense use."""
    item, K = batch.known.item, config.num_values
    rows = item[:, None] * K + jnp.arange(K, dtype=jnp.int32)[None]
    return Params(rows.reshape(-1), item, None)  # type: ignore[arg-type]


def penalty(params: Gathered, batch: Batch, weight: Array, config: Config) -> Params:
    """½|row|², summed over uses: the prior `per-rating`, as of an update for each user (§5.4.2).

    Differs: the thesis does not say what its online updates decay. Here a rating uses all weights and biases of its
    movie, whichever the rating, and a user the hidden biases: decaying all movies at every user would leave nothing
    of those that few users rated.
    """
    read, of_rating = rows_of(params), of_entries(weight, batch.known)
    of_W = jnp.sum(jnp.square(read.W.reshape(of_rating.shape[0], -1)), axis=1)
    return Params(
        0.5 * of_rating @ of_W,
        0.5 * of_rating @ jnp.sum(jnp.square(read.b_m), axis=1),
        0.5 * jnp.sum(weight) * jnp.sum(jnp.square(read.b_h)),
    )


def distribution(params: Any, batch: Batch, config: Config, exact: bool = False, bias: Bias = hidden_bias) -> Array:
    """P(rating k of the movie | the user's known ratings) for each wanted entry, [n, K].

    By mean field, Eq. 5.10-5.11, or exactly, Eq. 5.9, each rating by itself; a wanted movie must not be among the
    known. Differs: 5.9 lacks the index j on W_l. A movie that is not in training (any past the last) gets the average
    biases.
    """
    assert batch.wanted is not None
    one = jnp.ones((), params.b_h.dtype)
    weights = type(params)._make([Weights(table, one, None, None) for table in params])
    (owner, item, _), K = batch.wanted, config.num_values
    read = open_tables(weights, batch)
    known_rows = batch.known.item * K + batch.known.value
    x = hidden_input(read.W, bias(read, batch), batch.known.owner, known_rows)
    own = jnp.minimum(owner, x.shape[0] - 1)
    rows = item[:, None] * K + jnp.arange(K, dtype=jnp.int32)[None]
    if exact:
        of_movie = gather(read.W, rows)
        logits = -hidden_free_energy(x[own][:, None] + of_movie) - config.center * jnp.sum(of_movie, axis=2)
    else:
        logits = dots(read.W, rows, jax.nn.sigmoid(x) - config.center, own)
    logits += params.b_m.at[item].get(mode="clip")
    average = jnp.mean(params.b_m, axis=0)[None]
    return jax.nn.softmax(jnp.where((item < config.num_items)[:, None], logits, average))


def score(params: Any, batch: Batch, config: Config, bias: Bias = hidden_bias) -> Array:
    """Return the squared error of the expected stars, by mean field, summed over each user's wanted ratings: [B]."""
    assert batch.wanted is not None
    predicted = expected_stars(distribution(params, batch, config, bias=bias), config)
    error = jnp.square(predicted - stars(batch.wanted.value, config))
    return jax.ops.segment_sum(error, batch.wanted.owner, batch.user.shape[0], indices_are_sorted=True)


def scheduled_steps(batch: Batch, key: Array, fraction: Array, config: Config) -> Batch:
    """Set the minibatch's T to that of the schedule when a fraction of the training is done."""
    steps = jnp.asarray(config.cd_steps, jnp.int32)
    part = jnp.minimum((fraction * len(config.cd_steps)).astype(jnp.int32), len(config.cd_steps) - 1)
    return batch._replace(cd_steps=steps[part])


def gather_users(data: Data, index: Array, capacity: tuple[int, ...], config: Config) -> Batch:
    """Gather the users `index` int32[B], with the first T of the schedule."""
    return vectors.gather(data, index, capacity, config.num_items, config.cd_steps[0])


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over `Data`."""
    per_rating = config.prior == "per-rating"
    return Program(
        config=config,
        size=vectors.num_users,
        batch=gather_users,
        loss=batch_loss,
        score=score,
        metric=Metric("RMSE", np.sqrt),
        training_metrics=(Metric("reconstruction RMSE", np.sqrt),),
        events=vectors.num_events,
        at_step=scheduled_steps,
        sparse=Sparse(touched, None if per_rating else gradient),
        ragged=Ragged(vectors.costs),
        decay=Decay("when-touched", penalty) if per_rating else Decay("per-row"),
    )


def predict(
    params: Any,
    data: Data,
    user: ArrayLike,
    item: ArrayLike,
    config: Config,
    exact: bool = False,
    bias: Bias = hidden_bias,
) -> NDArray[np.float32]:
    """Return P(rating k | what `data` know of the user) for any pairs of user and item: int [n], [n] -> [n, K].

    See `jaxcf.models.rbm.by_users`; `expected_stars` makes stars of it.
    """
    return distributions(distribution, params, data, user, item, config, exact, bias)


def prepare(key: Array, data: Dataset, rated: Pairs, config: Config) -> TrainingSetup:
    """Set up what the engine trains."""
    params = init(key, config, data.train, data.catalogue.scale.level(data.train.stars))
    return TrainingSetup(program(config), params, *vectors.training_data(data))


def predictor(params: Params, config: Config, users: KnownUsers, exact: bool = False) -> Predictor:
    """Return the predictor for any users, of training or not, from their known ratings: by mean field, or exactly."""
    known = vectors.make_data(users.ratings, users.number, scale(config))
    return lambda user, item: expected_stars(predict(params, known, user, item, config, exact), config)


exact_predictor = functools.partial(predictor, exact=True)


def fold_in(params: Params, config: Config, users: KnownUsers, decay: Mapping[str, float]) -> Predictor:
    """Fold in new users: no parameter is a user's own."""
    return predictor(params, config, users)


def item_vectors(params: Any, config: Config) -> NDArray[np.float32]:
    """W of each item, less its mean over the item's ratings, which no rating tells apart: [items, K N_h]."""
    W = np.asarray(params.W).reshape(config.num_items, config.num_values, -1)
    return (W - W.mean(axis=1, keepdims=True)).reshape(config.num_items, -1)


def shapes(config: Config) -> Any:
    """Return the parameters' shapes."""
    I, K, H = config.num_items, config.num_values, config.num_hidden
    return Params._make(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((I * K, H), (I, K), (H,)))


# Differs: "thesis" decays as `penalty` says; the thesis does not state its initial parameters. T is 1 (§1.3.2).
# "tuned" was chosen on 5 % of the training ratings of MovieLens 1M, where its RMSE is .8616.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (
        Recipe(
            optimizer="sgd", batch_size=1, epochs=250, rate={"*": 1e-4, "W": 1e-3}, decay={"*": 1e-3, "W": 1e-2},
            patience=250, reduction="sum",
        ),
        {"prior": "per-rating"},
    ),
    "tuned": (
        Recipe(
            optimizer="sgd", batch_size=20, epochs=30, rate={"*": 3e-3, "W": 5e-3}, decay={"*": 0.0, "W": 8.0},
            anneal=True, reduction="sum",
        ),
        {"init_scale": 0.02, "center": 0.5, "smooth": 1.2},
    ),
}  # fmt: skip

RBM = RatingModel(
    name="rbm", about="the restricted Boltzmann machine over ratings", source="Mnih 2010, §5.2.1", config=Config,
    shapes=shapes, recipes=RECIPES, fitting=(BySGD(prepare),),
    capabilities=(
        PredictsRatings(predictor), PredictsExactly(exact_predictor), FoldsIn(fold_in), SimilarItems(item_vectors),
    ),
)  # fmt: skip
