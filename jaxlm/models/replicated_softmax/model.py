"""The Replicated Softmax: a restricted Boltzmann machine between a document's D words and binary hidden units.

    E(v, h) = -D c·h - Σ_i (h·W_{v_i} + b_{v_i})

All positions share the same weights; hidden biases are multiplied by D. Training is by contrastive divergence; log p(v)
needs the partition function of documents of D words, which is estimated (`jaxlm.models.replicated_softmax.ais`).

Source: Salakhutdinov and Hinton 2009; Lauly et al. 2017, §5 (Eq. 22-26). The words' vectors are the rows of W here, and
the columns of W in the paper.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray
from scipy.special import expit

from jaxfit.devices.platform import at_once
from jaxfit.draws import uniform
from jaxfit.program import Mean, Metric, Metrics, Program, Ragged
from jaxfit.rbm import (
    bernoulli,
    contrastive_divergence,
    gibbs,
    hidden_free_energy,
    multinomial,
    schedule,
    scheduled_steps,
)
from jaxfit.recipe import Recipe, option
from jaxfit.registry import Cost
from jaxfit.tables import require_whole
from jaxlm.capabilities import Embeds, EncodesDocuments, HasTopics, PredictsDocuments
from jaxlm.context_model import perplexity
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data.documents import ordered
from jaxlm.data.documents.collection import Documents
from jaxlm.data.documents.ordered import Ordered
from jaxlm.models.replicated_softmax.ais import log_partition
from jaxlm.models.replicated_softmax.chain import Slots, hidden_input, step
from jaxlm.objectives.base_rates import log_base_rates

HELD_OUT = 4  # words of each document, at most, that validation predicts from the others
FACTORS = 4  # factors of a product whose logarithm is taken
LARGEST = 20.0  # weight up to which float32 can hold such a product
METRIC = Metric("perplexity of held-out words", perplexity, 2)
RECONSTRUCTION = Metric("reconstruction perplexity", perplexity, 2)


@dataclass(frozen=True)
class Config:
    """What shapes the program."""

    num_words: int = option(help="vocabulary size", unit="words")
    num_hidden: int = option(50, "size of a document's representation", "hidden units", first=True)
    cd_steps: tuple[int, ...] = option(
        (1,), "T of CD-T: one for all of the training, or one for each of its equal parts"
    )
    init_scale: float = option(0.01, "standard deviation of initial weights")

    def __post_init__(self) -> None:
        object.__setattr__(self, "cd_steps", schedule(self.cd_steps))  # a list where it was read from JSON


class Params(NamedTuple):
    """Parameters.

    Attributes:
        W: [N_w, H], word vectors.
        b: [N_w], word biases.
        c: [H], hidden biases.
    """

    W: Array
    b: Array
    c: Array


class Batch(NamedTuple):
    """A minibatch of B documents, laid flat.

    Attributes:
        at: slots of their words.
        word: int32 [n], N_w for padding; the words of a document are in a drawn order.
        cd_steps: int32 scalar, T of CD-T.
    """

    at: Slots
    word: Array
    cd_steps: Any


def init(key: Array, config: Config, counts: Any) -> Params:
    """Draw small Gaussians; biases b give words their base rates; c is 0.

    Differs: the papers do not state their initial parameters. A word that never occurs counts as one that occurs once.

    Args:
        counts: [N_w], of the training documents.
    """
    return Params(
        W=config.init_scale * jax.random.normal(key, (config.num_words, config.num_hidden)),
        b=log_base_rates(counts),
        c=jnp.zeros(config.num_hidden),
    )


def texts(config: Config, eos: int) -> Callable[[Documents], Ordered]:
    """Return a function from documents to their words, of those that have any."""
    return lambda documents: ordered.ordered(documents.with_words(), jax.random.key(0))


def gather(data: Ordered, index: Array, capacity: int, config: Config) -> Batch:
    """Gather the documents `index`, int32 [B], into `capacity` words, with the first T of the schedule."""
    words = ordered.gather(data, index, capacity, config.num_words)
    at = Slots(jnp.cumsum(words.length) - words.length, words.length, words.owner)
    return Batch(at, words.word, jnp.int32(config.cd_steps[0]))


def loss(params: Params, example: Batch, key: Array, config: Config) -> Array:
    """Compute the loss of CD-T for ONE document, F(v) - F(v'): the specification.

    F(v) = -b·n(v) - Σ_j log(1 + exp(D c_j + n(v)·W_j)), with n(v) the counts of words, by Eq. 22; v' are D words after
    T full steps of block Gibbs sampling from v (Eq. 23-25). The negative gradient is Eq. 26, with v' in place of the
    model's expectation.

    Args:
        example: a minibatch, with only this document's place and length, scalars, in `at`.
    """
    require_whole(params)
    place = jnp.arange(len(example.word)) - example.at.first
    own = jnp.where((place >= 0) & (place < example.at.length), 1.0, 0.0)

    def counts(word: Array) -> Array:  # n(v), [N_w]
        return jnp.zeros(config.num_words).at[word].add(own, mode="drop")

    def x(params: Params, n: Array) -> Array:
        return example.at.length * params.c + n @ params.W

    def free_energy(word: Array) -> Array:
        n = counts(word)
        return hidden_free_energy(x(params, n)) - params.b @ n

    fixed = lax.stop_gradient(params)

    def gibbs_step(word: Array, key: Array) -> Array:
        for_hidden, for_words = jax.random.split(key[0])
        h = bernoulli(for_hidden[None], jax.nn.sigmoid(x(fixed, counts(word)))[None])[0]  # Eq. 24
        p = jax.nn.softmax(fixed.b + fixed.W @ h)  # Eq. 25
        return multinomial(uniform(for_words, place), p[None])

    return contrastive_divergence(
        free_energy, example.word, gibbs(gibbs_step, example.word, key[None], example.cd_steps)
    )


@jax.named_scope("free_energy")
def free_energies(params: Params, word: Array, at: Slots) -> Array:
    """Compute F(v) of each document, [B] (Eq. 22).

    Args:
        word: int32 [n].
    """
    return hidden_free_energy(hidden_input(params, word, at)) - word_biases(params, word, at)


def word_biases(params: Params, word: Array, at: Slots) -> Array:
    """Compute b·n(v) of each document, [B]."""
    b = params.b.at[word].get(mode="fill", fill_value=0)
    return jax.ops.segment_sum(b, at.owner, len(at.length), indices_are_sorted=True)


def batch_loss(params: Params, batch: Batch, weight: Array, keys: Array, config: Config) -> tuple[Array, Metrics]:
    """Return the sum over the minibatch of weight * `loss`.

    Its value says nothing about how good a model is. The metric is -1/D log p(v | h), where h is that of the first step
    of the chain. The perplexity of held-out words (`score`) is left to validation, as it takes twice as long as a step.

    Args:
        weight: [B], 0 for padding.
        keys: [B], one for each document.
    """
    fixed, at = lax.stop_gradient(params), batch.at
    start = hidden_input(fixed, batch.word, at)
    length = at.length.astype(start.dtype)
    of_words, of_biases = start - length[:, None] * fixed.c[None], word_biases(fixed, batch.word, at)

    def gibbs_step(state: tuple[Any, ...], keys: Array) -> tuple[Any, ...]:
        _, x, log_p, first = state
        drawn = step(fixed, x, at, keys)
        of_data = of_biases + jnp.sum(drawn.h * of_words, axis=1) - length * drawn.log_Z
        word = drawn.word
        return word, hidden_input(fixed, word, at), jnp.where(first, of_data, log_p), jnp.zeros_like(first)

    begin = batch.word, start, jnp.zeros_like(length), jnp.ones((), jnp.bool_)
    drawn, _, log_p, _ = gibbs(gibbs_step, begin, keys, batch.cd_steps)
    total = weight @ contrastive_divergence(lambda word: free_energies(params, word, at), batch.word, drawn)
    return total, {RECONSTRUCTION.name: Mean(weight @ (-log_p / length), jnp.sum(weight))}


def word_log_probs(params: Params, x: Array, by_products: bool) -> Array:
    """Compute log p(v_i = w | v_{≠i}) of every word w, [N_w], exactly.

    p(v_i = w | v_{≠i}) ∝ exp(b_w) Π_j (1 + exp(x_j + W_wj)), by Eq. 22, with x = D c + Σ_{k≠i} W_{v_k}, [H]. Divided by
    exp(max(x_j, 0)), a factor is between exp(-|W_wj|) and 1 + exp(|W_wj|), and several share a logarithm.

    Args:
        by_products: whether they do; for weights up to LARGEST.
    """
    if not by_products:
        return jax.nn.log_softmax(params.b + jnp.sum(jax.nn.softplus(x[None] + params.W), axis=1))
    short = -x.shape[0] % FACTORS  # padded with factors of one
    scale, share = jnp.pad(jnp.exp(-jnp.maximum(x, 0)), (0, short), constant_values=1), jnp.exp(jnp.minimum(x, 0))
    factors = scale[None] + jnp.pad(share[None] * jnp.exp(params.W), ((0, 0), (0, short)))
    products = jnp.prod(factors.reshape(len(factors), FACTORS, -1), axis=1)
    return jax.nn.log_softmax(params.b + jnp.sum(jnp.log(products), axis=1))


def score(params: Params, batch: Batch, config: Config) -> Array:
    """Compute -log p(v_i | v_{≠i}) of each document, [B], nats, averaged over up to HELD_OUT of its words.

    Differs: log p(v) needs an estimate of the partition function for each length, which would take longer than an
    epoch. This score is exact: the pseudo-likelihood of some words, the same ones each time. It does not show how much
    probability lies far from all documents: before training for longer, look at log Z_D, too.
    """
    at, documents = batch.at, len(batch.at.length)
    place = at.first[:, None] + jnp.arange(HELD_OUT, dtype=jnp.int32)[None]
    held = jnp.arange(HELD_OUT)[None] < at.length[:, None]  # [B, HELD_OUT]
    word, x = jnp.where(held, batch.word.at[place].get(mode="clip"), 0), hidden_input(params, batch.word, at)

    each = jnp.repeat(jnp.arange(documents), HELD_OUT), word.reshape(-1)
    at_a_time = at_once(documents * HELD_OUT, params.W.size, 1)

    def of_words(by_products: bool) -> Array:
        def of_word(part: tuple[Array, Array]) -> Array:
            document, word = part
            return word_log_probs(params, x[document] - params.W[word], by_products)[word]

        return lax.map(of_word, each, batch_size=at_a_time).reshape(documents, -1)

    small = jnp.max(jnp.abs(params.W)) <= LARGEST
    log_p = jnp.where(held, lax.cond(small, lambda: of_words(True), lambda: of_words(False)), 0)
    return -jnp.sum(log_p, axis=1) / jnp.sum(held, axis=1)


def log_probs(model: Any, documents: Documents, orderings: int, seed: int) -> NDArray[np.float64]:
    """Estimate log p(v) = -F(v) - log Z_D of each document, [documents], nats, by annealed importance sampling.

    No order of words matters: `orderings` has no effect. The seed draws the chains.
    """
    params: Params = model.params
    W, b, c = (np.asarray(array, np.float64) for array in params)
    lengths = documents.lengths
    x = lengths[:, None] * c + documents.counts @ W
    free_energy = -documents.counts @ b - np.logaddexp(0, x).sum(axis=1)
    distinct, which = np.unique(lengths, return_inverse=True)
    log_Z = np.zeros(len(distinct))
    log_Z[distinct > 0] = log_partition(params, distinct[distinct > 0], jax.random.key(seed)).value
    return np.where(lengths > 0, -free_energy - log_Z[which], 0.0)


def standard_error(model: Any, documents: Documents, seed: int) -> float:
    """Estimate the standard error of the mean over documents, which have words, of 1/D log p(v), nats.

    It comes from the estimate of log Z_D, which documents share, by the chains that `log_probs` draws with this seed.
    """
    distinct, number = np.unique(documents.lengths, return_counts=True)
    found = log_partition(model.params, distinct, jax.random.key(seed))
    return found.error_of_sum(number / distinct / number.sum())


def encode(params: Params, documents: Documents) -> NDArray[np.float32]:
    """Compute the representation of each document, p(h_j = 1 | v), [documents, H] (Eq. 24)."""
    x = documents.lengths[:, None] * np.asarray(params.c) + documents.counts @ np.asarray(params.W)
    return expit(x).astype(np.float32)


def program(config: Config) -> Program:
    """Return the model as the engine sees it, over documents' words."""
    return Program(
        config=config, size=ordered.num_documents, batch=gather, loss=batch_loss, score=score, metric=METRIC,
        training_metrics=(RECONSTRUCTION,), at_step=scheduled_steps, scheduled=len(set(config.cd_steps)) > 1,
        ragged=Ragged(ordered.lengths),
    )  # fmt: skip


def cost(config: Config, costs: Any) -> Cost:
    """Count what a document takes: logits of all words in each of T steps, and rows of W for its words.

    A step adds up the rows of the words that it draws; the gradient adds to rows of the words and of those drawn last.
    """
    V, H, T, D = config.num_words, config.num_hidden, float(np.mean(config.cd_steps)), float(np.mean(costs))
    formula = "(2 T N_w + (T + 1 + 2 · 2) D) H operations; (T + 1) D rows of W read, 2 D added to"
    return Cost((2 * T * V + (T + 5) * D) * H, (T + 1) * D * H, 2 * D * H, formula)


# Differs: the papers state contrastive divergence with 50 hidden units, and that T has to be large. That T grows, the
# rates, the minibatch and the number of epochs of "thesis" are ours: hidden biases, which are multiplied by D, take
# lower rates. It has not been tried on real data.
# "tuned" was chosen by validation on 20 Newsgroups (2,000 words, counts replaced by their logarithms), with log Z_D as
# `log_partition` estimates it: document perplexity 909. As a step of c counts D times in the hidden units' inputs, with
# the other parameters' rate for c most units are soon off in nearly all documents. Training for longer goes on
# improving the perplexity of held-out words, and document vectors, but puts ever more probability on documents that
# look like none, which few chains of `log_partition` find (docs/fidelity.md has what was tried).
RECIPES: dict[str, tuple[Recipe, dict[str, Any]]] = {
    "thesis": (
        Recipe(
            optimizer="sgd", batch_size=100, epochs=100, rate={"*": 1e-2, "c": 1e-4}, decay={"*": 0.0}, patience=100
        ),
        {"cd_steps": (1, 2, 3, 4, 5)},
    ),
    "tuned": (
        Recipe(optimizer="adam", batch_size=100, epochs=20, rate={"*": 5e-3, "c": 1e-4}, decay={"*": 0.0}, anneal=True),
        {"cd_steps": (1, 3, 5)},
    ),
}

MODEL = LanguageModel(
    name="replicated-softmax",
    about="the Replicated Softmax, a restricted Boltzmann machine over the words of documents",
    source="Salakhutdinov and Hinton 2009; Lauly et al. 2017, §5",
    config=Config,
    recipes=RECIPES,
    fitting=BySGD(parameters=Params._fields, init=init, texts=texts, program=program, unit="documents"),
    reads="documents",
    capabilities=(
        PredictsDocuments(log_probs, averaged="", standard_error=standard_error),
        EncodesDocuments(lambda model, documents: encode(model.params, documents)),
        Embeds(lambda params: params.W),
        HasTopics(lambda params: params.W),
    ),
    cost=cost,
)
