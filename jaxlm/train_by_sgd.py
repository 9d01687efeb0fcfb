"""Training a language model by the engine: its structure first, then its parameters.

Keys are fold_in(key(seed), n) with n = 0 for the initial parameters, 1 for training, 2 for the structure. All stages of
a training have the same keys: the draws of a model and of the one that its tree is built from are not independent.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxfit.devices import memory
from jaxfit.devices.platform import on_host
from jaxfit.devices.precision import full_float32
from jaxfit.errors import UserError
from jaxfit.recipe import SEED, Recipe, require_number
from jaxfit.run_dir import json_text, metadata, training
from jaxfit.run_dir.run import Run, Trained
from jaxlm.contract import BySGD, LanguageModel, Structure, structure_argument
from jaxlm.data.corpus import Corpus
from jaxlm.data.documents.collection import DocumentCorpus
from jaxlm.initial import begin_from, beginning
from jaxlm.model_files import FILES, write_vocabulary
from jaxlm.trained_model import Model

INIT, TRAIN, STRUCTURE = 0, 1, 2


def fit(
    record: LanguageModel,
    corpus: Corpus | DocumentCorpus,
    directory: Path,
    *,
    recipe: Recipe,
    config: Mapping[str, Any],
    structure: Any = None,
    initial: Path | None = None,
    seed: int = 1,
    run: Run | None = None,
) -> Trained[Model | None]:
    """Train a model, with all choices made; arguments as for `jaxlm.training.train`.

    Matrix products are of full float32 precision, whatever the device.
    """
    require_number(seed, "--seed", int, **SEED)
    with full_float32():
        known = {
            "model": record.name, "seed": seed, "corpus": corpus.describe(),
            "initial": None if initial is None else beginning(initial),
        }  # fmt: skip
        begun = _Training(record, corpus, corpus.word_counts(), recipe, config, jax.random.key(seed), known, initial)
        needed = record.structure_of(config)
        if needed is None:
            return begun.fit(directory, None, known, run or Run())
        chosen = needed.choose(config, {}) if structure is None else needed.follow(structure, record.config, config)
        return begun.stages(directory, needed, chosen, run or Run())


@dataclass(frozen=True)
class _Training:
    """What the stages of a training have in common.

    Attributes:
        known: what `config.json` holds of every stage.
        initial: the folder of the model that parameters begin from.
    """

    record: LanguageModel
    corpus: Corpus | DocumentCorpus
    counts: np.ndarray
    recipe: Recipe
    overrides: Mapping[str, Any]
    key: jax.Array
    known: dict[str, Any]
    initial: Path | None

    def stages(
        self, directory: Path, structure: Structure, options: Any, run: Run, total: int | None = None
    ) -> Trained[Model | None]:
        """Train the model that the structure is built from, if any; build the structure; train the model over it.

        Args:
            total: stages of the whole training, of which these are the first.
        """
        began, seconds = time.monotonic(), {}
        structure.check(options)
        first = structure.first_stage(options)
        if first is not None:
            self.require_epochs(directory / metadata.FIRST_STAGE, structure)
            number = _rounds(structure, options)
            total = total or 2 * number + 1
            if number == 1:
                self.say(run, f"stage 1 of {total}, the model that its {structure.name} is built from")
            quiet = replace(run, on_epoch=None)  # whose caller knows of the model alone
            done = self.stages(directory / metadata.FIRST_STAGE, structure, first, quiet, total)
            seconds[metadata.FIRST_STAGE] = sum(done.seconds.values())
            if done.stopped != "done":
                return Trained(None, None, seconds, done.stopped)
            options = replace(options, bootstrap=str(directory / metadata.FIRST_STAGE))
            self.say(run, f"stage {2 * number} of {total}, the {structure.name}")
        origin = structure.origin(options)
        known = self.known | origin
        if origin:  # before a minute goes into a structure that cannot be used
            metadata.earlier(directory, known, FILES, run.resume)
        built = time.perf_counter()
        made = self.earlier(directory, structure, known) if origin else None
        if made is None:
            made = structure.build(self.corpus, options, self.counts, jax.random.fold_in(self.key, STRUCTURE))
        if origin:
            seconds[structure.name] = time.perf_counter() - built
        if first is not None:
            self.say(run, f"stage {2 * number + 1} of {total}, the model over its {structure.name}")
        if run.max_minutes is not None:
            run = replace(run, max_minutes=max(0.0, run.max_minutes - (time.monotonic() - began) / 60))
        trained = self.fit(directory, made, known | {structure.name: structure.sha256(made)}, run)
        return trained._replace(seconds=seconds | trained.seconds) if trained.seconds else trained

    def require_epochs(self, first: Path, structure: Structure) -> None:
        """Raise a UserError where the first stage was of another number of epochs, which the structure depends on."""
        was = (metadata.readable_info(first) or {}).get("recipe", {}).get("epochs")
        if was not in (None, self.recipe.epochs):
            what = f"its {structure.name} is built from a model of {was} epochs, not of {self.recipe.epochs}"
            raise UserError(what, first, f"give --epochs {was}, or choose another --out")

    def earlier(self, directory: Path, structure: Structure, known: dict[str, Any]) -> Any:
        """Return the structure that an earlier run of the same training built; None if it is missing or damaged."""
        # a kill may have left a structure beside the configuration of another training
        was = metadata.readable_info(directory)
        if was is None or any(was.get(name) != value for name, value in json_text.plain(known).items()):
            return None
        try:
            found = structure.load(directory, len(self.counts))
        except UserError:
            return None
        return found if structure.sha256(found) == was.get(structure.name) else None

    def fit(self, directory: Path, structure: Any, known: dict[str, Any], run: Run) -> Trained[Model | None]:
        """Fit the parameters, over a structure if the model has one."""
        record, fitting, vocabulary = self.record, self.record.fitting, self.corpus.vocabulary
        assert isinstance(fitting, BySGD)
        more = structure_argument(structure)
        kind = record.structure_of(self.overrides)
        config = record.configure(len(vocabulary), structure, self.overrides, self.counts)
        texts = fitting.texts(config, vocabulary.eos, *more)
        counts = self.counts if fitting.counts is None else fitting.counts(self.corpus.train, vocabulary.eos, config)

        def init() -> Any:
            return fitting.init(jax.random.fold_in(self.key, INIT), config, counts, *more)

        where = "--num-features, --vocab-size, …"
        memory.require(jax.eval_shape(init), self.recipe.optimizer, where, run.row_shards)
        with on_host(run.row_shards > 1):
            params = init()
            if self.initial is not None:
                params, known_words, taken = begin_from(
                    self.initial, params, record, self.overrides, structure, vocabulary, self.counts
                )
                has = f"which knows {known_words:,} of {len(vocabulary):,} words"
                self.say(run, f"{', '.join(taken)} begin as in {self.initial}, {has}")

        def write() -> None:
            write_vocabulary(directory, vocabulary)
            if kind is not None:
                kind.save(structure, directory)

        def model(params: Any, info: dict[str, Any]) -> Model:
            return Model(record, vocabulary, config, params, info, structure)

        return training.train(
            directory, {"model": record.name, **known, "config": asdict(config)}, fitting.program(config),
            params,
            lambda: (laid_out(texts, self.corpus.train, "training"), laid_out(texts, self.corpus.valid, "validation")),
            recipe=_without_absent(self.recipe, record, params), key=jax.random.fold_in(self.key, TRAIN), run=run,
            unit=fitting.unit, files=FILES, before=write, model=model,
        )  # fmt: skip

    def say(self, run: Run, text: str) -> None:
        """Print a stage of the training."""
        if run.show:
            from rich.console import Console

            Console(stderr=True, highlight=False).print(f"{self.record.name}: {text}", markup=False)


def _rounds(structure: Structure, options: Any) -> int:
    """Return how many models are trained before the one over the structure of these options."""
    first = structure.first_stage(options)
    return 0 if first is None else 1 + _rounds(structure, first)


def _without_absent(recipe: Recipe, record: LanguageModel, params: Any) -> Recipe:
    """Leave out rates and decays of the model's recipes for parameters that its options leave out (None).

    Values that a user gave for such parameters stay, and the engine refuses them.
    """
    absent = [name for name in getattr(params, "_fields", ()) if getattr(params, name) is None]

    def present(each: str) -> dict[str, float]:
        own = [getattr(other, each) for other, _ in record.recipes.values()]
        values = getattr(recipe, each).items()
        return {name: x for name, x in values if name not in absent or all(other.get(name) != x for other in own)}

    return replace(recipe, rate=present("rate"), decay=present("decay"))


def laid_out(texts: Callable[[Any], Any], ids: Any, name: str) -> Any:
    """Return a text as the engine sees it; an error says which text it is."""
    try:
        return texts(ids)
    except UserError as error:
        raise UserError(error.what, error.where or f"{name} text", error.do) from None
