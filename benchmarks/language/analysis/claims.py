"""Claims of the thesis on predictions, vectors and trees of its language models: §3.4.2, §3.4.3, §4.6.7, §4.6.8, §6.1.

Words such as "very few" are given a number in the claim's text. Claims on tables hold for the thesis' own figures.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.core.comparisons import relative
from benchmarks.core.table import Row
from benchmarks.core.verdict import ABOVE, BELOW, NOT_CLAIMED, Claim, Comparison
from benchmarks.language.analysis import clusters, codes, contexts, embedding
from benchmarks.language.analysis.probabilities import NATS, PREDICTIONS, column
from benchmarks.language.claims import TextModels, percent
from benchmarks.language.store import LanguageStore
from jaxlm.tasks.frequency import BINS

FEW, DOMINANT = 0.01, 0.75  # shares that the thesis calls very few, and dominating
MUCH_BETTER = 10  # times: how much lower a perplexity is that is much better
FAR, SEQUENCE = 10, 3  # times: far more probable; words of a sequence, the next one included
ALIKE = 0.05  # a difference of shares of nearest words that is not noticeable
COMPACT = 0.5  # share of the nearest words of a word in a compact cluster that are of its kind
AGREEMENT = "the difference of the shares of nearest words that two seeds agree on"
Names = tuple[str, str]


class Binned(TextModels):
    """Two models on bins, which are the rows; only bins that have events are compared."""

    def __init__(self, names: Names, store: LanguageStore, rows: Sequence[Row], part: str):
        super().__init__(store, rows, part)
        self.names_of_models = names
        self.bins = {number: name for number, name in enumerate(self.rows, 1) if "first" in self.measured(name)}

    def better(self, numbers: Sequence[int], claimed: tuple[float, float] = BELOW) -> list[Comparison]:
        """Compare the first model's perplexity with the second's in some bins: by which share it is above."""
        one, other = self.names_of_models
        return [
            self.compare(f"{one} relative to {other}, bin {n}",
                         [(self.bins[n], each) for each in ("first", "second")], claimed, relative)
            for n in numbers if n in self.bins
        ]  # fmt: skip

    def ratios(self, one: int, other: int, claimed: tuple[float, float]) -> list[Comparison]:
        """Compare a bin's ratio of perplexities, first over second, with another's: the difference of logarithms."""
        if not {one, other} <= self.bins.keys():
            return []
        figures = [(self.bins[n], each) for n in (one, other) for each in ("first", "second")]
        return [
            self.compare(f"bins {one} and {other}", figures, claimed,
                         lambda a, b, c, d: np.log(a / b) - np.log(c / d))
        ]  # fmt: skip

    def of_each(self, label: str, numbers: Sequence[int], **options: Any) -> list[Comparison]:
        """Compare perplexities of some bins, for each model.

        Args:
            options: options of `compare`.
        """
        found = [self.bins[n] for n in numbers if n in self.bins]
        if len(found) < len(numbers):
            return []
        return [
            self.compare(f"{model}, {label}", [(name, each) for name in found], **options)
            for model, each in zip(self.names_of_models, ("first", "second"), strict=True)
        ]


def of_probabilities(names: Names, store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Figure 3.2.

    Args:
        names: names of the neural and the n-gram model.
    """
    models, claim = TextModels(store, rows, part), partial(Claim, "3.4.2")
    bins = dict(enumerate(models.rows, 1))

    def share(of: str, numbers: Sequence[int], claimed: tuple[float, float]) -> list[Comparison]:
        return [
            models.compare(
                name, [(bins[n], column(which, of)) for n in numbers], claimed, lambda *each: sum(each), percent=True
            )
            for name, which in zip(names, ("first", "second"), strict=True)
        ]

    def more(n: int) -> Comparison:
        return models.compare(f"bin {n}", [(bins[n], column(each, PREDICTIONS)) for each in ("first", "second")], ABOVE)

    neural, ngram = names
    few, most = percent(FEW), percent(DOMINANT)
    return [
        claim("more than half of each model's predictions fall into the first two bins",
              share(PREDICTIONS, (1, 2), (0.5, np.inf))),
        claim(f"very few of each model's predictions fall into the last two bins (less than {few})",
              share(PREDICTIONS, (7, 8), (-np.inf, FEW))),
        claim(f"{neural} makes more very successful predictions (bin 1) than {ngram}", [more(1)]),
        claim(f"{neural} makes more very unsuccessful predictions (bins 7 and 8) than {ngram}", [more(7), more(8)]),
        claim(f"bins 2 to 5 dominate each model's negative log-probability (more than {most})",
              share(NATS, (2, 3, 4, 5), (DOMINANT, np.inf))),
    ]  # fmt: skip


def of_next_word(names: Names, store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 3.3."""
    binned, claim = Binned(names, store, rows, part), partial(Claim, "3.4.2")
    lbl, ngram = names
    return [
        claim(f"both models are much better at frequent than at rare words (bin 10 and bin 1: {MUCH_BETTER} times)",
              binned.of_each("bin 1 over bin 10", (1, BINS), claimed=(MUCH_BETTER, np.inf), quantity=np.divide)),
        claim(f"{lbl} is better than {ngram} at the rarest words (bin 1)", binned.better((1,))),
        claim(f"{lbl} is better than {ngram} at the frequent words (bins 6 to 10)", binned.better(range(6, 11))),
        claim(f"{ngram} is better than {lbl} at words of intermediate frequency (bins 2 to 5)",
              binned.better(range(2, 6), ABOVE)),
    ]  # fmt: skip


def of_last_word(names: Names, store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 3.4."""
    binned, claim = Binned(names, store, rows, part), partial(Claim, "3.4.2")
    lbl, ngram = names

    def rare_less_frequent(*perplexities: Any) -> Any:
        rare, frequent = np.split(np.log(np.asarray(perplexities)), 2)
        return rare.mean(axis=0) - frequent.mean(axis=0)

    return [
        claim("perplexity after rare words (bins 1 to 5) tends to be lower than after frequent ones (bins 6 to 10): "
              "the difference of their mean logarithms",
              binned.of_each("rare and frequent", range(1, 1 + BINS), quantity=rare_less_frequent)),
        claim(f"{lbl} is better than {ngram} after very rare words (bins 1 to 3)", binned.better((1, 2, 3))),
        claim(f"{lbl} is better than {ngram} after very frequent words (bins 8 to 10)", binned.better((8, 9, 10))),
        claim(f"{ngram} is better than {lbl} after words in the middle of the frequency range (bins 4 to 7)",
              binned.better((4, 5, 6, 7), ABOVE)),
    ]  # fmt: skip


def of_tree_and_next_word(names: Names, store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 4.10."""
    binned, claim = Binned(names, store, rows, part), partial(Claim, "4.6.7")
    hlbl, lbl = names
    return [
        claim(f"{hlbl} is better than {lbl} at the more frequent words (bins 3 to 10)", binned.better(range(3, 11))),
        claim(f"{lbl} is better than {hlbl} at the rarest words (bins 1 and 2)", binned.better((1, 2), ABOVE)),
        claim(f"{hlbl} is at its weakest, beside {lbl}, when predicting the very rare words: the logarithm of the "
              "ratio of perplexities in bin 1 is above that in every other bin",
              [c for n in range(2, 1 + BINS) for c in binned.ratios(1, n, ABOVE)]),
    ]  # fmt: skip


def of_two_trees(names: Names, store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 4.11."""
    binned, claim = Binned(names, store, rows, part), partial(Claim, "4.6.7")
    learned, random = names
    return [
        claim(f"{learned} is better than {random} in every bin", binned.better(range(1, 1 + BINS))),
        claim("the gap is largest for the least frequent words, and becomes smaller as frequency increases: the "
              "logarithm of the ratio of perplexities rises from bin to bin",
              [c for earlier, later in pairwise(range(1, 1 + BINS)) for c in binned.ratios(later, earlier, ABOVE)]),
    ]  # fmt: skip


def of_tree_and_last_word(names: Names, store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 4.12."""
    binned, claim = Binned(names, store, rows, part), partial(Claim, "4.6.7")
    hlbl, lbl = names
    return [
        claim(f"{hlbl} is better than {lbl} after all but the least frequent words (bins 2 to 10)",
              binned.better(range(2, 11))),
        claim(f"{lbl} is better than {hlbl} after the least frequent words (bin 1)", binned.better((1,), ABOVE)),
    ]  # fmt: skip


def of_differences(names: Names, store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claim about Table 3.6, on all events where a model is far ahead, not only those of the table."""
    known, (specs,) = contexts.seen(store, part) >= SEQUENCE, rows[0].draws
    draws = []
    for first, second in zip(specs[: len(specs) // 2], specs[len(specs) // 2 :], strict=True):
        ahead = store.get(first).predictions(part) - store.get(second).predictions(part)
        far = [ahead < -np.log(FAR), ahead > np.log(FAR)]  # the second model, the first
        seeded = store.stepwise(first) or store.stepwise(second)
        draws.append([store.by_blocks(known, part, seeded, np.positive, inside) for inside in far])
    there = all(scores.count.any() for draw in draws for scores in draw)
    neural, ngram = names
    text = (
        f"the next word completes a sequence of the training text ({SEQUENCE} words with it) more often where {ngram} "
        f"gives it over {FAR} times {neural}'s probability than the other way round: the difference of the shares"
    )
    return [Claim("3.4.2", text, [Comparison("", draws, ABOVE)] if there else [])]


def of_codes(names: tuple[str, ...], store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claim about trees, which is judged on the training text and not on validation.

    Args:
        names: names of the columns of trees.
    """
    comparisons = []
    for number, name in enumerate(names):
        draws = [codes.rarity(store, specs[number]) for specs in rows[0].draws]
        found = [each for each in draws if each is not None]
        comparisons += [Comparison(name, found)] if len(found) == len(draws) else []
    text = (
        f"the words with the most codes (a share of {codes.MOST:g}) occur less often in the training text than the "
        "others: the difference of the mean logarithms of their counts"
    )
    return [Claim("6.1", text, comparisons)] if part == "test" else []


def _agreed(store: LanguageStore, rows: Sequence[Row], claimed: tuple[float, float]) -> list[Comparison]:
    """Compare two rows of words: the shares of nearest words that models of two seeds agree on."""
    columns: list[list[Any]] = [
        [row.measure(store, specs, "test")["agreed"] for specs in embedding.apart(row)] for row in rows
    ]
    return [Comparison("", list(zip(*columns, strict=True)), claimed)]


def of_clusters(section: str, store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claim about compact clusters in Figures 3.3 and 4.1, whose first row is of frequent words."""
    comparisons = []
    for kind in clusters.KINDS:
        draws = [clusters.among_their_kind(store, specs[0], embedding.FREQUENT, kind) for specs in rows[0].draws]
        found = [[scores] for scores in draws if scores is not None]  # all or none, as the words are the same
        comparisons += [Comparison(kind, found, (COMPACT, np.inf), np.positive, percent=True)] if found else []
    text = (
        f"days of the week and months form compact clusters (more than {percent(COMPACT)} of the words nearest to one, "
        "of as many as there are others of its kind, are of its kind)"
    )
    return [Claim(section, text, comparisons)] if part == "test" else []


def of_rare_vectors(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claim about Figure 3.4.

    Args:
        rows: rows of rare words, then of frequent ones.
    """
    text = f"the vectors of the rarest words are not as well estimated as those of the most frequent: {AGREEMENT}"
    return [Claim("3.4.3", text, _agreed(store, rows, BELOW))] if part == "test" else []


def of_frequent_vectors(names: Names, store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Figure 4.1.

    Args:
        rows: rows of the models' frequent words.
    """
    text = f"the vectors of frequent words of {names[0]} and {names[1]} are of similar quality (within {ALIKE:g})"
    if part != "test":
        return []
    alike = Claim("4.6.8", f"{text}: {AGREEMENT}", _agreed(store, rows, (-ALIKE, ALIKE)))
    return [alike, *of_clusters(f"4.6.8, {NOT_CLAIMED}", store, rows, part)]


def of_rare_vectors_of_trees(names: Names, store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claim about Figure 4.2.

    Args:
        rows: rows of the models' rare words.
    """
    text = f"the vectors of rare words of {names[0]} are estimated less well than those of {names[1]}: {AGREEMENT}"
    return [Claim("4.6.8", text, _agreed(store, rows, BELOW))] if part == "test" else []
