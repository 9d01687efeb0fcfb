"""What is measured of trained recommenders: RMSE of clipped predictions, in stars (§5.4.3), also by bins of users."""

from collections.abc import Sequence

import numpy as np

from benchmarks.core.store import Part
from benchmarks.core.table import Measured
from benchmarks.ratings import adapter
from benchmarks.ratings.store import RatingStore, Spec
from jaxcf.data.ratings import take
from jaxcf.metrics import Bins, Evaluation, bins, by_group

BINS = 10
PARTS: tuple[Part, ...] = ("valid", "test")


def errors(store: RatingStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure RMSE on validation ratings, and on the test's where there is one."""
    (spec,) = specs
    found = {part: store.evaluate(spec, part) for part in PARTS}
    return {part: evaluation.rmse for part, evaluation in found.items() if evaluation.count}


def errors_and_size(store: RatingStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure likewise, with the millions of parameters of the model."""
    return {"parameters": store.num_parameters(specs[0]) / 1e6, **errors(store, specs)}


def errors_and_rated(store: RatingStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure likewise, with how many thousands of pairs of user and movie the model conditions on."""
    (spec,) = specs
    pairs = {}
    if spec.trained_on is not None and adapter.uses_rated_items(spec.model):
        pairs = {"rated": spec.trained_on.ends(len(store.data.train.user))[1] / 1e3}
    return {**pairs, **errors(store, specs)}


def in_bin(number: int, names: Sequence[str], store: RatingStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure validation RMSE on the users of a bin; bins hold equally many, from few training ratings to many."""
    users = user_bins(store)
    values = {name: per_bin(store, spec, users)[number] for name, spec in zip(names, specs, strict=True)}
    return _of_bin(users, number, values)


def left_out_in_bin(number: int, names: Sequence[str], store: RatingStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure likewise users whose ratings were not trained on: predicted from which movies they rated.

    specs: of each model in turn, one for each group of users left out; squared errors of all groups are added up.
    """
    users, each = user_bins(store), len(specs) // len(names)
    values = {}
    for i, name in enumerate(names):
        of_groups = [per_bin(store, spec, users)[number] for spec in specs[i * each : (i + 1) * each]]
        values[name] = sum(of_groups, Evaluation())
    return _of_bin(users, number, values)


def user_bins(store: RatingStore) -> Bins:
    """Sort users with training ratings into bins, by how many they have."""
    data = store.data
    return bins(np.bincount(data.train.user, minlength=data.catalogue.num_users), BINS)


def per_bin(store: RatingStore, spec: Spec, users: Bins) -> list[Evaluation]:
    """Measure the errors of a model on each bin's validation ratings, and last on all."""
    valid = store.data.valid
    if spec.group is not None:
        valid = take(valid, store.groups[valid.user] == spec.group)
    stars, scale = store.get(spec).predictions("valid"), store.data.catalogue.scale
    of_bins = by_group(stars, valid.stars, scale, users.of_user[valid.user], BINS)
    return [*of_bins, by_group(stars, valid.stars, scale, np.zeros(len(stars), np.int32), 1)[0]]


def _of_bin(users: Bins, number: int, values: dict[str, Evaluation]) -> Measured:
    known = {name: found.rmse for name, found in values.items() if found.count}
    if number == BINS:  # all users
        return {"fewest": float(users.fewest[0]), "most": float(users.most[-1]), **known}
    return {"fewest": float(users.fewest[number]), "most": float(users.most[number]), **known}
