"""ivLBL: a word is predicted from each word around it in turn (Mnih and Kavukcuoglu 2013, §3.2).

Differs: the paper predicts the words of a window from its centre. Here the centre is predicted from each word of its
window: the same pairs of words in the same places relative to one another.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.program import Metrics, Program
from jaxfit.registry import PRODUCT, Cost
from jaxfit.tables import Gathered, require_whole, rows_of
from jaxlm.capabilities import Embeds
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.models.vector_lbl import model
from jaxlm.models.vector_lbl.model import Config, Params
from jaxlm.models.word2vec import blocks
from jaxlm.models.word2vec.blocks import Blocks


def loss(params: Params, example: Blocks, config: Config) -> Array:
    """Compute the loss of ONE block, the sum over the words of all its windows: the specification.

    q̂ = c_i ⊙ r_i for the word at position i (Eq. 6), where c_i is 1 if positions are alike.
    """
    require_whole(params)
    offsets = jnp.array(blocks.offsets(config.window))
    c = jnp.ones((len(offsets), 1)) if params.c is None else params.c

    def of_pair(m: Array, offset: Array, weights: Array) -> Array:
        q_hat, word = weights * params.R[example.words[m + config.window + offset]], example.words[m + config.window]
        nats = model.nats(params, q_hat, word, example.aux, example.aux.of_word[m])
        return jnp.where(blocks.holds(example.left[m].astype(int), example.right[m].astype(int), offset), nats, 0)

    of_window = jax.vmap(of_pair, (None, 0, 0))
    return jnp.sum(jax.vmap(of_window, (0, None, None))(jnp.arange(config.block_size), offsets, c))


def per_block(read: Params, batch: Blocks, config: Config) -> Array:
    """Compute `loss` for each block, [B], from the rows that `model.touched` names."""
    place = jnp.arange(config.block_size)[:, None] + config.window + jnp.array(blocks.offsets(config.window))[None]
    R = read.R.reshape(*batch.words.shape, -1)[:, place]  # of the words around each centre, [B, M, J, D]
    q_hat = R if read.c is None else R * read.c[None, None]
    return model.batch_nats(read, q_hat, model.windows(batch, config), batch.aux)


def batch_loss(
    params: Gathered, batch: Blocks, weight: Array, keys: Array | None, config: Config
) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`, from the rows of `touched`."""
    return blocks.weighted(per_block(rows_of(params), batch, config), batch, weight, model.DRAWN)


def score(params: Params, batch: Blocks, config: Config) -> Array:
    """Compute the `loss` of each block, [B], with the same noise each time."""
    return per_block(*blocks.read(params, batch, program(config)), config)


def program(config: Config) -> Program:
    """Return the model as the engine sees it."""
    return model.program(batch_loss, score, config)


def fit_of_words(
    params: Any, around: NDArray[np.int32], places: NDArray[np.int32], words: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Estimate Σ log P(v | w) over the words v around a gap, for each word w that could fill it: [n], nats.

    It is not normalised.

    Args:
        params: `Params`, in NumPy.
        around: int32 [m].
        places: int32 [m], their offsets from the gap.
        words: int32 [n].
    """
    weighed = model.weights(params, -places) * params.Q[around]  # the gap's place, seen from each word v
    return params.R[words] @ weighed.sum(axis=0) + params.b[around].sum()


def cost(config: Config, costs: None = None) -> Cost:
    """Count what a word takes: for each word of its window, products with its vector, the weights, and noise."""
    D, M, J, K = config.num_features, config.block_size, 2 * config.window, config.num_noise
    numbers = D * (2 + (J + K) / M)
    formula = "6 D J (1 + K, 1 more with position weights) operations; rows of 2 + (2c + K)/M words"
    return Cost(PRODUCT * D * J * (1 + K + config.position_dependent), numbers, numbers, formula)


MODEL = LanguageModel(
    name="ivlbl",
    about="ivLBL, word vectors each of which predicts its neighbours",
    source="Mnih and Kavukcuoglu 2013, §3",
    config=Config,
    recipes=model.RECIPES,
    fitting=BySGD(parameters=Params._fields, init=model.init, texts=model.texts, program=program, counts=blocks.counts),
    capabilities=(Embeds(lambda params: params.R, ("Q",)), model.fills_gaps(fit_of_words, of_word=False)),
    cost=cost,
)
