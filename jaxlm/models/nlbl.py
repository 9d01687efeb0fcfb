"""The nonlinear log-bilinear model: a layer of sigmoid units predicts the next word's feature vector.

The predicted vector is r̂ = B σ(A x + a) + e, where x is the concatenation of the context's feature vectors; the linear
prediction of the LBL, Σ_i C_i r_{w_i}, is added to it unless left out. The scores of words are those of the LBL.

Source: Mirowski 2014, "Nonlinear Log-Bilinear Language Model"; Mirowski, Chopra, Balakrishnan and Bangalore 2010.
Differs: the slides have B σ(A x + a) + e alone (`linear=False`); with the linear prediction the LBL is a special case.
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxfit.program import Metrics, Program
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxlm.capabilities import Embeds
from jaxlm.context_model import (
    Batch,
    combined,
    context_program,
    predicts_from_context,
    shared_batch_loss,
    shared_touched,
    texts,
)
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data.contexts import vectors_of
from jaxlm.models import lbl
from jaxlm.objectives import output
from jaxlm.objectives.dropout import dropout
from jaxlm.objectives.word_tree import WORD_TREE
from jaxlm.trees.paths import Tree


@dataclass(frozen=True)
class Config(output.Options):
    """What shapes the program."""

    num_words: int = option(help="vocabulary size", unit="words")
    num_features: int = option(100, "feature vector dimensionality", "features", first=True)
    context_size: int = option(5, "context words that predict the next", "words", first=True)
    num_hidden: int = option(200, "sigmoid units", "units", first=True)
    linear: bool = option(True, "add the linear prediction of the LBL")
    dropout: float = option(0.0, "share of the predicted vector that is dropped in training", below=1)
    hidden_dropout: float = option(0.0, "share of the sigmoid units that is dropped in training", below=1)
    feature_dropout: float = option(0.0, "share of the context's features that is dropped in training", below=1)
    init_scale: float = option(0.1, "standard deviation of initial feature vectors")
    across_lines: bool = option(True, "contexts run on across line ends")


class Params(NamedTuple):
    """Parameters.

    Attributes:
        R: [N_w, N_f], word vectors.
        C: [c, N_f, N_f], context matrices; [0, N_f, N_f] without the linear prediction.
        A: [N_h, c N_f], weights of the sigmoid units.
        a: [N_h], biases of the sigmoid units.
        B: [N_f, N_h], weights from them to the predicted vector.
        e: [N_f], biases of the predicted vector.
        b: [N_w], word biases, or [N_w - 1], of a tree's nodes.
        head: of `output.init`.
    """

    R: Array
    C: Array
    A: Array
    a: Array
    B: Array
    e: Array
    b: Array
    head: output.Head | None = None


def init(key: Array, config: Config, counts: np.ndarray | Array, tree: Tree | None = None) -> Params:
    """Return parameters before training: those of the LBL, small Gaussians, and zeros for the other biases.

    Args:
        counts: [N_w], of the training text.
        tree: where there is one.
    """
    D, c, N_h = config.num_features, config.context_size, config.num_hidden
    key_lbl, key_A, key_B, key_head = jax.random.split(key, 4)
    size = lbl.Config(config.num_words, num_features=D, context_size=c, init_scale=config.init_scale)
    R, C, *_ = lbl.init(key_lbl, size, counts)
    return Params(
        R=R,
        C=C if config.linear else C[:0],
        A=(c * D) ** -0.5 * jax.random.normal(key_A, (N_h, c * D)),
        a=jnp.zeros(N_h),
        B=0.1 * N_h**-0.5 * jax.random.normal(key_B, (D, N_h)),
        e=jnp.zeros(D),
        b=output.biases(config, counts, tree),
        head=output.init(key_head, config, D, counts, shared=True),
    )


@jax.named_scope("prediction")
def predicted_vector(params: Params, vectors: Array, key: Array | None, config: Config) -> Array:
    """Compute r̂ from the feature vectors of ONE context, [c, N_f], oldest first: [N_f]. Without a key, no dropout."""
    key_x, key_h, key_r = (None, None, None) if key is None else jax.random.split(key, 3)
    x = dropout(vectors.reshape(-1), key_x, config.feature_dropout)
    h = dropout(jax.nn.sigmoid(params.A @ x + params.a), key_h, config.hidden_dropout)
    r_hat = params.B @ h + params.e
    if config.linear:
        r_hat = r_hat + combined(params.C, x.reshape(vectors.shape))  # Mnih 2010, Eq. 3.16
    return dropout(r_hat, key_r, config.dropout)


def loss(params: Params, example: Batch, key: Array | None, config: Config) -> Array:
    """Compute -log P(w_n | w_{1:n-1}) in nats, or another objective, for ONE example: the specification.

    Differs: the dropout of x, of the sigmoid units and of r̂ is ours.
    """
    r_hat = predicted_vector(params, params.R[example.context], key, config)
    return output.loss(params.R, params.b, params.head, r_hat, example.word, example.aux, config)


def batch_loss(params: Any, batch: Batch, weight: Array, keys: Array | None, config: Config) -> tuple[Array, Metrics]:
    """Sum over the minibatch of weight * `loss`.

    Args:
        params: of the model; with an objective that reads rows, `Gathered`.
        weight: [B], 0 for padding.
        keys: [B], one for each example.
    """
    return shared_batch_loss(params, batch, weight, config, functools.partial(_predicted, keys=keys, config=config))


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows that a step reads, int32 [k] of each table, with an objective that reads rows."""
    return shared_touched(batch, config, Params)


def _predicted(params: Params, vectors: Array, keys: Array | None, config: Config) -> Array:
    one = functools.partial(predicted_vector, config=config)
    return jax.vmap(one, (None, 0, None if keys is None else 0))(params, vectors, keys)


def log_prob(params: Params, context: Array, config: Config, children: Array | None = None) -> Array:
    """Compute log P(w | context) for every word: [N_w], nats.

    Args:
        context: int32 [c].
        children: of the tree, if any.
    """
    r_hat = predicted_vector(params, vectors_of(params.R, context), None, config)
    return output.log_prob(params.R, params.b, params.head, r_hat, config, children)


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Compute -log P(word | context) of each example, [B], in nats, no dropout."""
    r_hat = _predicted(params, vectors_of(params.R, batch.context), None, config)
    return output.nats(params.R, params.b, params.head, r_hat, batch.word, batch.aux, config)


def log_normalizer(params: Params, batch: Batch, config: Config) -> Array:
    """Compute log Z of each example's scores, [B], in nats, no dropout; near 0 after noise-contrastive estimation."""
    r_hat = _predicted(params, vectors_of(params.R, batch.context), None, config)
    return output.log_normalizer(params.R, params.b, params.head, r_hat)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over a `Text`."""
    return context_program(config, batch_loss, score, touched=touched)


def cost(config: Config, costs: Any = None) -> Cost:
    """Count what a word takes: the products of R in the output, of A, B and C; rows read with noise or a tree."""
    D, c, N_h, out = config.num_features, config.context_size, config.num_hidden, output.work(config, costs)
    operations = PRODUCT * (out.products * D + (c + 1) * N_h * D + (c * D**2 if config.linear else 0))
    rows = D * (out.rows + c) if out.rows else 0
    linear, matrices = (" + c D²", "A, B, C") if config.linear else ("", "A, B")
    formula = f"6 (({out.formula}) D + (c + 1) N_h D{linear}) operations: R by the {config.objective}, {matrices}"
    return Cost(operations, rows, rows, formula)


# "thesis" is that of the LBL; its rate and decay are for parameters of the same kind.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (
        Recipe(
            optimizer="sgd", batch_size=1000, epochs=100, rate={"*": 3e-3},
            decay={"*": 1e-5, "R": 1e-4, "a": 0.0, "e": 0.0, "b": 0.0}, drops=(0.1,), reduction="sum",
        ),
        {},
    ),
    "tuned": (
        Recipe(
            optimizer="adam", batch_size=500, epochs=26, rate={"*": 5e-3}, anneal=True,
            decay={"R": 0.15, "C": 0.05, "A": 0.05, "B": 0.05},
        ),
        {"dropout": 0.2},
    ),
}  # fmt: skip

MODEL = LanguageModel(
    name="nlbl",
    about="the nonlinear log-bilinear model",
    source="Mirowski 2014, slides",
    config=Config,
    recipes=RECIPES,
    fitting=BySGD(parameters=Params._fields, init=init, texts=texts, program=program),
    structures=(WORD_TREE,),
    capabilities=(predicts_from_context(log_prob, log_normalizer), Embeds(lambda params: params.R)),
    cost=cost,
)
