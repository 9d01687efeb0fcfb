"""A trained model: probabilities of words, of sentences, of texts.

    model = jaxlm.load("out/lbl")
    model.log_prob("he has joined the rolling")     # over the vocabulary, nats
    model.score("he has joined the rolling stones")  # log10 of the sentence

A model's folder has `config.json`, `vocabulary.txt`, its parameters (`parameters/`, `ngram.npz`), the file of its
structure, as `tree.npz`, and what training writes (`checkpoint-*`, `journal.jsonl`, `timing.jsonl`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays
from jaxfit.registry import Capability
from jaxfit.run_dir import manifest
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.metadata import CONFIG, PARAMETERS, read_config, read_info
from jaxlm import models
from jaxlm.contract import (
    ByCounting,
    BySGD,
    Embeds,
    HasNGrams,
    LanguageModel,
    PredictsWords,
    structure_argument,
)
from jaxlm.data.vocabulary import Vocabulary

VOCABULARY = "vocabulary.txt"


@dataclass(frozen=True, eq=False)
class Model:
    """A language model with its vocabulary.

    Attributes:
        record: what the model is and can do.
        vocabulary: its words.
        config: an instance of the record's Config.
        params: its parameters: a pytree of arrays, or an NGram.
        info: what `config.json` holds.
        structure: what the record's Structure built, such as a tree; None without one.
        texts: for models fitted by SGD, the function from ids to the data that the program reads.
    """

    record: LanguageModel
    vocabulary: Vocabulary
    config: Any
    params: Any
    info: dict[str, Any]
    structure: Any = None
    texts: Callable[[np.ndarray], Any] | None = None

    @property
    def name(self) -> str:
        """The model's name in the registry."""
        return self.record.name

    def require(self, kind: type[Capability], task: str, where: object | None = None) -> Capability:
        """Return the model's capability of this kind; raises UserError where it has none, as `jaxlm.models.require`."""
        return models.require(self.record, kind, task, where)

    def log_prob(self, context: str | Sequence[str]) -> np.ndarray:
        """Return log-probabilities (nats) of every word of the vocabulary after `context`: float [N_w].

        Args:
            context: the last words before the next, on one line; before them the model sees a line end.

        Raises:
            UserError: an unknown word where the vocabulary has no <unk>; a model without a distribution.
        """
        words = context.split() if isinstance(context, str) else list(context)
        predicts = self.require(PredictsWords, "log_prob")
        with self._precision():
            return predicts.log_prob(self, self.encode(words))

    def event_log_probs(self, ids: np.ndarray, fresh_lines: bool = False) -> np.ndarray:
        """Return log-probabilities (nats) of every event of a text, given those before it: float64 [events].

        Args:
            ids: int32 [events], the words of each line and then <eos>.
            fresh_lines: begin a neural model's context afresh at each line, as an n-gram model's always does.
        """
        predicts = self.require(PredictsWords, "event_log_probs")
        with self._precision():
            return predicts.event_log_probs(self, np.asarray(ids, np.int32), fresh_lines)

    def _precision(self) -> AbstractContextManager[None]:
        """Full precision for models that compute with JAX, which counted models do without."""
        if not isinstance(self.record.fitting, BySGD):
            return nullcontext()
        from jaxfit.devices.precision import full_precision

        return full_precision()

    def vectors(self) -> np.ndarray:
        """Return the feature vectors of all words: [N_w, N_f]; raises UserError for a model without them."""
        return np.asarray(self.require(Embeds, "vectors").vectors(self.params))

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters by name, or the numbers of n-grams by order."""
        ngrams = self.record.capability(HasNGrams)
        if ngrams is not None:  # the begin of a line, which is no word, is the last of the unigrams
            tables = ngrams.table(self.params).tables
            return {f"{k}-grams": (len(t.keys) - (k == 1),) for k, t in enumerate(tables, 1)}
        return {name: np.shape(value) for name, value in named_arrays(self.params).items()}

    def num_parameters(self) -> int:
        """Return the number of parameters, or of n-grams."""
        ngrams = self.record.capability(HasNGrams)
        if ngrams is not None:
            return sum(len(t.keys) for t in ngrams.table(self.params).tables)
        return sum(np.size(value) for value in named_arrays(self.params).values())

    def score(self, sentence: str) -> float:
        """Return base-10 logarithm of the probability of a sentence and its end, the history beginning afresh."""
        return self.scores([sentence])[0]

    def scores(self, sentences: Sequence[str]) -> list[float]:
        """Compute `score` of many sentences at once."""
        lines = [self.encode([*sentence.split()], end=True) for sentence in sentences]
        if not lines:
            return []
        log_probs = self.event_log_probs(np.concatenate(lines), fresh_lines=True) / np.log(10)
        starts = np.cumsum([0] + [len(line) for line in lines[:-1]])
        return [float(total) for total in np.add.reduceat(log_probs, starts)]

    def encode(self, words: Sequence[str], end: bool = False) -> np.ndarray:
        """Return ids of words, int32, followed by <eos> if `end`; an unknown word is <unk>."""
        vocabulary = self.vocabulary
        ids = [vocabulary.ids.get(word, -1 if vocabulary.unk is None else vocabulary.unk) for word in words]
        if -1 in ids:
            unknown = words[ids.index(-1)]
            raise UserError(f"unknown word {unknown!r}", do="this model's vocabulary has no <unk>: use its words")
        return np.array(ids + [vocabulary.eos] * end, np.int32)


def load(directory: str | Path, *, unfinished: bool = False) -> Model:
    """Read a trained model from the folder that `jaxlm train` wrote, or an n-gram model from an ARPA file.

    Args:
        directory: the folder, or the file.
        unfinished: accept the best parameters so far of a training that was stopped before its end.

    Raises:
        UserError: there is no model, or one of another package; it is damaged, or its files are of different models;
            its training has not finished.
    """
    directory = Path(directory)
    if directory.is_file():
        from jaxlm.ngram import arpa

        params, words = arpa.read(directory)
        record = arpa.MODEL
        return Model(record, Vocabulary(tuple(words)), record.config(), params, {"model": record.name})
    info = read_info(directory)
    manifest.require_whole(directory)
    record = record_of(info, directory)
    vocabulary = Vocabulary.load(directory / VOCABULARY)
    config = read_config(record.config, info, directory)
    num_words = getattr(config, "num_words", len(vocabulary))
    if num_words != len(vocabulary):
        what = f"the vocabulary has {len(vocabulary):,} words and the configuration {num_words:,}"
        raise UserError(what, directory, "its files are of different models: train it again")
    if isinstance(record.fitting, ByCounting):
        params = record.fitting.load(directory, len(vocabulary))
        return Model(record, vocabulary, config, params, info)
    if not (directory / PARAMETERS).is_dir() or not (info.get("finished") or unfinished):
        more = ", or add --unfinished" if (directory / PARAMETERS).is_dir() else ""
        raise UserError("the model's training has not finished", directory, f"go on with it by --resume{more}")
    return _load_fitted(record, vocabulary, config, info, directory)


def write_vocabulary(directory: Path, vocabulary: Vocabulary) -> None:
    """Write the words of a model to its folder."""
    with replacing(directory / VOCABULARY) as aside:
        vocabulary.save(aside)


def record_of(info: dict[str, Any], directory: Path) -> LanguageModel:
    """Return the record of the model in a folder, by what its `config.json` holds.

    Raises:
        UserError: it is not a language model, or one that this version does not know.
    """
    name = info.get("model")
    if name in models.MODELS:
        return models.get(name)
    if "corpus" not in info:
        raise UserError(f"{name!r} is no language model", directory, "if it predicts ratings, use jaxcf")
    advice = f"this version knows {', '.join(models.names())}"
    raise UserError(f"there is no language model {name!r}", directory / CONFIG, advice)


def _load_fitted(
    record: LanguageModel, vocabulary: Vocabulary, config: Any, info: dict[str, Any], directory: Path
) -> Model:
    """Read a model that was fitted by SGD."""
    import jax

    from jaxfit.run_dir import checkpoint

    fitting, structure = record.fitting, None
    assert isinstance(fitting, BySGD)
    if record.structure is not None:
        structure = record.structure.load(directory, len(vocabulary))
        for field, value in record.structure.fields(structure).items():
            if getattr(config, field) != value:
                said = getattr(config, field)
                what = f"{field} is {said} in its configuration and {value} in its {record.structure.name}"
                raise UserError(what, directory, "its files are of different models: train it again")
    more, counts = structure_argument(structure), np.ones(len(vocabulary), np.int64)
    like = jax.eval_shape(lambda: fitting.init(jax.random.key(0), config, counts, *more))
    params = checkpoint.load_model(directory / PARAMETERS, like)
    texts = fitting.texts(config, vocabulary.eos, *more)
    return Model(record, vocabulary, config, params, info, structure, texts)
