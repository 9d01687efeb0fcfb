"""Tables 2 and 3 of Lauly et al. (2017): words whose vectors are near to one another, and topics of hidden units."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.core.table import Column, Measured, Row, Table, seeded
from benchmarks.core.verdict import ABOVE, Claim, Comparison, Scores
from benchmarks.documents.scales import NEWSGROUPS, DocumentScale
from benchmarks.documents.store import DocumentStore
from benchmarks.documents.tables import PUBLISHED
from benchmarks.language.claims import TextModels
from benchmarks.language.docnade_vectors import NEAREST, WORDS, chosen
from benchmarks.language.store import RANDOM, Spec
from jaxfit.registry import Capability
from jaxlm import models
from jaxlm.capabilities import Embeds, HasTopics
from jaxlm.data.documents.collection import Documents
from jaxlm.tasks.coherence import coherence, npmi
from jaxlm.tasks.documents import topics
from jaxlm.tasks.neighbours import nearest

TOPICS, TOP = 4, 10  # topics that are shown, and words of a topic
LIKE = 50  # words of like frequency, from which random ones are drawn
SIMILAR = 0.05  # difference of mean NPMIs
# models of Table 3, whatever the recipe's activation
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
    """Return, for each model with a capability, a row of the mean over all, and `number` rows of the first seed."""
    made = []
    for name, spec in named:
        if models.get(spec.model).capability(capability) is not None:
            made.append(Row((name, ""), seeded(seeds or scale.seeds, spec), {}, of_all))
            made += [Row((name, str(k + 1)), seeded(1, spec), {}, partial(of_one, k)) for k in range(number)]
    return made


def _mean(values: NDArray[np.float64]) -> Scores:
    return Scores(values, np.ones(len(values)), np.positive)


def random_words(words: NDArray[np.intp], counts: NDArray[np.int64], kept: int = 0) -> NDArray[np.intp]:
    """Replace words by random ones that are about as frequent: the same at each call, and none twice in a row.

    Args:
        words: ids, [rows, n].
        counts: how often each word of the vocabulary occurs, [N_w].
        kept: number of words at the beginning of each row that stay.
    """
    groups = np.array_split(np.argsort(-counts, kind="stable"), max(1, len(counts) // LIKE))
    group_of = {word: group for group in groups for word in group}
    rng, found = np.random.default_rng(0), words.copy()
    for row in found:
        for i in range(kept, len(row)):
            row[i] = next(word for word in rng.permutation(group_of[row[i]]) if word not in row[:i])
    return found


@lru_cache(maxsize=64)
def _neighbours(store: DocumentStore, spec: Spec) -> NDArray[np.intp]:
    """Find each word and the words nearest to it by the cosine of their vectors: [N_w, 1 + NEAREST]."""
    vectors = store.model(spec).vectors()
    return np.stack([np.append(word, nearest(vectors, word, NEAREST)[0]) for word in range(len(vectors))])


def _with_first(documents: Documents, words: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the mean NPMI of the first word of each row, [rows, n], and each other: float64 [rows]."""
    first, others = np.repeat(words[:, 0], words.shape[1] - 1), words[:, 1:]
    return npmi(documents, first, others.ravel()).reshape(others.shape).mean(axis=1)


def all_words(store: DocumentStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure how coherent words are with those nearest to them, and with random ones."""
    documents, words = getattr(store.data, part), _neighbours(store, specs[0])
    drawn = random_words(words, store.corpus.word_counts(), kept=1)
    return {"npmi": _mean(_with_first(documents, words)), "random": _mean(_with_first(documents, drawn))}


def one_word(number: int, store: DocumentStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Show a word and those nearest to it.

    Args:
        number: number of the word, from 0.
    """
    words, names = _neighbours(store, specs[0])[chosen(store.corpus)[number]], store.corpus.vocabulary.words
    return {
        "npmi": float(_with_first(getattr(store.data, part), words[None])[0]),
        "word": names[words[0]],
        "nearest": " ".join(names[other] for other in words[1:]),
    }


@lru_cache(maxsize=64)
def _topics(store: DocumentStore, spec: Spec) -> NDArray[np.intp]:
    """Find the words of each topic, [topics, TOP], in the order of the hidden units.

    Units of two models do not correspond, but a verdict pairs them by number: if they were sorted by coherence, the
    pairs would be alike, and the interval of the models' difference too narrow.
    """
    model = store.model(spec)
    weights = model.require(HasTopics, "topics").weights(model.params)
    found = topics(weights, model.vocabulary.words, TOP)
    return np.array([[model.vocabulary.ids[word] for word, _ in topic] for topic in found])


def all_topics(store: DocumentStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure how coherent the words of topics are, and random ones."""
    documents, words = getattr(store.data, part), _topics(store, specs[0])
    drawn = random_words(words, store.corpus.word_counts())
    return {"npmi": _mean(coherence(documents, words)), "random": _mean(coherence(documents, drawn))}


def one_topic(number: int, store: DocumentStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Show a topic.

    Args:
        number: number of the topic, from 0, the one that is most coherent on validation.
    """
    topics_, names = _topics(store, specs[0]), store.corpus.vocabulary.words
    words = topics_[np.argsort(-coherence(store.data.valid, topics_), kind="stable")[number]]
    found = float(coherence(getattr(store.data, part), words[None])[0])
    return {"npmi": found, "words": " ".join(names[word] for word in words)}


def _of_all(store: DocumentStore, rows: Sequence[Row], part: str) -> TextModels:
    """Return the models by name, with the rows of the mean over all."""
    return TextModels(store, [row for row in rows if not row.label[1]], part)


def _above_random(found: TextModels, names: Sequence[str]) -> list[Comparison]:
    return [found.compare(name, [(name, "npmi"), (name, "random")], ABOVE) for name in names]


def of_neighbours(store: DocumentStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 2, which is of 20 Newsgroups."""
    found, claim = _of_all(store, rows, part), partial(Claim, "Lauly et al. 2017")
    return [
        claim("the words nearest to a word are consistent with it: their mean NPMI is above that of random words of "
              "like frequency", _above_random(found, (DOCNADE, *DEEP))),
        claim(f"of DeepDocNADE, they are similarly consistent (mean NPMI within {SIMILAR:g})",
              found.all_pairs(DEEP, [DOCNADE], column="npmi", claimed=(-SIMILAR, SIMILAR))),
    ] if store.name == NEWSGROUPS else []  # fmt: skip


def of_topics(store: DocumentStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 3, which is of 20 Newsgroups."""
    found, claim = _of_all(store, rows, part), partial(Claim, "Lauly et al. 2017")
    return [
        claim("topics of DocNADE with sigmoid units can be interpreted: their mean NPMI is above that of random words "
              "of like frequency", _above_random(found, SIGMOID[:1])),
        claim("topics of tanh units and of DeepDocNADE are harder to interpret: their mean NPMI is below that of "
              "DocNADE's with sigmoid units", found.all_pairs((TANH[0], *DEEP), [SIGMOID[0]], column="npmi")),
    ] if store.name == NEWSGROUPS else []  # fmt: skip


MEASURE = (
    "NPMI, normalised pointwise mutual information, says how much more often than independent words two words occur in "
    "the same test documents: 1 if only together, 0 if independent, -1 if never together (Bouma 2009). Of random words "
    "it is not 0: long documents have more words of all kinds, and rare words may never meet. So {words} are compared "
    f"with random words, each drawn from about {LIKE} words of like frequency in training documents. NPMI is our "
    "measure: the publication shows words alone, of DocNADE. Rows without a number are the mean over all {all}; "
    "the others are of the first seed."
)
TABLES = {
    table.name: table
    for table in (
        Table(
            DocumentStore, "docnade-table-2", "", "Words whose vectors are near to one another", ("model", "number"),
            (Column("npmi", "mean NPMI", 3), Column("random", "of random words", 3), Column("word", "word"),
             Column("nearest", f"{NEAREST} nearest words")),
            partial(_rows, NAMED, Embeds, len(WORDS), all_words, one_word),
            f"{MEASURE.format(words='the nearest words', all='words')} NPMI is that of a word and each of those "
            "nearest to it by the cosine of their vectors. Words are the published ones; in place of those that the "
            "data lack, the most frequent.",
            of_neighbours, resampled="words",
        ),
        Table(
            DocumentStore, "docnade-table-3", "", "Topics of hidden units", ("model", "topic"),
            (Column("npmi", "mean NPMI", 3), Column("random", "of random words", 3),
             Column("words", f"{TOP} words with the largest weights")),
            partial(_rows, (*NAMED[:2], SIGMOID, TANH, *NAMED[3:]), HasTopics, TOPICS, all_topics, one_topic),
            f"{MEASURE.format(words='the words of a topic', all='topics')} NPMI is that of pairs of a topic's {TOP} "
            f"words, as people's judgement of topics goes with it (Lau et al. 2014). The {TOPICS} topics that are "
            "shown are the most coherent ones on validation documents.",
            of_topics, resampled="topics",
        ),
    )
}  # fmt: skip
