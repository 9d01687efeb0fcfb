"""Table 1 of Lauly et al. (2017): perplexities of models of documents."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.core.table import Column, Measured, Row, Table, seeded
from benchmarks.core.verdict import Claim, Comparison
from benchmarks.documents.scales import NEWSGROUPS, DocumentScale
from benchmarks.documents.store import OF_SOME, SOME, DocumentStore, of_documents
from benchmarks.language.claims import TextModels
from benchmarks.language.measures import training_minutes
from benchmarks.language.store import RANDOM, Spec

# the publication's name, the model, the published perplexity of the first 50 test documents
PUBLISHED: tuple[tuple[str, Spec, float], ...] = (
    ("LDA", Spec("lda"), 1091.0),
    ("Replicated Softmax", Spec("replicated-softmax"), 953.0),
    ("DocNADE", Spec("docnade", tree=RANDOM), 896.0),
    *(
        (f"DeepDocNADE, {n} layer{'s'[: n > 1]}", Spec("deepdocnade", config=(("num_layers", n),)), figure)
        for n, figure in ((1, 835.0), (2, 877.0), (3, 923.0))
    ),
)
LEARNED = "DocNADE, learned tree"
COLUMNS = (
    Column("perplexity", "perplexity"), Column("some", f"of {SOME}"), Column("bound", "variational bound"),
    Column("error", "standard error of the estimate", 2), Column("minutes", "minutes of training"),
)  # fmt: skip


def measure(store: DocumentStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure a model's perplexity on a part and on SOME test documents; its bound and its error, where it has them."""
    (spec,) = specs
    model, perplexity = store.model(spec), store.perplexity(spec, part)
    found: dict[str, object] = {"perplexity": perplexity}
    chosen = getattr(store.data, part).with_words()
    bounds = model.document_bounds(chosen)
    if bounds is not None:
        found["bound"] = of_documents(-bounds / chosen.lengths)
    if part == "test":
        found |= {"some": store.perplexity(spec, "some"), "minutes": training_minutes(store, spec)}
        error = model.document_standard_error(chosen)
        if error is not None:
            found["error"] = perplexity.value * error
    return found  # type: ignore[return-value]


def rows(scale: DocumentScale, seeds: int | None) -> list[Row]:
    """Return the rows of Table 1, and one of DocNADE over a tree that is learned like the thesis' trees."""
    made = []
    for name, spec, figure in PUBLISHED:
        made.append(Row((name,), seeded(seeds or scale.seeds, spec), {"some": figure}, measure))
        if spec.model == "docnade":
            learned = Spec("docnade", tree=("adaptive", 0.0, 1))
            made.append(Row((LEARNED,), seeded(seeds or scale.seeds, learned), {}, measure))
    return made


def claims(store: DocumentStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the published claims about 20 Newsgroups, that ours is not worse, and our claim about a learned tree."""
    models = TextModels(store, rows, part)
    claim = partial(Claim, "Lauly et al. 2017")
    names = [name for name, _, _ in PUBLISHED]
    lda_, softmax, docnade, *deep = names
    falling = [lda_, softmax, docnade, deep[0]]
    order = "the Replicated Softmax is better than LDA, DocNADE than it, and DeepDocNADE of one layer than DocNADE"

    def at_most(column: str) -> list[Comparison]:
        return [models.compare(name, [(name, column)], (-np.inf, figure), np.positive)
                for name, _, figure in PUBLISHED[1:4]]  # fmt: skip

    published = [
        claim(order, models.falling(falling)),
        *([claim(f"of {SOME} test documents, {order}", models.falling(falling, "some"))] if part == "test" else []),
        claim("further layers make DeepDocNADE worse", models.falling(deep[::-1])),
        *(
            Claim("our target", f"{documents} have the published perplexity or a lower one", at_most(column))
            for column, documents in (("perplexity", "all test documents"), ("some", f"{SOME} test documents"))
            if part == "test"
        ),
    ] if store.name == NEWSGROUPS else []  # fmt: skip
    learned = [models.pair(LEARNED, docnade)]
    return [*published, Claim("our target", "the tree that is learned is better than the random one", learned)]


NOTE = (
    f"Perplexities are e to the mean over documents of -1/D log p(v) (Eq. 30), of all test documents, and of {SOME} "
    f"of them by up to {OF_SOME} orders of the words (Eq. 31). The published ones, shown beside ours of 20 "
    "Newsgroups, are of its first 50 test documents in an order that we do not know; ours are drawn at random. The "
    "preprocessing of 20 Newsgroups is near, but not exactly, that of the publication, whose documents are 11,284 "
    "and 7,502; counts are replaced by log(1 + n), as there, but for `20news-counts`. Two models' probabilities are "
    "estimated, and their perplexities biased in opposite directions: a particle filter estimates LDA's p(v) without "
    "bias, so that its logarithm is too low and the perplexity too high on average; annealed importance sampling "
    "estimates the Replicated Softmax' partition function without bias, so that log p(v) is too high and the "
    "perplexity too low. Both favour the Replicated Softmax over LDA. Verdicts about the Replicated Softmax take these "
    "estimates as they are: their intervals leave out the biases, and of the standard error of the estimate all but "
    "what is in the spread over seeds. The bound is that of variational inference, on LDA's topics. The standard error "
    "of the estimate is of the perplexity of all test documents, by the spread of the chains' weights (delta method), "
    "beside what ± says; where few chains have nearly all of the weight, it is too small."
)
TABLES = {
    table.name: table
    for table in (
        Table(
            DocumentStore, "docnade-table-1", "", "Models of documents: perplexity", ("model",), COLUMNS, rows, NOTE,
            claims, published="Lauly et al. 2017 (20 Newsgroups, first 50 test documents)",
            published_data=NEWSGROUPS, kept=True,
        ),
    )
}  # fmt: skip
