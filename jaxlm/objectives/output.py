"""The output layer of models that predict a word by a vector z: how scores z·v_w + b_w become probabilities or a loss.

    softmax      likelihood, normalised over all words
    classes      likelihood, of a class of words, then of a word in the class (`jaxlm.objectives.classes`)
    tree         likelihood, of the decisions on a word's path in a binary tree (`jaxlm.objectives.tree`)
    nce          noise-contrastive estimation, with words drawn as noise (`jaxlm.objectives.sampled`)
    importance   likelihood, with the normaliser estimated from words drawn as noise

Whatever the objective in training, a model's probabilities are exact: those of the classes, of the tree, or of the
softmax over all words.

A model has a vector and a bias for each word, or with a tree for each of its inner nodes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from jaxfit.errors import UserError
from jaxfit.program import Mean, Metrics, Program, Ragged, Sparse
from jaxfit.recipe import option
from jaxlm.objectives import classes, sampled, softmax, tree
from jaxlm.objectives.base_rates import log_base_rates
from jaxlm.objectives.noise import Noise, unigram
from jaxlm.trees.paths import Tree, node_biases

COUNTED = 1 << 20  # words that are counted at a time
BY_CLASSES, BY_NOISE = ("objective", ("classes",)), ("objective", ("nce", "importance"))


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a model's output is trained; part of its Config."""

    objective: Literal["softmax", "classes", "tree", "nce", "importance"] = option(
        "softmax", "the softmax over all words; over classes of words, then the words of one; the decisions on a "
        "word's path in a tree; or, by words drawn as noise, noise-contrastive estimation, or the softmax's estimate "
        "by importance sampling",
    )  # fmt: skip
    num_classes: int = option(
        0, "classes of words; 0: the root of the number of words", "classes", low=0, only_with=BY_CLASSES
    )
    classes_by: Literal["frequency", "size"] = option(
        "frequency", "classes are of about equal frequency, or size", only_with=BY_CLASSES
    )
    num_noise: int = option(25, "words drawn as noise for each next word", "words", only_with=BY_NOISE)
    noise_power: float = option(
        1.0, "power of the words' frequencies in the noise; 0: all words alike", high=10, only_with=BY_NOISE
    )
    shared_noise: bool = option(False, "draw the noise once for a whole minibatch", only_with=BY_NOISE)
    learned_normalizer: bool = option(False, "noise-contrastive estimation learns log Z, one number, in place of 0")
    class_ends: tuple[int, ...] = option((), decided=True)  # where the ids of each class end

    def __post_init__(self) -> None:
        if self.learned_normalizer and self.objective != "nce":
            what = f"the objective {self.objective} has no normalizer to be learned"
            raise UserError(what, "--learned-normalizer", "leave it out, or give --objective nce")

    def given_counts(self, counts: NDArray[np.int64]) -> Self:
        """Return these options with the fields that the counts of the training text, [N_w], determine."""
        if self.objective != "classes":
            return self
        number = self.num_classes or round(len(counts) ** 0.5)
        return replace(self, class_ends=classes.cut(counts, number, self.classes_by == "frequency"))


def reads_rows(config: Any) -> bool:
    """Return whether a step of training reads rows of tables: those of noise words, or of a tree's nodes."""
    return sampled.is_sampled(config) or config.objective == "tree"


def num_scored(config: Any) -> int:
    """Return the number of words, or of a tree's nodes, that have a vector and a bias."""
    return config.num_words - 1 if config.objective == "tree" else config.num_words


class Head(NamedTuple):
    """The parameters that an objective adds.

    Attributes:
        log_Z: scalar, the learned normaliser of noise-contrastive estimation.
        Q: [C, D], vectors of classes.
        a: [C], biases of classes.
        V: [N_w - 1, D], vectors of a tree's nodes, in models that otherwise share vectors of words with their contexts.
    """

    log_Z: Array | None = None
    Q: Array | None = None
    a: Array | None = None
    V: Array | None = None


class Data(NamedTuple):
    """A text, with what its objective needs.

    Attributes:
        noise: distribution of the noise words, for objectives that draw them.
        costs: int32 [N], the number of decisions on the paths of each example's next words, for a tree.
        codes: codes of all words in a tree.
    """

    text: Any
    noise: Noise | None = None
    costs: Any = None
    codes: tree.Codes | None = None


def biases(config: Any, counts: Any, word_tree: Tree | None) -> Array:
    """Return the biases before training that give words their base rates: [N_w], or [N_w - 1] for a tree's nodes.

    Args:
        counts: [N_w], of the training text.
        word_tree: the tree, if any; with it, words count once more than they occur (`jaxlm.trees.paths.base_rates`),
            otherwise at least once (`log_base_rates`).
    """
    if config.objective == "tree":
        assert word_tree is not None
        return jnp.asarray(node_biases(word_tree, counts), float)
    return log_base_rates(counts)


def init(key: Array, config: Any, D: int, counts: Any, shared: bool = False) -> Head | None:
    """Return the parameters that the objective adds, before training; None for none.

    Vectors of classes and nodes are initialised like those of words, biases of classes to the base rates.

    Args:
        counts: [N_w].
        shared: whether the vectors of words in the output are those of words in contexts.
    """
    if config.objective == "tree" and shared:
        return Head(V=config.init_scale * jax.random.normal(key, (num_scored(config), D)))
    if config.objective == "classes":
        rates, C = jnp.maximum(jnp.asarray(counts, float), 1), len(config.class_ends)
        of_words = classes.of_words(config.class_ends, np.arange(config.num_words))
        Q = config.init_scale * jax.random.normal(key, (C, D))
        return Head(Q=Q, a=jnp.log(jax.ops.segment_sum(rates, of_words, C) / rates.sum()))
    return Head(log_Z=jnp.zeros(())) if config.learned_normalizer else None


def log_prob(V: Array, b: Array, head: Head | None, z: Array, config: Any, children: Array | None = None) -> Array:
    """Compute log P of every word: [N_w], nats.

    Args:
        V: [N_w, D]; [N_w - 1, D], of a tree's nodes, if there is a tree and `head` has no V.
        b: [N_w]; [N_w - 1] with a tree.
        z: [D].
        children: of the tree, if any.
    """
    if config.objective == "tree":
        assert children is not None
        return tree.log_prob_of_logits(_vectors(V, head) @ z + b, children, config.num_words)
    if config.objective == "classes":
        return classes.log_prob(V, b, *_of_classes(head), z, config.class_ends)
    return jax.nn.log_softmax(V @ z + b)


def loss(V: Array, b: Array, head: Head | None, z: Array, word: Array, aux: Any, config: Any) -> Array:
    """Compute the loss of ONE next word: the specification; V, b, head and z as in `log_prob`.

    Args:
        aux: the word's noise, for objectives that draw it; for a tree, `tree.Decisions`, of which `children` is read.
    """
    if sampled.is_sampled(config):
        return sampled.loss(V, b, _log_Z(head), z, word, aux, config)
    return -log_prob(V, b, head, z, config, aux.children if config.objective == "tree" else None)[word]


def batch_loss(
    V: Array, b: Array, head: Head | None, z: Array, word: Array, aux: Any, weight: Array, config: Any
) -> tuple[Array, Metrics]:
    """Sum over next words of weight * `loss`.

    Args:
        V: vectors of words, [N_w, D]; for an objective that reads rows, only those of `row_ids`.
        b: their biases, [N_w] or [n].
        head: from `init`.
        z: [B, D].
        word: next words, int32 [B].
        aux: from `aux_of`, and for objectives that draw noise from `with_noise`.
        weight: [B].
        config: of the model, including `Options`.
    """
    if sampled.is_sampled(config):
        return sampled.batch_loss(V, b, _log_Z(head), z, word, aux, weight, config)
    if config.objective == "tree":
        total = weight @ tree.nll(_vectors(V, head), b, z, aux)
    elif config.objective == "classes":
        total = classes.sum_nll(V, b, *_of_classes(head), z, word, weight, config.class_ends)
    else:
        total = softmax.sum_log_normalizer(V, b, z, weight) - weight @ softmax.logit(V, b, z, word)
    return total, {"perplexity": Mean(total, jnp.sum(weight))}


def nats(V: Array, b: Array, head: Head | None, z: Array, word: Array, aux: Any, config: Any) -> Array:
    """Compute -log P of next words, int32 [B], in nats: [B]; z: [B, D]; aux: from `aux_of`; V, b: as in `log_prob`."""
    if config.objective == "tree":
        Q, b = (table.at[aux.node].get(mode="clip") for table in (_vectors(V, head), b))
        return tree.nll(Q, b, z, aux)
    if config.objective == "classes":
        return classes.nll(V, b, *_of_classes(head), z, word, config.class_ends)
    return softmax.nll(V, b, z, word)


def is_unnormalized(config: Any) -> bool:
    """Return whether training treats scores as log-probabilities, without normalising them."""
    return config.objective == "nce"


def log_normalizer(V: Array, b: Array, head: Head | None, z: Array) -> Array:
    """Compute log Z of scores that training treats as log-probabilities, [B], nats.

    Args:
        z: [B, D].
    """
    log_Z = _log_Z(head)
    return softmax.log_normalizer(V, b, z) - (jnp.zeros(()) if log_Z is None else log_Z)


def _log_Z(head: Head | None) -> Array | None:
    return None if head is None else head.log_Z


def _vectors(V: Array, head: Head | None) -> Array:
    return V if head is None or head.V is None else head.V


def _of_classes(head: Head | None) -> tuple[Array, Array]:
    assert head is not None
    assert head.Q is not None
    assert head.a is not None
    return head.Q, head.a


def codes(word_tree: Tree | None) -> Callable[[], tree.Codes | None]:
    """Return a function that makes the codes of all words in a tree, once, when they are first needed."""
    return cache(lambda: None if word_tree is None else tree.codes(word_tree))


def data(text: Any, words: NDArray[np.int32], config: Any, codes: tree.Codes | None = None) -> Any:
    """Return a text with what its objective needs; words: each example's next words, int32 [N, ...], -1 for padding."""
    if codes is not None:
        lengths = np.diff(np.asarray(codes.start))[np.maximum(words, 0)]
        return Data(text, costs=lengths.reshape(len(words), -1).sum(axis=1, dtype=np.int32), codes=codes)
    if sampled.is_sampled(config):
        counts = np.zeros(config.num_words, np.int64)
        for first in range(0, len(words), COUNTED):  # a selection is a copy, and what is counted a wider one
            piece = words[first : first + COUNTED]
            counts += np.bincount(piece[piece >= 0], minlength=config.num_words)
        return Data(text, noise=unigram(counts, config.noise_power))
    return text


def exact(config: Any) -> Any:
    """Return the Config by which texts are scored: that of the softmax, if training draws noise."""
    return replace(config, objective="softmax", learned_normalizer=False) if sampled.is_sampled(config) else config


def costs(data: Data) -> NDArray[np.int32]:
    """Return the number of decisions of each example, int32 [N], for `Ragged`."""
    return np.asarray(data.costs)


def aux_of(data: Data, word: Array, number: Array, capacity: int) -> Any:
    """Return the auxiliary data of a minibatch: what its loss needs besides its next words.

    Args:
        data: from `data`.
        word: next words, int32 [...], -1 for padding.
        number: indices of the next words, from which the keys of their noise are derived, int32 [...].
        capacity: maximum number of decisions on the paths of all next words; 0: as if all paths were the longest.
    """
    if data.codes is not None:
        return tree.decisions(data.codes, jnp.maximum(word, 0).reshape(-1), capacity)
    assert data.noise is not None
    return sampled.Source(data.noise, number)


def with_noise(batch: Any, key: Array, fraction: Array, config: Any) -> Any:
    """Draw the noise of a step, `Program.at_step`, for batches with `word`, int32 [...], and `aux` from `aux_of`."""
    return batch._replace(aux=sampled.draw(batch.aux, jnp.maximum(batch.word, 0), key, config))


def row_ids(word: Array, aux: Any, config: Any) -> Array:
    """Return the words, or nodes, whose rows a step reads, for objectives that read rows: int32 [n]."""
    return aux.node if config.objective == "tree" else sampled.row_ids(word, aux, config)


def shared_rows(context: Array, ids: Array, config: Any) -> tuple[Array, Head | None]:
    """Return the rows that a step reads of vectors that contexts and output share, and of the head.

    Args:
        context: words of contexts, int32 [n].
        ids: from `row_ids`.
    """
    if config.objective == "tree":
        return context, Head(V=ids)
    return jnp.concatenate([context, ids]), dense(config)


def dense(config: Any) -> Head | None:
    """Return the entry of the head in `Sparse.touched`: all of it is read."""
    return Head() if config.learned_normalizer else None


class Work(NamedTuple):
    """What the output costs for a next word: products of vectors of D numbers; rows of tables; a formula for both."""

    products: float
    rows: float
    formula: str


def work(config: Any, costs: Any) -> Work:
    """Count the output's products and rows; costs: of `Ragged`, int [N], for a tree."""
    if config.objective == "tree":
        decisions = float(np.log2(config.num_words) if costs is None else np.mean(costs))
        return Work(decisions, decisions, "decisions")
    if config.objective == "classes":
        number = config.num_classes or config.num_words**0.5  # of about equal frequency, or size
        return Work(len(config.class_ends) + config.num_words / number, 0, "C + words of the class")
    if sampled.is_sampled(config):
        return Work(1 + config.num_noise, 1 if config.shared_noise else 1 + config.num_noise, "1 + K")
    return Work(config.num_words, 0, "N_w")


def adapted(plain: Program, touched: Callable[..., Any]) -> Program:
    """Return the program of a model for its objective, over `Data`.

    Args:
        plain: that for the softmax.
        touched: as in `Sparse`, for objectives that read rows.
    """
    config = plain.config
    if config.objective == "tree":
        ragged = Ragged(costs) if plain.sequential is None else None
        return replace(plain, ragged=ragged, sparse=Sparse(touched))
    if sampled.is_sampled(config):
        metrics = (sampled.METRICS[config.objective],)
        return replace(plain, training_metrics=metrics, at_step=with_noise, sparse=Sparse(touched))
    return plain
