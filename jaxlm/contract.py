"""The contract between a language model and everything that trains, loads, queries or exports it.

A model file ends with one record, `MODEL = LanguageModel(...)`, and the registry (`jaxlm.models`) has one line for it.
The record says how the model is fitted, what it can do (its *capabilities*), and what it needs besides its parameters
(its *structure*). Commands ask a model for a capability, never for its name.

Nothing here imports JAX, so that n-gram models do without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from jaxfit.errors import UserError, require_fields
from jaxfit.plan import fields_of, require_effect
from jaxfit.recipe import require_bounds
from jaxfit.registry import Record

if TYPE_CHECKING:
    from jaxfit.program import Program
    from jaxlm.data.corpus import Corpus
    from jaxlm.data.documents.collection import DocumentCorpus, Documents


RENAMED = {"context_across_lines": "across_lines"}  # options whose name is not that of their field -> the field


@dataclass(frozen=True, kw_only=True)
class BySGD:
    """Fitting by the engine (`jaxfit.fit`), on minibatches of the training text or documents.

    `init` and `texts` of a model with a `Structure` take the structure as one more argument, the last.

    Attributes:
        parameters: the names of the parameters, or of groups of them ("cells" for "cells/0/hi/kernel"), by which the
            command takes rates and decays.
        init: (key, config, counts) -> params before training; counts: int64 [N_w], of the training text.
        counts: (ids, eos, config) -> these counts, of a model that is trained on a part of the text's events alone, and
            has zeros for words without any; None: of all events.
        texts: (config, eos) -> a function from ids, int32 [events], or from `Documents`, to the data that `program`
            reads; eos: -1 for documents.
        program: (config) -> the `Program` that the engine runs.
        unit: what its examples are, for the engine's speed.
    """

    parameters: tuple[str, ...]
    init: Callable[..., Any]
    texts: Callable[..., Callable[[Any], Any]]
    program: Callable[[Any], Program]
    unit: str = "words"
    counts: Callable[[Any, int, Any], np.ndarray] | None = None


@dataclass(frozen=True, kw_only=True)
class WithFiles:
    """What models have in common whose parameters are no checkpoint of the engine, but files of their own.

    `params.sizes()` are the shapes of what was estimated, by name.

    Attributes:
        save: (params, directory) writes the parameters.
        load: (directory, num_words, eos, config) -> params; raises UserError where they are damaged or of another
            vocabulary or configuration.
    """

    save: Callable[[Any, Path], None]
    load: Callable[[Path, int, int, Any], Any]


@dataclass(frozen=True, kw_only=True)
class ByCounting(WithFiles):
    """Fitting by counting: one pass over the training text, without random numbers, devices or validation.

    Attributes:
        estimate: (ids, num_words, eos, config) -> params; ids: int32 [events], the words of each line, then eos.
    """

    estimate: Callable[[np.ndarray, int, int, Any], Any]


@dataclass(frozen=True, kw_only=True)
class ByLibrary(WithFiles):
    """Fitting by another library at one go, without devices or validation.

    Attributes:
        estimate: (data, num_words, eos, config, recipe, seed) -> params; data: ids or `Documents`; recipe: of the
            record's, a dataclass of its options; seed: of its random numbers.
    """

    estimate: Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Structure:
    """What a model needs besides its parameters and builds from the corpus before training, such as a tree over words.

    Attributes:
        name: what it is called in messages, in the help and in `config.json`.
        options: frozen dataclass of what a user can choose about it; fields that the model's Config has, too, are
            chosen there.
        check: raises UserError for options that exclude each other.
        origin: options -> what determines the structure besides corpus and seed, for `config.json`; {} if it is read
            from a file.
        first_stage: options -> the options of a model of this kind that has to be trained first, whose folder goes
            into the field `bootstrap` of the options; None if there is nothing to train first.
        build: (corpus, options, counts, key) -> the structure.
        fields: structure -> the fields of the model's Config that it determines, or was built by.
        arrays: structure -> the array that holds it, for other programs.
        for_prediction: (structure, history, model) -> what `log_prob` of `jaxlm.context_model.predicts_from_context`
            takes besides, arrays by argument; history: int32 [n], on one line.
        sha256: structure -> its digest, for `config.json`.
        save: (structure, directory) writes its file; load: (directory, num_words) -> structure.
        stand_in: (options, num_words, counts) -> a structure of the same size as `build` would give, made without
            training anything, for measurements.
        needed: (Config as a mapping, or overrides of its defaults) -> whether a model of it has the structure.
    """

    name: str
    options: type
    check: Callable[[Any], None]
    origin: Callable[[Any], dict[str, Any]]
    first_stage: Callable[[Any], Any | None]
    build: Callable[[Any, Any, np.ndarray, Any], Any]
    fields: Callable[[Any], dict[str, int]]
    arrays: Callable[[Any], Any]
    for_prediction: Callable[[Any, np.ndarray, Any], dict[str, Any]]
    sha256: Callable[[Any], str]
    save: Callable[[Any, Path], None]
    load: Callable[[Path, int], Any]
    stand_in: Callable[[Any, int, np.ndarray], Any]
    needed: Callable[[Mapping[str, Any]], bool] = lambda config: True

    def choose(self, config: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        """Return the options that are given, or in a Config, as a mapping or overrides; else their defaults."""
        shared = {f.name: config[f.name] for f in fields(self.options) if f.name in config}
        return self.options(**{**shared, **given})

    def follow(self, options: Any, config: type, overrides: Mapping[str, Any]) -> Any:
        """Return the options with the values of those that a model's Config has, too: overrides, or its defaults."""
        of_config = {f.name: overrides.get(f.name, f.default) for f in fields(config)}
        return replace(options, **{f.name: of_config[f.name] for f in fields(self.options) if f.name in of_config})


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
    """The model says how well a word fits between the words before and after it, by no probability of the line.

    Attributes:
        scores: (model, gaps, each a `Gap`) -> how well each word fits, float64 [n] of each gap, nats, by which the
            words of one gap are compared.
        of_word: whether these are logarithms of probabilities of the words themselves, so that the words which the
            vocabulary lacks have a share each of that of `<unk>`; not of the words around them, or of ratios.
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


@dataclass(frozen=True, kw_only=True, eq=False)
class LanguageModel(Record):
    """One language model; the fields of its Config without a default are decided by the data.

    Attributes:
        fitting: how its parameters are found; None for models that are only read.
        structures: what it may need besides its parameters; a model of a given Config has one at most.
        reads: what it is trained on and asked about: a text, or documents as bags of words.
    """

    package = "jaxlm.models"
    fitting: BySGD | ByCounting | ByLibrary | None
    structures: tuple[Structure, ...] = ()
    reads: Literal["text", "documents"] = "text"

    @property
    def fields_from_data(self) -> tuple[str, ...]:
        """The fields of Config that the data decide: those without a default."""
        return tuple(f.name for f in fields(self.config) if f.default is f.default_factory is MISSING)

    def of_text(self, corpus: Corpus | DocumentCorpus) -> Corpus | DocumentCorpus:
        """Return data as the model reads them: a text, for a model of documents, with each of its lines as one."""
        if self.reads == "text":
            return corpus
        from jaxlm.data.documents.collection import DocumentCorpus, of_lines  # here, as texts do without sparse tables

        return corpus if isinstance(corpus, DocumentCorpus) else of_lines(corpus)

    def structure_of(self, config: Mapping[str, Any]) -> Structure | None:
        """Return the structure of a model of this Config, given as a mapping or overrides; None where it has none."""
        return next((each for each in self.structures if each.needed(config)), None)

    def choose_structure(self, config: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        """Return the options of the structure that a model of this Config has, checked; None where it has none.

        Args:
            given: options by name, as of a command; those of no structure are not read.
        """
        needed, of_config = self.structure_of(config), {field.name for field in fields(self.config)}
        for structure in self.structures:
            for name in fields_of(given, structure.options).keys() - of_config if structure is not needed else ():
                objective = config.get("objective", getattr(self.config, "objective", None))
                what = f"the objective {objective} has no {structure.name}"
                raise UserError(what, f"--{name.replace('_', '-')}", "give --objective tree, or leave it out")
        if needed is None:
            return None
        own = fields_of(given, needed.options)
        chosen = needed.choose(config, own)
        needed.check(chosen)
        require_effect(own, vars(chosen), needed.options)
        return chosen

    def decided(self, num_words: int, structure: Any, config: Mapping[str, Any]) -> dict[str, int]:
        """Return the fields of Config that a vocabulary of `num_words` words, and a structure, determine.

        Args:
            config: as in `structure_of`.
        """
        decided = {"num_words": num_words} if "num_words" in self.fields_from_data else {}
        kind = self.structure_of(config)
        return decided if kind is None or structure is None else decided | kind.fields(structure)

    def configure(
        self, num_words: int, structure: Any, overrides: Mapping[str, Any], counts: np.ndarray | None = None
    ) -> Any:
        """Return the Config over these data; raises UserError where an override is of no field that can be chosen.

        Args:
            counts: of the training text, int64 [N_w], from which a Config with the method `given_counts` completes
                itself.
        """
        found = self.decided(num_words, structure, overrides)
        decided = {name: value for name, value in found.items() if name in self.fields_from_data}
        chosen = (f.name for f in fields(self.config) if f.name not in decided and not f.metadata.get("decided"))
        require_fields(overrides, chosen)
        config = self.config(**decided, **overrides)
        require_bounds(config)
        return config if counts is None or not hasattr(config, "given_counts") else config.given_counts(counts)


def structure_argument(structure: Any) -> tuple[Any, ...]:
    """Return the structure as further arguments of a model's functions; none where the model has no structure."""
    return () if structure is None else (structure,)
