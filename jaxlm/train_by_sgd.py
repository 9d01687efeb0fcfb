"""Training a language model by the engine: its structure first, then its parameters.

Keys are fold_in(key(seed), n) with n = 0 for the initial parameters, 1 for training, 2 for the structure.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxfit.errors import UserError
from jaxfit.precision import full_precision
from jaxfit.recipe import Recipe
from jaxfit.run_dir import metadata, training
from jaxfit.run_dir.run import Run
from jaxlm import identity
from jaxlm.contract import BySGD, LanguageModel, Structure, structure_argument
from jaxlm.data.default_text import Corpus
from jaxlm.data.files import CHUNK
from jaxlm.trained_model import Model, Trained, load, write_vocabulary

INIT, TRAIN, STRUCTURE = 0, 1, 2
FIRST_STAGE = "bootstrap"  # folder, within the model's, of the model that its structure is built from


def fit(
    record: LanguageModel,
    corpus: Corpus,
    directory: Path,
    *,
    recipe: Recipe,
    config: Mapping[str, Any],
    structure: Any = None,
    seed: int = 1,
    run: Run | None = None,
) -> Trained:
    """Train a model of which everything is given; see `jaxlm.train.train`.

    Matrix products are of full float32 precision, whatever the device.
    """
    with full_precision():
        run, described = run or Run(), identity.describe(corpus)
        return _train(record, corpus, described, directory, recipe, config, structure, seed, run)


def word_counts(corpus: Corpus) -> np.ndarray:
    """How often each word is an event of the training text: int64 [N_w]."""
    counts = np.zeros(len(corpus.vocabulary), np.int64)
    for first in range(0, len(corpus.train), CHUNK):  # np.bincount makes a wider copy of what it counts
        counts += np.bincount(corpus.train[first : first + CHUNK], minlength=len(counts))
    return counts


def _train(
    record: LanguageModel,
    corpus: Corpus,
    described: dict[str, Any],
    directory: Path,
    recipe: Recipe,
    overrides: Mapping[str, Any],
    options: Any,
    seed: int,
    run: Run,
) -> Trained:
    fitting, vocabulary = record.fitting, corpus.vocabulary
    assert isinstance(fitting, BySGD)
    counts = word_counts(corpus)
    known: dict[str, Any] = {"model": record.name, "seed": seed, "corpus": described}
    seconds: dict[str, float] = {}
    structure = None
    if record.structure is not None:
        began = time.monotonic()
        options = options or record.structure.options()
        record.structure.check(options)
        first = record.structure.first_stage(options)
        if first is not None:
            _say(
                run, f"{record.name}: stage 1 of 3, the model that its {record.structure.name} is built from"
            )
            below = directory / FIRST_STAGE
            done = _train(record, corpus, described, below, recipe, overrides, first, seed, run)
            seconds[FIRST_STAGE] = sum(done.seconds.values())
            if done.stopped != "done":
                return Trained(None, None, seconds, done.stopped)
            options = replace(options, bootstrap=str(below))
            _say(run, f"{record.name}: stage 2 of 3, the {record.structure.name}")
        origin = record.structure.origin(options)
        if origin:  # before a minute goes into a structure that cannot be used
            known |= origin
            metadata.earlier(directory, known, run.resume)
        built = time.perf_counter()
        structure = _structure(record.structure, corpus, counts, directory, options, known, bool(origin))
        if origin:
            seconds[record.structure.name] = time.perf_counter() - built
        if first is not None:
            _say(run, f"{record.name}: stage 3 of 3, the model over its {record.structure.name}")
        if run.max_minutes is not None:
            run = replace(run, max_minutes=run.max_minutes - (time.monotonic() - began) / 60)
        known[record.structure.name] = record.structure.sha256(structure)

    more = structure_argument(structure)
    config = record.configure(len(vocabulary), structure, overrides)
    texts = fitting.texts(config, vocabulary.eos, *more)
    key = jax.random.key(seed)

    def write() -> None:
        write_vocabulary(directory, vocabulary)
        if record.structure is not None:
            record.structure.save(structure, directory)

    trained = training.train(
        directory, {"model": record.name, "config": asdict(config), **known}, fitting.program(config),
        fitting.init(jax.random.fold_in(key, INIT), config, counts, *more),
        lambda: (texts(corpus.train), texts(corpus.valid)),
        recipe=recipe, key=jax.random.fold_in(key, TRAIN), run=run, unit="words", before=write,
    )  # fmt: skip
    seconds |= trained.seconds
    if trained.fitted is None:
        return Trained(load(directory), None, seconds)
    params = trained.fitted.params
    model = Model(record, vocabulary, config, params, trained.info, structure, texts)
    return Trained(model, trained.fitted, seconds, trained.fitted.stopped)


def _structure(
    described: Structure,
    corpus: Corpus,
    counts: np.ndarray,
    directory: Path,
    options: Any,
    known: dict[str, Any],
    reuse: bool,
) -> Any:
    """Build a structure, or read the one that an earlier run of the same training built."""
    if reuse:
        found = _earlier_structure(described, len(counts), directory, known)
        if found is not None:
            return found
    key = jax.random.fold_in(jax.random.key(known["seed"]), STRUCTURE)
    built = described.build(corpus, options, counts, key)
    if reuse and (directory / metadata.CONFIG).exists():  # the file of an earlier run is missing or damaged
        described.save(built, directory)
    return built


def _earlier_structure(described: Structure, num_words: int, directory: Path, known: dict[str, Any]) -> Any:
    # a kill may have left a structure beside the configuration of another training
    if not (directory / metadata.CONFIG).exists():
        return None
    was = metadata.read_info(directory)
    if any(was.get(name) != value for name, value in json.loads(json.dumps(known)).items()):
        return None
    try:
        found = described.load(directory, num_words)
    except UserError:  # missing or damaged: it is built again
        return None
    return found if described.sha256(found) == was.get(described.name) else None


def _say(run: Run, text: str) -> None:
    if run.show:
        from rich.console import Console

        Console(stderr=True, highlight=False).print(text, markup=False)
