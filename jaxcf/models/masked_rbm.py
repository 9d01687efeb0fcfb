"""The RBM for ratings, trained to predict some of each user's ratings from the rest, in place of a model of all.

Not of the thesis: parameters and predictions are those of its RBM (Mnih 2010, Eq. 5.10-5.11), but what is minimised is
the loss of the predictions themselves. In each visit of a user a share of its ratings, drawn anew, is hidden from the
hidden units and predicted. The gradient is exact, and needs no Gibbs chain.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf.contract import BySGD, FoldsIn, PredictsRatings, RatingModel, SimilarItems, TrainingSetup
from jaxcf.data import user_batches as vectors
from jaxcf.data.ratings import Dataset, Pairs
from jaxcf.data.user_batches import Batch
from jaxcf.models.rbm import config as of_rbm
from jaxcf.models.rbm import model as rbm
from jaxcf.models.rbm.chains import of_entries, open_tables
from jaxcf.models.rbm.config import covariance
from jaxcf.models.rbm.prediction import fold_in, predictor, score
from jaxfit.draws import uniform
from jaxfit.errors import UserError
from jaxfit.program import Decay, Mean, Metric, Metrics, Program, Ragged, Sparse
from jaxfit.recipe import Recipe, option
from jaxfit.registry import Cost
from jaxfit.row_products import dots, stored
from jaxfit.tables import Gathered, Products, Rows, Weights, gather, require_whole, rows_of, zero_after

MASKED = Metric("RMSE of hidden ratings", np.sqrt)


@dataclass(frozen=True)
class Config(of_rbm.Config):
    """What shapes the program: as of the RBM, without its chains.

    hidden: h, the probability with which a rating is predicted in a visit of its user, rather than known.
    """

    hidden: float = option(0.6, "share of a user's ratings that a step predicts from the rest")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.hidden < 1:
            raise UserError("--hidden must be between 0 and 1", f"--hidden {self.hidden}", "give a share, such as 0.6")


def loss(params: Any, example: tuple[Array, Array], key: Array, config: Config) -> Array:
    """-1/h Σ_m log P(r_m | known ratings) of ONE user, over the ratings m that are hidden; the specification.

    example: the movies that it rated, int32[n], and how, int32[n], 0 … K-1. P is that of Eq. 5.10-5.11. Divided by h,
    the loss is in expectation that of predicting each rating once.
    """
    require_whole(params)
    (item, value), K = example, config.num_values
    W, b_m, n = params.W.reshape(-1, K, params.W.shape[1])[item], params.b_m[item], jnp.arange(item.shape[0])
    hidden = uniform(key, item) < config.hidden
    known = jnp.where(hidden[:, None], 0.0, W[n, value])
    p = jax.nn.sigmoid(params.b_h + jnp.sum(known, axis=0))  # Eq. 5.10
    of_rating = jax.nn.log_softmax(b_m + W @ (p - config.center))[n, value]  # Eq. 5.11
    return -jnp.sum(jnp.where(hidden, of_rating, 0.0)) / config.hidden


def batch_loss(params: Gathered, batch: Batch, weight: Array, keys: Array, config: Config) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`, from the rows that `rbm.touched` names."""
    read = rows_of(params)
    W = Weights(read.W, jnp.ones((), read.W.dtype), None, None)
    at = jnp.arange(len(batch.known.owner), dtype=jnp.int32)
    return _predicted(read._replace(W=W), at, batch, weight, keys, config)[:2]


def gradient(weights: Any, batch: Batch, weight: Array, keys: Array, config: Config) -> tuple[Array, Metrics, Any]:
    """Compute `batch_loss`, and its gradient in parts; with `smooth`, of W in the metric of its prior.

    A hidden rating adds to its movie's K rows the products of P - 1[r] with the hidden units' probabilities, a known
    one to the row of its rating the derivative by its user's hidden input. See `rbm.chains.gradient` for the metric.
    """
    (owner, item, value), K, P = batch.known, config.num_values, covariance(config)
    read = open_tables(weights, batch)
    total, metrics, (p, chances, hidden) = _predicted(read, item, batch, weight, keys, config)
    own, levels = jnp.minimum(owner, len(weight) - 1), jnp.arange(K, dtype=jnp.int32)[None]
    chosen = jax.nn.one_hot(value, K, dtype=weight.dtype)
    errors = (hidden / config.hidden)[:, None] * (chances - chosen)
    rows = gather(read.W, item[:, None] * K + levels)
    of_rating = jnp.einsum("nk,nkh->nh", errors, rows)
    by_p = jax.ops.segment_sum(of_rating, owner, len(weight), indices_are_sorted=True)
    by_input = by_p * p * (1 - p) + zero_after(by_p[0, 0])  # all that is read of tables has been read
    known = jnp.where(hidden > 0, 0.0, 1.0)[:, None] * chosen
    shares = jnp.stack([errors, known], axis=2)
    if P is not None:
        shares = jnp.einsum("kl,nls->nks", jnp.asarray(P), shares)
    of_W = Products(item, shares, own, jnp.stack([p - config.center, by_input], axis=1))
    return total, metrics, weights._replace(W=(of_W,), b_m=(Rows(item, errors),), b_h=jnp.sum(by_input, axis=0))


def _predicted(
    read: Any, at: Array, batch: Batch, weight: Array, keys: Array, config: Config
) -> tuple[Array, Metrics, tuple[Array, Array, Array]]:
    """Predict the hidden ratings: the loss, its Metrics; p [B, N_h], P [n, K] and weights of hidden ratings [n].

    read, at: as in `rbm.chains.chains`.
    """
    (owner, item, value), K = batch.known, config.num_values
    own, levels = jnp.minimum(owner, len(weight) - 1), jnp.arange(K, dtype=jnp.int32)[None]
    drawn = uniform(keys[own], item) < config.hidden
    known = jnp.where(drawn[:, None], 0.0, gather(read.W, at * K + value))
    of_user = jax.ops.segment_sum(known, owner, len(weight), indices_are_sorted=True)
    p = jax.nn.sigmoid(read.b_h[None] + of_user)
    logits = read.b_m + dots(read.W.value, at[:, None] * K + levels, stored(read.W.scale * (p - config.center)), own)
    log_p = jax.nn.log_softmax(logits)
    chances = jnp.exp(log_p)
    hidden = jnp.where(drawn, of_entries(weight, batch.known), 0.0)
    nats = -jnp.take_along_axis(log_p, value[:, None], axis=1)[:, 0]
    error = jnp.square(chances @ jnp.arange(K, dtype=chances.dtype) - value)
    metrics = {MASKED.name: Mean(config.step**2 * (hidden @ error), jnp.sum(hidden))}
    return hidden @ nats / config.hidden, metrics, (p, chances, hidden)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over `Data`."""
    return Program(
        config=config, size=vectors.num_users, batch=vectors.gather, loss=batch_loss, score=score,
        metric=Metric("RMSE", np.sqrt), training_metrics=(MASKED,), events=vectors.num_events,
        sparse=Sparse(rbm.touched, gradient, preconditioned=bool(config.smooth)), ragged=Ragged(vectors.costs),
        decay=Decay("per-row"),
    )  # fmt: skip


def prepare(key: Array, data: Dataset, rated: Pairs, config: Config) -> TrainingSetup:
    """Set up what the engine trains."""
    params = rbm.init(key, config, data.train, config.scale.level(data.train.stars))
    return TrainingSetup(program(config), params, *vectors.training_data(data, config.scale))


def cost(config: Config, costs: NDArray[np.int64]) -> Cost:
    """Count what a rating takes: a known one adds a row to its user's input; K rows predict a hidden one.

    By a hidden rating's K rows its error also reaches the hidden units; then rows move. With `smooth`, K rows move with
    a known rating, too.
    """
    K, H, h = config.num_values, config.num_hidden, config.hidden
    read = (1 - h) + h * K
    moved = K if config.smooth else read
    formula = "N_h operations for a known rating, 4 K N_h for a hidden one, 2 N_h for each row that moves"
    return Cost(((1 - h) + 4 * K * h + 2 * moved) * H, read * H, moved * H, formula)


# "tuned" was chosen by the validation ratings of MovieLens 1M (RMSE .8421 with 200 hidden units).
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "tuned": (
        Recipe(
            optimizer="sgd", batch_size=20, epochs=30, rate={"*": 0.03}, decay={"*": 0.1, "W": 12.0}, anneal=True,
            reduction="sum",
        ),
        {"init_scale": 0.02, "center": 0.5, "smooth": 2.5},
    ),
}  # fmt: skip

MODEL = RatingModel(
    name="masked-rbm", about="an RBM that is trained to predict ratings hidden from it", source="not of the thesis",
    config=Config, shapes=rbm.shapes, recipes=RECIPES, fitting=(BySGD(prepare),),
    fixed={"cd_steps": (1,), "prior": "per-row"},
    capabilities=(PredictsRatings(predictor), FoldsIn(fold_in), SimilarItems(rbm.item_vectors)), cost=cost,
)  # fmt: skip
