"""What is measured of trained recommenders: RMSE of clipped predictions, in stars (§5.4.3), also by bins of users."""

from collections.abc import Sequence

import numpy as np

from benchmarks.core.table import Measured
from benchmarks.ratings.store import RatingStore, Spec
from jaxcf import models
from jaxcf.contract import UsesRatedItems
from jaxcf.data.ratings import take
from jaxcf.metrics import Bins, Evaluation, bins, by_group, evaluate

BINS = 10


def errors(store: RatingStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure RMSE on validation ratings, and on the test's where there is one; count what goes into the model.

    parameters: in millions; rated: thousands of pairs of user and movie that a model of a share of the training
    ratings conditions on.
    """
    (spec,) = specs
    data = store.ratings(spec).data
    measured = {"parameters": store.num_parameters(spec) / 1e6}
    for part, ratings in (("valid", data.valid), ("test", data.test)):
        if ratings is not None:
            measured[part] = evaluate(store.get(spec).predictions(part), ratings.stars, data.catalogue.scale).rmse
    if spec.trained_on is not None and models.get(spec.model).capability(UsesRatedItems) is not None:
        measured["rated"] = spec.trained_on.ends(len(store.data.train.user))[1] / 1e3
    return measured


def in_bin(number: int, names: Sequence[str], store: RatingStore, specs: tuple[Spec, ...]) -> Measured:
    """Measure validation RMSE on the users of a bin; bins hold equally many, from few training ratings to many.

    specs: of each of the names in turn, one model, or one for each group of users left out of training, who are
    predicted from which movies they rated; squared errors of all groups are added up.
    """
    users, each = user_bins(store), len(specs) // len(names)
    first, last = (number, number) if number < BINS else (0, -1)  # the last row is of all users
    measured = {"fewest": float(users.fewest[first]), "most": float(users.most[last])}
    for i, name in enumerate(names):
        of_groups = [per_bin(store, spec, users)[number] for spec in specs[i * each : (i + 1) * each]]
        found = sum(of_groups, Evaluation())
        if found.count:
            measured[name] = found.rmse
    return measured


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
    return [*of_bins, evaluate(stars, valid.stars, scale)]
