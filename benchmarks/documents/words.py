"""Tables 2 and 3 of Lauly et al. (2017): words whose vectors are near to one another, and topics of hidden units."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.core.table import Column, Measured, Row, Table, seeded
from benchmarks.core.verdict import ABOVE, Claim, Scores
from benchmarks.documents.scales import DocumentScale
from benchmarks.documents.store import DocumentStore
from benchmarks.documents.tables import PUBLISHED
from benchmarks.language.claims import TextModels
from benchmarks.language.store import RANDOM, Spec
from jaxfit.registry import Capability
from jaxlm import models
from jaxlm.contract import Embeds, HasTopics
from jaxlm.tasks.coherence import coherence, npmi
from jaxlm.tasks.documents import topics
from jaxlm.tasks.neighbours import nearest, unit_vectors

WORDS = ("weapons", "medical", "companies", "define", "israel", "book", "windows")  # of Table 2
NEAREST = 5  # words to each word
TOPICS, TOP = 4, 10  # topics that are shown, and words of a topic
SIMILAR = 0.05  # of the mean NPMI
# of Table 3, whatever the recipe has
SIGMOID, TANH = (
    (f"DocNADE, {g}", Spec("docnade", config=(("activation", g),), tree=RANDOM)) for g in ("sigmoid", "tanh")
)
NAMED = tuple((name, spec) for name, spec, _ in PUBLISHED)
DOCNADE, DEEP = NAMED[2][0], [name for name, _ in NAMED[3:]]


def _rows(
    named: Sequence[tuple[str, Spec]],
    capability: type[Capability],
    number: int,
    of_all: Callable[..., Measured],
    of_one: Callable[..., Measured],
    scale: DocumentScale,
    seeds: int | None,
) -> list[Row]:
    """Return of each model that has a capability a row of the mean over all, and `number` rows of the first seed."""
    made = []
    for name, spec in named:
        if models.get(spec.model).capability(capability) is not None:
            made.append(Row((name, ""), seeded(seeds or scale.seeds, spec), {}, of_all))
            made += [Row((name, str(k + 1)), seeded(1, spec), {}, partial(of_one, k)) for k in range(number)]
    return made


def _mean(values: NDArray[np.float64]) -> Scores:
    return Scores(values, np.ones(len(values)), np.positive)


def chosen(store: DocumentStore) -> list[int]:
    """Return the ids of the words that Table 2 shows; in place of those that the data lack, of the most frequent."""
    ids = store.corpus.vocabulary.ids
    known = [ids[word] for word in WORDS if word in ids]
    frequent = np.argsort(-store.corpus.word_counts(), kind="stable")
    return (known + [int(word) for word in frequent if word not in known])[: len(WORDS)]


@lru_cache(maxsize=64)
def _neighbours(store: DocumentStore, spec: Spec) -> NDArray[np.intp]:
    """Find the words nearest to each word by the cosine of their vectors: [N_w, NEAREST]."""
    units = unit_vectors(store.model(spec).vectors())
    return np.stack([nearest(units, word, NEAREST)[0] for word in range(len(units))])


def _of_neighbours(store: DocumentStore, spec: Spec, part: str) -> NDArray[np.float64]:
    """Compute the mean NPMI of each word and the words nearest to it, in the documents of a part: [N_w]."""
    found = _neighbours(store, spec)
    words = np.repeat(np.arange(len(found)), found.shape[1])
    return npmi(getattr(store.data, part), words, found.ravel()).reshape(found.shape).mean(axis=1)


def all_words(store: DocumentStore, specs: tuple[Spec, ...], part: str = "test") -> Measured:
    """Measure how coherent words are with those nearest to them."""
    return {"npmi": _mean(_of_neighbours(store, specs[0], part))}


def one_word(number: int, store: DocumentStore, specs: tuple[Spec, ...], part: str = "test") -> Measured:
    """Show a word and those nearest to it; number: from 0."""
    word, names = chosen(store)[number], store.corpus.vocabulary.words
    return {
        "npmi": float(_of_neighbours(store, specs[0], part)[word]),
        "word": names[word],
        "nearest": " ".join(names[other] for other in _neighbours(store, specs[0])[word]),
    }


@lru_cache(maxsize=64)
def _topics(store: DocumentStore, spec: Spec) -> NDArray[np.intp]:
    """Find the words of each topic, [topics, TOP], that most coherent on validation first."""
    model = store.model(spec)
    weights = model.require(HasTopics, "topics").weights(model.params)
    found = topics(weights, model.vocabulary.words, TOP)
    words = np.array([[model.vocabulary.ids[word] for word, _ in topic] for topic in found])
    return words[np.argsort(-coherence(store.data.valid, words), kind="stable")]


def all_topics(store: DocumentStore, specs: tuple[Spec, ...], part: str = "test") -> Measured:
    """Measure how coherent the words of topics are."""
    return {"npmi": _mean(coherence(getattr(store.data, part), _topics(store, specs[0])))}


def one_topic(number: int, store: DocumentStore, specs: tuple[Spec, ...], part: str = "test") -> Measured:
    """Show a topic; number: from 0, the topic that is most coherent on validation."""
    words, names = _topics(store, specs[0])[number], store.corpus.vocabulary.words
    found = float(coherence(getattr(store.data, part), words[None])[0])
    return {"npmi": found, "words": " ".join(names[word] for word in words)}


def _of_all(store: DocumentStore, rows: Sequence[Row], part: str) -> TextModels:
    """Return the models by name, with the rows of the mean over all."""
    return TextModels(store, [row for row in rows if not row.label[1]], part)


def of_neighbours(store: DocumentStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Table 2."""
    found, claim = _of_all(store, rows, part), partial(Claim, "Lauly et al. 2017")
    return [
        claim("the words nearest to a word are consistent with it: they occur in the same documents more than by "
              "chance (mean NPMI above 0)",
              [found.compare(name, [(name, "npmi")], ABOVE, np.positive) for name in (DOCNADE, *DEEP)]),
        claim(f"of DeepDocNADE, they are similarly consistent (mean NPMI within {SIMILAR:g})",
              found.all_pairs(DEEP, [DOCNADE], column="npmi", claimed=(-SIMILAR, SIMILAR))),
    ]  # fmt: skip


def of_topics(store: DocumentStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Table 3."""
    found, claim = _of_all(store, rows, part), partial(Claim, "Lauly et al. 2017")
    return [
        claim("topics of DocNADE with sigmoid units can be interpreted: their words occur in the same documents more "
              "than by chance (mean NPMI above 0)",
              [found.compare(SIGMOID[0], [(SIGMOID[0], "npmi")], ABOVE, np.positive)]),
        claim("topics of tanh units and of DeepDocNADE are harder to interpret: their mean NPMI is below that of "
              "DocNADE's with sigmoid units", found.all_pairs((TANH[0], *DEEP), [SIGMOID[0]], column="npmi")),
    ]  # fmt: skip


MEASURE = (
    "NPMI, normalised pointwise mutual information, says how much more often than by chance two words occur in the "
    "same test documents: 1 if only together, 0 if independently, -1 if never (Bouma 2009). It is our measure: the "
    "publication shows words alone, of DocNADE. Rows without a number are the mean over all {all}, over which the "
    "bootstrap is; the others are of the first seed."
)
TABLES = {
    table.name: table
    for table in (
        Table(
            DocumentStore, "docnade-table-2", "", "Words whose vectors are near to one another", ("model", "number"),
            (Column("npmi", "mean NPMI", 3), Column("word", "word"), Column("nearest", f"{NEAREST} nearest words")),
            partial(_rows, NAMED, Embeds, len(WORDS), all_words, one_word),
            f"{MEASURE.format(all='words')} NPMI is that of a word and each of those nearest to it by the cosine of "
            "their vectors. Words are the published ones; in place of those that the data lack, the most frequent.",
            of_neighbours,
        ),
        Table(
            DocumentStore, "docnade-table-3", "", "Topics of hidden units", ("model", "topic"),
            (Column("npmi", "mean NPMI", 3), Column("words", f"{TOP} words with the largest weights")),
            partial(_rows, (*NAMED[:2], SIGMOID, TANH, *NAMED[3:]), HasTopics, TOPICS, all_topics, one_topic),
            f"{MEASURE.format(all='topics')} NPMI is that of pairs of a topic's {TOP} words, as people's judgement of "
            f"topics goes with it (Lau et al. 2014). The {TOPICS} topics that are shown are the most coherent ones on "
            "validation documents.",
            of_topics,
        ),
    )
}  # fmt: skip
