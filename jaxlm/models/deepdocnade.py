"""DeepDocNADE: some words of a document predict each of the others, through one or several hidden layers.

    h⁽¹⁾ = g(c⁽¹⁾ + Σ_{k<i} W_{v_k}),    h⁽ⁿ⁾ = g(c⁽ⁿ⁾ + W⁽ⁿ⁾ h⁽ⁿ⁻¹⁾),    p(v_i = w | v_{<i}) = softmax(V h⁽ᴺ⁾ + b)_w

Source: Lauly, Zheng, Allauzen and Larochelle 2017, §3 (Eq. 13-18), §6. In training, a document has one hidden vector,
that of the words before a split, and one softmax; for the probability of a document, each of its words has one. The
words' vectors are the rows of W here, and the columns of W⁽¹⁾ in the paper.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from jaxfit.draws import uniform
from jaxfit.program import Mean, Metric, Metrics, Program, Ragged
from jaxfit.recipe import Recipe, option
from jaxfit.registry import PRODUCT, Cost
from jaxlm.capabilities import Embeds, EncodesDocuments, HasTopics
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data.documents import ordered
from jaxlm.data.documents.collection import Documents
from jaxlm.data.documents.ordered import Ordered, Words, running_sums
from jaxlm.document_model import METRIC, predicts_documents
from jaxlm.objectives import softmax
from jaxlm.trees.paths import base_rates

G: dict[str, Callable[[Array], Array]] = {"sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh, "relu": jax.nn.relu}
# exp of the mean over documents of the nats per word behind the split; documents without such words do not count
BEHIND = Metric("perplexity of words behind the split", METRIC.read, METRIC.decimals)


@dataclass(frozen=True)
class Config:
    """What shapes the program."""

    num_words: int = option(help="vocabulary size", unit="words")
    num_hidden: int = option(50, "size of each hidden layer, the last of which represents a document", "hidden units",
                             first=True)  # fmt: skip
    num_layers: int = option(1, "hidden layers", "layers", high=3, first=True)
    activation: Literal["sigmoid", "tanh", "relu"] = option("tanh", "function g of the hidden units")
    split: Literal["order", "words"] = option(
        "order", "which words predict the others in training: the first ones, of a number that is drawn, in an order "
        "that is drawn; or of each different word a number of its occurrences that is drawn",
    )  # fmt: skip
    init_scale: float = option(0.01, "standard deviation of initial word vectors")


class Layer(NamedTuple):
    """A hidden layer above the first.

    Attributes:
        W: [H, H], W⁽ⁿ⁾.
        c: [H], biases, c⁽ⁿ⁾.
    """

    W: Array
    c: Array


class Params(NamedTuple):
    """Parameters.

    Attributes:
        W: [N_w, H], word vectors: weights of the first hidden layer.
        c: [H], biases of the first hidden layer.
        deep: the N - 1 layers above it.
        V: [N_w, H], weights of the output.
        b: [N_w], biases of the output.
    """

    W: Array
    c: Array
    deep: tuple[Layer, ...]
    V: Array
    b: Array


class Batch(NamedTuple):
    """A minibatch of B documents.

    Attributes:
        words: their words, laid flat.
        first: int32 [B], the index of each document's first word.
    """

    words: Words
    first: Array


def init(key: Array, config: Config, counts: Any) -> Params:
    """Draw Gaussians; biases b give words their base rates; other biases are 0.

    Differs: the paper does not state its initial parameters. The standard deviation of a layer above the first is 1/√H,
    so that its input does not vanish.

    Args:
        counts: [N_w], of the training documents.
    """
    H, (key_W, key_V, key_deep) = config.num_hidden, jax.random.split(key, 3)
    return Params(
        W=config.init_scale * jax.random.normal(key_W, (config.num_words, H)),
        c=jnp.zeros(H),
        deep=tuple(
            Layer(H**-0.5 * jax.random.normal(each, (H, H)), jnp.zeros(H))
            for each in jax.random.split(key_deep, config.num_layers - 1)
        ),
        V=config.init_scale * jax.random.normal(key_V, (config.num_words, H)),
        b=jnp.asarray(np.log(base_rates(counts)), float),
    )


def texts(config: Config, eos: int) -> Callable[[Documents], Ordered]:
    """Return a function from documents to those that have words, in a drawn order."""
    return lambda documents: ordered.ordered(documents.with_words(), jax.random.key(0))


def redraw(original: Ordered, key: Array, config: Config) -> Ordered:
    """Draw another order of each document's words: `Program.redraw` (§2.2.1)."""
    return ordered.redraw(original, key)


def gather(data: Ordered, index: Array, capacity: int, config: Config) -> Batch:
    """Gather the documents `index`, int32 [B], into `capacity` words."""
    words = ordered.gather(data, index, capacity, config.num_words)
    return Batch(words, jnp.cumsum(words.length) - words.length)


def hidden(params: Params, total: Array, config: Config) -> Array:
    """Compute h⁽ᴺ⁾, [H], from the sum of the vectors of the words before the split, [H] (Eq. 14, 15)."""
    g = G[config.activation]
    h = g(params.c + total)
    for layer in params.deep:
        h = g(layer.c + layer.W @ h)
    return h


def log_prob(params: Params, total: Array, config: Config) -> Array:
    """Compute log p(v_i = w | v_{<i}) of every word w, [N_w], from Σ_{k<i} W_{v_k}, [H] (Eq. 17)."""
    return jax.nn.log_softmax(params.V @ hidden(params, total, config) + params.b)


def is_input(place: Array, word: Array, length: Array, key: Array, config: Config) -> Array:
    """Draw which words are before the split of their document: bool [n].

    Split "order": the first ⌊u D⌋ words of the order, so that each number 0 … D-1 is equally probable (Eq. 13). Split
    "words": of a word that occurs n times, each number 0 … n of its occurrences is equally probable, independently of
    other words (footnote 2): each occurrence is before the split with the same probability, which is drawn uniformly.

    Args:
        place: int32 [n], the position of each word in its document's order.
        word: int32 [n].
        length: D of its document, int32, [n] or a scalar.
        key: of its document, [n] or a scalar.
        config: says how documents are split.
    """
    if config.split == "order":
        return place < jnp.floor(uniform(key, jnp.zeros_like(word)) * length)
    return uniform(key, config.num_words + place) < uniform(key, word)


def loss(params: Params, document: Batch, key: Array, config: Config) -> Array:
    """Compute the loss of ONE document, in nats: the specification (Eq. 18).

    With the split "order", it is an unbiased estimate of -log p(v) averaged over all orders of the words. If no word is
    behind the split, as can be with the split "words", it is 0.

    Args:
        document: a minibatch whose `first` and `length` are scalars, those of this document.
    """
    words, D = document.words, document.words.length
    place = jnp.arange(words.word.shape[0]) - document.first
    mine = (place >= 0) & (place < D)
    before = is_input(place, words.word, D, key, config)
    x, target = (  # histograms of the words before the split and behind it, [N_w]
        jnp.zeros(config.num_words).at[words.word].add(jnp.where(side, 1.0, 0.0), mode="drop")
        for side in (mine & before, mine & ~before)
    )
    log_p = log_prob(params, x @ params.W, config)
    return -D / jnp.maximum(jnp.sum(target), 1) * (target @ log_p)


def batch_loss(params: Params, batch: Batch, weight: Array, keys: Array, config: Config) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`.

    The first layer adds up the rows of W of the words before each split. Other parameters are read whole, as the
    softmax reads all of V.

    Args:
        weight: [B], 0 for padding.
        keys: [B], one for each document.
    """
    (owner, word, length), B, padding = batch.words, len(batch.first), config.num_words
    before = is_input(jnp.arange(len(word)) - batch.first[owner], word, length[owner], keys[owner], config)
    with jax.named_scope("words"):
        rows = params.W.at[jnp.where(before, word, padding)].get(mode="fill", fill_value=0)
        total = jax.ops.segment_sum(rows, owner, B, indices_are_sorted=True)
    h = jax.vmap(hidden, (None, 0, None))(params, total, config)
    with jax.named_scope("softmax"):
        logits = h @ params.V.T + params.b[None]
        log_Z = jax.nn.logsumexp(logits, axis=1)
        of_word = logits.at[owner, word].get(mode="clip")
    per_document = partial(jax.ops.segment_sum, segment_ids=owner, num_segments=B, indices_are_sorted=True)
    number = per_document(jnp.where(before, 0.0, 1.0))
    nats = length / jnp.maximum(number, 1) * (number * log_Z - per_document(jnp.where(before, 0.0, of_word)))
    return weight @ nats, {BEHIND.name: Mean(weight @ (nats / length), weight @ jnp.sign(number))}


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Compute -1/D log p(v) of each document, [B], in nats: exactly, by the chain rule over its words in their order.

    Words are taken in blocks, whose hidden layers and softmax are computed at once; each block continues the sum of the
    vectors of its first document's words so far. Memory therefore grows neither with a document's length nor with the
    minibatch, except for two numbers for each word.
    """
    owner, word, length = batch.words
    size = softmax.block_rows(len(word), max(config.num_words, config.num_hidden))

    def block(carry: tuple[Array, Array], xs: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        (last, so_far), (owner, word) = carry, xs
        rows = params.W.at[word].get(mode="clip")
        total = running_sums(rows, owner) + jnp.where(owner == last, 1.0, 0.0)[:, None] * so_far[None]
        h = jax.vmap(hidden, (None, 0, None))(params, total, config)
        return (owner[-1], total[-1] + rows[-1]), softmax.nll(params.V, params.b, h, word)

    start = jnp.full_like(owner[0], -1), jnp.zeros_like(params.c)
    _, nats = lax.scan(block, start, (softmax.in_blocks(owner, size), softmax.in_blocks(word, size)))
    of_word = nats.reshape(-1)[: len(word)]
    return jax.ops.segment_sum(of_word, owner, len(length), indices_are_sorted=True) / length


def encode(params: Params, documents: Documents, config: Config) -> NDArray[np.float32]:
    """Compute the representation of each document, its last hidden layer after all words: [documents, H] (§6.2)."""
    total = jnp.asarray(documents.counts @ np.asarray(params.W))
    return np.asarray(jax.vmap(hidden, (None, 0, None))(params, total, config))


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over documents in a drawn order."""
    return Program(
        config=config, size=ordered.num_documents, batch=gather, loss=batch_loss, score=score, metric=METRIC,
        training_metrics=(BEHIND,), redraw=redraw, ragged=Ragged(ordered.lengths),
    )  # fmt: skip


def cost(config: Config, costs: Any) -> Cost:
    """Count what a document takes: one softmax, the layers above the first, and rows of half of its words."""
    H, numbers = config.num_hidden, 0.5 * float(np.mean(costs)) * config.num_hidden
    formula = "6 H (N_w + (N - 1) H) operations; 4 H D bytes: rows of W, of the words before the split"
    return Cost(PRODUCT * H * (config.num_words + (config.num_layers - 1) * H), numbers, numbers, formula)


# Differs: the paper states Adam, tanh, 50 units, early stopping and, as a fast approximation, a split of each word's
# occurrences; of the other settings those of "thesis" are ours. Eq. 18 belongs to a split of an order, of which it is
# an unbiased estimate. A split by words leaves about half of a document before it, and seldom few words.
# "tuned" was chosen by validation on 20 Newsgroups.
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (
        Recipe(optimizer="adam", batch_size=100, epochs=200, rate={"*": 1e-3}, decay={"*": 0.0}, patience=5),
        {"split": "words"},
    ),
    "tuned": (
        Recipe(optimizer="adam", batch_size=100, epochs=100, rate={"*": 2e-3}, decay={"*": 0.01}, anneal=True),
        {"split": "words"},
    ),
}

MODEL = LanguageModel(
    name="deepdocnade",
    about="DeepDocNADE, documents of which some words predict each of the others, through hidden layers",
    source="Lauly et al. 2017, §3",
    config=Config,
    recipes=RECIPES,
    fitting=BySGD(parameters=Params._fields, init=init, texts=texts, program=program, unit="documents"),
    reads="documents",
    capabilities=(
        predicts_documents(),
        EncodesDocuments(lambda model, documents: encode(model.params, documents, model.config)),
        Embeds(lambda params: params.W),
        HasTopics(lambda params: params.W),
    ),
    cost=cost,
)
