"""Word vectors of equal text, size and epochs, judged by analogies and similarities, beside gensim's."""

import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.core.comparisons import Comparisons
from benchmarks.core.store import Outcome
from benchmarks.core.table import Column, Measured, Row, Table, seeded
from benchmarks.core.verdict import Claim, Comparison, Scores
from benchmarks.data import task_sets
from benchmarks.data.corpora import READING
from benchmarks.language.scales import SCALES, LanguageScale
from benchmarks.language.store import Spec
from benchmarks.language.tasks import gensim_vectors
from benchmarks.language.tasks.store import NOVELS, PLANTED, Novels, TaskScale, TaskStore
from benchmarks.speed.peers import load, missing
from jaxfit.devices.cores import cores
from jaxfit.errors import UserError
from jaxlm import model_files, word_vectors
from jaxlm import models as registry
from jaxlm.tasks import analogies, similarity

OURS, THEIRS, BY_ELEMENT, LONGER = "jaxlm", "gensim", "jaxlm, AdaGrad", "jaxlm, blocks of 32 words"
# what differs from the recipe of skip-gram and CBOW: steps that are slower, and steps that are faster
OTHERS: dict[str, dict[str, Any]] = {
    BY_ELEMENT: {"recipe": (("optimizer", "adagrad"),)},
    LONGER: {"config": (("block_size", 32),), "recipe": (("batch_size", 16),)},
}
NAMES = {"skipgram": "skip-gram", "cbow": "CBOW", "vlbl": "vLBL", "ivlbl": "ivLBL", "glove": "GloVe"}
VECTORS = "vectors.bin"  # of another program, in the model's folder
# how much worse than gensim's still counts as equal: percentage points of right answers, correlation
MARGINS = {"analogies": 1.0, "similarity": 0.02}
_TINY = SCALES["tiny"]
VECTOR_SCALES = {
    scale.name: scale
    for scale in (
        TaskScale(
            "tiny", "planted text and questions, for the tests: seconds", PLANTED, _TINY.dimensions, seeds=1,
            events=3000, epochs=2, window=0.01,
        ),
        TaskScale(
            "smoke", "a million words of novels: minutes on two cores", NOVELS, (10, 25, 40, 50),
            novels=Novels((1_000_000, 20_000, 20_000), 5),
        ),
        TaskScale(
            "cpu", "20 million words of novels: an hour on two cores", NOVELS, (25, 50, 75, 100),
            novels=Novels((20_000_000, 50_000, 50_000), 5),
        ),
        TaskScale(
            "full", "all of the novels, 50 million words: for a GPU", NOVELS, (75, 150, 225, 300),
            novels=Novels((50_000_000, 50_000, 50_000), 5),
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class TheirSpec(Spec):
    """Vectors that gensim trains; `model` is ours that they are compared with."""

    counted = False

    def label(self) -> str:
        """Return a short name for people."""
        return f"{THEIRS}-{self.model}-seed{self.seed}"


class VectorStore(TaskStore):
    """Word vectors of novels, and questions about words."""

    task_name = "word-tasks"
    planted = staticmethod(task_sets.planted_word_tasks)
    chapters = "word vectors"
    resampled = "questions with the same first pair, and pairs with the same first word"
    scales = VECTOR_SCALES

    def stepwise(self, spec: Spec) -> bool:
        """Return whether it is trained step by step; gensim's trainings start afresh."""
        return not isinstance(spec, TheirSpec) and super().stepwise(spec)

    def source(self, spec: Spec) -> str:
        """Return the fingerprint of the code that determines the vectors, or gensim's version and the text's digest."""
        if not isinstance(spec, TheirSpec):
            return super().source(spec)
        return "missing" if missing(THEIRS) else f"{load(THEIRS).__version__}-{self.as_read[:8]}"

    def identity(self, spec: Spec) -> dict[str, Any]:
        """Return all that determines the vectors, apart from the source code."""
        known = super().identity(spec)
        if isinstance(spec, TheirSpec):
            recipe, _ = self._recipe(spec)
            config = vars(self._config(spec))
            known |= {"kind": spec.label(), "seed": spec.seed, "epochs": recipe.epochs, "config": config}
        return known

    def _config(self, spec: Spec) -> Any:
        """Return our model's configuration."""
        return registry.get(spec.model).configure(len(self.corpus.vocabulary), None, self._recipe(spec)[1])

    def fit(self, spec: Spec, directory: Path) -> Outcome:
        """Train vectors, or go on with a training where a run was interrupted."""
        if isinstance(spec, TheirSpec):
            epochs = self._recipe(spec)[0].epochs
            return Outcome({"estimate": self._fit_theirs(spec, epochs, directory)}, {})
        return super().fit(spec, directory)

    def _fit_theirs(self, spec: TheirSpec, epochs: int, directory: Path) -> float:
        """Train by gensim and write the vectors; return the seconds that its epochs take."""
        if why := missing(THEIRS):
            raise UserError(f"gensim: {why}", do="install the extra `peers-quick`, or name other --rows")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lines.txt"
            words = gensim_vectors.write_lines(self.corpus, path)
            made = gensim_vectors.prepare(spec.model, path, self._config(spec), spec.seed, cores())
            started = time.perf_counter()
            gensim_vectors.epochs(made, path, epochs, words)()
            seconds = time.perf_counter() - started
        directory.mkdir(parents=True)
        vocabulary = self.corpus.vocabulary
        found = gensim_vectors.vectors(made, len(vocabulary))
        word_vectors.write_binary(vocabulary.words, found, directory / VECTORS)
        return seconds

    def vectors(self, spec: Spec) -> NDArray[np.floating]:
        """Return a model's vectors, of the vocabulary's words in their order: [N_w, N_f]."""
        directory = self.get(spec).directory
        return model_files.load(directory / VECTORS if isinstance(spec, TheirSpec) else directory).vectors()

    def answers(self, vectors: NDArray[np.floating], inside: NDArray[np.bool_] | None = None) -> Scores:
        """Return how many analogies are answered right: the figure is their share in %.

        Args:
            inside: bool [Q], the analogies that count; None: all.
        """
        asked, right = analogies.marked(vectors, self.corpus.vocabulary, self.task.analogies, READING.prepare)
        chosen = asked if inside is None else asked & inside
        first = [" ".join(words[:2]) for words in self.task.analogies.words]
        return _grouped(100.0 * (right & chosen), chosen, first)

    @property
    def syntactic(self) -> NDArray[np.bool_]:
        """Which analogies are syntactic, bool [Q]."""
        kinds = np.array([analogies.is_syntactic(name) for name in self.task.analogies.names], np.bool_)
        return kinds[np.array(self.task.analogies.section, np.int64)]

    def agreement(self, vectors: NDArray[np.floating], name: str) -> Scores:
        """Return what pairs of a similarity set add to Spearman's correlation, which is their mean.

        With standardised ranks x, y and their correlation r it is r + xy - r (x² + y²)/2, the influence of a pair, so
        that the bootstrap of the mean has the variance of the correlation.
        """
        pairs = self.task.similarity[name]
        ours, people, known = similarity.compared(vectors, self.corpus.vocabulary, pairs, READING.prepare)
        if len(ours) < similarity.FEWEST or np.ptp(ours) == 0 or np.ptp(people) == 0:
            return Scores(np.array([np.nan]), np.ones(1), np.positive)
        from scipy.stats import rankdata  # here, as it takes a while

        x, y = (_standardised(rankdata(values)) for values in (ours, people))
        r = np.mean(x * y)
        influence = r + x * y - r / 2 * (x**2 + y**2)
        return _grouped(influence, np.ones(len(ours)), [pairs.words[i][0] for i in np.flatnonzero(known)])


def _grouped(totals: NDArray[Any], counts: NDArray[Any], first: Sequence[str]) -> Scores:
    """Return scores whose units are what begins with the same word or words, as these are not independent."""
    _, unit = np.unique(first, return_inverse=True)
    return Scores(np.bincount(unit, totals), np.bincount(unit, counts), np.positive)


def _standardised(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks less their mean, by their deviation."""
    return (ranks - ranks.mean()) / ranks.std()


def _measure(store: VectorStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Judge vectors by every task."""
    (spec,) = specs
    vectors, syntactic = store.vectors(spec), store.syntactic
    return {
        "analogies": store.answers(vectors),
        "semantic": store.answers(vectors, ~syntactic).value,
        "syntactic": store.answers(vectors, syntactic).value,
        **{name: store.agreement(vectors, name) for name in store.task.similarity},
    }


def rows(scale: LanguageScale, seeds: int | None) -> list[Row]:
    """Return the rows: gensim's where it has a model, first, so that its absence stops a run at once; and ours.

    Those that gensim has, too, are also trained by AdaGrad, not row-wise, and in longer blocks.
    """
    made = []
    for model, name in NAMES.items():
        specs: dict[str, Spec] = {OURS: Spec(model)}
        if model in gensim_vectors.ALGORITHMS:
            others = {label: Spec(model, **what) for label, what in OTHERS.items()}
            specs = {THEIRS: TheirSpec(model), **specs, **others}
        for program, spec in specs.items():
            made.append(Row((name, program), seeded(seeds or scale.seeds, spec), {}, _measure))
    return made


def claims(store: VectorStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return that our vectors are not worse than gensim's, nor than those by AdaGrad or in longer blocks."""
    found = Comparisons(store, rows, part)

    def pair(name: str, other: str, column: str, margin: float) -> Comparison:
        figures = [(f"{name} {program}", column) for program in (OURS, other)]
        return found.compare(f"{name}, {column}", figures, (-margin, np.inf))

    def pairs(other: str, columns: Iterable[str], margin: float) -> list[Comparison]:
        names = [NAMES[model] for model in gensim_vectors.ALGORITHMS]
        return [pair(name, other, column, margin) for name in names for column in columns]

    target = partial(Claim, "our target")
    return [
        target(f"{what} is at most {margin:g}{unit} below that of {whose}", pairs(other, columns, margin))
        for other, whose in (
            (THEIRS, "gensim's"), (BY_ELEMENT, "vectors by AdaGrad"), (LONGER, "vectors in blocks of 32 words")
        )
        for what, columns, margin, unit in (
            ("the share of analogies that our vectors answer right", ["analogies"], MARGINS["analogies"],
             " percentage point"),
            ("Spearman's correlation of our vectors with people's judgements", store.task.similarity,
             MARGINS["similarity"], ""),
        )
    ]  # fmt: skip


TABLE = Table(
    VectorStore, "embeddings", "", "Word vectors: analogies and similarities", ("model", "program"),
    (
        Column("analogies", "analogies, %"), Column("semantic", "semantic, %"), Column("syntactic", "syntactic, %"),
        *(Column(name, title, 3) for name, title in task_sets.SIMILARITY.items()),
    ),
    rows,
    "All models have the same text, vocabulary (words that occur five times or more; all others are one word, "
    "`<unk>`), number of features and, but for GloVe, epochs. Analogies: the share of right answers, by the nearest "
    "vector to b - a + c among all words, to questions whose words are all known. Similarity: Spearman's correlation "
    "of cosines and people's judgements. Published of ivLBL on 47 million words of Project Gutenberg: 15.9 to 17.5 % "
    "of analogies (Mnih and Kavukcuoglu 2013). gensim has as many threads as there are cores and its own rates; how "
    "fast both are is measured by `benchmarks speed skipgram cbow --peers`. Our skip-gram and CBOW are trained by "
    "row-wise AdaGrad, which keeps a sum of squares for each word, in blocks of 16 words; vLBL, ivLBL and GloVe by "
    "AdaGrad, which keeps one for each weight. The margins of the claims are our choice.",
    claims, kept=True,
)  # fmt: skip
