"""An RBM for ratings, trained to predict some of each user's ratings from the others, not to model all jointly.

Not in the thesis: parameters and predictions are those of its RBM (Mnih 2010, Eq. 5.10-5.11), but at each visit of a
user a newly drawn share of their ratings is masked, and the loss is that of predicting these from the rest by mean
field, as in the multi-prediction training of Boltzmann machines (Goodfellow et al. 2013). The gradient is exact, and
needs no Gibbs chain. In training, predictions are made from the unmasked ratings; the trained model uses all known
ones.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxcf.contract import BySGD, FoldsIn, PredictsRatings, RatingModel, SimilarItems, TrainingSetup
from jaxcf.data import user_batches
from jaxcf.data.ratings import Dataset, Pairs
from jaxcf.data.user_batches import Batch
from jaxcf.models.rbm import config as of_rbm
from jaxcf.models.rbm import model as rbm
from jaxcf.models.rbm.chains import of_entries, open_tables
from jaxcf.models.rbm.config import covariance, decay_share
from jaxcf.models.rbm.prediction import fold_in, predictor, score
from jaxfit.draws import uniform
from jaxfit.errors import UserError
from jaxfit.program import Decay, Mean, Metric, Metrics, Program, Ragged, Sparse
from jaxfit.recipe import Recipe, option
from jaxfit.registry import Cost
from jaxfit.row_products import dots, stored
from jaxfit.tables import Gathered, Products, Rows, gather, require_whole, rows_of, unscaled, zero_after

MASKED = Metric("RMSE of masked ratings", np.sqrt)


@dataclass(frozen=True)
class Config(of_rbm.Config):
    """What shapes the program: as for the RBM, without its chains.

    Attributes:
        mask_rate: ρ, the probability with which a rating is masked at a visit of its user, and predicted from the
            others.
    """

    mask_rate: float = option(0.6, "share of a user's ratings that a step masks, and predicts from the others")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.mask_rate < 1:
            what = "--mask-rate must be above 0 and below 1"
            raise UserError(what, f"--mask-rate {self.mask_rate}", "give a share, such as 0.6")


def loss(params: Any, example: tuple[Array, Array], key: Array, config: Config) -> Array:
    """Compute -1/ρ Σ_m log P(r_m | unmasked ratings) of ONE user, over the masked ratings m: the specification.

    P is that of Eq. 5.10-5.11. By the factor 1/ρ, the expected loss is that of predicting each rating once.

    Args:
        example: the movies that the user rated, int32[n], and the levels of the ratings, int32[n], 0 … K-1; movies past
            the last are padding.
    """
    require_whole(params)
    (item, value), K = example, config.num_values
    tables = params.W.reshape(-1, K, params.W.shape[1]), params.b_m  # of which padding, past the end, reads zeros
    W, b_m = (table.at[item].get(mode="fill", fill_value=0) for table in tables)  # [n, K, N_h], [n, K]
    n = jnp.arange(item.shape[0])
    masked = (uniform(key, item) < config.mask_rate) & (item < len(params.b_m))
    known = jnp.where(masked[:, None], 0.0, W[n, value])
    p = jax.nn.sigmoid(params.b_h + jnp.sum(known, axis=0))  # Eq. 5.10
    of_rating = jax.nn.log_softmax(b_m + W @ (p - config.center))[n, value]  # Eq. 5.11
    return -jnp.sum(jnp.where(masked, of_rating, 0.0)) / config.mask_rate


def batch_loss(params: Gathered, batch: Batch, weight: Array, keys: Array, config: Config) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`, from the rows that `rbm.touched` names."""
    read = rows_of(params)
    at = jnp.arange(len(batch.known.owner), dtype=jnp.int32)
    return _predicted(read._replace(W=unscaled(read.W)), at, batch, weight, keys, config)[:2]


def gradient(weights: Any, batch: Batch, weight: Array, keys: Array, config: Config) -> tuple[Array, Metrics, Any]:
    """Compute `batch_loss` and its gradient, in parts; with `smooth`, the gradient of W is in the metric of its prior.

    A masked rating adds to its movie's K rows the products of P - 1[r] with the hidden units' probabilities; an
    unmasked one adds the derivative with respect to its user's hidden input to its own row. See `rbm.chains.gradient`
    for the metric.
    """
    (owner, item, value), K, P = batch.known, config.num_values, covariance(config)
    read = open_tables(weights, batch)
    total, metrics, (p, chances, masked, of_rating) = _predicted(read, item, batch, weight, keys, config)
    chosen = jax.nn.one_hot(value, K, dtype=weight.dtype)
    errors = (jnp.where(masked, of_rating, 0.0) / config.mask_rate)[:, None] * (chances - chosen)
    by_p = sum(errors[:, k, None] * gather(read.W, item * K + k) for k in range(K))  # no array of [n, K, N_h]
    by_p = jax.ops.segment_sum(by_p, owner, len(weight), indices_are_sorted=True)
    by_input = by_p * p * (1 - p) + zero_after(by_p[0, 0])  # all that is read of tables has been read
    shares = jnp.stack([errors, jnp.where(masked[:, None], 0.0, chosen)], axis=2)
    if P is not None:
        shares = jnp.einsum("kl,nls->nks", jnp.asarray(P), shares)
    own = jnp.minimum(owner, len(weight) - 1)
    of_W = Products(item, shares, own, jnp.stack([p - config.center, by_input], axis=1))
    return total, metrics, weights._replace(W=(of_W,), b_m=(Rows(item, errors),), b_h=jnp.sum(by_input, axis=0))


def _predicted(
    read: Any, at: Array, batch: Batch, weight: Array, keys: Array, config: Config
) -> tuple[Array, Metrics, tuple[Array, Array, Array, Array]]:
    """Predict the masked ratings: the loss and its Metrics; p [B, N_h]; of each rating P [K], mask and weight.

    Args:
        read, at: as in `rbm.chains.chains`.
    """
    (owner, item, value), K = batch.known, config.num_values
    own, levels = jnp.minimum(owner, len(weight) - 1), jnp.arange(K, dtype=jnp.int32)[None]
    masked = uniform(keys[own], item) < config.mask_rate
    known = jnp.where(masked[:, None], 0.0, gather(read.W, at * K + value))
    of_user = jax.ops.segment_sum(known, owner, len(weight), indices_are_sorted=True)
    p = jax.nn.sigmoid(read.b_h[None] + of_user)  # Eq. 5.10
    logits = read.b_m + dots(read.W.value, at[:, None] * K + levels, stored(read.W.scale * (p - config.center)), own)
    log_p = jax.nn.log_softmax(logits)  # Eq. 5.11
    chances, of_rating = jnp.exp(log_p), of_entries(weight, batch.known)
    counted = jnp.where(masked, of_rating, 0.0)
    nats = -jnp.take_along_axis(log_p, value[:, None], axis=1)[:, 0]
    error = jnp.square(chances @ jnp.arange(K, dtype=chances.dtype) - value)
    metrics = {MASKED.name: Mean(config.step**2 * (counted @ error), jnp.sum(counted))}
    return counted @ nats / config.mask_rate, metrics, (p, chances, masked, of_rating)


def program(config: Config, share: float = 1.0) -> Program:
    """Return the model as the engine sees it, over `Data`."""
    return Program(
        config=config, size=user_batches.num_users, batch=user_batches.gather, loss=batch_loss, score=score,
        metric=Metric("RMSE", np.sqrt), training_metrics=(MASKED,), events=user_batches.num_events,
        sparse=Sparse(rbm.touched, gradient, preconditioned=bool(config.smooth)), ragged=Ragged(user_batches.costs),
        decay=Decay("per-row", share=share),
    )  # fmt: skip


def prepare(key: Array, data: Dataset, rated: Pairs, config: Config) -> TrainingSetup:
    """Set up what the engine trains."""
    params = rbm.init(key, config, data.train, config.scale.level(data.train.stars))
    trained = program(config, decay_share(data, config))
    return TrainingSetup(trained, params, *user_batches.training_data(data, config.scale))


def cost(config: Config, costs: NDArray[np.int64]) -> Cost:
    """Count what a rating takes: one that is left adds a row to its user's input; K rows predict a masked one.

    By a masked rating's K rows its error also reaches the hidden units; then rows move. With `smooth`, K rows move with
    each rating.
    """
    K, H, mask = config.num_values, config.num_hidden, config.mask_rate
    read = (1 - mask) + mask * K
    moved = K if config.smooth else read
    formula = (
        "N_h operations for a rating that is left, 4 K N_h for a masked one, 2 N_h for each row that moves; "
        f"1 or K rows of W read, {'K' if config.smooth else 'as many'} written"
    )
    return Cost(((1 - mask) + 4 * K * mask + 2 * moved) * H, read * H, moved * H, formula)


# "tuned" was chosen by the validation ratings of MovieLens 1M, with 200 hidden units.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "tuned": (
        Recipe(
            optimizer="sgd", batch_size=20, epochs=30, rate={"*": 0.03}, decay={"*": 0.1, "W": 12.0}, anneal=True,
            reduction="sum",
        ),
        {"init_scale": 0.02, "center": 0.5, "smooth": 2.5, "full_decay": 180.0},
    ),
}  # fmt: skip

MODEL = RatingModel(
    name="masked-rbm", about="an RBM that predicts masked ratings",
    source="after Goodfellow et al. 2013; not of the thesis", config=Config, shapes=rbm.shapes,
    recipes=RECIPES, fitting=(BySGD(prepare),), fixed={"cd_steps": (1,), "prior": "per-row"},
    capabilities=(PredictsRatings(predictor), FoldsIn(fold_in), SimilarItems(rbm.item_vectors)), cost=cost,
)  # fmt: skip
