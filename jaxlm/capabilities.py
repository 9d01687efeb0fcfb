"""What language models can do: small records of functions, of which a model's record has those that it can.

Nothing here imports JAX, so that n-gram models do without it.
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
            `jaxlm.trained_model.Model`; history: int32 [n], the ids of the words before, oldest first, on one line.
        event_log_probs: (model, ids, fresh_lines) -> log P of each event given those before it, float64 [events],
            nats; fresh_lines: whether the history begins afresh at each line.
        log_normalizers: (model, ids) -> log Z before each event, float64 [events], nats: of the scores that training
            takes for log-probabilities; None where it normalises them. None for models that are never trained so.
    """

    log_prob: Callable[[Any, np.ndarray], np.ndarray]
    event_log_probs: Callable[[Any, np.ndarray, bool], np.ndarray]
    log_normalizers: Callable[[Any, np.ndarray], np.ndarray | None] | None = None

    offers: ClassVar[str] = "next-word probabilities (eval, score, next, sample, complete, rescore)"


class Gap(NamedTuple):
    """A line with a gap, and words that could fill it, as ids.

    Attributes:
        before, after: the other words of the line, int32 [...], in their order.
        words: those that could fill it, int32 [n].
    """

    before: np.ndarray
    after: np.ndarray
    words: np.ndarray


@dataclass(frozen=True)
class FillsGaps:
    """The model says how well a word fits between those before and after it, even without a probability of the line.

    Attributes:
        scores: (model, gaps, each a `Gap`) -> how well each word fits, float64 [n] of each gap, nats, by which the
            words of one gap are compared.
        of_word: whether the scores are log-probabilities of the word in the gap, up to a constant. If so, each of the
            words that the vocabulary lacks has an equal share of that of `<unk>`. False where the words around it are
            predicted.
    """

    scores: Callable[[Any, Sequence[Gap]], list[np.ndarray]]
    of_word: bool = False

    offers: ClassVar[str] = "words that fit a gap (complete)"


@dataclass(frozen=True)
class CarriesState:
    """What the model keeps of the words before is a state, which the next word advances: no word is read twice.

    A state is never changed: it can be advanced by one word, and then by another in its place.

    Attributes:
        start: (model, history) -> the state after a history and log P(w | history) of every word, float [N_w], nats;
            both arguments as of `PredictsWords.log_prob`.
        advance: (model, state, word) -> the state after one more word, an id, which may be that of a line end, and
            log P of every word then, likewise.
    """

    start: Callable[[Any, np.ndarray], tuple[Any, np.ndarray]]
    advance: Callable[[Any, Any, int], tuple[Any, np.ndarray]]

    offers: ClassVar[str] = "a state that is carried from word to word (sample)"


@dataclass(frozen=True)
class Embeds:
    """The model has a feature vector for each word.

    Attributes:
        vectors: params -> [N_w, N_f].
        others: the names of parameters that are further vectors of the words, [N_w, D]; where such a parameter has not
            N_w rows, as of a tree's nodes, a model does not have them.
    """

    vectors: Callable[[Any], Any]
    others: tuple[str, ...] = ()

    offers: ClassVar[str] = "word vectors (neighbours, analogies, similarity, export --format word2vec)"


@dataclass(frozen=True)
class EncodesDocuments:
    """The model has a representation of a document.

    Attributes:
        encode: (model, documents) -> float32 [documents, N_h].
        size: the field of Config that N_h is.
    """

    encode: Callable[[Any, Documents], np.ndarray]
    size: str = "num_hidden"

    offers: ClassVar[str] = "document vectors (features, retrieve)"


@dataclass(frozen=True)
class PredictsDocuments:
    """The model has a probability of a document, as a sequence of words.

    It is not that of a text: the words come in no order, and there are no line ends.

    Attributes:
        log_probs: (model, documents, orderings, seed) -> log p(v) of each document, float64 [documents], nats; 0 for a
            document without words. Probabilities are averaged over so many orders of the words, or so many estimates,
            drawn by a seed.
        averaged: what they are averaged over, for people: "orders of words", "estimates"; "" where `orderings` has no
            effect.
        bounds: (model, documents) -> numbers, by variational inference, that log p(v) of each document is not below,
            float64 [documents], nats; None for models without such a bound.
        standard_error: (model, documents, seed) -> the estimated standard error of the mean over documents, which have
            words, of 1/D log p(v), nats, of models whose estimates of log p(v) err together; None for others.
    """

    log_probs: Callable[[Any, Documents, int, int], np.ndarray]
    averaged: str
    bounds: Callable[[Any, Documents], np.ndarray] | None = None
    standard_error: Callable[[Any, Documents, int], float] | None = None

    offers: ClassVar[str] = "probabilities of documents (eval)"


@dataclass(frozen=True)
class HasTopics:
    """Hidden units have weights to words, the largest of which are a topic; weights: params -> [N_w, N_h]."""

    weights: Callable[[Any], Any]

    offers: ClassVar[str] = "topics of hidden units (topics)"


@dataclass(frozen=True)
class HasNGrams:
    """The model's parameters are a `jaxlm.ngram.model.NGram`."""

    offers: ClassVar[str] = "n-grams (export --format arpa)"
