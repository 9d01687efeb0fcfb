"""Trained recommenders that tables share: what determines each, and how it is trained."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from benchmarks.core.changes import changed
from benchmarks.core.store import Outcome, Store, size_field
from benchmarks.core.verdict import Scores
from benchmarks.data import sets
from benchmarks.data.rating_sets import RatingSet
from benchmarks.measurement import rounding
from benchmarks.ratings.scales import SCALES, RecommenderScale, rating_set, speed_ratings
from jaxcf import models as registry
from jaxcf.contract import FROM_DATA, NO_PAIRS, BySGD, KnownUsers, RatingModel, TrainingSetup, UsesRatedItems
from jaxcf.data import splits
from jaxcf.data.ratings import EMPTY, Dataset, Pairs, Ratings, Units, digest, join, take
from jaxcf.recommender import Model
from jaxcf.training import train
from jaxfit.draws import permutation
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe
from jaxfit.run_dir.training import Run
from jaxfit.trainer import Trainer

NETFLIX_MILLIONS = 99  # of training ratings
USUAL = 50  # features or hidden units in the thesis, unless said otherwise


class Share(NamedTuple):
    """Part of the training ratings, and more pairs of user and movie that a model conditions on (§5.4.4).

    Attributes:
        millions: millions of the thesis' 99 million that are trained on.
        added: number of the equal sets that are conditioned on, without their stars.
        sets: number of equal sets that the other training ratings are cut into.
    """

    millions: int
    added: int = 0
    sets: int = 1

    def ends(self, ratings: int) -> tuple[int, int]:
        """Return how many of `ratings` training ratings are trained on, and how many are in the rated set."""
        first = round(ratings * self.millions / NETFLIX_MILLIONS)
        return first, first + (ratings - first) * self.added // self.sets


@dataclass(frozen=True)
class Spec:
    """A recommender that a table asks for."""

    model: str
    size: int = 0  # features or hidden units; 0: a bias model
    seed: int = 1
    rated: Literal["train", "all"] = "train"  # rated pairs of a conditional model; "all": also of validation and test
    trained_on: Share | None = None  # None: all training ratings
    group: int | None = None  # of users left out of training and validation, and predicted
    # 0: the data set's own; from 1: other splits, which go with neither a share nor a group
    split: int = 0
    # fields of its recipe and Config that differ from the recipe's: ("decay.W", 4.0) is decay["W"]
    changes: tuple[tuple[str, float], ...] = ()
    stopping: bool = True  # early, by validation; False: by some training ratings, whose error hardly ever rises
    # if given, this is the one of these models that validation chooses, trained again on training and validation
    # ratings, with the size and changes of that one; model, split, seed, rated and products are the same in all
    refit: tuple["Spec", ...] = ()
    products: str = ""  # of matrices: "float32" or "bfloat16" in the programs of an accelerator; "": as usual

    def with_seed(self, seed: int) -> "Spec":
        """Return the same model with another seed; bias models have none."""
        return replace(self, seed=seed) if self.size else self

    def label(self) -> str:
        """Return a short name for people, part of the folder's name."""
        size = "" if self.refit else self.size or ""
        name = f"{self.model}{size}" + ("-all-pairs" if self.rated == "all" else "")
        if self.trained_on is not None:
            millions, added, sets = self.trained_on
            name += f"-{millions}of99" + (f"-rated{added}of{sets}" if added else "")
        name += "" if self.group is None else f"-without{self.group + 1}"
        name += f"-split{self.split}" if self.split else ""
        name += "-refit" if self.refit else ""
        name += self.products and f"-{self.products}"
        return f"{name}-seed{self.seed}" if self.size else name


class RatingStore(Store):
    """Recommenders; their predictions are stars, not clipped, float32 [ratings of a part].

    A model trained without a group of users predicts that group's ratings only. Models of implicit data have none.
    """

    registered = registry.REGISTRY
    chapters = "chapter 5"
    scales = SCALES
    data_sets = ("planted", *sets.RATINGS)
    thesis_data = "the Netflix Prize, 99 million ratings"
    unit = "ratings"
    resampled = "users"
    sources = ("jaxcf.training",)
    load = staticmethod(rating_set)
    speed_data = staticmethod(speed_ratings)
    digest_of_data = staticmethod(lambda data: "")  # its own sha256 is of the ratings as they were read

    def __init__(self, ratings: RatingSet, scale: RecommenderScale, recipe: str, work: Path, show: bool = False):
        super().__init__(ratings.data, self.adjusted(scale, recipe), recipe, work, show)
        self.held_out, self.name, self.num_valid = ratings.held_out, self.data.name, len(self.data.valid.user)
        self.parts = ("valid",) if self.data.test is None else ("valid", "test")
        self._splits = {0: ratings}

    @staticmethod
    def adjusted(scale: RecommenderScale, recipe: str) -> RecommenderScale:
        """Return a scale with all sizes, or, for the recipe of the thesis, without models that have no such recipe."""
        return replace(scale, others=False) if recipe == "thesis" else replace(scale, largest=None)

    @staticmethod
    def by_engine(model: RatingModel) -> bool:
        """Return whether a model is trained step by step."""
        return isinstance(model.solver(), BySGD)

    @staticmethod
    def example(model: str, scale: RecommenderScale) -> Spec:
        """Return a model in the size that is usual at a scale."""
        sizes = {"num_features": scale.features, "num_hidden": scale.hidden}
        field = size_field(registry.get(model).config)
        return Spec(model, sizes[field][USUAL] if field else 0)

    def describe(self, specs: Iterable[Spec] = ()) -> dict[str, Any]:
        """Describe the data as a record does; if models were trained on several splits, the first of these."""
        splits = {spec.split: spec for spec in specs} or {0: Spec("")}
        data = self.ratings(splits[min(splits)]).data
        several = f"{len(splits)} splits, the first: " if len(splits) > 1 else ""
        return {
            "name": data.name, "sha256": data.sha256, "note": several + data.note,
            "users": data.catalogue.num_users, "items": data.catalogue.num_items,
            "ratings": {
                "train": len(data.train.user), "valid": len(data.valid.user),
                "test": 0 if data.test is None else len(data.test.user),
            },
        }  # fmt: skip

    def size(self, specs: Iterable[Spec] = ()) -> str:
        """Say how much data these models were trained on."""
        known = self.describe(specs)
        ratings = ", ".join(f"{count:,} for {part}" for part, count in zip(
            ("training", "validation", "the test"), known["ratings"].values(), strict=True
        ))  # fmt: skip
        return f"{known['users']:,} users, {known['items']:,} movies; ratings: {ratings}"

    def ratings(self, spec: Spec) -> RatingSet:
        """Return the data, split as for this model.

        Raises:
            UserError: the data set has only one split.
        """
        if spec.split not in self._splits:
            again = self._splits[0].again
            if again is None:
                raise UserError(f"{self.name} has but one split", "--data", "choose another data set")
            self._splits[spec.split] = again(spec.split)
        return self._splits[spec.split]

    def identity(self, spec: Spec) -> dict[str, Any]:
        """Return all that determines the trained model, apart from the source code."""
        data, held_out, _ = self.ratings(spec)
        recipe, config = self._recipe(spec)
        known: dict[str, Any] = {
            "kind": spec.model,
            "data": {"name": self.name, "sha256": data.sha256},
            "part": spec.trained_on,
            "group": spec.group,
        }
        if spec.group is not None:  # who is in it depends on how many groups there are
            known["groups"] = self.scale.groups
        if spec.refit:  # recipe and configuration are decided in training
            known |= {"seed": spec.seed, "refit": [self.identity(one) for one in spec.refit]}
        else:
            known["config"] = config
            if recipe is None:
                return known
            known |= {"seed": spec.seed, "recipe": asdict(recipe)}
            known |= {} if spec.stopping else {"stopping": False}
        known |= rounding.identity(spec.products)
        if registry.get(spec.model).capability(UsesRatedItems) is not None:
            pairs = hashlib.sha256(np.stack(held_out).astype("<i4").tobytes()).hexdigest()
            known["rated"] = spec.rated if spec.rated == "train" else {"train and": pairs}
        return known

    def _recipe(self, spec: Spec) -> tuple[Recipe | None, dict[str, Any]]:
        """Return the recipe of a model, None for a closed form, and its configuration."""
        recipe, config = configured(spec.model, self.recipe, spec.size)
        return changed(recipe and self.scale.adapt(spec.model, self.recipe, recipe), config, spec.changes)

    @cached_property
    def groups(self) -> np.ndarray:
        """The group of each user, int32 [users] (Figure 5.5)."""
        return splits.groups(jax.random.key(0), self.data.catalogue.num_users, self.scale.groups)

    @cached_property
    def _rank(self) -> np.ndarray:
        """The rank of each training rating in a random order; a share is its beginning, so that shares are nested."""
        number = len(self.data.train.user)
        return np.asarray(permutation(jax.random.key(0), number, number))

    def training_data(self, spec: Spec) -> tuple[Dataset, Pairs]:
        """Return what a model is trained on, and the further pairs that it conditions on."""
        data, held_out, _ = self.ratings(spec)
        rated = held_out if spec.rated == "all" else NO_PAIRS
        if spec.trained_on is not None:
            first, last = spec.trained_on.ends(len(data.train.user))
            rest = (self._rank >= first) & (self._rank < last)
            rated = Pairs(data.train.user[rest], data.train.item[rest])
            data = _with(data, take(data.train, self._rank < first), data.valid)
        if spec.refit or not spec.stopping:
            train = join(data.train, data.valid) if spec.refit else data.train
            data = _with(data, train, take(train, np.arange(len(data.valid.user))))
        if spec.group is not None:
            train, valid = (take(p, self.groups[p.user] != spec.group) for p in (data.train, data.valid))
            data = _with(data, train, valid)
        return data, rated

    def below(self, spec: Spec) -> tuple[Spec, ...]:
        """Return the models from which validation chooses one."""
        return spec.refit

    def chosen(self, specs: Sequence[Spec]) -> Spec:
        """Return the one of some models that is best on validation."""
        return min(specs, key=lambda spec: self.errors((spec,), "valid").value)

    def _recipe_of_choice(self, spec: Spec) -> tuple[Recipe | None, dict[str, Any]]:
        """Return the recipe of the model that validation chose, and its configuration.

        The number of epochs is that which was best on validation; where the rate falls to 0, it is the recipe's.
        """
        recipe, config = self._recipe(spec)
        if recipe is None or recipe.anneal:
            return recipe, config
        scores = [line["valid"] for line in self.get(spec).info["history"]]
        return replace(recipe, epochs=1 + int(np.argmin(scores))), config

    def fit(self, spec: Spec, directory: Path) -> Outcome:
        """Train a model, or go on with its training where a run was interrupted."""
        data, rated = self.training_data(spec)
        recipe, config = self._recipe_of_choice(self.chosen(spec.refit)) if spec.refit else self._recipe(spec)
        with rounding.accelerated(spec.products):
            trained = train(
                spec.model, data, directory, rated=rated, recipe=recipe, config=config, seed=spec.seed,
                run=Run(resume=True, show=self.show),
            )  # fmt: skip
        split = self.ratings(spec).data
        parts = {"valid": split.valid} | ({} if split.test is None else {"test": split.test})
        if trained.model.record.implicit:  # it predicts no ratings
            parts = {}
        predictions = {part: self._stars(spec, trained.model, ratings) for part, ratings in parts.items()}
        decided = {"config": config, **({} if recipe is None else {"recipe": asdict(recipe)})} if spec.refit else {}
        return Outcome(trained.seconds, predictions, decided)

    def _stars(self, spec: Spec, model: Model, ratings: Ratings) -> np.ndarray:
        """Predict ratings; for users left out of training, only from which movies they rated in the training data."""
        predictor = model.predictor
        if spec.group is not None:
            known, ratings = (take(p, self.groups[p.user] == spec.group) for p in (self.data.train, ratings))
            pairs = Pairs(known.user, known.item)
            predictor = model.fold_in(KnownUsers(self.data.catalogue.num_users, EMPTY, pairs))
        return model.stars(predictor, ratings.user, ratings.item, clip=False)

    def shape(self, spec: Spec) -> tuple[Any, ...]:
        """Return what decides how long training takes."""
        slower = tuple(change for change in spec.changes if change[0] in ("batch_size", "epochs"))
        return spec.model, spec.size, spec.rated, spec.trained_on, spec.group is None, spec.products, slower

    def trainer(self, spec: Spec) -> Trainer:
        """Return a trainer of a model of this shape, before its first step."""
        data, rated = self.training_data(spec)
        recipe, config = self._recipe(spec)
        assert recipe is not None
        return trainer(spec.model, data, recipe, config, rated)

    def errors(
        self, specs: Sequence[Spec], part: str, inside: np.ndarray | None = None, movies: np.ndarray | None = None
    ) -> Scores:
        """Return each user's squared errors of clipped predictions.

        Args:
            specs: one model, or one for each group of users left out of training, whose errors are added up.
            part: "valid" or "test".
            inside: bool [users], the users that count; None: all.
            movies: bool [items], likewise.
        """
        total, count = np.zeros((2, self.data.catalogue.num_users))
        for spec in specs:
            ratings = getattr(self.ratings(spec).data, part)
            if spec.group is not None:
                ratings = take(ratings, self.groups[ratings.user] == spec.group)
            stars = self.data.catalogue.scale.clip(self.get(spec).predictions(part).astype(np.float64))
            counts = np.ones(len(stars)) if movies is None else movies[ratings.item].astype(float)
            total += np.bincount(ratings.user, counts * (stars - ratings.stars) ** 2, len(total))
            count += np.bincount(ratings.user, counts, len(total))
        kept = np.ones_like(count) if inside is None else inside
        return Scores(total * kept, count * kept, np.sqrt, seeded=bool(specs[0].size))

    def num_parameters(self, spec: Spec) -> int:
        """Return the number of parameters of a model."""
        record, (_, config) = registry.get(spec.model), self._recipe(spec)
        shapes = record.shapes(record.configure(self.ratings(spec).data.catalogue, Units(), config))
        return sum(int(np.prod(array.shape)) for array in jax.tree.leaves(shapes))


def _with(data: Dataset, train: Ratings, valid: Ratings) -> Dataset:
    return data._replace(train=train, valid=valid, sha256=digest(train, valid, data.catalogue))


def configured(model: str, recipe: str, size: int | None = None) -> tuple[Recipe | None, dict[str, Any]]:
    """Return a recipe of a model, None for a closed form, and its configuration without fields that the data decide.

    Args:
        size: features or hidden units; None: as the model's Config has it.
    """
    record = registry.get(model)
    chosen, config = record.recipes[recipe]
    field = size_field(record.config)
    sized = {field: size} if field and size is not None else {}
    of_data = {f.name: 2 for f in fields(record.config) if f.name in FROM_DATA}
    whole = asdict(record.config(**{**config, **sized, **record.fixed, **of_data}))
    return chosen, {name: value for name, value in whole.items() if name not in FROM_DATA}


def setup(model: str, data: Dataset, config: Mapping[str, Any], rated: Pairs = NO_PAIRS) -> tuple[TrainingSetup, Any]:
    """Return what the engine trains, and the whole Config."""
    record = registry.get(model)
    full = record.configure(data.catalogue, Units.of(data.train.stars, data.catalogue.scale), config)
    fitting = record.solver()
    assert isinstance(fitting, BySGD)
    return fitting.prepare(jax.random.key(0), data, rated, full), full


def trainer(model: str, data: Dataset, recipe: Recipe, config: Mapping[str, Any], rated: Pairs = NO_PAIRS) -> Trainer:
    """Return a trainer of a model before its first step, outside of any folder.

    Args:
        rated: pairs to condition on in addition to the training ratings.
    """
    ready, _ = setup(model, data, config, rated)
    return Trainer(ready.program, ready.params, ready.train, recipe, jax.random.key(1), None)
