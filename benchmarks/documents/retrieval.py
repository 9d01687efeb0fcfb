"""Figure 9 of Lauly et al. (2017): documents of the same label, found by their vectors."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.core import figure
from benchmarks.core.comparisons import Comparisons
from benchmarks.core.table import Column, Measured, Row, Table, seeded
from benchmarks.core.verdict import ABOVE, Claim, Comparison, Scores
from benchmarks.documents.scales import NEWSGROUPS, DocumentScale
from benchmarks.documents.store import DocumentStore
from benchmarks.documents.tables import PUBLISHED
from benchmarks.language.store import Spec
from jaxlm import models
from jaxlm.data.documents.collection import Documents
from jaxlm.tasks.retrieval import RECALLS, retrieve

BASELINE = "TF-IDF, SVD"
JUDGED = 0.02  # recall at which verdicts compare precision
GROUPS = 50  # of test documents, units of the bootstrap: as many scores are kept at each recall


def _column(recall: float) -> str:
    return f"recall {100 * recall:g} %"


def rows(scale: DocumentScale, seeds: int | None) -> list[Row]:
    """Return the rows: a baseline without a model of documents, and the models of Table 1."""
    made = []
    for size in scale.retrieved:
        label = str(size)
        made.append(Row((BASELINE, label), ((),), {}, partial(_baseline, size)))
        for name, spec, _ in PUBLISHED:
            sized = replace(spec, config=(*spec.config, (models.vector_size(spec.model), size)))
            made.append(Row((name, label), seeded(seeds or scale.seeds, sized), {}, _measure))
    return made


def _measure(store: DocumentStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Retrieve by a model's vectors of documents."""
    return _retrieved(store, specs[0], part)


@lru_cache(maxsize=256)  # the claims are of what the rows show
def _retrieved(store: DocumentStore, spec: Spec, part: str) -> Measured:
    return _scores(store, part, _vectors(part, partial(_features, store, spec)), True)


@lru_cache(maxsize=256)  # test and validation share most documents
def _features(store: DocumentStore, spec: Spec, part: str) -> NDArray[Any]:
    return store.model(spec).features(getattr(store.data, part))


def _vectors(part: str, of: Callable[[str], NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the vectors of queries and of the database, as `_parts` has them.

    Args:
        of: part of the data -> its vectors.
    """
    return of(part), of("train") if part == "valid" else np.concatenate([of("train"), of("valid")])


def _parts(store: DocumentStore, part: str) -> tuple[Documents, Documents]:
    """Return queries, and the database: training documents, also those of validation for queries of the test."""
    data = store.data
    return getattr(data, part), data.train if part == "valid" else _joined(data.train, data.valid)


def _joined(one: Documents, other: Documents) -> Documents:
    from scipy.sparse import csr_array, vstack

    return Documents(csr_array(vstack([one.counts, other.counts])), one.labels + other.labels)


@lru_cache(maxsize=2)
def _tfidf(store: DocumentStore, size: int) -> Any:
    """Fit latent semantic analysis to the training documents: the words' TF-IDF weights, and their singular vectors.

    The weights contain the logarithms of counts, so that raw counts are given.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.pipeline import make_pipeline

    counts = store.counted.train.counts
    size = min(size, counts.shape[1] - 1)
    return make_pipeline(TfidfTransformer(sublinear_tf=True), TruncatedSVD(size, random_state=0)).fit(counts)


def _baseline(size: int, store: DocumentStore, specs: tuple[()], part: str) -> Measured:
    """Retrieve by TF-IDF weights that are reduced by a singular value decomposition (latent semantic analysis)."""
    model = _tfidf(store, size)
    return _scores(store, part, _vectors(part, lambda of: model.transform(getattr(store.counted, of).counts)), False)


def _scores(store: DocumentStore, part: str, vectors: Sequence[NDArray[Any]], seeded: bool) -> Measured:
    queries, database = _parts(store, part)
    found = retrieve(vectors[0], vectors[1], queries.labels, database.labels)
    group = np.random.default_rng(0).permutation(len(found.precision)) % GROUPS  # documents may be ordered by label
    number = np.bincount(group)
    return {
        _column(recall): Scores(np.bincount(group, column), number, np.positive, seeded)
        for recall, column in zip(found.recalls, found.precision.T, strict=True)
    }


def claims(store: DocumentStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return our expectations of vectors of documents, and the published claim about 20 Newsgroups."""
    found = Comparisons(store, rows, part)
    sizes = list(dict.fromkeys(row.label[1] for row in rows))
    names = [name for name, _, _ in PUBLISHED]
    deeper = names[-2:]  # of two and three layers
    others = [name for name in (BASELINE, *names) if name not in deeper]

    def pair(one: str, other: str, size: str) -> Comparison:
        figures = [(f"{name} {size}", _column(JUDGED)) for name in (one, other)]
        return found.compare(f"{one} and {other}, {size} features", figures, ABOVE)

    target = partial(Claim, "our target")
    published = [
        Claim("Lauly et al. 2017", "DeepDocNADE with two and three layers is more precise than all others at 2 %",
              [pair(one, other, size) for size, one, other in product(sizes, deeper, others)])
    ] if store.name == NEWSGROUPS else []  # fmt: skip
    return [
        *(
            target(f"at a recall of 2 %, the Replicated Softmax, DocNADE and DeepDocNADE are more precise than {other}",
                   [pair(name, other, size) for size, name in product(sizes, names[1:])])
            for other in (BASELINE, names[0])
        ),
        *published,
    ]  # fmt: skip


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw Figure 9: precision by recall, a panel for each number of features."""
    title = f"Figure 9 of Lauly et al. (2017): {result['title']}\n({result['data']['name']}, scale {result['scale']})"
    sizes = list(dict.fromkeys(row["label"][1] for row in result["rows"]))
    with figure.panels(path, title, ncols=len(sizes), figsize=(11, 5), sharey=True, squeeze=False) as axes:
        for ax, size in zip(np.ravel(axes), sizes, strict=True):
            shown = [row for row in result["rows"] if row["label"][1] == size]
            for number, row in enumerate(shown):
                found = [row["cells"][_column(recall)] for recall in RECALLS]
                mean, ends = np.array([cell["mean"] for cell in found]), np.array([cell["interval"] for cell in found])
                style = figure.STYLES[number % len(figure.STYLES)]
                ax.plot(100 * np.array(RECALLS), mean, style, markersize=4, label=row["label"][0])
                ax.fill_between(100 * np.array(RECALLS), *ends.T, alpha=0.15)
            ax.set_xscale("log")
            ax.set(xlabel="recall, %; bands: 95 % intervals", title=f"{size} features")
            ax.legend(fontsize=8)
        np.ravel(axes)[0].set(ylabel="precision")


TABLE = Table(
    DocumentStore, "docnade-figure-9", "", "Documents of the same label, found by their vectors",
    ("model", "features"), tuple(Column(_column(recall), _column(recall), 3) for recall in RECALLS), rows,
    "Precision at levels of recall, the mean over the labels of a test document, and then over those with labels. The "
    "database is the training and validation documents; nearness is the cosine. TF-IDF, SVD: latent semantic analysis "
    "by scikit-learn, of the words' counts as they are, whose logarithms it takes; models of documents are given "
    "counts replaced by log(1 + n), but for `20news-counts` and planted documents.",
    claims, draw, resampled=f"{GROUPS} groups of documents", kept=True,
)  # fmt: skip
