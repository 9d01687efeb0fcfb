"""The contract between a language model and everything that trains, loads, queries or exports it.

A model file ends with one record, `MODEL = LanguageModel(...)`, and the registry (`jaxlm.models`) has one line for it.
The record says how the model is fitted, what it can do (its *capabilities*), and what it needs besides its parameters
(its *structure*). Commands ask a model for a capability, never for its name.

Nothing here imports JAX, so that n-gram models do without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jaxfit.errors import UserError, require_fields
from jaxfit.plan import fields_of, require_effect
from jaxfit.recipe import require_bounds
from jaxfit.registry import Record

if TYPE_CHECKING:
    from jaxfit.program import Program
    from jaxlm.data.corpus import Corpus
    from jaxlm.data.documents.collection import DocumentCorpus


RENAMED = {"context_across_lines": "across_lines"}  # options whose name is not that of their field -> the field


@dataclass(frozen=True, kw_only=True)
class BySGD:
    """Fitting by the engine (`jaxfit.fit`), on minibatches of the training text or documents.

    For a model with a `Structure`, `init` and `texts` take the structure as an additional last argument.

    Attributes:
        parameters: names of the parameters, or of groups of them ("cells" for "cells/0/hi/kernel"), for which the
            command accepts rates and decays.
        init: (key, config, counts) -> params before training; counts: int64 [N_w], of the training text.
        counts: (ids, eos, config) -> these counts, for a model that is trained only on some events of the text, and
            initialises other words to zeros; None: those of all events.
        texts: (config, eos) -> a function from ids, int32 [events], or from `Documents`, to the data that `program`
            reads; eos: -1 for documents.
        program: (config) -> the `Program` that the engine runs.
        unit: unit of the engine's speed, such as "words".
    """

    parameters: tuple[str, ...]
    init: Callable[..., Any]
    texts: Callable[..., Callable[[Any], Any]]
    program: Callable[[Any], Program]
    unit: str = "words"
    counts: Callable[[Any, int, Any], np.ndarray] | None = None


@dataclass(frozen=True, kw_only=True)
class WithFiles:
    """What models share whose parameters are not a checkpoint of the engine, but files of their own.

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
    """Fitting by a single call of another library, without devices or validation.

    Attributes:
        estimate: (data, num_words, eos, config, recipe, seed) -> params; data: ids or `Documents`; recipe: one of the
            record's, a dataclass of options; seed: of its random numbers.
    """

    estimate: Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Structure:
    """What a model needs besides its parameters and builds from the corpus before training, such as a tree over words.

    Attributes:
        name: what it is called in messages, in the help and in `config.json`.
        options: frozen dataclass of what a user can choose about it; fields that the model's Config also has are chosen
            there.
        check: raises UserError for options that exclude each other.
        origin: options -> what determines the structure apart from corpus and seed, for `config.json`; {} if it is read
            from a file.
        first_stage: options -> the options of a model of this kind that has to be trained first, whose folder goes into
            the field `bootstrap` of the options; None if there is nothing to train first.
        build: (corpus, options, counts, key) -> the structure.
        fields: structure -> the fields of the model's Config that it determines, or from which it was built.
        arrays: structure -> the array that holds it, for other programs.
        for_prediction: (structure, history, model) -> what `log_prob` of `jaxlm.context_model.predicts_from_context`
            takes in addition, arrays by name; history: int32 [n].
        sha256: structure -> its digest, for `config.json`.
        save: (structure, directory) writes its file; load: (directory, num_words) -> structure.
        stand_in: (options, num_words, counts) -> a structure of about the same size as that of `build`, made without
            training, for measurements.
        needed: (Config as a mapping, or overrides of its defaults) -> whether such a model has the structure.
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


@dataclass(frozen=True, kw_only=True, eq=False)
class LanguageModel(Record):
    """A language model; the data determine the fields of its Config that have no default.

    Attributes:
        fitting: how its parameters are fitted; None for models that are only read from files.
        structures: what it may need besides its parameters; a given Config has at most one of them.
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
        """Return data as the model reads them: for a model of documents, each line of a text becomes a document."""
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
            given: options by name, for example those of a command; options that are not the structure's are ignored.
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
        """Return the Config for these data; raises UserError for an override of a field that cannot be chosen.

        Args:
            counts: of the training text, int64 [N_w], which the method `given_counts` of a Config uses, if it has one.
        """
        found = self.decided(num_words, structure, overrides)
        decided = {name: value for name, value in found.items() if name in self.fields_from_data}
        chosen = (f.name for f in fields(self.config) if f.name not in decided and not f.metadata.get("decided"))
        require_fields(overrides, chosen)
        config = self.config(**decided, **overrides)
        require_bounds(config)
        return config if counts is None or not hasattr(config, "given_counts") else config.given_counts(counts)


def structure_argument(structure: Any) -> tuple[Any, ...]:
    """Return the structure as a tuple of further arguments of a model's functions; () if there is none."""
    return () if structure is None else (structure,)
