"""Skip-gram: a word is predicted from the vector of each word around it in turn (Mikolov et al. 2013a, §3.2).

Differs: the paper predicts the words of a window from its centre. Here, as in the authors' program, the centre is
predicted from each word of its window: the same pairs of words, except that the width of a window belongs to its
centre.
"""

from math import inf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from jaxfit.program import Metrics, Program
from jaxfit.registry import Cost
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
    """Compute the loss of ONE block, the sum over the words of all its windows: the specification."""
    require_whole(params)
    c, offsets = config.window, jnp.array(blocks.offsets(config.window))

    def of_pair(m: Array, offset: Array) -> Array:
        aux = jax.tree.map(lambda x: x[m], example.aux) if config.objective == "tree" else example.aux
        nats = outputs.nats(params.C, params.W[example.words[m + c + offset]], example.words[m + c], aux, config)
        return jnp.where(blocks.holds(example.left[m].astype(int), example.right[m].astype(int), offset), nats, 0)

    of_window = jax.vmap(of_pair, (None, 0))
    return jnp.sum(jax.vmap(of_window, (0, None))(jnp.arange(config.block_size), offsets))


def per_block(read: Params, batch: Blocks, config: Config) -> Array:
    """Compute `loss` for each block, [B], from the rows that `model.touched` names."""
    held = blocks.band(batch, config)
    W = read.W.reshape(*batch.words.shape, -1)
    if config.objective == "tree":
        places = jnp.arange(config.block_size)[:, None] + config.window + jnp.array(blocks.offsets(config.window))[None]
        inside = jnp.take_along_axis(held, places[None], axis=2)
        nats = outputs.by_tree(read.C, W[:, places], batch.aux)
        return jnp.sum(jnp.where(inside, nats, 0), axis=(1, 2))
    # A word's scores of noise are the same in all windows that hold it. `row_products.scores`, which is faster in CBOW,
    # is slower here.
    predicts, share = jnp.swapaxes(held, 1, 2), config.num_noise / config.block_noise
    scores = jnp.einsum("bjd,bnd->bjn", W, read.C.reshape(len(W), -1, W.shape[2]))  # of centres, then of noise
    windows = jnp.sum(predicts, axis=2, keepdims=True, dtype=scores.dtype)  # that hold a word
    noise = jnp.broadcast_to(share * windows, (*W.shape[:2], config.block_noise))
    weight = jnp.concatenate([predicts.astype(scores.dtype), noise], axis=2)
    sign = jnp.where(jnp.arange(scores.shape[2]) < config.block_size, -1.0, 1.0)
    losses = softplus(sign[None, None] * scores)
    return jnp.einsum("bjn,bjn->b", weight, losses, precision=lax.Precision.HIGHEST)  # a sum, of no rounded factors


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
    """Compute Σ log P(v | w) over the words v around a gap, for each word w that could fill it: [n], nats.

    They are predicted from w as in Mikolov et al. 2013a, §4.5: all words of the line, not only those within a window.
    With negative sampling it is an unnormalised estimate, which lacks the sum of log (k P_n(v)), the same for all w.

    Args:
        params: `Params`, in NumPy.
        around: the words v, int32 [m].
        words: the words w, int32 [n].
        codes: of the tree, if any.
    """
    return outputs.log_odds(params.C, params.W[words], around, codes, config).sum(axis=1)


def cost(config: Config, costs: None = None) -> Cost:
    """Count what a word takes: the words of a window predict, whose products with noise are the same in all windows."""
    return model.cost(config, config.window + 1, 1 + 2 * config.window / config.block_size)


MODEL = LanguageModel(
    name="skipgram",
    about="skip-gram, word vectors each of which predicts its neighbours",
    source="Mikolov et al. 2013a, §3.2; 2013b",
    config=Config,
    recipes=model.RECIPES,
    fitting=BySGD(parameters=Params._fields, init=model.init, texts=model.texts, program=program, counts=blocks.counts),
    structures=(WORD_TREE,),
    capabilities=(Embeds(lambda params: params.W, ("C",)), model.fills_gaps(fit_of_words, of_word=False)),
    cost=cost,
    one_thread_up_to=inf,
)
