"""All that the benchmarks ask of jaxcf's models: which there are, their recipes, training and predicting."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.core.models import ListedModel, size_field
from jaxcf import models as registry
from jaxcf import train as jaxcf_train
from jaxcf.contract import (
    FROM_DATA,
    NO_PAIRS,
    BySGD,
    KnownUsers,
    Predictor,
    PredictsRatings,
    TrainingSetup,
    UsesRatedItems,
)
from jaxcf.data.ratings import EMPTY, Catalogue, Dataset, Pairs, Ratings
from jaxcf.recommender import Model
from jaxcf.train import Trained
from jaxfit import fit as engine
from jaxfit.recipe import Recipe
from jaxfit.run_dir.run import Run
from jaxfit.trainer import Trainer

SOURCES = ("jaxcf.train",)  # modules that determine a trained model, in addition to its own
NONE = NO_PAIRS


@cache
def models() -> dict[str, ListedModel]:
    """The registry."""
    listed = {}
    for name, entry in registry.MODELS.items():
        record = registry.get(name)
        solver = record.solver()
        fitting = "engine" if isinstance(solver, BySGD) else solver.name
        module = entry.partition(":")[0]
        listed[name] = ListedModel(name, record.about, record.source, module, fitting)
    return listed


def recipe(model: str, name: str, size: int | None) -> tuple[Recipe | None, dict[str, Any]]:
    """A recipe of a model, None for a closed form, and its configuration, but for what the data decide.

    size: features or hidden units; None: as the model's Config has it.
    """
    record = registry.get(model)
    chosen, config = record.recipes[name]
    field = size_field(record.config)
    of_data = {f.name: 2 for f in fields(record.config) if f.name in FROM_DATA}
    given = {**config, **({field: size} if field and size is not None else {}), **record.fixed, **of_data}
    whole = asdict(record.config(**given))
    return chosen, {name: value for name, value in whole.items() if name not in FROM_DATA}


def size_name(model: str) -> str | None:
    """What a model's size is called in its configuration."""
    return size_field(registry.get(model).config)


def uses_rated_items(model: str) -> bool:
    """Whether a model conditions on which items a user rated."""
    return registry.get(model).capability(UsesRatedItems) is not None


def train(
    model: str,
    data: Dataset,
    directory: Path,
    *,
    rated: Pairs,
    recipe: Recipe | None,
    config: Mapping[str, Any],
    seed: int,
    run: Run,
) -> Trained:
    """Train a model in its folder; rated: pairs of user and item known in addition to the training ratings."""
    return jaxcf_train.train(model, data, directory, recipe=recipe, config=config, rated=rated, seed=seed, run=run)


def _prepared(model: str, data: Dataset, rated: Pairs, config: Mapping[str, Any]) -> tuple[TrainingSetup, Any]:
    """What the engine trains, and the whole Config."""
    record = registry.get(model)
    mean = float(np.mean(data.train.stars, dtype=np.float64))
    full = record.configure(data.catalogue, mean, config)
    fitting = record.solver()
    assert isinstance(fitting, BySGD)
    return fitting.prepare(jax.random.key(0), data, rated, full), full


def trainer(model: str, data: Dataset, rated: Pairs, recipe: Recipe, config: Mapping[str, Any]) -> Trainer:
    """Return a model's training at its first step, outside of any folder."""
    ready, _ = _prepared(model, data, rated, config)
    return Trainer(ready.program, ready.params, ready.train, recipe, jax.random.key(1), None)


def fit(model: str, data: Dataset, recipe: Recipe, config: Mapping[str, Any]) -> Predictor:
    """Train a model outside of any folder, validated after every epoch; predict with its best parameters."""
    ready, full = _prepared(model, data, NONE, config)
    key = jax.random.key(1)
    fitted = engine.fit(ready.program, ready.params, ready.train, ready.valid, recipe=recipe, key=key)
    users = KnownUsers(data.catalogue.num_users, data.train)
    params, predicts = jax.block_until_ready(fitted.params), registry.get(model).capability(PredictsRatings)
    assert predicts is not None
    return lambda user, item: predicts.predictor(params, full, users)(user, item)


def of_rated_alone(model: Model, users: int, rated: Ratings) -> Predictor:
    """A trained model's predictions for users that it was not trained on, from which items they rated alone."""
    return model.fold_in(KnownUsers(users, EMPTY, Pairs(rated.user, rated.item)))


def num_parameters(model: str, catalogue: Catalogue, config: Mapping[str, Any]) -> int:
    """How many numbers a model learns."""
    record = registry.get(model)
    shapes = record.shapes(record.configure(catalogue, 0.0, config))
    return sum(int(np.prod(array.shape)) for array in jax.tree.leaves(shapes))
