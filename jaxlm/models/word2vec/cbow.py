"""CBOW: a word is predicted from the mean of the vectors of the words around it (Mikolov et al. 2013a, §3.1)."""

from math import inf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.program import Metrics, Program
from jaxfit.registry import Cost
from jaxfit.row_products import row_sums, scores, weighted_sums
from jaxfit.tables import Gathered, require_whole, rows_of
from jaxlm.capabilities import Embeds
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.models.word2vec import blocks, model, outputs
from jaxlm.models.word2vec.blocks import Blocks
from jaxlm.models.word2vec.model import Config, Params
from jaxlm.objectives.logistic import softplus
from jaxlm.objectives.tree import Codes
from jaxlm.objectives.word_tree import WORD_TREE


def loss(params: Params, example: Blocks, config: Config) -> Array:
    """Compute the loss of ONE block, the sum over its centres that have words around them: the specification."""
    require_whole(params)
    c, offsets = config.window, jnp.array(blocks.offsets(config.window))

    def of_centre(m: Array) -> Array:
        held = blocks.holds(example.left[m].astype(int), example.right[m].astype(int), offsets)
        around = params.W[example.words[m + c + offsets]]
        mean = held.astype(around.dtype) @ around / jnp.maximum(jnp.sum(held), 1)
        aux = jax.tree.map(lambda x: x[m], example.aux) if config.objective == "tree" else example.aux
        nats = outputs.nats(params.C, mean, example.words[m + c], aux, config)
        return jnp.where(jnp.any(held), nats, 0)

    return jnp.sum(jax.vmap(of_centre)(jnp.arange(config.block_size)))


def per_block(read: Params, batch: Blocks, config: Config) -> Array:
    """Compute `loss` for each block, [B], from the rows that `model.touched` names."""
    held, W = blocks.band(batch, config), read.W.reshape(*batch.words.shape, -1)
    number = blocks.window_sizes(batch)
    means = weighted_sums((held / jnp.maximum(number, 1)[..., None]).astype(W.dtype), W)
    if config.objective == "tree":
        nats = outputs.by_tree(read.C, means[:, :, None], batch.aux)[..., 0]
    else:
        C, M = read.C.reshape(len(means), -1, means.shape[-1]), config.block_size
        against = jnp.sum(softplus(scores(means, C[:, M:])), axis=2)
        nats = softplus(-row_sums(means * C[:, :M])) + config.num_noise / config.block_noise * against
    return jnp.sum(jnp.where(number > 0, nats, 0), axis=1)


def batch_loss(
    params: Gathered, batch: Blocks, weight: Array, keys: Array | None, config: Config
) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`, from the rows of `touched`."""
    return blocks.weighted(per_block(rows_of(params), batch, config), batch, weight, outputs.DRAWN[config.objective])


def score(params: Params, batch: Blocks, config: Config) -> Array:
    """Compute the `loss` of each block, [B], with the same noise each time."""
    return per_block(*blocks.read(params, batch, program(config)), config)


def program(config: Config) -> Program:
    """Return the model as the engine sees it."""
    return model.program(batch_loss, score, config)


def fit_of_words(
    params: Any, around: NDArray[np.int32], words: NDArray[np.int32], codes: Codes | None, config: Config
) -> NDArray[np.float32]:
    """Compute how well the mean of the words around a gap predicts each word that could fill it: [n], nats.

    All other words of the line are around it, not only those within a window.

    Args:
        params: `Params`, in NumPy.
        around: int32 [m].
        words: int32 [n].
        codes: of the tree, if any.
    """
    mean = params.W[around].sum(axis=0) / max(1, len(around))
    return outputs.log_odds(params.C, mean[None], words, codes, config)[0]


def cost(config: Config, costs: None = None) -> Cost:
    """Count what a word takes: one prediction for each word, from the mean of its window."""
    return model.cost(config, 1, 1)


MODEL = LanguageModel(
    name="cbow",
    about="CBOW, word vectors that predict a word from the mean of its neighbours",
    source="Mikolov et al. 2013a, §3.1; 2013b",
    config=Config,
    recipes=model.RECIPES,
    fitting=BySGD(parameters=Params._fields, init=model.init, texts=model.texts, program=program, counts=blocks.counts),
    structures=(WORD_TREE,),
    capabilities=(Embeds(lambda params: params.W, ("C",)), model.fills_gaps(fit_of_words, of_word=True)),
    cost=cost,
    one_thread_up_to=inf,
)
