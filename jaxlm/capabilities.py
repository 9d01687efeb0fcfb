"""What language models can do: small records of functions; a model's record has those of its capabilities.

Nothing here imports JAX, so that n-gram models work without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxlm.data.documents.collection import Documents


@dataclass(frozen=True)
class PredictsWords:
    """The model has a normalised distribution over the next word.

    Attributes:
        log_prob: (model, history) -> log P(w | history) of every word, float [N_w], nats; model: a
            `jaxlm.trained_model.Model`; history: int32 [n], the ids of the words before it since the beginning of a
            line, oldest first, with a line end after each line.
        event_log_probs: (model, ids, fresh_lines) -> log P of each event given those before it, float64 [events], nats;
            fresh_lines: whether the history begins afresh at each line.
        log_normalizers: (model, ids) -> log Z before each event, float64 [events], nats, of scores that training treats
            as log-probabilities; None if it normalises them. The attribute is None for models that always normalise.
    """

    log_prob: Callable[[Any, np.ndarray], np.ndarray]
    event_log_probs: Callable[[Any, np.ndarray, bool], np.ndarray]
    log_normalizers: Callable[[Any, np.ndarray], np.ndarray | None] | None = None

    offers: ClassVar[str] = "next-word probabilities (eval, score, next, sample, complete, rescore)"


class Gap(NamedTuple):
    """A line with a gap, and candidate words for it, as ids.

    Attributes:
        before, after: the words of the line before and after the gap, int32 [...], in their order.
        words: candidates, int32 [n].
    """

    before: np.ndarray
    after: np.ndarray
    words: np.ndarray


@dataclass(frozen=True)
class FillsGaps:
    """The model scores how well a word fits into a gap of a line, even without a probability of the line.

    Attributes:
        scores: (model, sequence of `Gap`) -> for each gap, scores of its words, float64 [n], nats, which are comparable
            within a gap.
        of_word: whether the scores are log-probabilities of the word in the gap, up to a constant. If so, each word
            that the vocabulary lacks gets an equal share of the probability of `<unk>`. False if they are those of the
            words around the gap.
    """

    scores: Callable[[Any, Sequence[Gap]], list[np.ndarray]]
    of_word: bool = False

    offers: ClassVar[str] = "words that fit a gap (complete)"


@dataclass(frozen=True)
class CarriesState:
    """The model keeps earlier words in a state, which each next word advances, so that no word is read twice.

    States are immutable: the same state can be advanced by different words.

    Attributes:
        start: (model, history) -> the state after a history and log P(w | history) of every word, float [N_w], nats;
            arguments as for `PredictsWords.log_prob`.
        advance: (model, state, word) -> the state after one more word, an id, which may be that of the line end, and
            log P of every word after it.
    """

    start: Callable[[Any, np.ndarray], tuple[Any, np.ndarray]]
    advance: Callable[[Any, Any, int], tuple[Any, np.ndarray]]

    offers: ClassVar[str] = "a state that is carried from word to word (sample)"


@dataclass(frozen=True)
class Embeds:
    """The model has a feature vector for each word.

    Attributes:
        vectors: params -> [N_w, N_f].
        others: names of parameters that are other vectors of the words, [N_w, D]; a parameter whose number of rows is
            not N_w, as with a tree's nodes, does not count.
    """

    vectors: Callable[[Any], Any]
    others: tuple[str, ...] = ()

    offers: ClassVar[str] = "word vectors (neighbours, analogies, similarity, export --format word2vec)"


@dataclass(frozen=True)
class EncodesDocuments:
    """The model has a representation of a document.

    Attributes:
        encode: (model, documents) -> float32 [documents, N_h].
        size: name of the field of Config that holds N_h.
    """

    encode: Callable[[Any, Documents], np.ndarray]
    size: str = "num_hidden"

    offers: ClassVar[str] = "document vectors (features, retrieve)"


@dataclass(frozen=True)
class PredictsDocuments:
    """The model has a probability of a document, as a sequence of words.

    It differs from the probability of a text: the order of the words is not given, and there are no line ends.

    Attributes:
        log_probs: (model, documents, orderings, seed) -> log p(v) of each document, float64 [documents], nats; 0 for a
            document without words. Probabilities are averaged over a number of orders of the words, or of estimates,
            drawn by the seed.
        averaged: what they are averaged over, for messages: "orders of words", "estimates"; "" where `orderings` has no
            effect.
        bounds: (model, documents) -> lower bounds of log p(v) by variational inference, float64 [documents], nats; None
            for models without a bound.
        standard_error: (model, documents, seed) -> the estimated standard error, in nats, of the mean of 1/D log p(v)
            over documents, which must have words; for models whose estimates share an error, None for others.
    """

    log_probs: Callable[[Any, Documents, int, int], np.ndarray]
    averaged: str
    bounds: Callable[[Any, Documents], np.ndarray] | None = None
    standard_error: Callable[[Any, Documents, int], float] | None = None

    offers: ClassVar[str] = "probabilities of documents (eval)"


@dataclass(frozen=True)
class HasTopics:
    """Hidden units have weights to words; those with the largest weights form a topic.

    Attributes:
        weights: params -> [N_w, N_h].
    """

    weights: Callable[[Any], Any]

    offers: ClassVar[str] = "topics of hidden units (topics)"


@dataclass(frozen=True)
class HasNGrams:
    """The model's parameters are a `jaxlm.ngram.model.NGram`."""

    offers: ClassVar[str] = "n-grams (export --format arpa)"
