"""From a corpus to a folder that holds a trained model: what `jaxlm train` and the benchmarks do.

`jaxlm.model_files` says what such a folder has. Everything random is derived from one seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jaxfit.errors import UserError
from jaxfit.process import signals
from jaxfit.run_dir import metadata
from jaxfit.run_dir.run import Run, Trained
from jaxlm import models
from jaxlm.contract import ByCounting, ByLibrary, BySGD, LanguageModel, WithFiles
from jaxlm.data.corpus import Corpus
from jaxlm.model_files import FILES, write_vocabulary
from jaxlm.trained_model import Model

if TYPE_CHECKING:
    from jaxlm.data.documents.collection import DocumentCorpus


def train(
    name: str,
    corpus: Corpus | DocumentCorpus,
    directory: Path | str,
    *,
    recipe: Any = "tuned",
    config: Mapping[str, Any] | None = None,
    structure: Any = None,
    initial: Path | str | None = None,
    seed: int = 1,
    run: Run = Run(),
) -> Trained[Model | None]:
    """Train a language model in its folder.

    Args:
        name: of a model of the registry.
        corpus: training and validation text, or documents for a model of documents; models that are not fitted by SGD
            need no validation.
        directory: the model's folder, new or empty, or of the same training if `run.resume`.
        recipe: name of one of the model's recipes; or a `Recipe`, for fitting by SGD; or an instance of the dataclass
            of the model's recipes, for fitting by another library. Models fitted by counting have none.
        config: overrides of the model's Config, in addition to those of a recipe that is given by name.
        structure: the options of a model that has a structure, an instance of its `structure.options`.
        initial: folder of a trained model; training begins from its parameters of the same names.
        seed: of all random draws.
        run: how the training is run (devices, time limit, resume, progress).

    Raises:
        UserError: another model is in the folder, or this one and `run.resume` is not set; the model cannot be trained
            with these data, options or recipe; a loss is not finite; the disk is full.
    """
    record, directory, config = models.get(name), Path(directory), config or {}
    if isinstance(corpus, Corpus) != (record.reads == "text"):
        raise UserError(f"a {record.name} is trained on {record.reads}", corpus.name, "read the files as such")
    fitting = record.fitting
    if not isinstance(fitting, BySGD) and initial is not None:
        raise UserError(f"a {record.name} is fitted at one go, and has no initial parameters", initial, "leave it out")
    if isinstance(fitting, ByCounting):
        return _estimate(record, fitting, fitting.estimate, corpus, directory, config)
    chosen, overrides = record.recipe(recipe) if isinstance(recipe, str) else (recipe, {})
    config = {**overrides, **config}
    if isinstance(fitting, ByLibrary):
        kind = type(next(iter(record.recipes.values()))[0])
        if not isinstance(chosen, kind):
            what = f"a {record.name} is fitted by a recipe of {kind.__name__}, and this is of {type(chosen).__name__}"
            raise UserError(what, "recipe", f"name one of {', '.join(record.recipes)}")
        estimate = partial(fitting.estimate, recipe=chosen, seed=seed)
        how = {"recipe": asdict(chosen), "seed": seed}
        return _estimate(record, fitting, estimate, corpus, directory, config, how)
    from jaxlm.train_by_sgd import fit

    return fit(record, corpus, directory, recipe=chosen, config=config, structure=structure,
               initial=None if initial is None else Path(initial), seed=seed, run=run)  # fmt: skip


def _estimate(
    record: LanguageModel,
    fitting: WithFiles,
    estimate: Callable[[Any, int, int, Any], Any],
    corpus: Corpus | DocumentCorpus,
    directory: Path,
    overrides: Mapping[str, Any],
    how: Mapping[str, Any] = MappingProxyType({}),
) -> Trained[Model | None]:
    """Estimate a model at one go.

    Args:
        how: what its `config.json` holds of that.
    """
    metadata.require_free(directory, record.name, resume=False, resumable=False)
    vocabulary = corpus.vocabulary
    config = record.configure(len(vocabulary), None, overrides)
    began = time.perf_counter()
    params = estimate(corpus.train, len(vocabulary), vocabulary.eos, config)
    seconds = {"estimate": time.perf_counter() - began}
    info = {
        "format": metadata.FORMAT, "model": record.name, "config": asdict(config), **how, "corpus": corpus.describe()
    }  # fmt: skip
    with signals.deferred():  # the whole model or nothing
        write_vocabulary(directory, vocabulary)
        fitting.save(params, directory)
        metadata.write_info(directory, info, FILES)
    return Trained(Model(record, vocabulary, config, params, info), None, seconds)
