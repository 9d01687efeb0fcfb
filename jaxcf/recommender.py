"""A trained model, whatever its kind: predictions, recommendations, similar items, and users it never saw.

model = jaxcf.load("out/pmf")
model.predict(["196", "186"], ["242", "302"])     # stars
model.recommend("196", top=10)                    # what a user of the training ratings has not rated
model.recommend(ratings={"242": 5, "302": 3})     # for anybody else
"""

import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jaxcf.data.ratings import Catalogue, Pairs, Ratings, Scale, find, grouped, join, take, union
from jaxcf.kinds import KINDS, PAIRS_AT_ONCE, Audience, Expected, Kind
from jaxfit.errors import UserError
from jaxfit.run_dir import checkpoint
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.metadata import PARAMETERS, read_info

CATALOGUE, KNOWN = "catalogue.npz", "known.npz"
NO_PAIRS = Pairs(np.zeros(0, np.int32), np.zeros(0, np.int32))


class Answer(NamedTuple):
    """A recommended or similar item: its id; stars (clipped) or cosine."""

    item: Any
    value: float


@dataclass(frozen=True, eq=False)
class Model:
    """A recommender with the ids of its users and items and what it knows of its users.

    kind: "pmf", "rbm", …; info: what `config.json` holds; params, config: of the kind's model file.
    """

    kind: str
    catalogue: Catalogue
    info: dict[str, Any]
    params: Any
    config: Any
    known: Audience
    expected: Expected  # for the users of the catalogue, by index, not clipped

    def predict(self, users: ArrayLike, items: ArrayLike, clip: bool = True) -> NDArray[np.float32]:
        """Expected stars of pairs of ids, [n], clipped to the scale.

        An id that was not in training (`catalogue.user_index` gives -1) is predicted from what the model knows
        without it: the other's bias, or the mean.
        """
        user, item = self.catalogue.user_index(users), self.catalogue.item_index(items)
        return self.stars(self.expected, user, item, clip)

    def stars(
        self, expected: Expected, user: np.ndarray, item: np.ndarray, clip: bool = True
    ) -> NDArray[np.float32]:
        """Stars for indices by `expected` (of this model's users, or of `fold_in`'s), [n]."""
        found = expected(np.asarray(user, np.int32), np.asarray(item, np.int32))
        return self.catalogue.scale.clip(found).astype(np.float32) if clip else found

    def fold_in(self, audience: Audience, exact: bool = False) -> Expected:
        """Expected stars for users that were not in training, from what is known of them; nothing is trained.

        exact: as `given` says.
        """
        if exact:
            return self._exact(audience)
        return self.described.folded(self.params, self.config, audience, self._decay)

    def given(self, audience: Audience, exact: bool = False) -> Expected:
        """Expected stars for the users of the catalogue when what is known of them is this (conditional models).

        `known.told(pairs)` is an audience that is told of more pairs, or of others. exact: RBMs by Eq. 5.9, where
        they are else by mean field, Eq. 5.10-5.11; raises UserError for other kinds.
        """
        if exact:
            return self._exact(audience)
        return self.described.trained(self.params, self.config, audience)

    def _exact(self, audience: Audience) -> Expected:
        if self.described.exact is None:
            what = f"a model of kind {self.kind} has one way to predict, and it is exact"
            raise UserError(what, "--exact", "leave it out")
        return self.described.exact(self.params, self.config, audience)

    @property
    def _decay(self) -> Mapping[str, float]:
        return (self.info.get("recipe") or {}).get("decay", {})

    def with_items(self, ratings: Ratings, catalogue: Catalogue) -> "Model":
        """The same model with items that were not in training, from what users of training rated them (PMF).

        Each is at its best vector given the users' (a ridge regression); nothing is trained. Ratings by other users
        say nothing of an item; those of items that were in training are not read.

        Raises UserError where no ratings are left, and for models of other kinds.
        """
        if self.described.grown is None:
            raise UserError(
                f"a model of kind {self.kind} takes no new items", do="train pmf, svd or svd-bias"
            )
        old, known = self.catalogue, self.known.ratings
        seen = np.append(np.bincount(known.item, minlength=old.num_items) > 0, False)  # at -1: new
        user = old.user_index(catalogue.users)
        new = take(ratings, (user[ratings.user] >= 0) & ~seen[old.item_index(catalogue.items)[ratings.item]])
        if len(new.user) == 0:
            what = "no rating is of an item that was not in training by a user that was"
            raise UserError(what, do="give such ratings")
        ids = union(old.items, catalogue.items[np.unique(new.item)])
        place = find(ids, old.items)
        new = new._replace(user=user[new.user], item=find(ids, catalogue.items)[new.item], time=None)
        params, config = self.described.grown(self.params, self.config, place, new, len(ids), self._decay)
        rated = self.known.rated._replace(item=place[self.known.rated.item])
        everything = join(known._replace(item=place[known.item]), new)
        grown = Catalogue(old.users, ids, old.scale)
        return of(self.kind, grown, self.info, params, config, Audience(old.num_users, everything, rated))

    @property
    def described(self) -> Kind:
        """What is known of models of this kind."""
        return KINDS[self.kind]

    def audience(self, ratings: Mapping[Any, float], rated: Iterable[Any] = ()) -> Audience:
        """One new user: stars by item id, and items that were rated in a way that is not known.

        Raises UserError for an item that was not in training, for stars off the scale, and for items without stars
        where the model is not conditional.
        """
        ids, stars = list(ratings), np.array(list(ratings.values()), np.float32)
        others = list(rated)
        if others and not self.described.conditional:
            what = f"a model of kind {self.kind} learns nothing from items without stars"
            raise UserError(what, do="give their stars, or train cpmf or crbm")
        index = self.catalogue.item_index([*ids, *others]) if ids or others else np.zeros(0, np.int32)
        if np.any(index < 0):
            unknown = [*ids, *others][int(np.argmax(index < 0))]
            raise UserError(f"no item {unknown!r} was in training", do="leave it out")
        if not np.all(self.catalogue.scale.contains(stars)):
            off = stars[np.argmin(self.catalogue.scale.contains(stars))]
            raise UserError(f"{off:g} stars are not on the scale", do=f"ratings are {self.catalogue.scale}")
        zeros = np.zeros(len(index), np.int32)
        n = len(ids)
        return Audience(1, Ratings(zeros[:n], index[:n], stars), Pairs(zeros[n:], index[n:]))

    def recommend(
        self,
        user: Any = None,
        *,
        ratings: Mapping[Any, float] | None = None,
        rated: Iterable[Any] = (),
        top: int = 10,
    ) -> list[Answer]:
        """The items of highest expected stars that the user has not rated; equal ones in the order of their ids.

        user: an id of the training ratings; or else ratings (item id -> stars) and rated (item ids) of anybody.
        Raises UserError for a user that was not in training.
        """
        if ratings is not None or user is None:
            audience = self.audience(ratings or {}, rated)
            return next(self.best(self.fold_in(audience), audience, [0], top))
        (index,) = self.catalogue.user_index([user])
        if index < 0:
            raise UserError(f"no user {user!r} was in training", do="give their ratings instead")
        return next(self.best(self.expected, self.known, [int(index)], top))

    def best(
        self, expected: Expected, audience: Audience, users: Sequence[int], top: int
    ) -> Iterator[list[Answer]]:
        """`recommend` for each of some users of an audience, by blocks of them."""
        number = self.catalogue.num_items
        items = np.arange(number, dtype=np.int32)
        lists = [
            (part.item, *grouped(part.user, audience.number)) for part in (audience.ratings, audience.rated)
        ]
        size = max(1, PAIRS_AT_ONCE // number)
        for block in (np.asarray(users[at : at + size], np.int32) for at in range(0, len(users), size)):
            found = expected(np.repeat(block, number), np.tile(items, len(block)))
            stars = np.array(found).reshape(len(block), number)
            for row, user in zip(stars, block, strict=True):
                for item, offsets, order in lists:
                    row[item[order[offsets[user] : offsets[user + 1]]]] = -np.inf
            clipped = self.catalogue.scale.clip(stars)
            for row, shown, order in zip(
                stars, clipped, np.argsort(-stars, axis=1, kind="stable"), strict=True
            ):
                chosen = [i for i in order[:top] if np.isfinite(row[i])]
                yield [Answer(self.catalogue.items[i].item(), float(shown[i])) for i in chosen]

    def similar(self, item: Any, top: int = 10) -> list[Answer]:
        """The items whose vectors are nearest by cosine; raises UserError for an unknown item, and without vectors."""
        vectors = self.described.items(self.params, self.config)
        if vectors is None:
            raise UserError(f"a model of kind {self.kind} has no item vectors", do="train pmf, cpmf or rbm")
        (index,) = self.catalogue.item_index([item])
        if index < 0:
            raise UserError(f"no item {item!r} was in training", do="name another")
        length = np.linalg.norm(vectors, axis=1)
        cosine = vectors @ vectors[index] / np.maximum(length * length[index], 1e-30)
        cosine[index] = -np.inf
        order = np.argsort(-cosine, kind="stable")[:top]
        return [
            Answer(self.catalogue.items[i].item(), float(cosine[i])) for i in order if np.isfinite(cosine[i])
        ]


def save_known(directory: Path, catalogue: Catalogue, ratings: Ratings, rated: Pairs) -> None:
    """Write what a model must remember of its users: ids, scale, training ratings, other rated pairs."""
    with replacing(directory / CATALOGUE) as aside, aside.open("wb") as file:
        np.savez(
            file, users=catalogue.users, items=catalogue.items, scale=np.array(catalogue.scale, np.float64)
        )
    with replacing(directory / KNOWN) as aside, aside.open("wb") as file:
        np.savez(
            file, user=ratings.user, item=ratings.item, stars=ratings.stars, rated_user=rated.user,
            rated_item=rated.item,
        )  # fmt: skip


def load(directory: str | Path) -> Model:
    """Read a model from the folder that `jaxcf train` wrote.

    Raises UserError where there is none, where it is damaged, or where its training has not finished.
    """
    directory = Path(directory)
    info = read_info(directory)
    if info["model"] not in KINDS:
        raise UserError(f"a model of kind {info['model']} is no recommender", directory, "use jaxlm")
    if not (directory / PARAMETERS).is_dir():
        raise UserError("the model's training has not finished", directory, "go on with it by --resume")
    kind = KINDS[info["model"]]
    config = kind.config(**_tuples(info["config"]))
    saved = _arrays(directory / CATALOGUE)
    catalogue = Catalogue(saved["users"], saved["items"], Scale(*map(float, saved["scale"])))
    saved = _arrays(directory / KNOWN)
    known = Audience(
        catalogue.num_users,
        Ratings(saved["user"], saved["item"], saved["stars"]),
        Pairs(saved["rated_user"], saved["rated_item"]),
    )
    params = checkpoint.load_model(directory / PARAMETERS, kind.like(config))
    return of(info["model"], catalogue, info, params, config, known)


def of(
    kind: str, catalogue: Catalogue, info: dict[str, Any], params: Any, config: Any, known: Audience
) -> Model:
    """A model from its parts."""
    expected = KINDS[kind].trained(params, config, known)
    return Model(kind, catalogue, info, params, config, known, expected)


def _tuples(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
            for name, value in config.items()}  # fmt: skip


def _arrays(path: Path) -> Mapping[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"the model is damaged: {error}", path, "train it again") from error
