"""All that the benchmarks ask of jaxlm's models: which there are, their recipes, training them."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jax

from benchmarks.core.models import ListedModel, size_field
from jaxfit.recipe import Recipe
from jaxfit.run_dir.run import Run, Trained
from jaxfit.trainer import Trainer
from jaxlm import models as registry
from jaxlm import train as jaxlm_train
from jaxlm.contract import BySGD, structure_argument
from jaxlm.data.corpus import Corpus
from jaxlm.trained_model import Model

SOURCES = ("jaxlm.train_by_sgd",)  # modules that determine a trained model, in addition to its own


@cache
def models() -> dict[str, ListedModel]:
    """The registry."""
    listed = {}
    for name, entry in registry.MODELS.items():
        record = registry.get(name)
        fitting = "engine" if isinstance(record.fitting, BySGD) else "counting"
        module = entry.partition(":")[0]
        listed[name] = ListedModel(name, record.about, record.source, module, fitting)
    return listed


def recipe(model: str, name: str, size: int) -> tuple[Recipe, dict[str, Any]]:
    """A recipe of a model that the engine fits, and the configuration that belongs to it, with so many features."""
    record = registry.get(model)
    chosen, config = record.recipes[name]
    sized = size_field(record.config)
    return chosen, {**config, **({sized: size} if sized else {})}


def structure_options(model: str, **chosen: Any) -> Any:
    """The options of what a model needs besides its parameters, such as a tree; None for models without."""
    structure = registry.get(model).structure
    return None if structure is None else structure.options(**chosen)


def stand_in(model: str, corpus: Corpus, options: Any) -> Any:
    """A structure of the size that these options would give, made without training anything."""
    structure = registry.get(model).structure
    if structure is None:
        return None
    return structure.stand_in(options, len(corpus.vocabulary), corpus.word_counts())


def load_structure(model: str, corpus: Corpus, directory: Path) -> Any:
    """The structure of a trained model."""
    structure = registry.get(model).structure
    return None if structure is None else structure.load(directory, len(corpus.vocabulary))


def train(
    model: str,
    corpus: Corpus,
    directory: Path,
    *,
    config: Mapping[str, Any],
    recipe: Recipe | str = "tuned",
    seed: int = 1,
    structure: Any = None,
    run: Run = Run(),
) -> Trained[Model | None]:
    """Train a model in its folder; structure: the options of models that have one."""
    return jaxlm_train.train(
        model, corpus, directory, recipe=recipe, config=config, structure=structure, seed=seed, run=run
    )


def trainer(model: str, corpus: Corpus, recipe: Recipe, config: Mapping[str, Any], structure: Any) -> Trainer:
    """A model's training at its first step, outside of any folder; structure: for models that have one."""
    record, more = registry.get(model), structure_argument(structure)
    assert isinstance(record.fitting, BySGD)
    full = record.configure(len(corpus.vocabulary), structure, config)
    params = record.fitting.init(jax.random.key(0), full, corpus.word_counts(), *more)
    data = record.fitting.texts(full, corpus.vocabulary.eos, *more)(corpus.train)
    return Trainer(record.fitting.program(full), params, data, recipe, jax.random.key(0), None)
