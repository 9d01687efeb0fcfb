"""A trained model: probabilities of words, of sentences, of texts.

model = jaxlm.load("out/lbl")
model.log_prob("he has joined the rolling")     # over the vocabulary, nats
model.score("he has joined the rolling stones")  # log10 of the sentence
model.perplexity("test.txt")                    # or of a list of lines
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxfit.errors import UserError
from jaxfit.recipe import SEED, named_arrays, require_number
from jaxfit.registry import Capability
from jaxlm import models
from jaxlm.capabilities import Embeds, EncodesDocuments, HasNGrams, PredictsDocuments, PredictsWords
from jaxlm.contract import ByLibrary, BySGD, LanguageModel, structure_argument
from jaxlm.data.corpus import reading_of
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.encoding import checked, encode, encode_words
from jaxlm.data.files import EOS, Reading, line_end_as_word
from jaxlm.data.given import Text, as_files
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.tasks import documents as tasks_of_documents
from jaxlm.tasks import neighbours, sample
from jaxlm.tasks.documents import DocumentEvaluation
from jaxlm.tasks.evaluate import Evaluation, evaluate
from jaxlm.tasks.neighbours import Neighbour

if TYPE_CHECKING:
    from jaxlm.data.documents.collection import Documents


@dataclass(frozen=True, eq=False)
class Model:
    """A language model with its vocabulary.

    Attributes:
        record: what the model is and can do.
        vocabulary: its words.
        config: an instance of the record's Config.
        params: a pytree of arrays, or what `ByCounting` or `ByLibrary` estimated, such as an NGram.
        info: what `config.json` holds.
        structure: what the record's Structure built, such as a tree; None without one.
    """

    record: LanguageModel
    vocabulary: Vocabulary
    config: Any
    params: Any
    info: dict[str, Any]
    structure: Any = None

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.vocabulary):,} words, {self.num_parameters():,} {self.counted}>"

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # without what is cached

    def __contains__(self, word: object) -> bool:
        """Return whether a word is in the vocabulary."""
        return word in self.vocabulary.ids

    @property
    def name(self) -> str:
        """The model's name in the registry."""
        return self.record.name

    @property
    def counted(self) -> str:
        """What `num_parameters` counts."""
        return "n-grams" if self.record.capability(HasNGrams) else "parameters"

    @cached_property
    def _texts(self) -> dict[Any, Callable[[Any], Any]]:
        return {}

    def texts(self, config: Any = None) -> Callable[[Any], Any]:
        """Return the function from ids, or `Documents`, to the data of the model's program; it must be fitted by SGD.

        It is made once for each Config, as for models over a tree it holds the paths of all words.

        Args:
            config: a Config that scores in another way; None: the model's own.
        """
        config = self.config if config is None else config
        if config not in self._texts:
            fitting = self.record.fitting
            assert isinstance(fitting, BySGD)
            self._texts[config] = fitting.texts(config, self.vocabulary.eos, *structure_argument(self.structure))
        return self._texts[config]

    def require(
        self, kind: type[Capability] | tuple[type[Capability], ...], task: str, where: object | None = None
    ) -> Capability:
        """Return the model's capability of this kind, as `jaxlm.models.require`; raises Unsupported if it has none."""
        return models.require(self.record, kind, task, where)

    def log_prob(self, context: str | Sequence[str]) -> np.ndarray:
        """Return log P of every word of the vocabulary after `context`, in nats: float [N_w].

        Args:
            context: the words before the next one, since the beginning of a line; before them, the model sees a line
                end. A string is one line, prepared as the training text was (lower case, …); a list of words is used as
                it is, and may have <eos> at the ends of earlier lines.

        Raises:
            UserError: a word is not a string, or a string contains <eos>.
            NotInTraining: a word is unknown, and the vocabulary has no <unk>.
            Unsupported: the model has no distribution of words.
        """
        history = self.encode_line(self._given_words(context)) if isinstance(context, str) else self.encode(context)
        with self.precision():
            return self.require(PredictsWords, "log_prob").log_prob(self, history)

    def event_log_probs(self, ids: np.ndarray, fresh_lines: bool = False) -> np.ndarray:
        """Return log P of every event of a text, given those before it, in nats: float64 [events].

        Args:
            ids: int32 [events], the words of each line and then <eos>.
            fresh_lines: whether the context of a neural model, or a cache, begins afresh at each line, as that of an
                n-gram model always does.
        """
        predicts = self.require(PredictsWords, "event_log_probs")
        with self.precision():
            return predicts.event_log_probs(self, checked(ids, self.vocabulary), fresh_lines)

    def log_normalizers(self, ids: np.ndarray) -> np.ndarray | None:
        """Return log Z before each event of a text, in nats: float64 [events]; None if training normalises scores.

        It is that of the scores that noise-contrastive estimation treats as log-probabilities: 0 if they are.
        """
        predicts = self.require(PredictsWords, "log_normalizers")
        if predicts.log_normalizers is None:
            return None
        with self.precision():
            return predicts.log_normalizers(self, checked(ids, self.vocabulary))

    def document_log_probs(self, documents: Documents, orderings: int = 1, seed: int = 1) -> np.ndarray:
        """Return log p(v) of each document, float64 [documents], nats; 0 for a document without words.

        Args:
            orderings: number of orders of a document's words, drawn by the seed, over which its probability is averaged
                if it depends on the order (Lauly et al. 2017, Eq. 31), or of estimates, if each is made from one order.
        """
        predicts = self.require(PredictsDocuments, "document_log_probs")
        require_number(orderings, "orderings", int)
        require_number(seed, "seed", int, **SEED)
        with self.precision():
            return predicts.log_probs(self, documents, orderings, seed)

    def document_bounds(self, documents: Documents) -> np.ndarray | None:
        """Return a lower bound of log p(v) of each document, float64 [documents], nats; None for models without one."""
        predicts = self.require(PredictsDocuments, "document_bounds")
        if predicts.bounds is None:
            return None
        with self.precision():
            return predicts.bounds(self, documents)

    def document_standard_error(self, documents: Documents, seed: int = 1) -> float | None:
        """Return the estimated standard error of the mean over documents of 1/D log p(v), nats, as drawn by the seed.

        Documents without words do not count. None for models whose estimates for documents do not share an error.
        """
        predicts = self.require(PredictsDocuments, "document_standard_error")
        require_number(seed, "seed", int, **SEED)
        if predicts.standard_error is None:
            return None
        with self.precision():
            return predicts.standard_error(self, documents.with_words(), seed)

    def features(self, documents: Documents | Text) -> np.ndarray:
        """Return a vector of each document, float32 [documents, N_h]; they may be files or lines, as for `jaxlm.train`.

        Raises:
            UserError: the documents cannot be read.
            Unsupported: the model has no vectors of documents.
        """
        encodes = self.require(EncodesDocuments, "features")
        read: Any = documents if hasattr(documents, "counts") else self._documents(documents)[0]
        with self.precision():
            return encodes.encode(self, read)

    def _documents(self, text: Text) -> tuple[Documents, int]:
        """Read documents as the training documents were; also return the number of unknown words."""
        from jaxlm.data.documents import reading  # here, as texts do without sparse tables

        how = reading_of(self.info, DocumentReading)
        with as_files(text, "text", how.encoding) as files:
            return reading.encode(files, self.vocabulary, how)

    def precision(self) -> AbstractContextManager[None]:
        """Return the context `full_float32`, or an empty one for models that do not use JAX, such as n-grams."""
        if not isinstance(self.record.fitting, BySGD | ByLibrary):
            return nullcontext()
        from jaxfit.devices.precision import full_float32

        return full_float32()

    def evaluate(self, text: Text, orderings: int = 1, seed: int = 1) -> Evaluation | DocumentEvaluation:
        """Evaluate predictions of a text, or of documents, which are read as the training text was.

        Args:
            text: files or lines, as for `jaxlm.train`.
            orderings: for models of documents, as in `document_log_probs`.
            seed: likewise.

        Raises:
            UserError: the text cannot be read; a word is unknown, and the vocabulary has no <unk>.
            Unsupported: the model has no probabilities of words or documents.
        """
        if self.record.reads == "documents":
            documents, unknown = self._documents(text)
            return self.evaluate_documents(documents, unknown, orderings, seed)
        if orderings != 1:
            raise UserError("orderings are of models of documents", "orderings", "leave them out")
        how: Reading = reading_of(self.info)
        with as_files(text, "text", how.encoding) as files:
            encoded = encode(files, self.vocabulary, how)
        log_probs = self.event_log_probs(encoded.ids)
        return evaluate(log_probs, encoded.unknown, encoded.ids != self.vocabulary.unk)

    def evaluate_documents(
        self, documents: Documents, unknown: int = 0, orderings: int = 1, seed: int = 1
    ) -> DocumentEvaluation:
        """Evaluate predictions of documents that have been read; unknown: the number of their unknown words."""
        found = self.document_log_probs(documents, orderings, seed)
        bounds, error = self.document_bounds(documents), self.document_standard_error(documents, seed)
        return tasks_of_documents.evaluate(found, documents.lengths, unknown, orderings, bounds, error)

    def perplexity(self, text: Text, orderings: int = 1, seed: int = 1) -> float:
        """Return the perplexity of a text, or of documents, which is another measure; arguments as for `evaluate`."""
        return self.evaluate(text, orderings, seed).perplexity

    def sample(
        self, lines: int = 1, *, prefix: str = "", longest: int = 100, temperature: float = 1.0, seed: int = 1
    ) -> list[str]:
        """Draw sentences; line k of a seed is the same however many are drawn.

        Args:
            lines: number of sentences.
            prefix: the first words of each, prepared as the training text was.
            longest: maximum number of words of a line, those of the prefix included.
            temperature: below 1, probable words become more probable.
            seed: of all draws.

        Raises:
            UserError: a number is out of its bounds, or a word is unknown and the vocabulary has no <unk>.
            Unsupported: the model has no distribution of words.
        """
        self.require(PredictsWords, "sample")
        require_number(lines, "lines", int)
        require_number(longest, "longest", int)
        require_number(temperature, "temperature", float, low=0.01)
        require_number(seed, "seed", int, **SEED)
        words = self._given_words(prefix)
        drawn = (sample.sentence(self, seed, line, longest, words, temperature)[0] for line in range(lines))
        return [" ".join(words) for words in drawn]

    def neighbours(self, word: str, top: int = 10, vectors: str | None = None) -> list[Neighbour]:
        """Return at most `top` words nearest to a word by the cosine of `Model.vectors`, chosen by the name `vectors`.

        Raises:
            UserError: there are no vectors of this name.
            NotInTraining: the word is not in the vocabulary, or has no vector.
            Unsupported: the model has no word vectors.
        """
        require_number(top, "top", int)
        given = word if isinstance(word, str) and word in self else " ".join(self._given_words(word))
        return neighbours.of_word(self.vectors(vectors), self.vocabulary, given, top)

    def _given_words(self, text: str) -> list[str]:
        """Return the words of a line as the training text has them, for example in lower case, with N for numbers."""
        if not isinstance(text, str):
            raise UserError(f"{type(text).__name__} is not a text", do="give a string")
        return reading_of(self.info).words(text)

    def vectors(self, name: str | None = None) -> np.ndarray:
        """Return the feature vectors of all words: [N_w, N_f].

        Args:
            name: name of a parameter with other vectors of the words, [N_w, D], for models that have several sets;
                None: the usual ones.

        Raises:
            UserError: the model has no vectors of this name; the message lists those it has.
            Unsupported: the model has no vectors.
        """
        embeds = self.require(Embeds, "vectors")
        if name is None:
            return np.asarray(embeds.vectors(self.params))
        others = [each for each in embeds.others if len(getattr(self.params, each)) == len(self.vocabulary)]
        if name not in others:
            advice = f"choose from {', '.join(others)}, or leave it out" if others else "leave it out: it has one set"
            raise UserError(f"{self.name} has no word vectors {name!r}", "--vectors", advice)
        return np.asarray(getattr(self.params, name))

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the parameters by name, or the numbers of n-grams by order."""
        if not isinstance(self.record.fitting, BySGD):
            return self.params.sizes()
        return {name: np.shape(value) for name, value in named_arrays(self.params).items()}

    def num_parameters(self) -> int:
        """Return the number of parameters, or of n-grams."""
        return sum(math.prod(shape) for shape in self.sizes().values())

    def score(self, sentence: str) -> float:
        """Return the base-10 logarithm of the probability of a sentence and its end; the history begins afresh."""
        return self.scores([sentence])[0]

    def scores(self, sentences: Sequence[str]) -> list[float]:
        """Compute `score` for many sentences at once; raises as `log_prob`."""
        if isinstance(sentences, str):
            raise UserError("scores are of a list of sentences", "sentences", "use score for one")
        lines = [self.encode_line(self._given_words(sentence), end=True) for sentence in sentences]
        if not lines:
            return []
        log_probs = self.event_log_probs(np.concatenate(lines), fresh_lines=True) / np.log(10)
        starts = np.cumsum([0] + [len(line) for line in lines[:-1]])
        return np.add.reduceat(log_probs, starts).tolist()

    def encode_line(self, words: Sequence[str], end: bool = False, where: object | None = None) -> np.ndarray:
        """Return ids of the words of one line as `encode` does; also raises UserError if <eos> is one of them."""
        if EOS in words:
            raise line_end_as_word(where)
        return self.encode(words, end, where)

    def encode(self, words: Sequence[str], end: bool = False, where: object | None = None) -> np.ndarray:
        """Return ids of words, int32, followed by <eos> if `end`; an unknown word is <unk>.

        Args:
            where: source of the words, for messages.

        Raises:
            UserError: the words are a single string, or one of them is not a string.
            NotInTraining: a word is unknown, and the vocabulary has no <unk>.
        """
        ids = encode_words(words, self.vocabulary, where)
        return np.array(ids + [self.vocabulary.eos] * end, np.int32)
