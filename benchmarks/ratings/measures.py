"""What is measured of trained recommenders: RMSE of clipped predictions, in stars, also by bins of users."""

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


def errors(store: RatingStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure RMSE on validation ratings, and on the test's where there is one; count what goes into the model.

    Returns:
        The errors by part; `parameters`, in millions; `rated`, thousands of pairs of user and movie that a model of a
        share of the training ratings conditions on.
    """
    (spec,) = specs
    measured: dict[str, float | Scores] = {part: store.errors(specs, part) for part in store.parts}
    measured["parameters"] = store.num_parameters(spec) / 1e6
    if spec.trained_on is not None and models.get(spec.model).capability(UsesRatedItems) is not None:
        measured["rated"] = spec.trained_on.ends(len(store.data.train.user))[1] / 1e3
    return measured


def rounded(names: tuple[str, str, str], store: RatingStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure two models on the test, or where there is none on validation, and the first's RMSE less the second's.

    Args:
        names: names of these three columns.
    """
    first, second = (store.errors((spec,), store.parts[-1]) for spec in specs)
    return dict(zip(names, (first, second, (first, second)), strict=True))


def of_choice(store: RatingStore, specs: tuple[Spec, ...], part: str) -> Spec:
    """Return which of a split's models is measured on a part.

    On the test it is the refitted one, given last; on validation the one that it chooses of the others.
    """
    *tried, refitted = specs
    return refitted if part == "test" else store.chosen(tried)


def errors_of_choice(store: RatingStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure the chosen model's RMSE on validation and on the test, and on the test after refitting."""
    tried, refitted = (of_choice(store, specs, part) for part in ("valid", "test"))
    return {
        "valid": store.errors((tried,), "valid"), "before": store.errors((tried,), "test"),
        "test": store.errors((refitted,), "test"),
    }  # fmt: skip


def in_bin(number: int, names: Sequence[str], store: RatingStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure RMSE on the users of a bin; bins hold equally many, from few training ratings to many.

    On the test where there is one, else on validation. Also the first model's figure less the second's, and the third's
    less the fourth's.

    Args:
        specs: of each of the names in turn, one model, or one for each group of users left out of training, who are
            predicted from which movies they rated; squared errors of all groups are added up.
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
