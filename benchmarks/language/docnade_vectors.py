"""Tables 5 and 6 of Lauly et al. (2017): words whose vectors are near, in each part of the DocNADE language model."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import jaxlm
from benchmarks.core.table import Column, Measured, Row, Table, seeded
from benchmarks.core.verdict import Claim, Comparison, Scores
from benchmarks.language import docnade
from benchmarks.language.analysis.embedding import apart, paired
from benchmarks.language.scales import LanguageScale
from benchmarks.language.store import LanguageStore, Spec
from jaxlm.data.corpus import Corpus
from jaxlm.data.documents.collection import DocumentCorpus
from jaxlm.tasks.neighbours import nearest

WORDS = ("weapons", "medical", "companies", "define", "israel", "book", "windows")  # of Tables 2, 5 and 6
NEAREST = 5  # words shown for each word
MEASURED = 1000  # most frequent words, over which means are taken
MODEL = docnade.of_lines(max(docnade.GROUPS))


@dataclass(frozen=True)
class Part:
    """A part of the model.

    Attributes:
        name: in titles.
        vectors: name of its vectors for `Model.vectors`; None: the default ones.
        published: for each of WORDS, the nearest words as published.
    """

    name: str
    vectors: str | None
    published: tuple[str, ...]


DOCUMENTS = Part("DocNADE part", "W", (
    "security humanitarian terrorists deployment diplomats",
    "doctor health medicine physicians treatment",
    "industry corp firms products company",
    "spoken to think_of of bottom_line",
    "israeli palestinian jerusalem lebanon palestinians",
    "story novel author joke writers",
    "yards rubber piled fire_department shell",
))  # fmt: skip
N_GRAMS = Part("language model part", None, (
    "systems aircraft drugs equipment services",
    "special japanese bank media political",
    "countries nations states americans parties",
    "talk_about place destroy show over",
    "china russia cuba north_korea lebanon",
    "film service program movie information",
    "houses room vehicle restaurant car",
))  # fmt: skip


def frequent(corpus: Corpus | DocumentCorpus) -> list[int]:
    """Return the ids of all words but the line end and `<unk>`, the most frequent first."""
    vocabulary, order = corpus.vocabulary, np.argsort(-corpus.word_counts(), kind="stable")
    return [word for word in order.tolist() if word not in (vocabulary.eos, vocabulary.unk)]


def chosen(corpus: Corpus | DocumentCorpus) -> list[int]:
    """Return the ids of the words that are shown: WORDS; in place of those that the data lack, the most frequent."""
    ids = corpus.vocabulary.ids
    known = [ids[word] for word in WORDS if word in ids]
    return (known + [word for word in frequent(corpus) if word not in known])[: len(WORDS)]


@lru_cache(maxsize=16)
def near(store: LanguageStore, spec: Spec, part: Part, words: tuple[int, ...]) -> NDArray[np.intp]:
    """Find the words nearest to each of some words by the cosine of their vectors: [words, NEAREST]."""
    vectors = jaxlm.load(store.get(spec).directory).vectors(part.vectors)
    return np.stack([nearest(vectors, word, NEAREST)[0] for word in words])


def in_common(one: NDArray[np.intp], other: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the share of each row of words, [words, n], that is also in the same row of the other: [words]."""
    return np.any(one[:, :, None] == other[:, None, :], axis=2).mean(axis=1)


def _rows(parts: tuple[Part, Part], scale: LanguageScale, seeds: int | None) -> list[Row]:
    """Return a row of the mean over words, and one of each word that is shown.

    Args:
        parts: the one whose nearest words are shown, and the other.
    """
    shown = [
        Row((str(number + 1),), seeded(1, MODEL), {}, partial(of_one, parts, number)) for number in range(len(WORDS))
    ]
    return [Row(("mean",), paired(MODEL, seeds or scale.seeds), {}, partial(of_many, parts)), *shown]


def of_many(parts: tuple[Part, Part], store: LanguageStore, specs: tuple[Spec, Spec], part: str) -> Measured:
    """Measure the share of nearest words that are the same in the other part, and in the same part of another seed."""
    spec, another = specs
    words = tuple(frequent(store.corpus)[:MEASURED])
    ones, of_part, of_seed = (
        near(store, *which, words) for which in ((spec, parts[0]), (spec, parts[1]), (another, parts[0]))
    )
    return {"shared": _mean(in_common(ones, of_part)), "agreed": _mean(in_common(ones, of_seed))}


def _mean(shares: NDArray[np.float64]) -> Scores:
    return Scores(shares, np.ones(len(shares)), np.positive)


def of_one(parts: tuple[Part, Part], number: int, store: LanguageStore, specs: tuple[Spec], part: str) -> Measured:
    """Show a word and those nearest to it, and the published ones.

    Args:
        number: number of the word, from 0.
    """
    words, names = tuple(chosen(store.corpus)), store.corpus.vocabulary.words
    ones, others = (near(store, specs[0], part, words) for part in parts)
    word = names[words[number]]
    published = dict(zip(WORDS, parts[0].published, strict=True))
    return {
        "word": word,
        "nearest": " ".join(names[other] for other in ones[number]),
        **({"published": published[word]} if word in published else {}),
        "shared": float(in_common(ones, others)[number]),
    }


def _claims(parts: tuple[Part, Part], store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the published claim about Tables 5 and 6, judged by the first row, the mean over words."""
    text = (
        f"the {parts[0].name} of the model has learned other properties of words than the {parts[1].name}: a word has "
        "fewer nearest words in common with the latter than with the same part of another seed"
    )
    mean: list[Any] = [rows[0].measure(store, specs, part) for specs in apart(rows[0])]
    compared = Comparison("", [(measured["shared"], measured["agreed"]) for measured in mean])
    return [Claim("Lauly et al. 2017", text, [compared])] if part == "test" else []


NOTE = (
    f"The models are those of docnade-table-4 with documents of {max(docnade.GROUPS)} lines; the publication does not "
    "say which model it shows. Nearest is by the cosine of vectors, among all words. The words are the published ones; "
    "in place of those that the data lack, the most frequent but the line end and `<unk>`. In common is the share of "
    "the nearest words that are also nearest by the vectors of the model's other part, or by those of the same part of "
    f"another seed, each seed being paired with the next. Means are over the {MEASURED:,} most frequent words, or all "
    "if these are fewer; the other rows are of the first seed. A verdict needs six seeds: pairs "
    "with a seed in common vary together, whereas ± takes them for independent. The publication shows words alone, of "
    "AP News."
)


def _table(name: str, shown: Part, other: Part) -> Table:
    return Table(
        LanguageStore, name, "", f"Words whose vectors are near to one another in the {shown.name} of DocNADE-LM",
        ("word number",),
        (Column("word", "word"), Column("nearest", f"{NEAREST} nearest words"), Column("published", "Lauly et al."),
         Column("shared", f"in common with the {other.name}", 2), Column("agreed", "in common with another seed", 2)),
        partial(_rows, (shown, other)), NOTE, partial(_claims, (shown, other)), resampled="words",
    )  # fmt: skip


TABLES = {
    table.name: table
    for table in (
        _table("docnade-table-5", DOCUMENTS, N_GRAMS),
        _table("docnade-table-6", N_GRAMS, DOCUMENTS),
    )
}
