"""Trained recommenders that tables share, and how each is trained."""

import hashlib
import shutil
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from benchmarks.core import store as kept
from benchmarks.data.rating_sets import RatingSet
from benchmarks.ratings import scales as cf_scales
from benchmarks.ratings.scales import Scale
from jaxcf import train
from jaxcf.contract import NO_PAIRS, BySGD, KnownUsers, UsesRatedItems
from jaxcf.data import splits
from jaxcf.data.ratings import EMPTY, Dataset, Pairs, Ratings, digest, take
from jaxcf.metrics import Evaluation, evaluate
from jaxcf.models import get
from jaxcf.recommender import Model
from jaxfit.errors import UserError
from jaxfit.run_dir.training import Run
from jaxfit.shuffle import permutation
from jaxfit.trainer import Trainer

GROUPS = 5  # of users, each left out of one training (Figure 5.5)
NETFLIX_MILLIONS = 99  # of training ratings


class Part(NamedTuple):
    """Trained on part of the training ratings, told of whom else users rated (§5.4.4).

    millions: of the thesis' 99 million; told: so many of `sets` equal sets that the other training ratings are cut
    into, without their stars.
    """

    millions: int
    told: int = 0
    sets: int = 1

    def ends(self, ratings: int) -> tuple[int, int]:
        """How many of so many training ratings are trained on, and with how many more the rated set ends."""
        first = round(ratings * self.millions / NETFLIX_MILLIONS)
        return first, first + (ratings - first) * self.told // self.sets


@dataclass(frozen=True)
class Spec:
    """A model that a table asks for. With data, scale and recipe it determines the trained model."""

    kind: str  # of jaxcf.models.MODELS
    size: int = 0  # features or hidden units; 0: a bias model
    seed: int = 1
    rated: Literal["train", "all"] = "train"  # conditional models: also told of validation and test pairs?
    part: Part | None = None
    group: int | None = None  # of users left out of training and validation, and asked
    split: int = (
        0  # of the data: 0 as it comes, then other ways to split it (of all of it: no part, no group)
    )

    def label(self) -> str:
        """A short name for people, part of the folder's name."""
        name = f"{self.kind}{self.size or ''}" + ("-told" if self.rated == "all" else "")
        name += "" if self.part is None else f"-{self.part.millions}of99"
        name += f"-told{self.part.told}of{self.part.sets}" if self.part and self.part.told else ""
        name += "" if self.group is None else f"-without{self.group + 1}"
        name += f"-split{self.split}" if self.split else ""
        return f"{name}-seed{self.seed}" if self.size else name


@dataclass
class Trained:
    """A model on the shelf, and its predictions (stars, not clipped) of validation and test ratings.

    Of a model that a group of users was left out of: of that group's validation ratings.
    """

    directory: Path
    info: dict[str, Any] = field(repr=False)  # what benchmark.json holds: identity, times, commit, history

    def stars(self, part: Literal["valid", "test"]) -> np.ndarray:
        """Predictions, float32 [ratings of that part]."""
        return np.load(self.directory / f"stars-{part}.npy")


class Shelf:
    """Recommenders of one data set, scale and recipe under a work folder."""

    thesis = "the Netflix Prize, 99 million ratings"  # what the thesis' figures are of
    unit = "ratings"
    stand_in = ""

    def __init__(self, ratings: RatingSet, scale: Scale, recipe: str, work: Path, show: bool = False):
        self.data, self.asked, _ = ratings
        self._splits = {0: ratings}
        self.scale, self.recipe, self.work, self.show = scale, recipe, work, show
        self.name = self.data.name
        self._found: dict[Spec, Trained] = {}

    def describe(self) -> dict[str, Any]:
        """The data as a record names it."""
        data, test = self.data, self.data.test
        return {
            "name": data.name, "sha256": data.sha256, "note": data.note,
            "users": data.catalogue.num_users, "items": data.catalogue.num_items,
            "ratings": {
                "train": len(data.train.user), "valid": len(data.valid.user),
                "test": 0 if test is None else len(test.user),
            },
        }  # fmt: skip

    def size(self) -> str:
        """How much data there is, in words."""
        told = self.describe()
        ratings = ", ".join(f"{count:,} for {part}" for part, count in zip(
            ("training", "validation", "the test"), told["ratings"].values(), strict=True
        ))  # fmt: skip
        return f"{told['users']:,} users, {told['items']:,} movies; ratings: {ratings}"

    def scores(self, history: list[dict[str, Any]]) -> dict[str, list[float]]:
        """A model's validation, epoch by epoch, as a record names it: of predictions not clipped."""
        return {"validation_rmse": [round(float(np.sqrt(line["valid"])), 5) for line in history]}

    def ratings(self, spec: Spec) -> RatingSet:
        """The data, split as for this model.

        Raises UserError for data that are split in one way only.
        """
        if spec.split not in self._splits:
            again = self._splits[0].again
            if again is None:
                raise UserError(f"{self.name} has but one split", "--data", "choose another data set")
            self._splits[spec.split] = again(spec.split)
        return self._splits[spec.split]

    def identity(self, spec: Spec) -> dict[str, Any]:
        """All that determines the trained model."""
        data, asked, _ = self.ratings(spec)
        known: dict[str, Any] = {
            "kind": spec.kind,
            "data": {"name": self.name, "sha256": data.sha256},
            "part": spec.part,
            "group": spec.group,
        }
        recipe, config = cf_scales.recipe(spec.kind, self.recipe, self.scale)
        if recipe is None:
            return known | {"config": cf_scales.full_config(spec.kind, config)}
        config |= {"num_hidden" if spec.kind in ("rbm", "crbm") else "num_features": spec.size}
        known |= {"seed": spec.seed, "recipe": asdict(recipe)}
        known |= {"config": cf_scales.full_config(spec.kind, config)}
        if get(spec.kind).capability(UsesRatedItems):
            pairs = hashlib.sha256(np.stack(asked).astype("<i4").tobytes()).hexdigest()
            known["rated"] = spec.rated if spec.rated == "train" else {"train and": pairs}
        return known

    def directory(self, spec: Spec) -> Path:
        """Where the model is or will be."""
        return kept.folder(self.work, self.name, spec.label(), self.identity(spec))

    def is_there(self, spec: Spec) -> bool:
        """Whether the model need not be trained any more."""
        return kept.is_there(self.directory(spec))

    def get(self, spec: Spec) -> Trained:
        """The trained model: found, gone on with where a run was interrupted, or trained from the start."""
        if spec not in self._found:
            directory, identity = self.directory(spec), self.identity(spec)
            info = kept.keep(
                directory, spec.label(), identity, lambda: self._train(spec, directory, identity)
            )
            self._found[spec] = Trained(directory, info)
        return self._found[spec]

    def evaluate(self, spec: Spec, part: Literal["valid", "test"] = "valid") -> Evaluation:
        """The errors of a model's predictions; of no ratings where the data set has no test."""
        data = self.ratings(spec).data
        ratings = data.valid if part == "valid" else data.test
        if ratings is None:
            return Evaluation()
        return evaluate(self.get(spec).stars(part), ratings.stars, data.catalogue.scale)

    @cached_property
    def groups(self) -> np.ndarray:
        """Which of the GROUPS each user is in, int32 [users] (Figure 5.5)."""
        return splits.groups(jax.random.key(0), self.data.catalogue.num_users, GROUPS)

    @cached_property
    def _rank(self) -> np.ndarray:
        """Training ratings in random order: parts are beginnings of it, so that larger ones contain smaller."""
        return np.asarray(permutation(jax.random.key(0), len(self.data.train.user)))

    def setting(self, spec: Spec) -> tuple[Dataset, Pairs]:
        """What a model is trained on, and the pairs that it is told of beside."""
        data, asked, _ = self.ratings(spec)
        told = asked if spec.rated == "all" else NO_PAIRS
        if spec.part is not None:
            first, last = spec.part.ends(len(data.train.user))
            rest = (self._rank >= first) & (self._rank < last)
            told = Pairs(data.train.user[rest], data.train.item[rest])
            data = _with(data, take(data.train, self._rank < first), data.valid)
        if spec.group is not None:
            train, valid = (take(p, self.groups[p.user] != spec.group) for p in (data.train, data.valid))
            data = _with(data, train, valid)
        return data, told

    def _train(self, spec: Spec, directory: Path, identity: dict[str, Any]) -> kept.Made:
        data, told = self.setting(spec)
        recipe, _ = cf_scales.recipe(spec.kind, self.recipe, self.scale)
        if recipe is None and directory.exists():  # a closed form that was interrupted
            shutil.rmtree(directory)
        trained = train.train(
            spec.kind, data, directory, recipe=recipe, config=identity["config"], rated=told, seed=spec.seed,
            run=Run(resume=True, show=self.show),
        )  # fmt: skip
        split = self.ratings(spec).data
        for part, ratings in (("valid", split.valid), ("test", split.test)):
            if ratings is None:
                continue
            kept.save(directory, f"stars-{part}", self._stars(spec, trained.model, ratings))
        return kept.Made(trained.seconds, len(data.train.user))

    def _stars(self, spec: Spec, model: Model, ratings: Ratings) -> np.ndarray:
        """Predictions of ratings; those of users left out are told only whom these rated in all of training."""
        expected = model.predictor
        if spec.group is not None:
            known, ratings = (take(p, self.groups[p.user] == spec.group) for p in (self.data.train, ratings))
            rated = Pairs(known.user, known.item)
            expected = model.fold_in(KnownUsers(self.data.catalogue.num_users, EMPTY, rated))
        return model.stars(expected, ratings.user, ratings.item, clip=False)

    def below(self, spec: Spec) -> tuple[Spec, ...]:
        """No model here is made from others."""
        return ()

    def shape(self, spec: Spec) -> tuple[Any, ...] | None:
        """What decides how long training takes; None for closed forms."""
        if not isinstance(get(spec.kind).solver(), BySGD):
            return None
        return spec.kind, spec.size, spec.rated, spec.part, spec.group is None

    def validation(self) -> int:
        """How many ratings are scored after each epoch."""
        return len(self.data.valid.user)

    def trainer(self, spec: Spec) -> tuple[Trainer, str]:
        """The training of a model of this shape, at its first step, and the model's name."""
        record = get(spec.kind)
        fitting = record.solver()
        data, told = self.setting(spec)
        recipe, _ = cf_scales.recipe(spec.kind, self.recipe, self.scale)
        assert recipe is not None
        assert isinstance(fitting, BySGD)
        mean = float(np.mean(data.train.stars, dtype=np.float64))
        config = record.configure(data.catalogue, mean, self.identity(spec)["config"])
        setting = fitting.prepare(jax.random.key(0), data, told, config)
        trainer = Trainer(setting.program, setting.params, setting.train, recipe, jax.random.key(1), None)
        return trainer, spec.label().replace(f"-seed{spec.seed}", "")

    def parameters(self, spec: Spec) -> int:
        """How many numbers a model learns."""
        record, catalogue = get(spec.kind), self.ratings(spec).data.catalogue
        config = record.configure(catalogue, 0.0, self.identity(spec)["config"])
        return sum(int(np.prod(x.shape)) for x in jax.tree.leaves(record.shapes(config)))


def _with(data: Dataset, train: Ratings, valid: Ratings) -> Dataset:
    return data._replace(train=train, valid=valid, sha256=digest(train, valid, data.catalogue))
