"""All that the benchmarks ask of jaxcf's models: which there are, their recipes, training and predicting."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.core.models import ListedModel, size_field
from jaxcf import train as jaxcf_train
from jaxcf.data.ratings import EMPTY, Catalogue, Dataset, Pairs, Ratings
from jaxcf.kinds import FROM_DATA, KINDS, Audience, sizes
from jaxcf.recommender import NO_PAIRS, Model
from jaxcf.train import Trained
from jaxfit import fit as engine
from jaxfit.recipe import Recipe
from jaxfit.run_dir.training import Run
from jaxfit.trainer import Trainer

SOURCES = ("jaxcf.train",)  # modules that determine a trained model, beside its own
NONE = NO_PAIRS
Predictor = Callable[
    [np.ndarray, np.ndarray], np.ndarray
]  # indices of users and of items -> stars, not clipped
_DESCRIBED = {
    "user-bias": ("jaxcf.models.bias", "Mnih 2010, §5.4"),
    "item-bias": ("jaxcf.models.bias", "Mnih 2010, §5.4"),
    "bias": ("jaxcf.models.bias", "Mnih 2010, §5.4"),
    "svd": ("jaxcf.models.pmf", "Mnih 2010, §5.4.5"),
    "svd-bias": ("jaxcf.models.pmf", "Mnih 2010, §5.4.5"),
    "pmf": ("jaxcf.models.pmf", "Mnih 2010, §5.3.1"),
    "cpmf": ("jaxcf.models.cpmf.model", "Mnih 2010, §5.3.2"),
    "rbm": ("jaxcf.models.rbm.model", "Mnih 2010, §5.2.1"),
    "crbm": ("jaxcf.models.crbm", "Mnih 2010, §5.2.2"),
}


@cache
def models() -> dict[str, ListedModel]:
    """Return the registry."""
    return {
        name: ListedModel(
            name, KINDS[name].about, source, module, "closed form" if KINDS[name].setting is None else "engine"
        )
        for name, (module, source) in _DESCRIBED.items()
    }  # fmt: skip


def recipe(model: str, name: str, size: int | None) -> tuple[Recipe | None, dict[str, Any]]:
    """A recipe of a model, None for a closed form, and its configuration, but for what the data decide.

    size: features or hidden units; None: as the model's Config has it.
    """
    known = KINDS[model]
    chosen, config = known.recipes[name]
    field = size_field(known.config)
    of_data = {f.name: 2 for f in fields(known.config) if f.name in FROM_DATA}
    given = {**config, **({field: size} if field and size is not None else {}), **known.fixed, **of_data}
    whole = asdict(known.config(**given))
    return chosen, {name: value for name, value in whole.items() if name not in FROM_DATA}


def size_name(model: str) -> str | None:
    """Return what a model's size is called in its configuration."""
    return size_field(KINDS[model].config)


def uses_rated_items(model: str) -> bool:
    """Return whether a model conditions on which items a user rated."""
    return KINDS[model].conditional


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
    """Train a model in its folder; rated: pairs of user and item known beside the training ratings."""
    return jaxcf_train.train(
        model, data, directory, recipe=recipe, config=config, rated=rated, seed=seed, run=run
    )


def full_config(model: str, catalogue: Catalogue, config: Mapping[str, Any], mean: float = 0.0) -> Any:
    """Return a model's Config, with what the data decide."""
    return KINDS[model].config(**{**config, **sizes(KINDS[model], catalogue, mean)})


def _prepared(model: str, data: Dataset, rated: Pairs, config: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what the engine trains (program, parameters, data for training and validation), and the whole Config."""
    make = KINDS[model].setting
    assert make is not None
    mean = float(np.mean(data.train.stars, dtype=np.float64))
    full = full_config(model, data.catalogue, config, mean)
    return make(jax.random.key(0), data, rated, full), full


def trainer(model: str, data: Dataset, rated: Pairs, recipe: Recipe, config: Mapping[str, Any]) -> Trainer:
    """Return a model's training at its first step, outside of any folder."""
    ready, _ = _prepared(model, data, rated, config)
    return Trainer(ready.program, ready.params, ready.train, recipe, jax.random.key(1), None)


def fit(model: str, data: Dataset, recipe: Recipe, config: Mapping[str, Any]) -> Predictor:
    """Train a model outside of any folder, validated after every epoch; predict with its best parameters."""
    ready, full = _prepared(model, data, NONE, config)
    key = jax.random.key(1)
    fitted = engine.fit(ready.program, ready.params, ready.train, ready.valid, recipe=recipe, key=key)
    known = Audience(data.catalogue.num_users, data.train, NONE)
    params = jax.block_until_ready(fitted.params)
    return lambda user, item: KINDS[model].trained(params, full, known)(user, item)


def of_rated_alone(model: Model, users: int, rated: Ratings) -> Predictor:
    """Predict for users that a model was not trained on, from which items they rated alone."""
    return model.fold_in(Audience(users, EMPTY, Pairs(rated.user, rated.item)))


def num_parameters(model: str, catalogue: Catalogue, config: Mapping[str, Any]) -> int:
    """Count the numbers that a model learns."""
    shapes = KINDS[model].like(full_config(model, catalogue, config))
    return sum(int(np.prod(array.shape)) for array in jax.tree.leaves(shapes))
