"""Figures 3.2 to 3.4, 4.1 and 4.2, Tables 3.3 to 3.9 and 4.10 to 4.12, and codes: models, rows, the thesis' figures."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.core.table import Column, Measured, Row, Table, seeded
from benchmarks.language.analysis import (
    claims,
    codes,
    contexts,
    embedding,
    explore,
    frequency,
    probabilities,
    thesis,
)
from benchmarks.language.scales import LanguageScale
from benchmarks.language.store import LanguageStore, Spec
from benchmarks.language.tables import T7, TREES, kn
from jaxlm.tasks.frequency import BINS


@dataclass(frozen=True)
class Pair:
    """Two models that are compared, and their names."""

    names: tuple[str, str]
    specs: tuple[Spec, Spec]


@dataclass(frozen=True)
class Shown:
    """Words whose vectors a figure shows: embedding.FREQUENT or embedding.RARE ones of a model."""

    model: str
    spec: Spec
    which: str


LBL, HLBL = Spec("lbl"), Spec("hlbl", tree=T7)
NEURAL = Pair(("LBL", "KN5"), (LBL, kn(5, False)))
FLAT = Pair(("HLBL", "LBL"), (HLBL, LBL))
RANDOM = Pair(("HLBL", "RANDOM ×4"), (HLBL, Spec("hlbl", tree=("random", 0.0, 4))))
LEARNED = {title: tree for _, title, tree in TREES if tree[0] == "adaptive" and tree[1] > 0}
NEXT_WORDS = 10
BETTER = 21  # events of Tables 3.5 and 3.6
QUANTILES = {"table-3.7": 0.0, "table-3.8": 0.5, "table-3.9": 0.75}
Rows = Callable[[LanguageScale, int | None], list[Row]]


def _figure_3_2(scale: LanguageScale, seeds: int | None) -> list[Row]:
    draws = seeded(seeds or scale.seeds, *NEURAL.specs)
    return [
        Row((str(number + 1), of_bin), draws, {}, partial(probabilities.measure, number))
        for number, of_bin in enumerate(probabilities.RANGES)
    ]


def _by_frequency(name: str, pair: Pair, words: frequency.Words, published: dict[str, tuple[float, ...]]) -> Rows:
    """Make rows of bins of words.

    Args:
        published: perplexities of models by name.
    """

    def rows(scale: LanguageScale, seeds: int | None) -> list[Row]:
        draws = seeded(seeds or scale.seeds, *pair.specs)
        columns = (
            thesis.BIN_WORDS, thesis.COVERAGE, *(published[model] for model in pair.names), thesis.RATIOS[name],
            thesis.LOG_RATIOS[name],
        )  # fmt: skip
        names = ("words", "share", "first", "second", "ratio", "log_ratio")
        return [
            Row(
                (str(number + 1),), draws, {key: figures[number] for key, figures in zip(names, columns, strict=True)},
                partial(frequency.measure, words, number),
            )
            for number in range(BINS)
        ]  # fmt: skip

    return rows


def _differences(name: str, first_is_better: bool) -> Rows:
    """Make rows of the events on which two models differ most, over all seeds."""

    def rows(scale: LanguageScale, seeds: int | None) -> list[Row]:
        first, second = zip(*seeded(seeds or scale.seeds, *NEURAL.specs), strict=True)
        return [
            Row(
                (str(rank + 1),), ((*first, *second),), dict(zip(("ratio", "first", "second"), published, strict=True)),
                partial(contexts.difference, rank, first_is_better),
            )
            for rank, published in enumerate(thesis.DIFFERENCES[name][:BETTER])
        ]  # fmt: skip

    return rows


def _next_words(name: str) -> Rows:
    """Make rows of a context, the word that follows, and the most probable next words, of the first seed."""

    def rows(scale: LanguageScale, seeds: int | None) -> list[Row]:
        draws, quantile = seeded(1, *NEURAL.specs), QUANTILES[name]
        measures: list[tuple[str, Callable[..., Measured], dict[str, float]]] = [
            ("context", partial(contexts.context_row, quantile), {}),
            ("next word", partial(contexts.true_row, quantile), {}),
        ]
        measures += [
            (str(rank + 1), partial(contexts.next_word_row, rank, quantile), {"first": thesis.NEXT_WORDS[name][rank]})
            for rank in range(NEXT_WORDS)
        ]
        return [Row((label,), draws, published, measure) for label, measure, published in measures]

    return rows


def _codes(scale: LanguageScale, seeds: int | None) -> list[Row]:
    draws = seeded(seeds or scale.seeds, *(Spec("hlbl", tree=tree) for tree in LEARNED.values()))
    return [Row((str(n + 1),), draws, {}, partial(codes.measure, tuple(LEARNED), n)) for n in range(BINS)]


def _embedded(shown: tuple[Shown, ...], scale: LanguageScale, seeds: int | None) -> list[Row]:
    """Make rows of words: those that a figure shows, and others to compare with."""
    rows = []
    for number, each in enumerate(shown):
        draws = embedding.paired(each.spec, seeds or scale.seeds)
        measure = embedding.measure if number else embedding.measure_and_embed
        rows.append(Row((each.model, each.which), draws, {}, partial(measure, each.which)))
    return rows


def _frequency_columns(names: tuple[str, str]) -> tuple[Column, ...]:
    first, second = names
    return (
        Column("words", "words", 0), Column("share", "% of the test"), Column("first", f"{first} perplexity"),
        Column("second", f"{second} perplexity"), Column("ratio", "ratio (PR)", 2), Column("log_ratio", "log(PR)", 2),
    )  # fmt: skip


_table = partial(Table, LanguageStore)
BY_COUNT = (
    "Bins have about equal shares of the training text; 1 has the rarest words. PR is the ratio of the perplexities, "
    "log(PR) its natural logarithm."
)
FREQUENCY: tuple[tuple[str, str, str, Pair, frequency.Words, dict[str, tuple[float, ...]], Any], ...] = (
    ("table-3.3", "3.4.2", "the next word", NEURAL, frequency.next_word, thesis.NEXT_WORD, claims.of_next_word),
    ("table-3.4", "3.4.2", "the last context word", NEURAL, frequency.last_context_word, thesis.LAST_WORD,
     claims.of_last_word),
    ("table-4.10", "4.6.7", "the next word", FLAT, frequency.next_word, thesis.NEXT_WORD, claims.of_tree_and_next_word),
    ("table-4.11", "4.6.7", "the next word", RANDOM, frequency.next_word, thesis.NEXT_WORD, claims.of_two_trees),
    ("table-4.12", "4.6.7", "the last context word", FLAT, frequency.last_context_word, thesis.LAST_WORD,
     claims.of_tree_and_last_word),
)  # fmt: skip
EVENTS = (
    Column("ratio", "ratio", None), Column("first", "LBL probability", None), Column("second", "KN5 probability", None),
    Column("seen", "words seen", 0), Column("context", "context"), Column("word", "next word"),
)  # fmt: skip
OF_EVENTS = (
    "Of all events of the test; probabilities are geometric means over seeds. Words seen: how many last words of the "
    "line, the next one included, the training text has in a row, at most six."
)
VECTORS = (Column("agreed", "nearest words agreed on", 3), Column("kept", "nearest words kept", 3))
OF_VECTORS = (
    f"Agreed on: the share of a word's {embedding.NEAREST} nearest words, among these, that are the same in models of "
    "two seeds, each seed being paired with the next; kept: that are the same in the plane. Pairs that have a seed in "
    "common are taken for independent, so that ± of the former has too little of the spread over seeds. The words "
    f"are {embedding.WORDS:,}, or half of all if these are fewer; t-SNE's perplexity is "
    f"{embedding.PERPLEXITY:g}, or a third of the words. The figure is of the first seed. Words that would overlap "
    "others are points; the page has them all."
)
LBL_FREQUENT, LBL_RARE = Shown("LBL", LBL, embedding.FREQUENT), Shown("LBL", LBL, embedding.RARE)
HLBL_FREQUENT, HLBL_RARE = Shown("HLBL", HLBL, embedding.FREQUENT), Shown("HLBL", HLBL, embedding.RARE)
# what a figure shows, and what its claims compare that with
PICTURES: tuple[tuple[str, str, tuple[Shown, ...], Any], ...] = (
    ("figure-3.3", "3.4.3", (LBL_FREQUENT,), partial(claims.of_clusters, "3.4.3")),
    ("figure-3.4", "3.4.3", (LBL_RARE, LBL_FREQUENT), claims.of_rare_vectors),
    ("figure-4.1", "4.6.8", (HLBL_FREQUENT, LBL_FREQUENT), partial(claims.of_frequent_vectors, FLAT.names)),
    ("figure-4.2", "4.6.8", (HLBL_RARE, LBL_RARE), partial(claims.of_rare_vectors_of_trees, FLAT.names)),
)
TABLES = {
    table.name: table
    for table in (
        _table(
            "figure-3.2", "3.4.2", "Predictions by the order of magnitude of their probability", ("bin", "probability"),
            tuple(
                Column(probabilities.column(which, of), f"{name}: share of {title}", 3)
                for of, title in ((probabilities.PREDICTIONS, "predictions"), (probabilities.NATS, "-log P"))
                for which, name in zip(("first", "second"), NEURAL.names, strict=True)
            ),
            _figure_3_2, "The thesis has this as a picture alone.",
            partial(claims.of_probabilities, NEURAL.names), probabilities.draw,
        ),
        *(
            _table(
                name, section, f"{' and '.join(pair.names)} by the frequency of {what}", ("bin",),
                _frequency_columns(pair.names), _by_frequency(name, pair, words, published), BY_COUNT,
                partial(of, pair.names),
            )
            for name, section, what, pair, words, published, of in FREQUENCY
        ),
        _table(
            "table-3.5", "3.4.2", "Events on which the LBL is most ahead of KN5", ("rank",), EVENTS,
            _differences("table-3.5", True), OF_EVENTS, together=True,
        ),
        _table(
            "table-3.6", "3.4.2", "Events on which KN5 is most ahead of the LBL", ("rank",), EVENTS,
            _differences("table-3.6", False), OF_EVENTS, partial(claims.of_differences, NEURAL.names), together=True,
        ),
        *(
            _table(
                name, "3.4.2", f"The most probable next words after a context{where}", ("rank",),
                tuple(
                    Column(key, title, None)
                    for which, model in zip(("first", "second"), NEURAL.names, strict=True)
                    for key, title in ((f"{which}_word", model), (which, f"{model} probability"))
                ),
                _next_words(name), f"{contexts.CHOICE}; this one is {place}. Of the first seed.", together=True,
            )
            for name, where, place in (
                ("table-3.7", " on which the LBL errs", "the first"), ("table-3.8", "", "that in the middle"),
                ("table-3.9", " on which the LBL does well", "that after three quarters of them"),
            )
        ),
        *(
            _table(
                name, section, f"The {shown[0].model}'s vectors of the {shown[0].which} words, by t-SNE",
                ("model", "words"), VECTORS, partial(_embedded, shown), OF_VECTORS, of, embedding.draw, explore.write,
                together=True, resampled="words",
            )
            for name, section, shown, of in PICTURES
        ),
        _table(
            "word-codes", "6.1", "Codes of words in learned trees, by the frequency of the word", ("bin",),
            (Column("words", "words", 0), *(Column(name, f"{name}: codes of a word") for name in LEARNED),
             Column("most", "words with most codes in the last tree")),
            _codes, "Bins as in Table 3.3; each word counts once. The text of the thesis names no figures.",
            partial(claims.of_codes, tuple(LEARNED)), together=True, resampled="words",
        ),
    )
}  # fmt: skip
