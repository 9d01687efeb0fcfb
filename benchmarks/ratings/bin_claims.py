"""Claims of chapter 5 of the thesis on users with few and with many ratings: Figures 5.4 to 5.8."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.core.table import Row
from benchmarks.core.verdict import ABOVE, BELOW, Claim, Comparison, Scores
from benchmarks.ratings.claims import MARGIN, SIMILAR, RatingModels, grown
from benchmarks.ratings.measures import BINS, user_bins
from benchmarks.ratings.store import RatingStore, Spec


class Binned:
    """The models of a figure, and their errors on bins of users, which are numbered from 1."""

    def __init__(self, names: Sequence[str], store: RatingStore, rows: Sequence[Row], part: str):
        self.names, self.models, self.draws = names, RatingModels(store, rows, part), rows[0].draws
        self.bins = user_bins(store).of

    def compare(
        self, label: str, arms: Sequence[tuple[str, int]], claimed: tuple[float, float] = BELOW,
        quantity: Callable[..., Any] = np.subtract,
    ) -> Comparison:  # fmt: skip
        """Compare the errors of models, each on the bin of a number."""
        draws = [[self._errors(specs, name, number) for name, number in arms] for specs in self.draws]
        return Comparison(label, draws, claimed, quantity)

    def _errors(self, specs: Sequence[Spec], name: str, number: int) -> Scores:
        i, each = self.names.index(name), len(specs) // len(self.names)
        return self.models.errors(*specs[i * each : (i + 1) * each], inside=self.bins == number - 1, bin_=number)

    def better(self, one: str, other: str, bins: Iterable[int], least: float = 0.0) -> list[Comparison]:
        """Compare two models in some bins; the first should be better by `least` stars."""
        return [self.compare(f"bin {n}", ((one, n), (other, n)), (-np.inf, -least)) for n in bins]


def of_conditioning(names: Sequence[str], store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Figure 5.4.

    Args:
        names: names of PMF and CPMF of few features, then of many.
    """
    binned = Binned(names, store, rows, part)
    claim = partial(Claim, "5.4.5")
    few, conditional_few, many, conditional_many = names
    pairs = ((few, conditional_few), (many, conditional_many))
    return [
        claim(f"all models are much better on users of most than of fewest ratings (by more than {MARGIN:g})", [
            binned.compare(name, ((name, BINS), (name, 1)), (-np.inf, -MARGIN)) for name in names
        ]),
        claim(f"CPMF is better than PMF by more than {MARGIN:g} on the first two bins", [
            replace(c, label=f"{other}, {c.label}")
            for one, other in pairs for c in binned.better(other, one, (1, 2), MARGIN)
        ]),
        claim("the gap of CPMF and PMF is smaller on the last bin than on the first", [
            binned.compare(other, ((one, BINS), (other, BINS), (one, 1), (other, 1)), BELOW, grown)
            for one, other in pairs
        ]),
        claim(f"{many} is better than {conditional_many} on the last bin",
              binned.better(many, conditional_many, (BINS,))),
        claim(f"{conditional_few} is better than {many} on the first bin", binned.better(conditional_few, many, (1,))),
    ]  # fmt: skip


def of_new_users(names: Sequence[str], store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Figure 5.5.

    Args:
        names: names of movie-bias and CPMF.
    """
    binned = Binned(names, store, rows, part)
    claim = partial(Claim, "5.4.5")
    bias, cpmf = names

    def gap(n: int, of: int, claimed: tuple[float, float]) -> Comparison:
        return binned.compare(f"bin {n}", ((bias, n), (cpmf, n), (bias, of), (cpmf, of)), claimed, grown)

    return [
        claim("CPMF is better than movie-bias on every bin of users without known ratings",
              binned.better(cpmf, bias, range(1, 1 + BINS))),
        claim("their gap is smallest on the first bin: by how much others are larger",
              [gap(n, 1, ABOVE) for n in range(2, 1 + BINS)]),
        claim("their gap is largest on the third bin: by how much others are larger",
              [gap(n, 3, BELOW) for n in range(1, 1 + BINS) if n != 3]),
    ]  # fmt: skip


def of_kinds(size: int, names: Sequence[str], store: RatingStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the claims about Figures 5.6 to 5.8.

    Args:
        size: features of PMF in the thesis.
        names: names of RBM and PMF.
    """
    binned = Binned(names, store, rows, part)
    claim = partial(Claim, "5.4.6")
    rbm, pmf = names
    found = [claim(f"{pmf} is better than {rbm} on the first bin", binned.better(pmf, rbm, (1,)))]
    if size == 10:
        return [
            *found,
            claim(f"{rbm} is better than {pmf} on all other bins", binned.better(rbm, pmf, range(2, 1 + BINS))),
        ]
    last = binned.better(pmf, rbm, (8, 9, 10), MARGIN)
    found.append(claim(f"{pmf} is much better than {rbm} on the last three bins (by more than {MARGIN:g})", last))
    if size == 50:
        return [*found, claim(f"{rbm} is better than {pmf} on bins 2 to 4", binned.better(rbm, pmf, (2, 3, 4)))]
    alike = [binned.compare(f"bin {n}", ((rbm, n), (pmf, n)), (-SIMILAR, SIMILAR)) for n in (2, 3, 4)]
    return [*found, claim(f"{rbm} and {pmf} are similar on bins 2 to 4 (within {SIMILAR:g})", alike)]
