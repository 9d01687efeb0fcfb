"""A trained model of any kind: predictions, rankings, recommendations, similar items, new users and new items.

model = jaxcf.load("out/pmf")
model.predict(["196", "186"], ["242", "302"])     # stars
model.recommend("196", top=10)                    # what a user of the training ratings has not rated
model.recommend(ratings={"242": 5, "302": 3})     # for anybody else
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxcf import metrics, new_items, new_users, ranking, top_items
from jaxcf.contract import (
    FoldsIn,
    HasFactors,
    KnownUsers,
    Predictor,
    PredictsExactly,
    PredictsRatings,
    RanksItems,
    RatingModel,
    Scorer,
    SimilarItems,
)
from jaxcf.data.given import Table, read
from jaxcf.data.ratings import Catalogue, Present, Ratings, present, require_known, take
from jaxcf.metrics import Evaluation
from jaxcf.models import require
from jaxcf.models.pairwise import by_factors, by_stars
from jaxcf.ranking import Ranking
from jaxcf.top_items import Answer, Known, highest, known_items
from jaxfit.devices.precision import full_float32
from jaxfit.errors import NotInTraining, UserError
from jaxfit.recipe import require_number


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model with the ids of its users and items and what it knows of its users.

    Attributes:
        record: what kind of model it is.
        catalogue: the ids of users and items, and the scale of ratings.
        info: what `config.json` holds.
        params: the parameters, as its model file describes them.
        config: its Config.
        known: the users of the catalogue, with their training ratings.
    """

    record: RatingModel
    catalogue: Catalogue
    info: dict[str, Any]
    params: Any
    config: Any
    known: KnownUsers

    def __repr__(self) -> str:
        users, items, ratings = self.catalogue.num_users, self.catalogue.num_items, len(self.known.ratings.user)
        kind = "positives" if self.record.implicit else "ratings"
        return f"<{self.name}: {users:,} users, {items:,} items, {ratings:,} {kind}>"

    @property
    def name(self) -> str:
        """The model's name: "pmf", "rbm", …."""
        return self.record.name

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # without what is cached

    def has_user(self, user: Any) -> bool:
        """Return whether a user of this id was in training."""
        return bool(self.in_training.user[self.catalogue.one_user(user)])

    def has_item(self, item: Any) -> bool:
        """Return whether an item of this id was in training, or was added by `with_new_items`."""
        return bool(self.in_training.item[self.catalogue.one_item(item)])

    @cached_property
    def with_ratings(self) -> Present:
        """Which users and items have training ratings."""
        return present(self.catalogue, self.known.ratings)

    @cached_property
    def in_training(self) -> Present:
        """Which users and items were in training: with ratings, or with rated pairs that training was given."""
        return present(self.catalogue, self.known.ratings, self.known.rated)

    @cached_property
    def predictor(self) -> Predictor:
        """The predictor for the users of the catalogue, by index; stars are not clipped."""
        return self.predictor_given(self.known)

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer for the users of the catalogue, by index: what items are ranked by."""
        return self.scorer_given(self.known)

    @property
    def positive(self) -> float | None:
        """Minimum stars of a positive, of a model of implicit data; None: ratings are counts."""
        return getattr(self.config, "positive", None)

    def taken(self, ratings: Ratings) -> Ratings:
        """Return ratings, or counts, as the model takes them (`RatingModel.taken`)."""
        return self.record.taken(ratings, self.positive)

    def predict(
        self, users: ArrayLike, items: ArrayLike, clip: bool = True, known_only: bool = True
    ) -> NDArray[np.float32]:
        """Predict the stars of pairs of a user and an item.

        Args:
            users: ids, [n].
            items: ids, [n].
            clip: whether predictions are clipped to the scale.
            known_only: whether users and items that were not in training are errors; otherwise predictions are made
                without them, from the bias of the other one, or the mean.

        Returns:
            Stars, float32 [n].

        Raises:
            UserError: users and items are not two lists of ids of the same length, or the model predicts no ratings.
            NotInTraining: `known_only`, and a user or an item was not in training.
        """
        try:
            shape, other = np.shape(users), np.shape(items)
        except ValueError:  # lists of different lengths inside
            shape = other = ()
        if len(shape) != 1 or shape != other:
            what = "users and items are not two lists of the same length"
            raise UserError(what, do='give a user and an item for each pair: predict(["196"], ["242"])')
        user, item = self.catalogue.user_index(users), self.catalogue.item_index(items)
        if known_only:
            require_known("user", user, users, self.in_training.user)
            require_known("item", item, items, self.in_training.item)
        return self.stars(self.predictor, user, item, clip)

    def evaluate(self, ratings: Table, **how: Any) -> Evaluation:
        """Evaluate predictions of ratings, which are given as to `jaxcf.train`.

        Ratings of users or items that were not in training are predicted without them.

        Args:
            ratings: as for `jaxcf.train`.
            **how: how they are read: fields of `jaxcf.data.options.Reading`, such as `columns` and `duplicates`.

        Raises:
            UserError: the ratings cannot be read, or are off the model's scale.
            Unsupported: the model predicts no ratings; use `rank`.
        """
        predictor = self.predictor
        asked = self._read(ratings, how)
        return metrics.evaluate(predictor(asked.user, asked.item), asked.stars, self.catalogue.scale)

    def rank(self, ratings: Table, top: int = 10, relevant: float = -np.inf, **how: Any) -> Ranking:
        """Evaluate the ranking, for each user, of all items that they have not rated, or taken, in training.

        Pairs that were given to training as `rated` are ranked: they may be among those to be found.

        Args:
            ratings: what is to be found, given as to `jaxcf.train`; users and items that were not in training are left
                out.
            top: number of places.
            relevant: minimum stars of a relevant item; by default all items of `ratings` are relevant.
            **how: as for `evaluate`.

        Raises:
            UserError: the ratings cannot be read, or are off the model's scale; `top` or `relevant` is out of bounds.
        """
        require_number(top, "top", int)
        if relevant != -np.inf:
            high = {} if self.record.implicit else {"high": self.catalogue.scale.high}
            require_number(relevant, "relevant", float, low=-np.inf, **high)
        asked = self.taken(self._read(ratings, how))
        found = take(asked, (asked.user >= 0) & (asked.item >= 0))
        sizes = self.catalogue.num_users, self.catalogue.num_items
        return ranking.recommended(self.scorer, self.known.ratings, found, *sizes, top, relevant)

    def _read(self, ratings: Table, how: Mapping[str, Any]) -> Ratings:
        """Read ratings, or counts, with the indices of the catalogue, -1 for users and items that it lacks."""
        counts, scale = self.record.takes_counts(self.positive), None if self.record.implicit else self.catalogue.scale
        return read(ratings, self.catalogue, scale, counts, how)

    def stars(self, predictor: Predictor, user: np.ndarray, item: np.ndarray, clip: bool = True) -> NDArray[np.float32]:
        """Predict stars, [n], for indices by a predictor of this model's users, or by one of `fold_in`."""
        found = predictor(np.asarray(user, np.int32), np.asarray(item, np.int32))
        return self.catalogue.scale.clip(found).astype(np.float32) if clip else found

    def fold_in(self, users: KnownUsers, exact: bool = False) -> Predictor:
        """Return the predictor for users that were not in training, given what is known of them; nothing is trained.

        Args:
            users: what is known of them.
            exact: as in `predictor_given`.

        Raises:
            Unsupported: the model predicts no ratings, cannot fold in users, or has no exact predictions besides
                others.
        """
        require(self.record, PredictsRatings, "predicting ratings")
        if exact:
            return self._predictor(PredictsExactly, "--exact", users)
        return self._folded_in(users)

    def predictor_given(self, users: KnownUsers, exact: bool = False) -> Predictor:
        """Return the predictor for the users of the catalogue, given what is known of them.

        Args:
            users: what is known of them; `known.with_rated(pairs)` adds rated pairs, or replaces them.
            exact: whether RBMs predict by Eq. 5.9 in place of mean field, Eq. 5.10-5.11.

        Raises:
            Unsupported: the model predicts no ratings, or has no exact predictions besides others.
        """
        if exact:
            return self._predictor(PredictsExactly, "--exact", users)
        return self._predictor(PredictsRatings, "predicting ratings", users)

    @full_float32()
    def scorer_given(self, users: KnownUsers, new: bool = False) -> Scorer:
        """Return the scorer given what is known of users: by expected stars, or by the model's scores.

        Args:
            users: those of the catalogue, or new ones.
            new: whether they were not in training.

        Raises:
            Unsupported: the users are new, and the model cannot fold them in.
        """
        if not self.record.implicit:
            predictor = self.fold_in(users) if new else self.predictor_given(users)
            scorer = by_stars(predictor, self.catalogue.num_items)
            factors = None if new else self.record.capability(HasFactors)
            if factors is not None:
                scorer = by_factors(partial(factors.factors, self.params, self.config, users), scorer)
            return full_float32()(scorer)
        if new:
            return self._folded_in(users)
        ranks = require(self.record, RanksItems, "ranking items")
        return full_float32()(ranks.scorer(self.params, self.config, users))

    @full_float32()
    def _predictor(self, kind: type[Any], task: str, *given: Any) -> Any:
        return full_float32()(require(self.record, kind, task).predictor(self.params, self.config, *given))

    def _folded_in(self, users: KnownUsers) -> Any:
        config, decay = new_users.prior(self, self.with_ratings.user)
        return replace(self, config=config)._predictor(FoldsIn, "folding users in", users, decay)

    @property
    def decay(self) -> Mapping[str, float]:
        """The decay of each parameter in training, by name."""
        return (self.info.get("recipe") or {}).get("decay", {})

    def with_new_items(self, ratings: Ratings, catalogue: Catalogue) -> "Model":
        """Return a model that also has items that were not in training; see `jaxcf.new_items.extended`."""
        return new_items.extended(self, ratings, catalogue)

    def new_user(self, ratings: Mapping[Any, float], rated: Iterable[Any] = ()) -> KnownUsers:
        """Return what is known of one new user, by the ids of items; see `jaxcf.new_users.known`."""
        return new_users.known(self, ratings, rated)

    def recommend(
        self,
        user: Any = None,
        *,
        ratings: Mapping[Any, float] | None = None,
        rated: Iterable[Any] | None = None,
        top: int = 10,
    ) -> list[Answer]:
        """Return the unrated items with the highest expected stars, or scores, for a user; ties are in order of ids.

        Args:
            user: id of a training user; with `positive`, items that they gave fewer stars may be recommended.
            ratings: item id -> stars, or counts, of any other user; {} for one without ratings.
            rated: ids of further items that this other user rated, for models that use rated items or counts.
            top: maximum number of items.

        Raises:
            NotInTraining: the user was not in training.
            UserError: no user is given, or several, or both a user and ratings; as `new_user`.
        """
        if (user is None) == (ratings is None and rated is None):
            what = "no user is named" if user is None else "both a user and ratings of a new one are given"
            raise UserError(what, "recommend", "give an id, or ratings or rated items of a new user")
        if user is None:
            new = self.new_user({} if ratings is None else ratings, () if rated is None else rated)
            return next(self.best(self.scorer_given(new, new=True), new, [0], top))
        index = self.catalogue.one_user(user)
        if not self.in_training.user[index]:
            raise NotInTraining(f"no user {user!r} was in training", do="give their ratings instead")
        return next(self.best(self.scorer, self.known, [index], top))

    def best(self, scorer: Scorer, users: KnownUsers, chosen: Sequence[int], top: int) -> Iterator[list[Answer]]:
        """Yield what `recommend` returns for each of the chosen users, in blocks of users.

        Args:
            scorer: scorer of `users`.
            users: their known ratings and rated items are not recommended.
            chosen: indices of some of `users`.
            top: maximum number of items.
        """
        known = self._known_items if users is self.known else known_items(users)
        for places, scores in top_items.best(scorer, known, chosen, self.catalogue.num_items, top):
            yield self._answers(places, scores if self.record.implicit else self.catalogue.scale.clip(scores))

    @cached_property
    def _known_items(self) -> list[Known]:
        return known_items(self.known)

    def vectors(self) -> NDArray[np.float32]:
        """Return the vectors of all items of the catalogue: [items, D].

        Raises:
            Unsupported: the model has none.
        """
        return require(self.record, SimilarItems, "vectors").vectors(self.params, self.config)

    @full_float32()
    def similar(self, item: Any, top: int = 10) -> list[Answer]:
        """Return the items whose vectors are nearest by cosine, among those with training ratings.

        Args:
            item: id of an item.
            top: maximum number of items.

        Raises:
            NotInTraining: no training rating is of the item.
            Unsupported: the model has no item vectors.
        """
        vectors = require(self.record, SimilarItems, "similar").vectors(self.params, self.config)
        index = self.catalogue.one_item(item)
        rated = self.with_ratings.item
        if not rated[index]:
            what = f"no item {item!r} was in training" + (" with ratings" if self.in_training.item[index] else "")
            raise NotInTraining(what, do="name another")
        length = np.linalg.norm(vectors, axis=1)
        cosine = np.einsum("nd,d->n", vectors, vectors[index]) / np.maximum(length * length[index], 1e-30)
        cosine[~rated[:-1]] = cosine[index] = -np.inf
        places = highest(cosine, top)
        return self._answers(places, cosine[places])

    def _answers(self, places: np.ndarray, values: np.ndarray) -> list[Answer]:
        return list(map(Answer, self.catalogue.items[places].tolist(), values.tolist()))
