"""What is measured of trained recommenders: RMSE of clipped predictions, in stars (§5.4.3), also by bins of users."""

from collections.abc import Sequence

import numpy as np

from benchmarks.core.table import Measured
from benchmarks.ratings.models import Shelf, Spec
from jaxcf.data.ratings import take
from jaxcf.metrics import Bins, Evaluation, bins, by_group

BINS = 10


def errors(shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Of one model: RMSE on validation ratings, and on the test's where there is one."""
    (spec,) = specs
    parts = {part: shelf.evaluate(spec, part) for part in ("valid", "test")}
    return {part: found.rmse for part, found in parts.items() if found.count}


def errors_and_size(shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Likewise, with the millions of parameters of the model."""
    return {"parameters": shelf.parameters(specs[0]) / 1e6, **errors(shelf, specs)}


def errors_and_told(shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Likewise, with how many thousands of pairs of user and movie the model conditions on."""
    (spec,) = specs
    known = (
        {"rated": spec.part.ends(len(shelf.data.train.user))[1] / 1e3}
        if spec.kind == "crbm" and spec.part
        else {}
    )
    return {**known, **errors(shelf, specs)}


def in_bin(number: int, names: Sequence[str], shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Validation RMSE on the users of a bin; bins hold equally many users, from few training ratings to many."""
    users = user_bins(shelf)
    values = {name: per_bin(shelf, spec, users)[number] for name, spec in zip(names, specs, strict=True)}
    return _of_bin(users, number, values)


def left_out_in_bin(number: int, names: Sequence[str], shelf: Shelf, specs: tuple[Spec, ...]) -> Measured:
    """Likewise for users none of whose ratings were trained on, who are told whom they rated in all of training.

    specs: of each model in turn, one for each group of users left out; squared errors of all groups are added up.
    """
    users, each = user_bins(shelf), len(specs) // len(names)
    values = {}
    for i, name in enumerate(names):
        of_groups = [per_bin(shelf, spec, users)[number] for spec in specs[i * each : (i + 1) * each]]
        values[name] = sum(of_groups, Evaluation())
    return _of_bin(users, number, values)


def user_bins(shelf: Shelf) -> Bins:
    """Users with training ratings, by how many they have."""
    data = shelf.data
    return bins(np.bincount(data.train.user, minlength=data.catalogue.num_users), BINS)


def per_bin(shelf: Shelf, spec: Spec, users: Bins) -> list[Evaluation]:
    """The errors of a model on each bin's validation ratings, and last on all."""
    valid = shelf.data.valid
    if spec.group is not None:
        valid = take(valid, shelf.groups[valid.user] == spec.group)
    stars, scale = shelf.get(spec).stars("valid"), shelf.data.catalogue.scale
    parts = by_group(stars, valid.stars, scale, users.of_user[valid.user], BINS)
    return [*parts, by_group(stars, valid.stars, scale, np.zeros(len(stars), np.int32), 1)[0]]


def _of_bin(users: Bins, number: int, values: dict[str, Evaluation]) -> Measured:
    known = {name: found.rmse for name, found in values.items() if found.count}
    if number == BINS:  # all users
        return {"fewest": float(users.fewest[0]), "most": float(users.most[-1]), **known}
    return {"fewest": float(users.fewest[number]), "most": float(users.most[number]), **known}
