"""Items that were not in training: a trained model with them, from what users of training rated them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from jaxcf import new_users
from jaxcf.contract import KnownUsers, TakesNewItems
from jaxcf.data.ids import find, union
from jaxcf.data.ratings import Catalogue, Ratings, join, take
from jaxcf.models import require
from jaxfit.devices.precision import full_float32
from jaxfit.errors import UserError

if TYPE_CHECKING:
    from jaxcf.recommender import Model


@full_float32()
def extended(model: Model, ratings: Ratings, catalogue: Catalogue) -> Model:
    """Return a model with new items; nothing is trained.

    Each new item gets its best vector given those of the users (a ridge regression).

    Args:
        model: a trained model.
        ratings: of the new items; those by other users, and of items that were in training, are ignored.
        catalogue: the ids of the users and items of `ratings`.

    Raises:
        UserError: no ratings are left, or the model takes no new items.
    """
    extend = require(model.record, TakesNewItems, "--new-items").extend
    old, known = model.catalogue, model.known.ratings
    user = old.user_index(catalogue.users)
    trained = model.with_ratings.item[old.item_index(catalogue.items)]
    new = take(ratings, model.in_training.user[user][ratings.user] & ~trained[ratings.item])
    if len(new.user) == 0:
        what = "no rating is of an item that was not in training by a user that was"
        raise UserError(what, do="give such ratings")
    ids = union(old.items, catalogue.items[np.unique(new.item)])
    place = find(ids, old.items)
    new = new._replace(user=user[new.user], item=find(ids, catalogue.items)[new.item], time=None)
    prior, decay = new_users.prior(model, model.with_ratings.item)
    params, config = extend(model.params, prior, place, new, len(ids), decay)
    rated = model.known.rated._replace(item=place[model.known.rated.item])
    everything = join(known._replace(item=place[known.item]), new)
    users = KnownUsers(old.num_users, everything, rated)
    config = replace(config, **{"prior": model.config.prior} if config.prior != model.config.prior else {})
    return replace(model, catalogue=Catalogue(old.users, ids, old.scale), params=params, config=config, known=users)
