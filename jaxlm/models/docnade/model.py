"""DocNADE: a document's words are predicted one after another, each from the sum of the vectors of those before it.

    h_i = g(c + Σ_{k<i} W_{v_k}),    p(v_i | v_{<i}) by the decisions on the word's path in a binary tree

Source: Lauly, Zheng, Allauzen and Larochelle 2017, §2 (Eq. 5-12), §6. The order of a document's words is drawn anew for
each epoch. The words' vectors are the rows of W here, and the columns of W in the paper.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray
from scipy.special import expit

from jaxfit.devices.platform import at_once, platform
from jaxfit.program import Mean, Metrics, Program, Ragged, Sparse
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxfit.row_products import dots, stored
from jaxfit.tables import Gathered, Rows, outer, require_whole, rows_of, zero_after
from jaxlm.capabilities import Embeds, EncodesDocuments, HasTopics
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data.documents import ordered
from jaxlm.data.documents.collection import Documents
from jaxlm.data.documents.ordered import Ordered, Words, running_sums
from jaxlm.document_model import METRIC, predicts_documents
from jaxlm.models.docnade.tree import TREE
from jaxlm.objectives.tree import log_prob_of_logits
from jaxlm.objectives.tree_tiles import TILE, Table, Tiles, decide, tabulate, tiles, weighted_rows
from jaxlm.trees.paths import Tree, node_biases, paths

G: dict[str, Callable[[Array], Array]] = {"sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh}
SLOPE: dict[str, Callable[[Array], Array]] = {"sigmoid": lambda h: h * (1 - h), "tanh": lambda h: 1 - h * h}
BLOCKS = 8  # of words, whose hidden layers a CPU computes at a time in training
CACHED = 1024  # tiles of decisions that a CPU scores at a time


@dataclass(frozen=True)
class Config:
    """What shapes the program."""

    num_words: int = option(help="vocabulary size", unit="words")
    num_hidden: int = option(50, "size of a document's representation", "hidden units", first=True)
    activation: Literal["sigmoid", "tanh"] = option("sigmoid", "function g of the hidden units")
    init_scale: float = option(0.01, "standard deviation of initial weights")


class Params(NamedTuple):
    """Parameters.

    Attributes:
        W: [N_w, H], word vectors.
        c: [H], hidden biases.
        V: [N_w - 1, H], vectors of the tree's nodes.
        b: [N_w - 1], biases of the tree's nodes.
    """

    W: Array
    c: Array
    V: Array
    b: Array


class Data(NamedTuple):
    """Documents, with the decisions on the paths of their words in tiles.

    Attributes:
        documents: the documents, in an order of their words.
        tiles: int32 [documents], the number of tiles of each document.
        table: the tiles of all words.
    """

    documents: Ordered
    tiles: Any
    table: Table


class Batch(NamedTuple):
    """A minibatch of documents: their words, and the decisions on the words' paths, in tiles of one word each."""

    words: Words
    tiles: Tiles


def init(key: Array, config: Config, counts: Any, tree: Tree) -> Params:
    """Draw small Gaussians; biases b give words their base rates; c is 0.

    Differs: the paper does not state its initial parameters.

    Args:
        counts: [N_w], of the training documents.
        tree: over the words.
    """
    key_W, key_V = jax.random.split(key)
    return Params(
        W=config.init_scale * jax.random.normal(key_W, (config.num_words, config.num_hidden)),
        c=jnp.zeros(config.num_hidden),
        V=config.init_scale * jax.random.normal(key_V, (config.num_words - 1, config.num_hidden)),
        b=jnp.asarray(node_biases(tree, counts), float),
    )


def texts(config: Config, eos: int, tree: Tree) -> Callable[[Documents], Data]:
    """Return a function from documents to the `Data` of those that have words."""

    @cache
    def table() -> Table:
        every = paths(tree)
        made = tabulate(every, np.ones(len(every.nodes), np.bool_))
        return made._replace(start=jnp.append(made.start, made.start[-1]))  # word N_w, which is padding, has none

    def data(documents: Documents) -> Data:
        documents, of_words = documents.with_words(), np.diff(np.asarray(table().start))[: config.num_words]
        tiles = (documents.counts @ of_words).astype(np.int32)
        return Data(ordered.ordered(documents, jax.random.key(0)), tiles, table())

    return data


def redraw(original: Data, key: Array, config: Config) -> Data:
    """Draw another order of each document's words: `Program.redraw` (§2.2.1)."""
    return original._replace(documents=ordered.redraw(original.documents, key))


def num_documents(data: Data) -> int:
    """Return the number of documents."""
    return ordered.num_documents(data.documents)


def costs(data: Data) -> NDArray[np.int64]:
    """Return the number of words of each document, and of the tiles of their decisions: int64 [documents, 2]."""
    return np.stack([ordered.lengths(data.documents), np.asarray(data.tiles)], axis=1)


def gather(data: Data, index: Array, capacity: tuple[int, int], config: Config) -> Batch:
    """Gather documents.

    Args:
        index: int32 [B], the documents.
        capacity: maximum numbers of words and of tiles.
    """
    words = ordered.gather(data.documents, index, capacity[0], config.num_words)
    none = jnp.zeros_like(words.word)  # each word has one code
    return Batch(words, tiles(data.table, words.word, none, capacity[1], config.num_words - 1))


def loss(params: Params, words: Array, config: Config, children: Array) -> Array:
    """Compute -log p(v) of ONE document in nats: the specification (Eq. 6, 8, 9; Algorithm 1).

    Args:
        words: int32 [D].
        children: of the tree, int32 [N_w - 1, 2].
    """
    require_whole(params)

    def of_word(i: Array) -> Array:
        before = jnp.where(jnp.arange(len(words)) < i, 1.0, 0.0)
        return -log_prob(params, before @ params.W[words], config, children)[words[i]]

    return jnp.sum(jax.vmap(of_word)(jnp.arange(len(words))))


def log_prob(params: Params, total: Array, config: Config, children: Array) -> Array:
    """Compute log p(v_i = w | v_{<i}) of every word w, [N_w], from Σ_{k<i} W_{v_k}, [H] (Eq. 6, 8, 9)."""
    h = G[config.activation](params.c + total)
    return log_prob_of_logits(params.V @ h + params.b, children, config.num_words)


def hidden(W: Array, c: Array, words: Words, config: Config) -> Array:
    """Compute h_i of each word of a minibatch, [n, H] (Eq. 7).

    Args:
        W: [n, H], vectors of the minibatch's words.
    """
    return _computed_once(lambda total: G[config.activation](c[None] + total), running_sums(W, words.owner))


def _computed_once(function: Callable[[Array], Array], x: Array) -> Array:
    """Apply a function to rows; on a CPU in a loop over blocks, as XLA would compute it again for each decision."""
    if platform() != "cpu" or len(x) < BLOCKS:
        return function(x)
    padded = jnp.pad(x, ((0, -len(x) % BLOCKS), (0, 0))).reshape(BLOCKS, -1, x.shape[1])
    return lax.map(function, padded).reshape(-1, x.shape[1])[: len(x)]


def per_document(of_tiles: Array, batch: Batch) -> Array:
    """Sum the losses of tiles of decisions, [T], over each document: [B]."""
    owner = batch.words.owner[batch.tiles.owner]
    return jax.ops.segment_sum(of_tiles, owner, len(batch.words.length), indices_are_sorted=True)


def _metrics(nats: Array, batch: Batch, weight: Array) -> Metrics:
    return {METRIC.name: Mean(weight @ (nats / batch.words.length), jnp.sum(weight))}


def batch_loss(
    params: Gathered, batch: Batch, weight: Array, keys: Array | None, config: Config
) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`, from the rows of `touched`."""
    read, sign = rows_of(params), batch.tiles.sign
    h = hidden(read.W, read.c, batch.words, config)
    logit = jnp.sum(read.V * h[jnp.repeat(batch.tiles.owner, TILE)], axis=1) + read.b
    log_p = jnp.where(sign == 0, 0.0, jax.nn.log_sigmoid(sign * logit.reshape(-1, TILE)))
    nats = per_document(-jnp.sum(log_p, axis=1), batch)
    return weight @ nats, _metrics(nats, batch, weight)


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows of W, V and b that a minibatch reads; c has a dense use."""
    nodes = batch.tiles.node.reshape(-1)
    return Params(W=batch.words.word, c=None, V=nodes, b=nodes)  # type: ignore[arg-type]


def _forward(weights: Any, batch: Batch, config: Config) -> tuple[Array, Array, Array]:
    """Compute the loss of documents in nats, [B], h_i of words, [n, H], and the derivatives by the logits, [T, TILE].

    Args:
        weights: `Weights` of each parameter.
    """
    W, c, V, b = weights
    h = hidden(W.scale * W.value.at[batch.words.word].get(mode="clip"), c.value, batch.words, config)
    with jax.named_scope("tree"):
        node, sign, _, owner = batch.tiles
        logit = V.scale * dots(V.value, node, h, owner) + b.scale * b.value.at[node].get(mode="clip")
        log_p, slope = decide(sign, logit)
    return per_document(-log_p, batch), h, slope


def gradient(weights: Any, batch: Batch, weight: Array, keys: Array, config: Config) -> tuple[Array, Metrics, Any]:
    """Compute `batch_loss` and its gradient, in parts, without an array of [decisions, H].

    With s_j the derivative by the logit of decision j, V_j·h_i + b_j, the derivative by h_i is Σ_j s_j V_j, and that by
    W_{v_k} is the sum of the derivatives by the inputs of h_i over the later words i of the document.
    """
    nats, h, slope = _forward(weights, batch, config)
    node, _, _, owner = batch.tiles
    slope *= weight.at[batch.words.owner[owner]].get(mode="fill", fill_value=0)[:, None]
    V = weights.V
    with jax.named_scope("tree_gradient"):
        by_h = jnp.zeros_like(h).at[owner].add(weighted_rows(V.value, slope, batch.tiles), indices_are_sorted=True)
    by_total = V.scale * by_h * SLOPE[config.activation](h)
    by_W = running_sums(by_total[::-1], batch.words.owner[::-1])[::-1]
    slope += zero_after(by_W[0, 0])  # all that is read of tables has been read
    of_V = outer(node.reshape(-1), slope.reshape(-1), jnp.repeat(owner, TILE), h)
    parts = Params(
        W=(Rows(batch.words.word, by_W),),  # type: ignore[arg-type]
        c=jnp.sum(by_total, axis=0),
        V=(of_V,),  # type: ignore[arg-type]
        b=(Rows(node.reshape(-1), slope.reshape(-1)),),  # type: ignore[arg-type]
    )
    return weight @ nats, _metrics(nats, batch, weight), parts


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Compute -1/D log p(v) of each document, [B], in nats.

    Tiles of decisions are taken in blocks, each of which continues the sum of the vectors of its first document's words
    so far, so that memory grows neither with a document's length nor with the minibatch. The hidden layer is computed
    for each tile; a word's vector is added to the sum after the word's last tile.
    """
    (document, word, length), (node, sign, _, owner) = batch.words, batch.tiles
    number = len(owner)
    size = at_once(number, TILE * config.num_hidden, CACHED)

    def block(k: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        nats, last, so_far = carry
        tile = k * size + jnp.arange(size, dtype=jnp.int32)
        at, nodes = owner.at[tile].get(mode="clip"), node.at[tile].get(mode="clip")
        signs = sign.at[tile].get(mode="fill", fill_value=0)
        ends, own = owner.at[tile + 1].get(mode="fill", fill_value=-1) != at, document[at]
        rows = jnp.where(ends[:, None], params.W.at[word[at]].get(mode="clip"), 0)
        total = running_sums(rows, own) + jnp.where(own == last, 1.0, 0.0)[:, None] * so_far[None]
        h = stored(G[config.activation](params.c[None] + total))
        logit = dots(params.V, nodes, h, jnp.arange(size, dtype=jnp.int32)) + params.b.at[nodes].get(mode="clip")
        nats = nats.at[own].add(-decide(signs, logit)[0], mode="drop", indices_are_sorted=True)
        return nats, own[-1], total[-1] + rows[-1]

    start = jnp.zeros_like(length, params.c.dtype), jnp.full_like(document[0], -1), jnp.zeros_like(params.c)
    return lax.fori_loop(0, -(-number // size), block, start)[0] / length


def encode(params: Params, documents: Documents, config: Config) -> NDArray[np.float32]:
    """Compute the representation of each document, g(c + Σ_k W_{v_k}), [documents, H] (Eq. 10)."""
    total = documents.counts @ np.asarray(params.W) + np.asarray(params.c)
    return (np.tanh(total) if config.activation == "tanh" else expit(total)).astype(np.float32)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over `Data`."""
    return Program(
        config=config, size=num_documents, batch=gather, loss=batch_loss, score=score, metric=METRIC, redraw=redraw,
        sparse=Sparse(touched, gradient), ragged=Ragged(costs),
    )  # fmt: skip


def cost(config: Config, costs: Any) -> Cost:
    """Count what a document takes: a product for each decision, a row for each decision and each word."""
    words, tiles = (float(np.mean(column)) for column in np.transpose(costs))
    decisions = TILE * tiles
    numbers = (words + decisions) * config.num_hidden
    formula = "6 H decisions operations; 8 H (words + decisions) bytes: rows of W, V; decisions in tiles of 4"
    return Cost(PRODUCT * decisions * config.num_hidden, numbers, numbers, formula)


# Differs: the paper states stochastic gradient descent (no rate or minibatch), early stopping and 50 hidden units. Of
# DocNADE's units it states the sigmoid for the topics of §6.3, and nothing for the perplexities of Table 1. The rate
# and minibatch of "thesis" are ours.
# "tuned" was chosen by validation on 20 Newsgroups (2,000 words, counts replaced by their logarithms): document
# perplexity 903 there, over one order of the words, first seed (docs/fidelity.md has what else was tried).
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (
        Recipe(
            optimizer="sgd", batch_size=1, epochs=100, rate={"*": 2e-3}, decay={"*": 0.0}, patience=5, reduction="sum"
        ),
        {},
    ),
    "tuned": (
        Recipe(optimizer="adam", batch_size=20, epochs=20, rate={"*": 5e-3}, decay={"*": 0.02}, anneal=True),
        {"activation": "tanh"},
    ),
}

MODEL = LanguageModel(
    name="docnade",
    about="DocNADE, documents as words each of which is predicted from those before it",
    source="Lauly et al. 2017, §2",
    config=Config,
    recipes=RECIPES,
    fitting=BySGD(parameters=Params._fields, init=init, texts=texts, program=program, unit="documents"),
    structures=(TREE,),
    reads="documents",
    capabilities=(
        predicts_documents(),
        EncodesDocuments(lambda model, documents: encode(model.params, documents, model.config)),
        Embeds(lambda params: params.W),
        HasTopics(lambda params: params.W),
    ),
    cost=cost,
)
