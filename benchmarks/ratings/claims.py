"""Claims of chapter 5 of the thesis, on which tables and figures give verdicts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.core.table import Row
from benchmarks.core.verdict import ABOVE, BELOW, NOT_CLAIMED, Claim, Comparison, Scores
from benchmarks.ratings.measures import of_choice
from benchmarks.ratings.store import RatingStore, Spec

# differences in stars: very small; slight; similar up to this, considerable or substantial above it; large or much
SMALL, ALIKE, SIMILAR, MARGIN = 1e-3, 2e-3, 5e-3, 1e-2
NEAR = 1.5  # numbers of parameters are similar within this factor


class RatingModels:
    """The models of a table's rows, seed by seed, and their errors on a part of the data."""

    def __init__(self, store: RatingStore, rows: Sequence[Row], part: str):
        self.store, self.rows, self.part = store, rows, part
        self._known: dict[Any, Scores] = {}

    @cached_property
    def sizes(self) -> dict[str, dict[int, Row]]:
        """Rows by model and by the thesis' size: features or hidden units; 0 for models without."""
        found: dict[str, dict[int, Row]] = {}
        for row in self.rows:
            size = row.label[1].rpartition(" ")[2].rstrip(")") if len(row.label) > 1 else ""
            found.setdefault(row.label[0], {})[int(size) if size.isdecimal() else 0] = row
        return found

    def errors(self, *specs: Spec, inside: np.ndarray | None = None, bin_: int | None = None) -> Scores:
        """Return the squared errors of a model, or of one for each group of users.

        Args:
            inside: as in `RatingStore.errors`.
            bin_: number that stands for `inside` in the cache.
        """
        place = (specs, bin_)
        if place not in self._known:
            self._known[place] = self.store.errors(specs, self.part, inside)
        return self._known[place]

    def compare(
        self, label: str, rows: Iterable[Row], claimed: tuple[float, float] = BELOW, quantity: Any = np.subtract
    ) -> Comparison:
        """Compare models of some rows; those with fewer seeds than others (biases) are repeated."""
        rows = tuple(rows)
        number = max(len(row.draws) for row in rows)
        draws = [[self.errors(*row.draws[i % len(row.draws)]) for row in rows] for i in range(number)]
        return Comparison(label, draws, claimed, quantity)

    def better(self, one: str, other: str, claimed: tuple[float, float] = BELOW) -> list[Comparison]:
        """Compare two models at every size that both have."""
        ours, theirs = self.sizes[one], self.sizes[other]
        return [self.compare(str(size), (ours[size], theirs[size]), claimed) for size in ours if size in theirs]

    def falling(self, model: str) -> list[Comparison]:
        """Compare each size of a model with the one before, to be better."""
        rows = self.sizes[model]
        return [self.compare(f"{b} and {a}", (rows[b], rows[a])) for a, b in pairwise(rows)]


def of_rbms(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 5.1."""
    models = RatingModels(store, rows, part)
    claim = partial(Claim, "5.4.4")
    kinds = ("RBM", "CRBM1", "CRBM2")
    sizes = models.sizes
    *falls, rises = models.falling("CRBM1")
    near = [
        models.compare(kind, (sizes[kind][200], sizes[kind][100]), (-SMALL, SMALL)) for kind in kinds
        if {100, 200} <= set(sizes[kind])
    ]  # fmt: skip
    far = [
        models.compare(f"{kind} {size}", (sizes[kind][size], sizes[kind][least]), (-np.inf, -MARGIN))
        for kind in kinds for least in [min(sizes[kind])] for size in (100, 200) if size in sizes[kind]
    ]  # fmt: skip
    middle = [
        models.compare(f"{kind} {size}", (sizes[kind][size], sizes[kind][50]))
        for kind in kinds for size in (100, 200) if {50, size} <= set(sizes[kind])
    ]  # fmt: skip
    last = [*falls, replace(rises, claimed=(0.0, ALIKE))] if 200 in sizes["CRBM1"] else []
    large = " and ".join(str(size) for size in (100, 200) if size in sizes["RBM"])
    return [
        claim("the RBM's RMSE falls with every growth of its hidden units", models.falling("RBM")),
        claim("CRBM2's RMSE falls with every growth of its hidden units", models.falling("CRBM2")),
        claim("CRBM1's RMSE falls but for the last growth, to 200 hidden units, when it rises slightly (by less than "
              f"{ALIKE:g})", last),
        claim(f"100 and 200 hidden units differ very little (less than {SMALL:g})", near),
        claim(f"models of {large} hidden units are much better than of 25 (by more than {MARGIN:g})", far),
        claim(f"models of {large} hidden units are better than of 50", middle),
        claim("the RBM is better than CRBM1 at every size", models.better("RBM", "CRBM1")),
        claim(f"CRBM2 is slightly better than the RBM at every size (by less than {ALIKE:g})",
              models.better("CRBM2", "RBM", (-ALIKE, 0.0))),
    ]  # fmt: skip


def of_pmfs(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 5.2: the order of models."""
    models = RatingModels(store, rows, part)
    claim = partial(Claim, "5.4.5")
    sizes, (svd, biased, pmf, cpmf) = models.sizes, SVD_TO_CPMF
    fewest, most = min(sizes[pmf]), max(sizes[pmf])
    user, movie, two = (sizes[model][0] for model in BIASES)
    worst = [models.compare(f"{fewest} and {n}", (sizes[biased][fewest], row)) for n, row in sizes[svd].items()]
    both = [
        models.compare(f"both and {of}", (two, one), (-np.inf, -MARGIN))
        for of, one in (("movies", movie), ("users", user))
    ]
    way = models.compare(
        f"PMF {most}", (movie, two, sizes[pmf][most]), (1 / 3, 2 / 3), lambda m, b, p: (m - b) / (m - p)
    )
    much = [models.compare(str(n), (row, two), (-np.inf, -MARGIN)) for n, row in sizes[svd].items()]
    return [
        claim(f"SVD is considerably better with biases than without at every size (by more than {SIMILAR:g})",
              models.better(biased, svd, (-np.inf, -SIMILAR))),
        claim("SVD with biases of fewest features is better than without biases of any number", worst),
        claim("PMF is better than SVD with biases at every size", models.better(pmf, biased)),
        claim("conditional PMF is better than PMF at every size", models.better(cpmf, pmf)),
        claim(f"biases of movies and users are much better than either alone (by more than {MARGIN:g})", both),
        claim("biases of movies are better than of users", [models.compare("", (movie, user))]),
        claim("both biases are about half-way from movie-bias to PMF (a third to two thirds)", [way]),
        claim(f"SVD is much better than both biases at every size (by more than {MARGIN:g})", much),
    ]  # fmt: skip


def of_features(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Figure 5.3: the effect of the number of features."""
    models = RatingModels(store, rows, part)
    claim = partial(Claim, "5.4.5")
    sizes, (svd, biased, pmf, cpmf) = models.sizes, SVD_TO_CPMF
    fewest, *others = sizes[pmf]

    def gap(worse: str, better: str, size: int, claimed: tuple[float, float]) -> Comparison:
        pairs = [sizes[model][n] for n in (size, fewest) for model in (worse, better)]
        return models.compare(f"{size} and {fewest}", pairs, claimed, grown)

    turns = [
        models.compare(f"{model}, {b} and {a}", (sizes[model][b], sizes[model][a]), claimed)
        for model in (svd, biased) for a, b, claimed in ((50, 100, ABOVE), (100, 500, BELOW))
        if {50, 100, 500} <= set(sizes[model])
    ]  # fmt: skip
    return [
        claim("PMF's RMSE falls with every growth of its features", models.falling(pmf)),
        claim("conditional PMF's RMSE falls with every growth of its features", models.falling(cpmf)),
        claim("SVD's RMSE, with biases or without, rises from 50 to 100 features, then falls", turns),
        claim("biases improve SVD more with most features than with fewest", [gap(svd, biased, others[-1], ABOVE)]),
        claim("PMF improves on SVD with biases more with most features", [gap(biased, pmf, others[-1], ABOVE)]),
        claim(f"CPMF improves on PMF about as much with any number of features (within {ALIKE:g})",
              [gap(pmf, cpmf, n, (-ALIKE, ALIKE)) for n in others]),
    ]  # fmt: skip


SVD_TO_CPMF = ("Online SVD", "Online SVD w. biases", "PMF", "Conditional PMF")
BIASES = ("User-bias", "Movie-bias", "User and movie bias")


def of_both(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Table 5.3."""
    models = RatingModels(store, rows, part)
    claim = partial(Claim, "5.4.6")
    sizes = models.sizes
    rbms, pmfs, cpmfs = sizes["RBM"], sizes["PMF"], sizes["Conditional PMF"]

    def parameters(row: Row) -> int:
        return store.num_parameters(row.specs()[0])

    def nearest(row: Row, others: dict[int, Row]) -> list[tuple[int, Row]]:
        """Return the model with the most similar number of parameters; empty if that is not within the factor NEAR."""
        off = {n: abs(np.log(parameters(other) / parameters(row))) for n, other in others.items()}
        n = min(off, key=lambda n: off[n])
        return [(n, others[n])] if off[n] < np.log(NEAR) else []

    largest = rbms[max(rbms)]
    better = [
        models.compare(f"{name} {size}", (row, largest))
        for name, of in (("PMF", pmfs), ("CPMF", cpmfs)) for size, row in of.items() if size >= 25
    ]  # fmt: skip
    alike = [
        models.compare(f"RBM {size}, PMF {n}", (row, other), (-SIMILAR, SIMILAR))
        for size, row in rbms.items() for n, other in nearest(row, pmfs)
    ]  # fmt: skip
    controlled = [
        models.compare(f"CPMF {n}, RBM {size}", (other, row))
        for size, row in rbms.items() for n, other in nearest(row, cpmfs)
    ]  # fmt: skip
    most = [models.compare("", (cpmfs[max(cpmfs)], pmfs[max(pmfs)]))]
    numbers = f"numbers of parameters (within a factor of {NEAR:g})"
    return [
        claim("PMF and conditional PMF of 25 features or more are better than the RBM of most hidden units", better),
        claim("of most features, conditional PMF is further ahead of the RBM than PMF is", most),
        claim(f"RBM and PMF of similar {numbers} are similar (within {SIMILAR:g})", alike),
        claim(f"conditional PMF is better than an RBM of similar {numbers}", controlled),
    ]


def of_rated_sets(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Figures 5.1 and 5.2: rows are RBMs, then CRBMs with growing rated sets."""
    models = RatingModels(store, rows, part)
    claim = partial(Claim, "5.4.4")
    rbm, *more = (row for row in rows if row.label[0] == "RBM")
    crbms = [row for row in rows if row.label[0] == "CRBM"]
    found = [
        claim(f"the CRBM of the largest rated set is substantially better than that of the smallest (by more than "
              f"{SIMILAR:g})", [models.compare("last and first", (crbms[-1], crbms[0]), (-np.inf, -SIMILAR))]),
        claim("the CRBM of the largest rated set is better than the RBM", [models.compare("", (crbms[-1], rbm))]),
    ]  # fmt: skip
    if more and len(crbms) > 2:
        line = models.compare(
            "share of the variance that a straight line explains", crbms, (0.9, np.inf), _straightness
        )
        found.append(claim("the RMSE is effectively linear in the size of the rated set (R² above .9)", [line]))
    if more:
        doubled = [models.compare("", (more[0], crbms[-1]))]
        found.append(claim("twice the ratings help the RBM more than the largest rated set the CRBM", doubled))
    else:
        found.append(claim("the CRBM of its training set's pairs alone is worse than the RBM", [
            models.compare("", (crbms[0], rbm), ABOVE)
        ]))  # fmt: skip
    return found


def of_stopping(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claim about early stopping; rows of each model: both, L2 alone, early stopping alone."""
    models = RatingModels(store, rows, part)
    text = "early stopping with L2 regularisation is better than either alone"
    comparisons = [
        models.compare(f"{both.label[0]}, {row.label[1]}", (both, row))
        for both, *others in zip(rows[::3], rows[1::3], rows[2::3], strict=True) for row in others
    ]  # fmt: skip
    return [Claim("5.4.2", text, comparisons)]


OURS = f"5.4, {NOT_CLAIMED}"


def of_splits(store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about random splits: the thesis' order of models, over all splits."""
    models = RatingModels(store, rows, part)
    one = {
        row.label[0]: replace(row, draws=tuple((of_choice(store, specs, part),) for specs in row.draws)) for row in rows
    }  # fmt: skip

    def order(section: str, better: str, worse: str) -> Claim:
        text = f"over the splits, {better} is better than {worse}"
        return Claim(section, text, [models.compare("", (one[better], one[worse]))])

    svd, biased, pmf, cpmf = SVD_TO_CPMF
    trained = "Conditional PMF, training pairs"
    return [
        *(order("5.4.5", better, worse) for worse, better in pairwise(SVD_TO_CPMF)),
        order(OURS, trained, pmf), order(OURS, cpmf, trained), order("5.4.4", "CRBM2", "RBM"),
        order("5.4.6", cpmf, "RBM"), order("6.2", "RBM", svd), order("6.2", "RBM", biased),
        *([order(OURS, "Masked RBM", "RBM")] if "Masked RBM" in one else []),
    ]  # fmt: skip


def grown(worse: Any, better: Any, worse_before: Any, better_before: Any) -> Any:
    """Compute by how much a gap is larger than it was before."""
    return (worse - better) - (worse_before - better_before)


def _straightness(*figures: Any) -> Any:
    """Return R² of the straight line through figures at equal distances."""
    y = np.stack([np.asarray(figure, np.float64) for figure in figures])
    x = np.arange(len(y)) - (len(y) - 1) / 2
    centred = y - y.mean(axis=0)
    slope = np.tensordot(x, centred, 1) / (x @ x)
    rest = centred - np.multiply.outer(x, slope)
    return 1 - np.sum(rest**2, axis=0) / np.sum(centred**2, axis=0)
