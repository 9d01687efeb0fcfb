"""vLBL: a word is predicted from all words around it, weighted by position (Mnih and Kavukcuoglu 2013, §3.1)."""

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
    """Compute the loss of ONE block, the sum over its centres that have words around them: the specification.

    q̂ = 1/n Σ c_i ⊙ r_i over the n words of the window (Eq. 4), where c_i is 1 if positions are alike. Differs: the
    paper has no factor 1/n, by which q̂ is of similar length in narrow and wide windows.
    """
    require_whole(params)
    offsets = jnp.array(blocks.offsets(config.window))
    c = jnp.ones((1, 1)) if params.c is None else params.c

    def of_centre(m: Array) -> Array:
        held = blocks.holds(example.left[m].astype(int), example.right[m].astype(int), offsets)
        weighed = held[:, None] * c * params.R[example.words[m + config.window + offsets]]
        q_hat = jnp.sum(weighed, axis=0) / jnp.maximum(jnp.sum(held), 1)
        word = example.words[m + config.window]
        nats = model.nats(params, q_hat, word, example.aux, example.aux.of_word[m])
        return jnp.where(jnp.any(held), nats, 0)

    return jnp.sum(jax.vmap(of_centre)(jnp.arange(config.block_size)))


def per_block(read: Params, batch: Blocks, config: Config) -> Array:
    """Compute `loss` for each block, [B], from the rows that `model.touched` names."""
    held = model.windows(batch, config)
    number = jnp.sum(held, axis=2)
    weights = (held / jnp.maximum(number, 1)[..., None]).astype(read.R.dtype)
    R, q_hat = read.R.reshape(*batch.words.shape, -1), jnp.zeros((), read.R.dtype)
    for j, offset in enumerate(blocks.offsets(config.window)):  # slices: gathering the rows takes twice as long
        of_word = R[:, config.window + offset : config.window + offset + config.block_size]
        weighed = weights[:, :, j, None] * of_word
        q_hat += weighed if read.c is None else read.c[j][None, None] * weighed
    return model.batch_nats(read, q_hat[:, :, None], number[..., None] > 0, batch.aux)


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
    """Estimate log P(w | words around a gap) for each word w that could fill it: [n], nats, not normalised.

    Args:
        params: `Params`, in NumPy.
        around: int32 [m].
        places: int32 [m], their offsets from the gap.
        words: int32 [n].
    """
    q_hat = (model.weights(params, places) * params.R[around]).sum(axis=0) / max(1, len(around))
    return params.Q[words] @ q_hat + params.b[words]


def cost(config: Config, costs: None = None) -> Cost:
    """Count what a word takes: products with a window's weights, the word's vector, and noise."""
    D, M, c, K = config.num_features, config.block_size, config.window, config.num_noise
    products = 1 + K + (2 * c if config.position_dependent else 0)
    numbers = D * (2 + (2 * c + K) / M)
    formula = "6 D (1 + K + 2c, without c where positions are alike) operations; rows of 2 + (2c + K)/M words"
    return Cost(PRODUCT * D * products, numbers, numbers, formula)


MODEL = LanguageModel(
    name="vlbl",
    about="vLBL, word vectors that predict a word from its neighbours together",
    source="Mnih and Kavukcuoglu 2013, §3",
    config=Config,
    recipes=model.RECIPES,
    fitting=BySGD(parameters=Params._fields, init=model.init, texts=model.texts, program=program, counts=blocks.counts),
    capabilities=(Embeds(lambda params: params.R, ("Q",)), model.fills_gaps(fit_of_words, of_word=True)),
    cost=cost,
)
