"""DocNADE: a document's words are predicted one after another, each from the sum of the vectors of those before it.

    h_i = g(c + Σ_{k<i} W_{v_k}),    p(v_i | v_{<i}) by the decisions on the word's path in a binary tree

Source: Lauly, Zheng, Allauzen and Larochelle 2017, §2 (Eq. 5-12), §6. Words are in an order that is drawn anew for each
epoch. Rows of W are the words' vectors here, where they are the columns of the paper's W.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy.special import expit

from jaxfit.program import Mean, Metrics, Program, Ragged, Sparse
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxfit.tables import Gathered, require_whole, rows_of
from jaxlm.contract import BySGD, Embeds, EncodesDocuments, HasTopics, HasTree, LanguageModel
from jaxlm.data.documents import ordered
from jaxlm.data.documents.collection import Documents
from jaxlm.data.documents.ordered import Ordered, Words, running_sums
from jaxlm.document_model import METRIC, predicts_documents
from jaxlm.objectives import tree, word_tree
from jaxlm.objectives.tree import Codes, Decisions
from jaxlm.trees.paths import Tree, node_biases

G: dict[str, Callable[[Array], Array]] = {"sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh}


@dataclass(frozen=True)
class Config:
    """What shapes the program."""

    num_words: int = option(help="vocabulary size", unit="words")
    num_hidden: int = option(50, "size of a document's representation", "hidden units", first=True)
    activation: Literal["sigmoid", "tanh"] = option("sigmoid", "function g of the hidden units", first=True)
    init_scale: float = option(0.01, "standard deviation of initial weights")


class Params(NamedTuple):
    """W: [N_w, H] word vectors; c: [H] hidden biases; V: [N_w - 1, H] vectors and b: [N_w - 1] biases of nodes."""

    W: Array
    c: Array
    V: Array
    b: Array


class Data(NamedTuple):
    """Documents in an order, the decisions on the paths of the words of each, int32 [documents], and all codes."""

    documents: Ordered
    decisions: Any
    codes: Codes


class Batch(NamedTuple):
    """A minibatch of documents: their words, and the decisions on the words' paths, whose `owner` is the word."""

    words: Words
    made: Decisions


def init(key: Array, config: Config, counts: Any, over: Tree) -> Params:
    """Draw small Gaussians; biases b give words the base rates of the training documents, counts [N_w]; c is 0.

    Differs: the paper does not state its initial parameters.
    """
    key_W, key_V = jax.random.split(key)
    return Params(
        W=config.init_scale * jax.random.normal(key_W, (config.num_words, config.num_hidden)),
        c=jnp.zeros(config.num_hidden),
        V=config.init_scale * jax.random.normal(key_V, (config.num_words - 1, config.num_hidden)),
        b=jnp.asarray(node_biases(over, counts), jnp.float32),
    )


def texts(config: Config, eos: int, over: Tree) -> Callable[[Documents], Data]:
    """Return a function from documents to `Data`, of those that have words."""

    @cache
    def codes() -> Codes:
        made = tree.codes(over)
        return replace(made, start=jnp.append(made.start, made.start[-1]))  # of N_w, which is padding: none

    def data(documents: Documents) -> Data:
        documents, lengths = documents.with_words(), np.diff(np.asarray(codes().start))[: config.num_words]
        decisions = (documents.counts @ lengths).astype(np.int32)
        return Data(ordered.ordered(documents, jax.random.key(0)), decisions, codes())

    return data


def redraw(original: Data, key: Array, config: Config) -> Data:
    """Draw another order of each document's words: `Program.redraw` (§2.2.1)."""
    return original._replace(documents=ordered.redraw(original.documents, key))


def num_documents(data: Data) -> int:
    """Return the number of documents."""
    return ordered.num_documents(data.documents)


def costs(data: Data) -> NDArray[np.int64]:
    """Return the words of each document, and the decisions on their paths: int64 [documents, 2]."""
    return np.stack([ordered.lengths(data.documents), np.asarray(data.decisions)], axis=1)


def gather(data: Data, index: Array, capacity: tuple[int, int], config: Config) -> Batch:
    """Gather the documents `index`, int32 [B]; capacity: of words, of decisions."""
    words = ordered.gather(data.documents, index, capacity[0], config.num_words)
    return Batch(words, tree.decisions(data.codes, words.word, capacity[1]))


def loss(params: Params, words: Array, children: Array, config: Config) -> Array:
    """Compute -log p(v) of ONE document, int32 [D], in nats: the specification (Eq. 6, 8, 9; Algorithm 1).

    children: of the tree, int32 [N_w - 1, 2].
    """
    require_whole(params)

    def of_word(i: Array) -> Array:
        before = jnp.where(jnp.arange(len(words)) < i, 1.0, 0.0)
        return -log_prob(params, before @ params.W[words], children, config)[words[i]]

    return jnp.sum(jax.vmap(of_word)(jnp.arange(len(words))))


def log_prob(params: Params, total: Array, children: Array, config: Config) -> Array:
    """Compute log p(v_i = w | v_{<i}) of every word w, [N_w], from Σ_{k<i} W_{v_k}, [H] (Eq. 6, 8, 9)."""
    h = G[config.activation](params.c + total)
    return tree.log_prob_of_logits(params.V @ h + params.b, children, config.num_words)


def hidden(W: Array, c: Array, words: Words, config: Config) -> Array:
    """Compute h_i of each word of a minibatch, [n, H]; W: the rows of its words, [n, H] (Eq. 7)."""
    return G[config.activation](c[None] + running_sums(W, words.owner))


def per_document(nats: Array, words: Words) -> Array:
    """Sum the nats of words, [n], over each document: [B]."""
    return jax.ops.segment_sum(nats, words.owner, len(words.length), indices_are_sorted=True)


def batch_loss(
    params: Gathered, batch: Batch, weight: Array, keys: Array | None, config: Config
) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`, from the rows of `touched`."""
    read = rows_of(params)
    h = hidden(read.W, read.c, batch.words, config)
    nats = per_document(tree.nll(read.V, read.b, h, batch.made), batch.words)
    return weight @ nats, {METRIC.name: Mean(weight @ (nats / batch.words.length), jnp.sum(weight))}


def touched(batch: Batch, config: Config) -> Params:
    """Return the rows of W, V and b that a minibatch reads; c has a dense use."""
    return Params(W=batch.words.word, c=None, V=batch.made.node, b=batch.made.node)  # type: ignore[arg-type]


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Compute -1/D log p(v) of each document, [B], in nats."""
    h = hidden(params.W.at[batch.words.word].get(mode="clip"), params.c, batch.words, config)
    nats = per_document(tree.score(params.V, params.b, h, batch.made), batch.words)
    return nats / batch.words.length


def encode(params: Params, documents: Documents, config: Config) -> NDArray[np.float32]:
    """Compute the representation of each document, g(c + Σ_k W_{v_k}), [documents, H] (Eq. 10)."""
    total = documents.counts @ np.asarray(params.W) + np.asarray(params.c)
    return (np.tanh(total) if config.activation == "tanh" else expit(total)).astype(np.float32)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over `Data`."""
    return Program(
        config=config, size=num_documents, batch=gather, loss=batch_loss, score=score, metric=METRIC, redraw=redraw,
        sparse=Sparse(touched), ragged=Ragged(costs),
    )  # fmt: skip


def cost(config: Config, costs: Any) -> Cost:
    """Count what a document takes: a product for each decision, a row for each decision and each word."""
    words, decisions = (float(np.mean(column)) for column in np.transpose(costs))
    numbers = (words + decisions) * config.num_hidden
    formula = "6 H decisions operations; 8 H (words + decisions) bytes: rows of W and V"
    return Cost(PRODUCT * decisions * config.num_hidden, numbers, numbers, formula)


@dataclass(frozen=True)
class TreeOptions(word_tree.Options):
    """Which tree the words are leaves of: a random one, as in the paper, if nothing else is said."""

    tree: str = option("random", "by frequency, at random, or a tree file or an hlbl", metavar="huffman|random|FILE")


TREE = replace(word_tree.WORD_TREE, options=TreeOptions, needed=lambda config: True)

RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "tuned": (
        Recipe(optimizer="adam", batch_size=100, epochs=20, rate={"*": 2e-3}, decay={"*": 0.0}, anneal=True),
        {},
    ),
}

MODEL = LanguageModel(
    name="docnade",
    about="DocNADE, documents as words each of which is predicted from those before it",
    source="Lauly et al. 2017, §2",
    config=Config,
    recipes=RECIPES,
    fitting=BySGD(parameters=Params._fields, init=init, texts=texts, program=program, unit="documents"),
    structure=TREE,
    reads="documents",
    capabilities=(
        predicts_documents(),
        EncodesDocuments(lambda model, documents: encode(model.params, documents, model.config)),
        Embeds(lambda params: params.W),
        HasTopics(lambda params: params.W),
        HasTree(),
    ),
    cost=cost,
)
