"""Who took what: ratings as positives of implicit data (plays, purchases), each with a count.

A pair of user and item that is not a positive says little: the user may not know the item.
"""

from dataclasses import dataclass, replace

import numpy as np

from jaxcf.data.ratings import Catalogue, Dataset, Ratings, RatingScale, digest, take
from jaxfit.errors import UserError
from jaxfit.recipe import option


@dataclass(frozen=True, kw_only=True)
class FromRatings:
    """How ratings become positives: part of the Config of a model of implicit data."""

    positive: float | None = option(
        None,
        "only ratings of at least so many stars are positives, each of count 1 (default: each line is one, its value "
        "the count; without a value 1)",
        low=-np.inf,
        first=True,
    )


COUNTS = "give counts of at least 0"


def positives(
    ratings: Ratings, least: float | None, advice: str = COUNTS, catalogue: Catalogue | None = None
) -> Ratings:
    """Return the positives among ratings, with their counts as stars.

    Args:
        ratings: stars or counts.
        least: minimum stars of a rating that is a positive, with a count of 1; None: the values are counts, and those
            of 0 are not positives.
        advice: what to do about a negative count.
        catalogue: by which the message about it names user and item.

    Raises:
        UserError: a count is negative.
    """
    if least is not None:
        found = take(ratings, ratings.stars >= least)
        return found._replace(stars=np.ones_like(found.stars))
    if np.any(ratings.stars < 0):
        lowest = int(np.argmin(ratings.stars))
        user, item = ratings.user[lowest], ratings.item[lowest]
        where = None
        if catalogue is not None and min(user, item) >= 0:
            where = f"of user {catalogue.users[user]} and item {catalogue.items[item]}"
        raise UserError(f"{ratings.stars[lowest]:g} is not a count", where, advice)
    return take(ratings, ratings.stars > 0)


def of_dataset(data: Dataset, least: float | None) -> Dataset:
    """Return a data set of `positives`; its scale is the range of the training counts.

    Raises:
        UserError: as `positives`; no training rating is a positive.
    """
    advice = f"{COUNTS}, or say from which value on ratings are positives: --positive N"
    train, valid = (positives(part, least, advice, data.catalogue) for part in (data.train, data.valid))
    if len(train.user) == 0:
        what = "no training rating is a positive"
        raise UserError(what, data.name, "lower --positive" if least is not None else "give counts above 0")
    test = None if data.test is None else positives(data.test, least, advice, data.catalogue)
    counts = RatingScale(float(train.stars.min()), float(train.stars.max()), 0.0)
    catalogue = replace(data.catalogue, scale=counts)
    sha256 = digest(train, valid, catalogue)
    return data._replace(train=train, valid=valid, test=test, catalogue=catalogue, sha256=sha256)
