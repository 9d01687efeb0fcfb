"""The energy-based, *cycling* version of the neural probabilistic language model.

The next word is an input of the network, too, by the same feature vectors as the context's words, and the network's
output is an energy: P(w | context) ∝ exp(-E(context, w)), with

    E(context, w) = -v·tanh(d + Hx + G r_w) - b_w,

where x is the concatenation of the context's feature vectors, oldest first. Each candidate for the next word takes a
pass through the tanh layer, N_h terms, so that this version is far slower than the direct one (`jaxlm.models.nplm`).

Source: Bengio, Ducharme, Vincent and Jauvin 2003, §5 (in its notation, but with R for its C, and its H cut in two);
Mnih 2010, §2.2.1.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxfit.devices.platform import at_once
from jaxfit.program import Mean, Metrics, Program
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxlm.capabilities import Embeds
from jaxlm.context_model import Batch, context_program, predicts_from_context, texts
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data.contexts import vectors_of
from jaxlm.objectives.base_rates import log_base_rates

AT_ONCE = 1  # contexts of a block on a CPU, where two took five times as long


@dataclass(frozen=True)
class Config:
    """What shapes the program."""

    num_words: int = option(help="vocabulary size", unit="words")
    num_features: int = option(50, "feature vector dimensionality", "features", first=True)
    context_size: int = option(5, "context words that predict the next", "words", first=True)
    num_hidden: int = option(50, "size of the tanh layer", "units", first=True)
    init_scale: float = option(0.1, "standard deviation of initial feature vectors")
    across_lines: bool = option(True, "contexts run on across line ends")


class Params(NamedTuple):
    """Parameters.

    Attributes:
        R: [N_w, N_f], feature vectors of all words.
        H: [N_h, c N_f], weights of the tanh layer for the context.
        G: [N_h, N_f], weights of the tanh layer for the next word.
        d: [N_h], biases of the tanh layer.
        v: [N_h], weights from the tanh layer to minus the energy.
        b: [N_w], word biases.
    """

    R: Array
    H: Array
    G: Array
    d: Array
    v: Array
    b: Array


def init(key: Array, config: Config, counts: ArrayLike) -> Params:
    """Draw the parameters before training: small Gaussians, and biases that give the base rates.

    Differs: the scales are ours. A word that never occurs counts as one that occurs once, since its bias would be
    infinite. The signs of v and b are those of -E.

    Args:
        counts: [N_w], of the training text.
    """
    N_f, N_h, c = config.num_features, config.num_hidden, config.context_size
    key_R, key_H, key_G, key_v = jax.random.split(key, 4)
    return Params(
        R=config.init_scale * jax.random.normal(key_R, (config.num_words, N_f)),
        H=(c * N_f) ** -0.5 * jax.random.normal(key_H, (N_h, c * N_f)),
        G=N_f**-0.5 * jax.random.normal(key_G, (N_h, N_f)),
        d=jnp.zeros(N_h),
        v=N_h**-0.5 * jax.random.normal(key_v, (N_h,)),
        b=log_base_rates(counts),
    )


def energies(params: Params, context: Array) -> Array:
    """Compute E(context, w) of every word, [N_w], by one pass through the network for each.

    Args:
        context: int32 [c].
    """
    x = vectors_of(params.R, context).reshape(-1)
    energy = jax.vmap(lambda r, b: -(params.v @ jnp.tanh(params.d + params.H @ x + params.G @ r)) - b)
    return energy(params.R, params.b)


def log_prob(params: Params, context: Array, config: Config) -> Array:
    """Compute log P(w | context) for every word: [N_w], nats.

    Args:
        context: int32 [c].
    """
    return jax.nn.log_softmax(-energies(params, context))


def loss(params: Params, example: Batch, key: Array | None, config: Config) -> Array:
    """Compute -log P(w_n | w_{1:n-1}) in nats, for ONE example: the specification."""
    return -log_prob(params, example.context, config)[example.word]


def batch_loss(
    params: Params, batch: Batch, weight: Array, keys: Array | None, config: Config
) -> tuple[Array, Metrics]:
    """Sum over the minibatch of weight * `loss`.

    Args:
        weight: [B], 0 for padding.
    """
    total = weight @ score(params, batch, config)
    return total, {"perplexity": Mean(total, jnp.sum(weight))}


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Compute -log P(word | context) of each example, [B], in nats."""
    of_context = params.d[None] + vectors_of(params.R, batch.context).reshape(len(batch.word), -1) @ params.H.T
    of_words = params.R @ params.G.T
    of_word = -(jnp.tanh(of_context + of_words[batch.word]) @ params.v) - params.b[batch.word]
    return log_normalizers(params.v, params.b, of_context, of_words) + of_word


@jax.named_scope("energies")
def log_normalizers(v: Array, b: Array, of_context: Array, of_words: Array) -> Array:
    """Compute log Σ_w exp(-E) of each context, [B], in nats.

    The tanh layer of all words is [B, N_w, N_h]: contexts are taken in blocks, and the backward pass computes the layer
    again.

    Args:
        v: [N_h].
        b: [N_w].
        of_context: inputs of the tanh layer from the contexts, d + Hx, [B, N_h].
        of_words: inputs from each next word, G r_w, [N_w, N_h].
    """
    B, N_h = of_context.shape
    rows = at_once(B, of_words.size, AT_ONCE)
    blocks = jnp.pad(of_context, ((0, -B % rows), (0, 0))).reshape(-1, rows, N_h)

    @jax.checkpoint
    def of_block(of_context: Array) -> Array:
        hidden = jnp.tanh(of_context[:, None] + of_words[None])
        return jax.nn.logsumexp(hidden @ v + b[None], axis=1)

    return lax.map(of_block, blocks).reshape(-1)[:B]


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over a `Text`."""
    return context_program(config, batch_loss, score)


def cost(config: Config, costs: Any = None) -> Cost:
    """Count what a word takes: the products of v with each word's tanh layer, and of H.

    Those of G are made once for a minibatch, and left out.
    """
    D, N_h = config.context_size * config.num_features, config.num_hidden
    return Cost(PRODUCT * N_h * (config.num_words + D), 0, 0, "6 N_h (N_w + c D) operations: v, H; tanh is left out")


# "tuned" has the better of two rates by validation on only 400 lines of the Penn Treebank, as each word takes as many
# passes through the network as there are words. The perplexity of these lines is 134.0, and 112.5 by the direct model.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "tuned": (
        Recipe(
            optimizer="adam", batch_size=100, epochs=5, rate={"*": 1e-2}, decay={"R": 0.1, "H": 0.05, "G": 0.05},
            anneal=True,
        ),
        {},
    ),
}  # fmt: skip

MODEL = LanguageModel(
    name="nplm-cycling",
    about="the energy-based version of the neural probabilistic language model",
    source="Bengio et al. 2003, §5",
    config=Config,
    recipes=RECIPES,
    fitting=BySGD(parameters=Params._fields, init=init, texts=texts, program=program),
    capabilities=(predicts_from_context(log_prob), Embeds(lambda params: params.R)),
    cost=cost,
)
