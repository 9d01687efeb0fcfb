"""Trained models of documents that tables share."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.core.store import Outcome
from benchmarks.core.verdict import Scores
from benchmarks.data import content, sets
from benchmarks.documents.scales import PLANTED, SCALES, DocumentScale, documents
from benchmarks.language.store import LanguageStore, Spec
from jaxfit.run_dir.run import Run
from jaxlm import model_files, models
from jaxlm.data.documents.collection import DocumentCorpus, Documents
from jaxlm.trained_model import Model
from jaxlm.training import train

SOME, OF_SOME = 50, 256  # test documents, as many as the publication's perplexities are of, and orders of their words
FOR_VALIDATION = 8  # orders
UNITS = 500  # of the bootstrap, at most: documents are independent, and this many scores of each model are kept


class DocumentStore(LanguageStore):
    """Models of documents."""

    chapters = "models of documents"
    scales = SCALES
    data_sets = (PLANTED, *sets.DOCUMENTS)
    thesis_data = "20 Newsgroups"
    unit = resampled = "documents"
    load = staticmethod(documents)  # type: ignore[assignment]
    digest_of_data = staticmethod(content.of_documents)  # type: ignore[assignment]

    def __init__(self, corpus: DocumentCorpus, scale: DocumentScale, recipe: str, work: Path, show: bool = False):
        super().__init__(corpus, scale, recipe, work, show)  # type: ignore[arg-type]
        self.quotable = corpus.name == PLANTED

    def grouped(self, scores: Scores) -> Scores:
        """Return kept scores unchanged: their units have not become larger."""
        return scores

    @cached_property
    def counted(self) -> DocumentCorpus:
        """The documents with raw counts of words, where models are given the counts' logarithms."""
        logs = self.data.reading.log_counts
        return sets.load(self.name, self.data_dir, log_counts=False) if logs else self.data

    @property
    def orders_of_some(self) -> int:
        """The number of orders of the words over which probabilities of SOME documents are averaged."""
        return min(OF_SOME, 8 * self.scale.orderings)

    def describe(self, specs: Iterable[Spec] = ()) -> dict[str, Any]:
        """Describe the documents as a record does."""
        corpus = self.corpus
        about = {"name": corpus.name, "sha256": corpus.sha256, "note": corpus.note, "words": len(corpus.vocabulary)}
        return about | self.data.sizes()

    def size(self, specs: Iterable[Spec] = ()) -> str:
        """Say how many documents there are."""
        sizes = self.data.sizes()["documents"]
        words = len(self.corpus.vocabulary)
        return f"{sizes['train']:,} documents for training, {sizes['test']:,} for the test, {words:,} words"

    def identity(self, spec: Spec) -> dict[str, Any]:
        """Return all that determines the trained model, and its predictions."""
        known = super().identity(spec) | {"orderings": self.scale.orderings, "some": SOME}
        if self.stepwise(spec):
            return known
        recipe, config = self._recipe(spec)
        return known | {"seed": spec.seed, "recipe": vars(recipe), "config": config}

    def _recipe(self, spec: Spec) -> tuple[Any, dict[str, Any]]:
        """Return the recipe of a model, and its configuration, with vectors of documents of the scale's size."""
        recipe, config = super()._recipe(spec)
        field = models.vector_size(spec.model)
        return recipe, {**config, field: dict(spec.config).get(field, self.scale.num_features)}

    def fit(self, spec: Spec, directory: Path) -> Outcome:
        """Train a model, or go on with its training where a run was interrupted."""
        recipe, config = self._recipe(spec)
        run = Run(resume=self.stepwise(spec), show=self.show)
        trained = train(spec.model, self.data, directory, recipe=recipe, config=config, seed=spec.seed,
                        structure=self._structure(spec, directory), run=run)  # fmt: skip
        return Outcome(trained.seconds, {})

    def predictions(self, spec: Spec, part: str) -> NDArray[np.float64]:
        """Return 1/D log p(v) (nats) of a part's documents with words: "valid", "test", or "some" of the test.

        They are computed at the first call, and kept: most tables need none, and they take longer than training.
        """
        test = self.data.test

        def compute() -> NDArray[np.float64]:
            chosen, orderings = {
                "valid": (self.data.valid, min(FOR_VALIDATION, self.scale.orderings)),
                "test": (test, self.scale.orderings),
                "some": (some(test.with_words()), self.orders_of_some),
            }[part]
            return per_word(self.model(spec), chosen.with_words(), orderings)

        return self.get(spec).predictions(part, compute)

    def perplexity(self, spec: Spec, part: str) -> Scores:
        """Return a model's nats per word of each document of a part; exp of their mean is the perplexity (Eq. 30)."""
        return of_documents(-self.predictions(spec, part))

    def model(self, spec: Spec) -> Model:
        """Return a trained model."""
        return model_files.load(self.get(spec).directory)


def some(documents: Documents) -> Documents:
    """Draw SOME documents, always the same ones: a collection may be in the order of its labels."""
    order = np.random.default_rng(0).permutation(len(documents))
    return documents.take(np.sort(order[:SOME]))


def of_documents(nats: NDArray[np.float64], seeded: bool = True) -> Scores:
    """Return scores whose figure is the exponential of the documents' mean; a unit of the bootstrap is every 500th.

    Of documents in the order of their labels, as those of 20 Newsgroups, each unit has nearly the same share of labels:
    intervals are 4 % narrower than with units drawn at random, those of differences up to 8 %.
    """
    unit = np.arange(len(nats)) % UNITS
    return Scores(np.bincount(unit, nats), np.bincount(unit), np.exp, seeded)


def per_word(model: Model, chosen: Documents, orderings: int) -> NDArray[np.float64]:
    """Compute 1/D log p(v) of documents, all of which have words: float64 [documents], nats."""
    return model.document_log_probs(chosen, orderings) / chosen.lengths
