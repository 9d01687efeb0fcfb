"""How well a model predicts documents, the topics of its hidden units, and files of document vectors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxfit.run_dir.arrays import write_npy
from jaxfit.run_dir.atomic import writing
from jaxlm.tasks.intervals import Interval, bootstrap


@dataclass(frozen=True)
class DocumentEvaluation:
    """How well a model predicts documents.

    Attributes:
        mean: over documents, of 1/D log p(v), nats.
        documents: number of documents with words; the others are left out.
        words: number of words in these documents.
        unknown: number of words outside the vocabulary, which are left out.
        orderings: number of orders of the words, or of estimates, over which each p(v) is averaged.
        interval: of the perplexity, 95 % by the bootstrap over documents; None where it is not computed.
        bound: the perplexity of the variational bound, which the exact one is at most; None for models without it.
        standard_error: of the perplexity, due to an estimate that all p(v) share (`interval` does not include it); None
            for other models.
    """

    mean: float
    documents: int
    words: int
    unknown: int = 0
    orderings: int = 1
    interval: Interval | None = None
    bound: float | None = None
    standard_error: float | None = None

    @property
    def perplexity(self) -> float:
        """exp(-1/T Σ_t 1/D_t log p(v_t)) (Lauly et al. 2017, Eq. 30-31), which is not the perplexity of a text."""
        return _perplexity(self.mean)

    def record(self) -> dict[str, Any]:
        """Return what records and JSON hold of it."""
        known = {
            "document_perplexity": self.perplexity, "documents": self.documents, "words": self.words,
            "unknown": self.unknown, "orderings": self.orderings,
        }  # fmt: skip
        interval = None if self.interval is None else list(self.interval)
        more = {"interval": interval, "bound": self.bound, "standard_error": self.standard_error}
        return known | {name: value for name, value in more.items() if value is not None}

    def show(self, so_far: str = "") -> str:
        """Return it for people, in a line."""
        orders = f", {self.orderings:,} orders of each" if self.orderings > 1 else ""
        error = "" if self.standard_error is None else f", standard error {self.standard_error:.2f}"
        bound = "" if self.bound is None else f", variational bound {self.bound:.2f}"
        return (
            f"document perplexity{so_far} {self.perplexity:.2f}{error}{bound} "
            f"({self.documents:,} documents, {self.words:,} words, {self.unknown:,} unknown{orders})"
        )


def _perplexity(mean: float) -> float:
    return math.exp(-mean) if -mean < 700 else math.inf


def evaluate(
    log_probs: ArrayLike,
    lengths: NDArray[np.int64],
    unknown: int = 0,
    orderings: int = 1,
    bounds: ArrayLike | None = None,
    standard_error: float | None = None,
) -> DocumentEvaluation:
    """Sum up documents' log-probabilities.

    Args:
        log_probs: log p(v) of each document, [documents], nats.
        lengths: their numbers of words, [documents].
        unknown: the number of words outside the vocabulary.
        orderings: as in `DocumentEvaluation`.
        bounds: lower bounds of log p(v), [documents], nats.
        standard_error: of the estimated mean over documents of 1/D log p(v), nats.
    """
    found = lengths > 0
    if not found.any():
        return DocumentEvaluation(math.nan, 0, 0, unknown, orderings)
    of_word = np.asarray(log_probs, np.float64)[found] / lengths[found]
    low, high = bootstrap(lambda drawn: np.exp(-of_word[drawn].mean(axis=1)), len(of_word))
    mean = float(of_word.mean())
    return DocumentEvaluation(
        mean, len(of_word), int(lengths.sum()), unknown, orderings, (low, high),
        None if bounds is None else _perplexity(float(np.mean(np.asarray(bounds)[found] / lengths[found]))),
        None if standard_error is None else _perplexity(mean) * standard_error,
    )  # fmt: skip


def topics(weights: ArrayLike, words: Sequence[str], top: int) -> list[list[tuple[str, float]]]:
    """Return the words with the largest weights to each hidden unit, and these weights (Lauly et al. 2017, Table 3).

    Args:
        weights: [N_w, N_h].
        words: N_w names.
        top: number of words for each unit.
    """
    table = np.asarray(weights)
    best = np.argsort(-table, axis=0, kind="stable")[:top].T
    return [[(words[i], float(table[i, unit])) for i in chosen] for unit, chosen in enumerate(best)]


def write_vectors(vectors: NDArray[np.float32], path: Path) -> None:
    """Write documents' vectors, [documents, N_h]: as NumPy's array if the name ends in `.npy`, else a line for each.

    The lines are gzipped if the name ends in `.gz`.

    Raises:
        UserError: the file cannot be written.
    """
    with writing(path) as file:
        if path.suffix == ".npy":
            write_npy(file, vectors)
        else:
            file.writelines(f"{' '.join(f'{x:.9g}' for x in vector)}\n".encode() for vector in vectors)
