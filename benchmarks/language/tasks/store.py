"""Language models that tasks judge: the text that they are trained on, and what they say of sentences."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.core.verdict import Scores
from benchmarks.data import sets
from benchmarks.language import scales
from benchmarks.language.scales import LanguageScale
from benchmarks.language.store import LanguageStore, Spec
from jaxlm import model_files
from jaxlm.data.corpus import Corpus
from jaxlm.tasks import mixture
from jaxlm.trained_model import Model

PLANTED, NOVELS = "planted", "holmes"
FRESH = ("across_lines", False)  # of a neural model that scores sentences: they begin afresh in training, too
NOISE = 1000  # words, which a minibatch shares
# an objective that costs the same for every vocabulary
SAMPLED = (("objective", "importance"), ("num_noise", NOISE), ("shared_noise", True))
LEAST = -1e6  # nats of no probability: finite, so that a weight of it may be zero


@dataclass(frozen=True)
class Novels:
    """How much of the novels a text has: events of its parts, how often a word of its vocabulary occurs at least."""

    sizes: tuple[int, int, int]
    min_count: int


@dataclass(frozen=True)
class TaskScale(LanguageScale):
    """What shrinks from the published setting: also the text."""

    novels: Novels | None = None  # None: the text is planted


class Given(NamedTuple):
    """A text to train on, and the questions or lists of a task."""

    corpus: Corpus
    task: Any


class TaskStore(LanguageStore):
    """Language models of a text, and a task's lists or questions, which are of another; the test is the task.

    A subclass names its scales, the data set of its task, and the options with which novels are read.
    """

    task_name: ClassVar[str]
    reading: ClassVar[dict[str, Any]] = {}
    data_sets = (PLANTED, NOVELS)
    parts = ("test",)

    def __init__(self, data: Given, scale: TaskScale, recipe: str, work: Path, show: bool = False):
        super().__init__(data.corpus, scale, recipe, work, show)
        self.task = data.task

    def grouped(self, scores: Scores) -> Scores:
        """Return scores of questions, lists or groups of pairs as they were kept; those of the text, by its parts."""
        return super().grouped(scores) if scores.finish is np.exp else scores

    @staticmethod
    @abstractmethod
    def planted(corpus: Corpus) -> Any:
        """Make a task of a planted text, in place of the published one."""

    @classmethod
    def load(cls, name: str, scale: TaskScale, data_dir: Path | None) -> Given:  # type: ignore[override]
        """Load a text at this scale, and the task."""
        if name == PLANTED:
            corpus = scales.text(PLANTED, scale)
            return Given(corpus, cls.planted(corpus))
        task = sets.load(cls.task_name, data_dir)  # it says at once that it is missing
        novels = scale.novels or Novels((100_000, 20_000, 20_000), 2)
        return Given(sets.load(name, data_dir, size=None, **asdict(novels), **cls.reading), task)

    def describe(self, specs: Iterable[Spec] = ()) -> dict[str, Any]:
        """Describe the text and the task as a record does."""
        about = super().describe(specs)
        note = "; ".join(filter(None, (about["note"], f"task: {self.task.note}", self.task.sha256)))
        return {**about, "note": note, "task": self.task.size()}

    def size(self, specs: Iterable[Spec] = ()) -> str:
        """Say how much data there is."""
        return ", ".join([super().size(specs), *(f"{size:,} {what}" for what, size in self.task.size().items())])

    def identity(self, spec: Spec) -> dict[str, Any]:
        """Return all that determines the trained model, apart from the source code: also how the novels are read."""
        novels = self.scale.novels
        known = super().identity(spec)
        return known if novels is None else known | {"text": {**asdict(novels), **self.reading}}


class SentenceStore(TaskStore):
    """Language models that score the sentences of a task."""

    def __init__(self, data: Given, scale: TaskScale, recipe: str, work: Path, show: bool = False):
        super().__init__(data, scale, recipe, work, show)
        self._scored: dict[Spec, NDArray[np.float64]] = {}
        self._encoded: tuple[NDArray[np.int32], NDArray[np.int64]] | None = None

    @abstractmethod
    def sentences(self) -> list[list[str]]:
        """Return the sentences of the task that models score, as words: each once."""

    def event_log_probs(self, spec: Spec) -> NDArray[np.float64]:
        """Return log P of each word and line end of the task's sentences, every line beginning afresh: [events].

        A word that the vocabulary lacks has its share of `<unk>`: else models would prefer words they do not know.
        """
        if spec not in self._scored:
            ids, _ = self._events()
            words = self.corpus.vocabulary
            found = self._loaded(spec).event_log_probs(ids, fresh_lines=True)
            self._scored[spec] = np.maximum(found + words.log_share_of_unknown * (ids == words.unk), LEAST)
        return self._scored[spec]

    def log10(self, events: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log10 P of each of the task's sentences, of the nats of their events."""
        _, starts = self._events()
        return np.add.reduceat(events, starts) / np.log(10)

    def on_validation(self, spec: Spec) -> NDArray[np.float64]:
        """Return log P of the validation text's events, every line beginning afresh: [events]."""
        return self._loaded(spec).event_log_probs(self.corpus.valid, fresh_lines=True)

    def mixed(self, specs: Sequence[Spec]) -> NDArray[np.float64]:
        """Return `event_log_probs` of a mixture, with the proportions that fit the validation text best."""
        weights = mixture.fit_weights([self.on_validation(spec) for spec in specs])
        return mixture.mix_all([self.event_log_probs(spec) for spec in specs], weights)

    def _loaded(self, spec: Spec) -> Model:
        return model_files.load(self.get(spec).directory)

    def _events(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return ids of all sentences, each with its line end, and where each begins."""
        if self._encoded is None:
            words = self.corpus.vocabulary
            lines = [[*(words.ids.get(word, words.unk) for word in line), words.eos] for line in self.sentences()]
            starts = np.cumsum([0, *map(len, lines[:-1])])
            self._encoded = np.concatenate([np.array(line, np.int32) for line in lines]), starts
        return self._encoded
