"""The neural probabilistic language model: a tanh layer between the context's feature vectors and the softmax.

The logits are y = b + Wx + U tanh(d + Hx), where x is the concatenation of the context's feature vectors, or their
average, which ignores their order; the direct connections W are optional. This is the *direct* version of the model;
the energy-based *cycling* one is in `jaxlm.models.nplm_cycling`.

Source: Bengio, Ducharme, Vincent and Jauvin 2003, §2 (in its notation, but with R for its C); Mnih 2010, §2.2.1; for
the averaged context, slides of CSE 517 after Mikolov, Chen, Corrado and Dean 2013.
"""

import functools
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxfit.program import Metrics, Program
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxfit.tables import rows_of
from jaxlm.capabilities import Embeds
from jaxlm.context_model import Batch, context_program, predicts_from_context, texts
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data.contexts import vectors_of
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
    num_hidden: int = option(100, "size of the tanh layer", "units", first=True)
    context: Literal["concatenated", "averaged"] = option("concatenated", "how the context's features are given")
    direct: bool = option(False, "connect the features to the output directly, too")
    dropout: float = option(0.0, "share of the hidden units that is dropped in training", below=1)
    feature_dropout: float = option(0.0, "share of the context's features that is dropped in training", below=1)
    init_scale: float = option(0.1, "standard deviation of initial feature vectors")
    across_lines: bool = option(True, "contexts run on across line ends")

    @property
    def num_inputs(self) -> int:
        """The size of x."""
        return self.num_features * (self.context_size if self.context == "concatenated" else 1)


class Params(NamedTuple):
    """Parameters.

    With direct connections U is the paper's [U W] side by side, so that one matrix product gives Uh + Wx.

    Attributes:
        R: [N_w, N_f], feature vectors of the context's words.
        H: [N_h, N_x], weights of the tanh layer, where N_x, the size of x, is c N_f, or N_f if averaged.
        d: [N_h], biases of the tanh layer.
        U: [N_w, N_h], weights from the tanh layer to the output; with direct connections [N_w, N_h + N_x]. With a tree
            its rows, and those of b, are of the tree's N_w - 1 nodes.
        b: [N_w], word biases.
        head: from `output.init`.
    """

    R: Array
    H: Array
    d: Array
    U: Array
    b: Array
    head: output.Head | None = None


def init(key: Array, config: Config, counts: ArrayLike, tree: Tree | None = None) -> Params:
    """Draw the parameters before training: small Gaussians, and biases that give the base rates.

    Differs: the scales are ours, and direct connections start at zero.

    Args:
        counts: [N_w], of the training text.
        tree: the model's tree, if any.
    """
    D, N_h, scored = config.num_inputs, config.num_hidden, output.num_scored(config)
    W = jnp.zeros((scored, D if config.direct else 0))
    key_R, key_H, key_U, key_head = jax.random.split(key, 4)
    return Params(
        R=config.init_scale * jax.random.normal(key_R, (config.num_words, config.num_features)),
        H=D**-0.5 * jax.random.normal(key_H, (N_h, D)),
        d=jnp.zeros(N_h),
        U=jnp.concatenate([config.init_scale * jax.random.normal(key_U, (scored, N_h)), W], axis=1),
        b=output.biases(config, counts, tree),
        head=output.init(key_head, config, N_h + W.shape[1], counts),
    )


@jax.named_scope("prediction")
def last_layer(params: Params, vectors: Array, key: Array | None, config: Config) -> Array:
    """Compute the input of the output layer for ONE context: [N_h], or [N_h + N_x] with direct connections.

    It is tanh(d + Hx), where x, [N_x], is the concatenation of the context's feature vectors, or their average; with
    direct connections, x follows it. Differs: the dropout of x and of the hidden units (0 in the recipe `thesis`) is
    ours.

    Args:
        params: of the model.
        vectors: feature vectors of the context, [c, N_f].
        key: of dropout; None: nothing is dropped.
        config: of the model.
    """
    key_x, key_h = (None, None) if key is None else jax.random.split(key)
    x = vectors.reshape(-1) if config.context == "concatenated" else jnp.mean(vectors, axis=0)
    x = dropout(x, key_x, config.feature_dropout)
    h = dropout(jnp.tanh(params.d + params.H @ x), key_h, config.dropout)
    return jnp.concatenate([h, x]) if config.direct else h


def loss(params: Params, example: Batch, key: Array | None, config: Config) -> Array:
    """Compute -log P(w_n | w_{1:n-1}) in nats, or another objective, for ONE example: the specification."""
    z = last_layer(params, params.R[example.context], key, config)
    return output.loss(params.U, params.b, params.head, z, example.word, example.aux, config)


def batch_loss(params: Any, batch: Batch, weight: Array, keys: Array | None, config: Config) -> tuple[Array, Metrics]:
    """Sum over the minibatch of weight * `loss`.

    Args:
        params: of the model; `Gathered` for an objective that reads rows.
        weight: [B], 0 for padding.
        keys: [B], one for each example.
    """
    if output.reads_rows(config):
        rows = rows_of(params)
        z = _last_layers(rows, rows.R.reshape(*batch.context.shape, -1), keys, config)
        return output.batch_loss(rows.U, rows.b, rows.head, z, batch.word, batch.aux, weight, config)
    z = last_layers(params, batch.context, keys, config)
    return output.batch_loss(params.U, params.b, params.head, z, batch.word, batch.aux, weight, config)


def log_prob(params: Params, context: Array, config: Config, children: Array | None = None) -> Array:
    """Compute log P(w | context) for every word: [N_w], nats.

    Args:
        context: int32 [c].
        children: of the tree, if any.
    """
    z = last_layer(params, vectors_of(params.R, context), None, config)
    return output.log_prob(params.U, params.b, params.head, z, config, children)


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Compute -log P(word | context) of each example, [B], in nats, without dropout."""
    z = last_layers(params, batch.context, None, config)
    return output.nats(params.U, params.b, params.head, z, batch.word, batch.aux, config)


def last_layers(params: Params, context: Array, keys: Array | None, config: Config) -> Array:
    """Apply `last_layer` to each context of a minibatch: int32 [B, c] -> [B, N_h], or [B, N_h + N_x] if direct."""
    return _last_layers(params, vectors_of(params.R, context), keys, config)


def _last_layers(params: Params, vectors: Array, keys: Array | None, config: Config) -> Array:
    one = functools.partial(last_layer, config=config)
    return jax.vmap(one, (None, 0, None if keys is None else 0))(params, vectors, keys)


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows that a step reads, int32 [k] of each table, for an objective that reads rows."""
    words = output.row_ids(batch.word, batch.aux, config)
    return Params(R=batch.context.reshape(-1), U=words, b=words, head=output.dense(config), H=None, d=None)  # type: ignore[arg-type]


def log_normalizer(params: Params, batch: Batch, config: Config) -> Array:
    """Compute log Z of each example's scores, [B], in nats, without dropout; near 0 after training with nce."""
    z = last_layers(params, batch.context, None, config)
    return output.log_normalizer(params.U, params.b, params.head, z)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over a `Text`."""
    return context_program(config, batch_loss, score, touched=touched)


def cost(config: Config, costs: Any = None) -> Cost:
    """Count what a word takes: the products of U, W and H; rows of R and U where rows are read."""
    D, out = config.num_inputs, output.work(config, costs)
    size = config.num_hidden + (D if config.direct else 0)
    rows = out.rows * size + config.context_size * config.num_features if out.rows else 0
    inputs = "c D" if config.context == "concatenated" else "D"
    direct = f" + {inputs}" if config.direct else ""
    formula = f"6 (({out.formula}) (N_h{direct}) + N_h {inputs}) operations: U, H{', W' if config.direct else ''}"
    return Cost(PRODUCT * (out.products * size + config.num_hidden * D), rows, rows, formula)


# Differs: "thesis" is the recipe of Bengio et al. (2003): a rate of 1e-3 and a decay of 1e-4 for each example, which is
# a decay of 1e-2 for each minibatch of 100 examples here, not of the biases; no dropout. Theirs are minibatches of one
# example, and their rate falls by 1 % in an epoch of a million words, where ours is constant.
# "tuned" was chosen by validation on the Penn Treebank: perplexity 131.8 there.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (
        Recipe(
            optimizer="sgd", batch_size=100, epochs=20, rate={"*": 1e-3}, decay={"*": 1e-2, "d": 0.0, "b": 0.0},
            reduction="sum",
        ),
        {},
    ),
    "tuned": (
        Recipe(
            optimizer="adam", batch_size=500, epochs=20, rate={"*": 4e-3, "H": 2e-3},
            decay={"R": 0.2, "U": 0.2, "H": 0.05}, anneal=True,
        ),
        {"num_hidden": 200, "dropout": 0.35, "feature_dropout": 0.15},
    ),
}  # fmt: skip

MODEL = LanguageModel(
    name="nplm",
    about="the neural probabilistic language model, with a tanh layer",
    source="Bengio et al. 2003, §2",
    config=Config,
    recipes=RECIPES,
    fitting=BySGD(parameters=Params._fields, init=init, texts=texts, program=program),
    structures=(WORD_TREE,),
    capabilities=(predicts_from_context(log_prob, log_normalizer), Embeds(lambda params: params.R)),
    cost=cost,
)
