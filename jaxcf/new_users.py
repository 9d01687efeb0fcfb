"""Users that were not in training: what is known of one, by the ids of items, and the prior with which it is fitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jaxcf.contract import KnownUsers, UsesRatedItems
from jaxcf.data.formats.bad_lines import LARGEST, are_ratings
from jaxcf.data.ratings import Pairs, Ratings
from jaxcf.models import require
from jaxcf.solvers.als import FOLD_IN_DECAY
from jaxfit.errors import NotInTraining, Unsupported, UserError

if TYPE_CHECKING:
    from jaxcf.recommender import Model


def known(model: Model, ratings: Mapping[Any, float], rated: Iterable[Any] = ()) -> KnownUsers:
    """Return what is known of one new user.

    Args:
        model: a trained one.
        ratings: item id -> stars, or counts.
        rated: ids of items whose ratings are unknown; for models of counts, each counts as 1. Counts of an item that is
            named more than once, as 7 and "7" or in both arguments, are added up.

    Raises:
        UserError: ratings are not a mapping by item, or an item has several; rated is not a list of items; stars are
            off the scale, or counts not finite, negative or too large.
        NotInTraining: an item was not in training.
        Unsupported: the model does not use items without stars.
    """
    if not isinstance(ratings, Mapping):
        raise UserError("ratings of a user are not stars by item", "ratings", 'give them so: {"242": 5, "302": 3}')
    if isinstance(rated, str) or not isinstance(rated, Iterable):
        raise UserError("rated is not a list of items", "rated", f"give one: [{rated!r}]")
    ids, values, others = list(ratings), list(ratings.values()), list(rated)
    counts = model.record.takes_counts(model.positive)
    if counts:
        ids, values, others = [*ids, *others], values + [1.0] * len(others), []
    try:
        stars = np.array([float(value) for value in values], np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UserError("the stars of an item are not a number", "ratings", "give numbers") from None
    if others and model.record.implicit:
        what = f"this {model.name} takes items by their stars, at least {model.positive:g}"
        raise Unsupported(what, "--rated", f"give them: {others[0]}:{model.positive:g}")
    if others:
        require(model.record, UsesRatedItems, "an item without stars")
    index = model.catalogue.item_index([*ids, *others]) if ids or others else np.zeros(0, np.int32)
    unknown = [item for item, place in zip([*ids, *others], index, strict=True) if place < 0]
    if unknown:
        raise NotInTraining(f"no item {unknown[0]!r} was in training", do="leave it out")
    _require_ratings(model, ids, stars)
    mine, others_index = index[: len(ids)], index[len(ids) :]
    distinct, first, place = np.unique(mine, return_index=True, return_inverse=True)
    if len(distinct) < len(mine):
        if not counts:
            repeated = ids[int(np.setdiff1d(np.arange(len(mine)), first)[0])]
            raise UserError(f"item {repeated!r} has more than one rating", "ratings", "give one of them")
        mine, stars = distinct, np.bincount(place, stars).astype(np.float64)
    taken = model.taken(Ratings(np.zeros(len(mine), np.int32), mine, stars.astype(np.float32)))
    return KnownUsers(1, taken, Pairs(np.zeros(len(others), np.int32), others_index))


def prior(model: Model, present: NDArray[np.bool_]) -> tuple[Any, Mapping[str, float]]:
    """Return the configuration and the decay with which new users, or new items, are fitted.

    With one decay for each rating, the prior of a row with few ratings is too weak where training stopped early or
    where stochastic gradients moved such a row little. A new row gets the prior of a row with the mean number of
    ratings.

    Args:
        model: a trained model; without a recipe's decay, the prior is that of its configuration.
        present: which users, or items, have training ratings, [users + 1] or [items + 1].
    """
    if not model.decay or getattr(model.config, "prior", "") != "per-rating":
        return model.config, model.decay
    usual = max(1.0, len(model.known.ratings.user) / max(1, int(np.count_nonzero(present))))
    decay = {name: usual * (value or FOLD_IN_DECAY) for name, value in model.decay.items()}
    return replace(model.config, prior="per-row"), decay


def _require_ratings(model: Model, ids: list[Any], stars: NDArray[np.float64]) -> None:
    """Raise UserError for the first value that is no rating of the model's scale, or no count, as in files."""
    scale = None if model.record.implicit else model.catalogue.scale
    wrong = ~are_ratings(stars, scale)
    if wrong.any():
        place = int(np.argmax(wrong))
        item, value = ids[place], f"{stars[place]:g}"
        if scale is not None:
            raise UserError(f"{value} stars of {item!r} are not on the scale", do=f"ratings are {scale}")
        what = f"{value} of {item!r} is not finite, or too large"
        raise UserError(what, "ratings", f"give a number up to {LARGEST:g}")
