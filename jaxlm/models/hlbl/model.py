"""The hierarchical log-bilinear model: a word is a sequence of left / right decisions that leads to a leaf.

Source: Mnih 2010, §4.3 (Eq. 4.3-4.7), §4.6.1. Trees are made elsewhere (`jaxlm.trees.build`); any binary
tree over the words serves, with one leaf per word or several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxfit.program import Mean, Metrics, Program, Ragged, Sparse
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxfit.tables import Gathered, require_whole, rows_of, unscaled
from jaxlm.capabilities import Embeds
from jaxlm.context_model import PERPLEXITY, combined, predicts_from_context
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data.contexts import text_of, vectors_of
from jaxlm.models.hlbl import gradient as hlbl_gradient
from jaxlm.models.hlbl import tree as hlbl_tree
from jaxlm.models.hlbl.batch import Batch, Data, costs, gather, make_data, num_examples
from jaxlm.objectives.dropout import dropout
from jaxlm.objectives.segments import segment_logsumexp
from jaxlm.objectives.tree import log_prob_of_logits
from jaxlm.objectives.tree_tiles import TILE
from jaxlm.trees.paths import Tree, node_biases


@dataclass(frozen=True)
class Config:
    """What shapes the program."""

    num_words: int = option(help="vocabulary size", unit="words")
    num_nodes: int = option(help="internal nodes of the tree", unit="nodes")
    num_features: int = option(100, "feature vector dimensionality", "features", first=True)
    context_size: int = option(5, "context words that predict the next", "words", first=True)
    diagonal: bool = option(True, "diagonal context matrices: N_f weights a position, not N_f²")
    dropout: float = option(0.0, "share of the predicted vector that is dropped", below=1)
    init_scale: float = option(0.01, "standard deviation of initial weights")
    across_lines: bool = option(True, "contexts run on across line ends")
    shared_variance: bool = option(
        False, "the two Gaussians that split words share one variance: boundaries are linear; of trees that are learned"
    )  # not of the program, but recipes differ in it, and they set fields of Config

    @property
    def num_hot(self) -> int:
        """How many of the first nodes are dense in a minibatch."""
        return hlbl_tree.num_hot(self.num_nodes, self.num_words)


class Params(NamedTuple):
    """Parameters.

    Attributes:
        R: [N_w, N_f], context word vectors.
        C: [c, N_f], the diagonals of the context matrices, or [c, N_f, N_f], whole matrices where they are not
            diagonal.
        Q: [nodes, N_f].
        b: [nodes].
    """

    R: Array
    C: Array
    Q: Array
    b: Array


def init(key: Array, config: Config, counts: np.ndarray, tree: Tree) -> Params:
    """Return parameters before training (§4.6.1): small Gaussians, and biases that give the base rates.

    Differs: C_i is small Gaussians around the identity over c, where §4.6.1 draws all weights around 0: Eq. 4.7 would
    then begin with a product of two near-zero factors, whose gradients are near zero as well.

    Args:
        counts: [N_w], of the training text.
        tree: over the words.
    """
    D, c = config.num_features, config.context_size
    kR, kC, kQ = jax.random.split(key, 3)
    scale = config.init_scale
    shape, identity, spread = ((c, D), jnp.ones(D), 1.0) if config.diagonal else ((c, D, D), jnp.eye(D), D**-0.5)
    return Params(
        R=scale * jax.random.normal(kR, (config.num_words, D)),
        # so that at first r̂ is about the average of the context's vectors
        C=(1 / c * identity)[None] + scale * spread * jax.random.normal(kC, shape),
        Q=scale * jax.random.normal(kQ, (config.num_nodes, D)),
        b=jnp.asarray(node_biases(tree, counts), float),
    )


def loss(params: Params, example: tuple[Array, Array, Array], key: Array | None, config: Config) -> Array:
    """Compute -log P(word | context) in nats, for ONE example: the specification.

    Args:
        example: context int32 [c], oldest first; nodes and signs int32 [codes, depth] of the word's codes, +1 where the
            code goes left, -1 right, 0 beyond its end. A code that is all 0 is none.
    """
    require_whole(params)
    context, nodes, signs = example
    r_hat = combined(params.C, params.R[context])
    r_hat = dropout(r_hat, key, config.dropout)
    decision = jax.nn.log_sigmoid(signs * (params.Q[nodes] @ r_hat + params.b[nodes]))  # Eq. 4.5
    log_code = jnp.sum(jnp.where(signs == 0, 0.0, decision), axis=1)  # Eq. 4.4
    return -jax.nn.logsumexp(log_code, where=jnp.any(signs != 0, axis=1))  # Eq. 4.6


def batch_loss(
    params: Gathered, batch: Batch, weight: Array, keys: Array | None, config: Config
) -> tuple[Array, Metrics]:
    """Sum over the minibatch of weight * `loss`, in nats, from the rows that `touched` names."""
    read = rows_of(params)
    c, B = batch.context.shape
    r_hat = combined(read.C, read.R.reshape(c, B, -1).transpose(1, 0, 2))
    if keys is not None and config.dropout:
        r_hat = jax.vmap(lambda r, key: dropout(r, key, config.dropout))(r_hat, keys)
    tiles = jax.tree.map(lambda *x: jnp.concatenate(x), batch.hot, batch.cold)
    number = tiles.node.size
    logit = jnp.sum(read.Q[:number] * r_hat[jnp.repeat(tiles.owner, TILE)], axis=1) + read.b
    decision = jax.nn.log_sigmoid(tiles.sign * logit.reshape(-1, TILE))
    of_tile = jnp.sum(jnp.where(tiles.sign == 0, 0.0, decision), axis=1)
    owner = jnp.arange(B) if batch.owner is None else batch.owner
    log_code = jnp.zeros(owner.shape, logit.dtype).at[tiles.slot].add(of_tile, mode="drop")
    total = -jnp.sum(weight * segment_logsumexp(log_code, owner, B))
    return total, {"perplexity": Mean(total, jnp.sum(weight))}


def gradient(weights: Any, batch: Batch, weight: Array, keys: Array, config: Config) -> tuple[Array, Metrics, Any]:
    """Compute `batch_loss` and its gradient, in parts, by `jaxlm.models.hlbl.gradient`."""
    mask = None
    if config.dropout:
        ones = jnp.ones(config.num_features)
        mask = jax.vmap(lambda key: dropout(ones, key, config.dropout))(keys)
    loss, grads = hlbl_gradient.gradient(weights, batch, weight, mask, config.num_hot)
    return loss, {"perplexity": Mean(loss, jnp.sum(weight))}, Params._make(grads)


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows of R, Q and b that a minibatch updates; C is dense.

    These are the rows that it reads and, of Q, last, those of all hot nodes, whose gradient is a block.
    """
    nodes = jnp.concatenate([batch.hot.node.reshape(-1), batch.cold.node.reshape(-1)])
    of_Q = jnp.concatenate([nodes, jnp.arange(config.num_hot, dtype=nodes.dtype)])
    return Params(R=batch.context.reshape(-1), C=None, Q=of_Q, b=nodes)  # type: ignore[arg-type]


def log_prob(params: Params, context: Array, config: Config, children: Array) -> Array:
    """Compute log P(w | context) for every word: float[N_w], nats (Eq. 4.4-4.6).

    Args:
        context: int32 [c].
        children: of the tree, int32 [nodes, 2].
    """
    r_hat = combined(params.C, vectors_of(params.R, context))
    return log_prob_of_logits(params.Q @ r_hat + params.b, children, config.num_words)


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Compute -log P(word | context), float32[B], in nats, no dropout."""
    weights = [unscaled(array) for array in params]
    read = vectors_of(params.R, batch.context)
    return hlbl_gradient.forward(weights, read, batch, None, config.num_hot).loss


def texts_over(tree: Tree, config: Config, eos: int) -> Callable[[np.ndarray], Data]:
    """Return `make_data` of any number of texts, over one tree, whose tables are made once, when first needed."""

    @cache
    def tables() -> Data:
        return make_data(np.zeros(0, np.int32), tree, config, eos)

    return lambda ids: tables()._replace(text=text_of(ids, eos))


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over `Data`."""
    return Program(
        config=config, size=num_examples, batch=gather, loss=batch_loss, score=score,
        metric=PERPLEXITY, sparse=Sparse(touched, gradient), ragged=Ragged(costs),
    )  # fmt: skip


def cost(config: Config, costs: np.ndarray) -> Cost:
    """Count what a word takes: the products of its decisions' vectors and of C, and the rows that are not hot."""
    (hot, cold), D, c = TILE * costs[:, :2].mean(axis=0, dtype=np.float64), config.num_features, config.context_size
    numbers, of_C = D * (cold + c), c if config.diagonal else c * D
    formula = (
        f"6 D (decisions + c{'' if config.diagonal else ' D'}) operations; 8 D (decisions below the hot nodes + c) "
        f"bytes: rows of Q, R; decisions in tiles of {TILE}"
    )
    return Cost(PRODUCT * D * (hot + cold + of_C), numbers, numbers, formula)


# Differs: the thesis states rates and drop (§4.6.1), not the batch, or how small its L2 penalty of all parameters is.
# "thesis" follows the sum of the penalised log-likelihood over 100 examples, so that rate and penalty are per example,
# as in online training: decay is 100 times the λ = 1e-5 of §3.4.1, of biases, too. Decay is decoupled, once a step
# (`jaxfit.recipe`); after the drop training continues from its current parameters, not from those of the best epoch.
# "tuned" was chosen by validation on the Penn Treebank: perplexity 133.1 with the tree T7, first seed.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (
        Recipe(
            optimizer="sgd", batch_size=100, epochs=100, rate={"*": 1e-3}, decay={"*": 1e-3},
            drops=(0.03,), reduction="sum",
        ),
        {},
    ),
    "tuned": (
        Recipe(
            optimizer="adam", batch_size=1000, epochs=8, rate={"*": 6e-3},
            decay={"*": 0.2, "C": 0.01, "b": 0.0}, anneal=True,
        ),
        {"dropout": 0.2, "shared_variance": True},
    ),
}  # fmt: skip

MODEL = LanguageModel(
    name="hlbl",
    about="the hierarchical log-bilinear model and its tree over words",
    source="Mnih 2010, §4.3",
    config=Config,
    recipes=RECIPES,
    fitting=BySGD(
        parameters=Params._fields,
        init=init,
        texts=lambda config, eos, tree: texts_over(tree, config, eos),
        program=program,
    ),
    structures=(hlbl_tree.TREE,),
    capabilities=(predicts_from_context(log_prob), Embeds(lambda params: params.R)),
    cost=cost,
    one_thread_up_to=100,
)
