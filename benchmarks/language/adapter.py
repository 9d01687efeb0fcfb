"""All that the benchmarks ask of jaxlm's models: which there are, their recipes, training them."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.core.models import ListedModel, size_field
from jaxfit.recipe import Recipe
from jaxfit.run_dir.training import Run
from jaxfit.trainer import Trainer
from jaxlm import train as jaxlm_train
from jaxlm.data import contexts
from jaxlm.data.default_text import Corpus
from jaxlm.models import lbl
from jaxlm.models.hlbl import model as hlbl
from jaxlm.train import Trained, TreeOptions
from jaxlm.trees.order import by_visits
from jaxlm.trees.paths import Tree, node_biases

SOURCES = ("jaxlm.train",)  # modules that determine a trained model, beside its own
_NEURAL: dict[str, Any] = {"lbl": lbl, "hlbl": hlbl}


@cache
def models() -> dict[str, ListedModel]:
    """Return the registry."""
    listed = (
        ListedModel("unigram", "words by their frequency", "Mnih 2010, §3.2", "jaxlm.ngram.unigram", "counting"),
        ListedModel("gt", "back-off n-gram, Good-Turing discounts", "Katz 1987", "jaxlm.ngram.good_turing", "counting"),
        ListedModel(
            "kn", "n-gram with modified Kneser-Ney discounts, interpolated or back-off", "Chen and Goodman 1999",
            "jaxlm.ngram.kneser_ney", "counting",
        ),
        ListedModel("lbl", "log-bilinear model", "Mnih 2010, §3.3", "jaxlm.models.lbl", "engine"),
        ListedModel(
            "hlbl", "hierarchical log-bilinear model, over a tree of words", "Mnih 2010, §4.3",
            "jaxlm.models.hlbl.model", "engine",
        ),
    )  # fmt: skip
    return {model.name: model for model in listed}


def has_tree(model: str) -> bool:
    """Return whether a model predicts words along a tree, which is built before its training."""
    return model == "hlbl"


def recipe(model: str, name: str, size: int) -> tuple[Recipe, dict[str, Any]]:
    """A recipe of a model that the engine fits, and the configuration that belongs to it, with so many features."""
    chosen, config = _NEURAL[model].RECIPES[name]
    sized = size_field(_NEURAL[model].Config)
    return chosen, {**config, **({sized: size} if sized else {})}


def train(
    model: str,
    corpus: Corpus,
    directory: Path,
    *,
    config: Mapping[str, Any],
    recipe: Recipe | None = None,
    seed: int = 1,
    tree: TreeOptions | Path | None = None,
    bootstrap: Path | None = None,
    run: Run = Run(),
) -> Trained:
    """Train a model in its folder; recipe: None for models that are estimated by counting."""
    if recipe is None:
        return jaxlm_train.ngram(corpus, directory, kind=model, **config)  # type: ignore[arg-type]
    options: dict[str, Any] = {"recipe": recipe, "config": config, "seed": seed, "run": run}
    if tree is not None:
        options |= {"tree": tree, "bootstrap": bootstrap}
    return getattr(jaxlm_train, model)(corpus, directory, **options)


def trainer(
    model: str, corpus: Corpus, recipe: Recipe, config: Mapping[str, Any], tree: Tree | None
) -> Trainer:
    """Return a model's training at its first step, outside of any folder; tree: for models that have one."""
    vocabulary, ids = corpus.vocabulary, corpus.train
    key, counts = jax.random.key(0), np.bincount(ids, minlength=len(vocabulary))
    if tree is None:
        flat = lbl.Config(num_words=len(vocabulary), **config)
        data = contexts.pad(ids, flat.context_size, vocabulary.eos)
        params = lbl.init(key, flat, counts)
        return Trainer(lbl.program(flat, vocabulary.eos), params, data, recipe, key, None)
    deep = hlbl.Config(num_words=len(vocabulary), num_nodes=len(tree.children), **config)
    tree = by_visits(tree, counts, deep.num_hot)
    texts = hlbl.make_data(ids, tree, deep, vocabulary.eos)
    weights = hlbl.init(key, deep, node_biases(tree, counts))
    return Trainer(hlbl.program(deep, vocabulary.eos), weights, texts, recipe, key, None)
