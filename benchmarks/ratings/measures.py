"""Measurements of trained recommenders: RMSE of clipped predictions, in stars, also by bins of users."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.core.table import Measured
from benchmarks.core.verdict import Scores
from benchmarks.ratings.store import RatingStore, Spec
from jaxcf import models
from jaxcf.contract import UsesRatedItems
from jaxcf.metrics import Bins, bins

BINS = 10


def errors(store: RatingStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure RMSE on validation and, if there is one, on the test; count parameters and pairs conditioned on.

    Returns:
        The errors by part; `parameters`, in millions; `rated`, thousands of pairs of user and movie that a model
        conditions on, if it is trained on a share of the training ratings.
    """
    (spec,) = specs
    measured: dict[str, float | Scores] = {part: store.errors(specs, part) for part in store.parts}
    measured["parameters"] = store.num_parameters(spec) / 1e6
    if spec.trained_on is not None and models.get(spec.model).capability(UsesRatedItems) is not None:
        measured["rated"] = spec.trained_on.ends(len(store.data.train.user))[1] / 1e3
    return measured


def rounded(names: tuple[str, str, str], store: RatingStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure two models' RMSE on the test, or on validation if there is none, and the first less the second.

    Args:
        names: names of these three columns.
    """
    first, second = (store.errors((spec,), store.parts[-1]) for spec in specs)
    return dict(zip(names, (first, second, (first, second)), strict=True))


def of_choice(store: RatingStore, specs: tuple[Spec, ...], part: str) -> Spec:
    """Return the one of a split's models that is measured on a part.

    On the test it is the refitted one, given last; on validation, the one of the others that validation chooses.
    """
    *tried, refitted = specs
    return refitted if part == "test" else store.chosen(tried)


def errors_of_choice(store: RatingStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the chosen model's RMSE on validation and on the test, and on the test after refitting."""
    tried, refitted = (of_choice(store, specs, part) for part in ("valid", "test"))
    return {
        "valid": store.errors((tried,), "valid"), "before": store.errors((tried,), "test"),
        "test": store.errors((refitted,), "test"),
    }  # fmt: skip


def in_bin(number: int, names: Sequence[str], store: RatingStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure RMSE on the users of a bin; bins hold equally many, from few training ratings to many.

    RMSE is on the test if there is one, else on validation. The columns also have the first model's figure less the
    second's, and the third's less the fourth's.

    Args:
        number: of the bin, from 0; BINS for all users.
        names: of the models.
        store: of the models.
        specs: for each name in turn, one model, or one for each group of users that is left out of training and
            predicted from which movies its users rated; squared errors of all groups are added up.
    """
    users, each = user_bins(store), len(specs) // len(names)
    first, last = (number, number) if number < BINS else (0, -1)  # the last row is of all users
    inside = users.of == number if number < BINS else None
    measured: dict[str, Any] = {"fewest": float(users.fewest[first]), "most": float(users.most[last])}
    for i, name in enumerate(names):
        scores = store.errors(specs[i * each : (i + 1) * each], store.parts[-1], inside)
        if scores.count.any():
            measured |= {"ratings": float(scores.count.sum()), name: scores}
    return measured | {
        less(one, other): (measured[one], measured[other])
        for one, other in in_pairs(names) if one in measured
    }  # fmt: skip


def in_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the models that a figure compares: the first with the second, the third with the fourth."""
    return list(zip(names[::2], names[1::2], strict=True))


def less(one: str, other: str) -> str:
    """Name the column of the first model's figure less the second's."""
    return f"{one} - {other}"


def user_bins(store: RatingStore) -> Bins:
    """Sort users with training ratings into bins, by how many they have."""
    data = store.data
    return bins(np.bincount(data.train.user, minlength=data.catalogue.num_users), BINS)
