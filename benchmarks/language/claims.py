"""Claims of chapters 3 and 4 of the thesis, on which tables give verdicts.

Words such as "slightly" are given a number in the claim's text. All claims hold for the thesis' own figures.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.core.comparisons import Comparisons, relative
from benchmarks.core.table import Row
from benchmarks.core.verdict import ABOVE, BELOW, SEEDS, Claim, Comparison, Scores
from benchmarks.language.store import LanguageStore

# shares of a perplexity, or of a bias, that the thesis calls small or slight, very similar, considerable, comparable
SLIGHT, ALIKE, MUCH, COMPARABLE = 0.02, 0.03, 0.05, 0.12
MANY = 1.5  # times: a much higher variance, a much more effective average


class TextModels(Comparisons):
    """Comparisons of models of text; a row is named by its model, if neural also by the tree or the context size."""

    def name(self, row: Row) -> str:
        """Return the name of a row."""
        return super().name(row) if self.neural(row) else row.label[0]

    def neural(self, row: Row) -> bool:
        """Return whether a row is of a model that is trained step by step."""
        return self.store.stepwise(row.draws[0][0])

    def seeds(self, names: Iterable[str]) -> int:
        """Return the fewest seeds that one of the named neural models has; 1 where none is neural."""
        rows = [self.rows[name] for name in names]
        return min((len(row.draws) for row in rows if self.neural(row)), default=1)

    def names(self, begin: str) -> list[str]:
        """Return the names that begin with `begin`, in the order of the rows."""
        return [name for name in self.rows if name.startswith(begin)]

    def all_pairs(self, ones: Iterable[str], others: Iterable[str], **options: Any) -> list[Comparison]:
        """Compare each of some rows with each of others.

        Args:
            options: options of `pair`.
        """
        others = list(others)
        return [self.pair(one, other, **options) for one in ones for other in others]

    def falling(self, names: Sequence[str], column: str = "perplexity") -> list[Comparison]:
        """Compare each row with the one before, to be lower."""
        return [self.pair(later, earlier, column) for earlier, later in pairwise(names)]

    def mixtures(self, ngram: str, least: float = 0.0) -> list[Comparison]:
        """Compare each mixture with both of its models, to be better; by a share if `least` is given."""
        return [
            self.compare(
                f"mixture of {name}, and {alone}",
                ((name, "mixture"), (alone, "perplexity")),
                (-np.inf, -least),
                relative if least else np.subtract,
            )
            for name in self._mixed()
            for alone in (name, ngram)
        ]

    def fitting(self, claimed: tuple[float, float]) -> list[Comparison]:
        """Compare each mixture with a fitted proportion with the one with equal weights."""
        return [self.compare(name, ((name, "fitted"), (name, "mixture")), claimed, relative) for name in self._mixed()]

    def _mixed(self) -> list[str]:
        return [name for name, row in self.rows.items() if self.neural(row)]


def percent(share: float) -> str:
    """Write a share for people."""
    return f"{100 * share:g} %"


def of_lbl(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 3.2."""
    models = TextModels(store, rows, part)
    claim = partial(Claim, "3.4.2")
    five, ten = models.names("LBL")
    best, ngrams = "Back-off KN5", models.names("Back-off")
    return [
        claim("the LBL of either context is better than every n-gram model", models.all_pairs((five, ten), ngrams)),
        claim("the best n-gram model is KN5", models.all_pairs([best], (n for n in ngrams if n != best))),
        claim("the LBL is better with a context of 10 than of 5", [models.pair(ten, five)]),
        claim("a context of 10 instead of 5 reduces the LBL's perplexity by about 8 % (4 to 12 %)",
              [models.pair(ten, five, claimed=(-0.12, -0.04), quantity=relative)]),
        claim("the LBL's mixture with KN5 is better with a context of 10 than of 5",
              [models.pair(ten, five, "mixture")]),
        claim("each mixture is better than both of its models", models.mixtures(best)),
        claim(f"fitting the proportion makes the mixture better, but by less than {percent(SLIGHT)}",
              models.fitting((-SLIGHT, 0.0))),
    ]  # fmt: skip


def of_random_trees(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 4.1."""
    models = TextModels(store, rows, part)
    claim = partial(Claim, "4.6.2")
    hlbls, largest = models.names("HLBL"), "HLBL RANDOM ×4"
    return [
        claim("the more overcomplete the random tree, the better", models.falling(hlbls)),
        claim("the best and the worst model of a type of tree differ by under 1.7 points of perplexity", [
            comparison for name in hlbls for comparison in _of_the_drawn(models, name)
        ]),
        claim("HLBLs over random trees are better than KN2", models.all_pairs(hlbls, ["Int. KN2"])),
        claim("no HLBL over a random tree is better than KN3, KN6 or the LBL", [
            comparison for others in (["Int. KN3", "Int. KN6"], ["LBL"])
            for comparison in models.all_pairs(hlbls, others, claimed=ABOVE)
        ]),
        claim("RANDOM ×4 is much closer to KN3 than to KN2 (at most a third of the way from KN3)", [
            models.compare("beyond that", [(name, "perplexity") for name in (largest, "Int. KN3", "Int. KN2")], BELOW,
                           lambda ours, near, far: ours - near - (far - near) / 3)
        ]),
    ]  # fmt: skip


def _of_the_drawn(models: TextModels, name: str) -> list[Comparison]:
    """Compare the best and the worst of a row's trees, as given, without seeds; fewer than SEEDS are not compared."""
    comparison = models.compare(name, [(name, "perplexity")])
    scores = [replace(one, seeded=False) for (one,) in comparison.draws]
    if len(scores) < SEEDS:
        return []
    return [Comparison(name, [scores], (-np.inf, 1.7), lambda *all_: np.max(all_, axis=0) - np.min(all_, axis=0))]


def of_features(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 4.2: rows of all sizes, then the largest over an overcomplete random tree."""
    models = TextModels(store, rows, part)
    claim = partial(Claim, "4.6.3")
    *sizes, overcomplete = models.rows
    largest, trees = sizes[-1], ("random", "learned")
    gaps = [
        models.compare(f"{later} and {earlier}", [(size, tree) for size in (later, earlier) for tree in trees], BELOW,
                       lambda random, learned, before, after: (random - learned) - (before - after))
        for earlier, later in pairwise(sizes)
    ]  # fmt: skip
    return [
        claim(f"the learned tree is much better than the random one at every size (by more than {percent(MUCH)})", [
            models.compare(size, ((size, "learned"), (size, "random")), (-np.inf, -MUCH), relative) for size in sizes
        ]),
        claim("more features are better with either tree", [
            replace(c, label=f"{tree}, {c.label}") for tree in trees for c in models.falling(sizes, tree)
        ]),
        claim("the learned tree's reduction shrinks with every growth of the features", gaps),
        claim(f"of most features, the learned tree is as good as RANDOM ×4 (within {percent(SLIGHT)})", [
            models.compare("", ((largest, "learned"), (overcomplete, "random")), (-SLIGHT, SLIGHT), relative)
        ]),
    ]  # fmt: skip


def of_trees(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 4.4."""
    models = TextModels(store, rows, part)
    claim = partial(Claim, "4.6.3")
    trees, ngrams = models.names("HLBL"), ["Int. KN6", "Int. KN3", "Int. KN2"]
    *_, t5, t6, t7 = trees
    return [
        claim("perplexity falls from each tree to the next, T1 to T7", models.falling(trees)),
        claim(f"HLBLs over trees that are not random are comparable to KN3 (within {percent(COMPARABLE)})",
              models.all_pairs(trees[1:], ["Int. KN3"], claimed=(-COMPARABLE, COMPARABLE), quantity=relative)),
        claim("T5 is better than KN2, but worse than the LBL",
              [models.pair(t5, "Int. KN2"), models.pair(t5, "LBL", claimed=ABOVE)]),
        claim("T5 is better than KN3, by the table's figures; the text says that it is worse",
              [models.pair(t5, "Int. KN3")]),
        claim("T6 and T7 are better than the LBL", models.all_pairs((t6, t7), ["LBL"])),
        claim("T6 and T7 are better than every n-gram model", models.all_pairs((t6, t7), ngrams)),
        claim("the LBL is better than KN6, KN6 than KN3, and KN3 than KN2",
              models.falling(["LBL", *ngrams][::-1])),
        claim(f"each mixture with KN6 is better than both of its models by more than {percent(MUCH)}",
              models.mixtures("Int. KN6", MUCH)),
        claim(f"the LBL's mixture is slightly better than T7's (by less than {percent(SLIGHT)})",
              [models.pair("LBL", t7, "mixture", claimed=(-SLIGHT, 0.0), quantity=relative)]),
        claim(f"fitting the proportion changes a mixture by less than {percent(SLIGHT)}",
              models.fitting((-SLIGHT, SLIGHT))),
    ]  # fmt: skip


def of_diversity(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 4.6."""
    models = TextModels(store, rows, part)
    *replicas, different = models.rows
    text = (
        f"trees joined from four replicas are very similar to one joined from different ones (within {percent(ALIKE)})"
    )
    return [
        Claim("4.6.4", text, [
            models.compare(f"{column}, {name}", [(name, column), (different, column)], (-ALIKE, ALIKE), relative)
            for column in ("adaptive", "random", "noisy") for name in replicas
        ]),
    ]  # fmt: skip


def of_context(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 4.7."""
    models = TextModels(store, rows, part)
    claim = partial(Claim, "4.6.5")
    hlbls, best, longer = models.names("HLBL"), "Int. KN6", "Int. KN8"
    alike = {"HLBL 1": ("Int. KN2", BELOW), "HLBL 2": ("Int. KN3", ABOVE), "HLBL 5": (best, BELOW)}
    return [
        claim("the HLBL's perplexity falls with every growth of the context", models.falling(hlbls)),
        claim("the perplexity of the HLBL's mixture with KN6 falls with every growth of the context",
              models.falling(hlbls, "mixture")),
        claim("the best n-gram model is KN6", models.all_pairs([best], ["Int. KN2", "Int. KN3", longer])),
        claim(f"a longer context makes the n-gram model slightly worse (by less than {percent(SLIGHT)})",
              [models.pair(longer, best, claimed=(0.0, SLIGHT), quantity=relative)]),
        claim("the HLBL is better than the n-gram model of the same context for 1 and 5 words, worse for 2", [
            models.pair(hlbl, ngram, claimed=claimed) for hlbl, (ngram, claimed) in alike.items() if hlbl in hlbls
        ]),
    ]  # fmt: skip


def of_bias_variance(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 4.8."""
    models = TextModels(store, rows, part)
    claim = partial(Claim, "4.6.6")
    hlbl, ngram = models.rows
    return [
        claim(f"the HLBL has a slightly lower bias than KN6 (by less than {percent(MUCH)})",
              [models.pair(hlbl, ngram, "bias", claimed=(-MUCH, 0.0), quantity=relative)]),
        claim(f"the HLBL has a much higher variance than KN6 (over {MANY:g} times)",
              [models.pair(hlbl, ngram, "variance", claimed=(MANY, np.inf), quantity=np.divide)]),
    ]  # fmt: skip


def of_subsets(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 4.9: models that were trained on parts of the text, then their averages."""
    models = TextModels(store, rows, part)
    claim = partial(Claim, "4.6.6")
    *parts, average = models.rows

    def times(*figures: Any) -> Any:
        """Compute the share by which averaging reduces the HLBL's perplexity, over that of KN6."""
        ours, theirs = (
            1 - combined / np.mean(single, axis=0) for *single, combined in np.split(np.asarray(figures), 2)
        )
        return ours / theirs

    every = [(name, column) for column in ("hlbl", "kn") for name in models.rows]
    return [
        claim("each HLBL is better than the KN6 of the same part",
              [models.compare(name, ((name, "hlbl"), (name, "kn"))) for name in parts]),
        claim("the average is better than each of its models", [
            models.compare(f"{column} {name}", ((average, column), (name, column)))
            for name, column in every if name != average
        ]),
        claim(f"averaging reduces the HLBL's perplexity by a much larger share than KN6's (over {MANY:g} times)",
              [models.compare("times", every, (MANY, np.inf), times)]),
    ]  # fmt: skip


def of_neural_models(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claim about the NPLM and the LBL, mixed with KN5."""
    models = TextModels(store, rows, part)
    text = "each mixture with KN5 is better than both of its models (Bengio et al. 2003)"
    return [Claim("2.2", text, models.mixtures("Int. KN5"))]


def of_speed(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claim about Table 4.5, on the times of epochs: these have no validation, and a seed hardly matters."""
    *_, slowest, lbl = rows

    def rounds(row: Row, draw: int) -> Scores:
        measured: Any = row.measure(store, row.draws[draw], part)
        return Scores(np.array(measured["minutes"]), np.ones(len(measured["minutes"])), np.positive, seeded=False)

    draws = [[rounds(lbl, i), rounds(slowest, i)] for i in range(len(lbl.draws))]
    text = "an epoch of the slowest HLBL, T7, is over 200 times faster than one of the LBL"
    return [Claim("4.6.3", text, [Comparison("times", draws, (200, np.inf), np.divide)])] if part == "test" else []
