"""Trained models under a work folder: each is trained once, and found again by all that determines it."""

import hashlib
import json
import shutil
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from benchmarks.core import record, source, training_times
from benchmarks.core.locking import locked
from benchmarks.core.verdict import Scores
from jaxfit.errors import UserError
from jaxfit.registry import Registry
from jaxfit.run_dir import json_text
from jaxfit.run_dir.arrays import write_npy
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.journal import Journal
from jaxfit.trainer import Trainer

DONE = "benchmark.json"
VALIDATION = "validation_"  # prefix of a metric's name in a record


class Outcome(NamedTuple):
    """What training a model gave.

    Attributes:
        seconds: seconds by phase.
        predictions: predictions by part of the data, if any.
        decided: what training decided, such as the recipe that validation chose; a record has it beside the identity.
    """

    seconds: Mapping[str, float]
    predictions: Mapping[str, np.ndarray]
    decided: Mapping[str, Any] = MappingProxyType({})


@dataclass
class TrainedModel:
    """A model of the store: its folder, and what is known of it (identity, times, commit, history)."""

    directory: Path
    info: dict[str, Any] = field(repr=False)

    def predictions(self, part: str, compute: Callable[[], np.ndarray] | None = None) -> np.ndarray:
        """Return what the model predicts of the events or ratings of a part of the data, "valid" or "test".

        Args:
            compute: computes the predictions where training has left that for later; they are kept.
        """
        path = _predictions(self.directory, part)
        if compute is not None and not path.is_file():
            _keep(path, compute())
        try:
            return np.load(path)
        except (OSError, ValueError, EOFError) as error:
            what = f"predictions are lost or damaged: {error}"
            raise UserError(what, path, f"remove {self.directory / DONE}, and run the command again") from None


class Store(ABC):
    """Models of one data set, scale and recipe under a work folder.

    A subclass serves the chapters whose tables are made from one sort of data, with the models of one package.

    A *spec* is a model that a table asks for, a frozen dataclass with `model` (its name in the registry), `seed`,
    `with_seed(seed)`, and `label()`, a short name for people. With data, scale and recipe it determines the model.
    """

    registered: ClassVar[Registry[Any]]  # the models
    chapters: ClassVar[str]
    scales: ClassVar[Mapping[str, Any]]
    data_sets: ClassVar[tuple[str, ...]]  # names, the built-in ones first
    thesis_data: ClassVar[str]  # the data of the thesis' figures
    unit: ClassVar[str]  # of the data
    resampled: str  # what the bootstrap is over: nearly independent units of the test
    substitutes: ClassVar[str] = ""  # in which way the models of a dry run differ from the trained ones
    sources: ClassVar[tuple[str, ...]]  # modules that determine a result in addition to the model's own
    name: str  # of the data
    parts: tuple[str, ...]  # that models are judged on, "valid" and, where its answers are known, "test"
    num_valid: int  # words or ratings that are scored after each epoch
    quotable: bool = True  # whether records may hold text of the data
    data_dir: Path | None = None  # the folder of data sets; None: that of the environment's BENCHMARK_DATA

    def __init__(self, data: Any, scale: Any, recipe: str, work: Path, show: bool = False):
        self.data, self.scale, self.recipe, self.work, self.show = data, scale, recipe, work, show
        self._found: dict[Any, TrainedModel] = {}

    @classmethod
    def open(
        cls,
        scale: str,
        data: str | None,
        data_dir: Path | None,
        recipe: str,
        work: Path,
        show: bool = False,
        epochs: int | None = None,
    ) -> "Store":
        """Load a data set and open the store of its models.

        Args:
            data: name of the data set; None: the scale's own.
            epochs: epochs of every training, in place of the recipes' own; None for those.
        """
        record.commit()  # now, as are the models' modules: code that is edited from here on trains nothing
        for place in (*cls.registered.models.values(), *cls.sources):
            import_module(place.partition(":")[0])
        chosen = cls.scales[scale] if epochs is None else replace(cls.scales[scale], epochs=epochs)
        store = cls(cls.load(data or chosen.data, chosen, data_dir), chosen, recipe, work, show)
        store.data_dir = data_dir
        return store

    def how(self) -> str:
        """Say how models are trained: by which recipe, and for how many epochs where that is not as usual."""
        usual = self.scales.get(self.scale.name)
        asked = usual is not None and usual.epochs != self.scale.epochs
        return f"{self.recipe}, {self.scale.epochs} epochs" if asked else self.recipe

    @staticmethod
    @abstractmethod
    def load(name: str, scale: Any, data_dir: Path | None) -> Any:
        """Load a data set at a scale, from the folder of data sets."""

    @staticmethod
    @abstractmethod
    def speed_data() -> Any:
        """Return the data that speed is measured on."""

    @staticmethod
    @abstractmethod
    def digest_of_data(data: Any) -> str:
        """Return a digest of data as they were read; empty where a model's identity already has such a digest."""

    @staticmethod
    @abstractmethod
    def by_engine(model: Any) -> bool:
        """Return whether a model, given by its record, is trained step by step: such trainings can be resumed."""

    @staticmethod
    @abstractmethod
    def example(model: str, scale: Any) -> Any:
        """Return the spec of a model of this name in the size that is usual at a scale."""

    def event(self, model: str) -> str:
        """Return what a model's training speed counts per second; by default, the unit of the data."""
        return self.unit

    @abstractmethod
    def describe(self, specs: Iterable[Any] = ()) -> dict[str, Any]:
        """Describe the data that these models were trained on, in the form of a record."""

    @abstractmethod
    def size(self, specs: Iterable[Any] = ()) -> str:
        """Say how much data these models were trained on."""

    @abstractmethod
    def identity(self, spec: Any) -> dict[str, Any]:
        """Return all that determines the trained model, apart from the source code."""

    @abstractmethod
    def fit(self, spec: Any, directory: Path) -> Outcome:
        """Train a model, or go on with its training where a run was interrupted."""

    @abstractmethod
    def shape(self, spec: Any) -> Hashable:
        """Return what decides how long training takes."""

    @abstractmethod
    def trainer(self, spec: Any) -> Trainer:
        """Return a trainer of a model of this shape, before its first step."""

    def below(self, spec: Any) -> Iterable[Any]:
        """Return models that must be trained before this one."""
        return ()

    def stepwise(self, spec: Any) -> bool:
        """Return whether the model is trained step by step; other trainings start afresh after an interruption."""
        return self.by_engine(self.registered.get(spec.model))

    @staticmethod
    def adjusted(scale: Any, recipe: str) -> Any:
        """Return the scale, adjusted to this recipe."""
        return scale

    def grouped(self, scores: Scores) -> Scores:
        """Return kept scores, added up to the present units if those have become larger since."""
        return scores

    def title(self, spec: Any) -> str:
        """Return the model's label without its seed."""
        return spec.label().removesuffix(f"-seed{spec.seed}")

    def identifier(self, spec: Any) -> str:
        """Return a name made of the data set, the label and a digest of the identity."""
        text = json.dumps(self.identity(spec), sort_keys=True)
        return f"{self.name}-{spec.label()}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def source(self, spec: Any) -> str:
        """Return the fingerprint of the source code that determines the trained model, that which read the data too."""
        module, _, _ = self.registered.models[spec.model].partition(":")
        code = source.fingerprint((module, *self.sources))
        return hashlib.sha256(f"{code} {self.as_read}".encode()).hexdigest()[:8] if self.as_read else code[:8]

    @cached_property
    def as_read(self) -> str:
        """The digest of the data as read, in the fingerprint in place of the source code that reads them."""
        return self.digest_of_data(self.data)

    def directory(self, spec: Any) -> Path:
        """Return the folder where the model is or will be."""
        return self.work / "models" / f"{self.identifier(spec)}-{self.source(spec)}"

    def has_structure(self, spec: Any) -> bool:
        """Return whether the model has a structure, such as a tree, that is made before it is trained."""
        return False

    def is_there(self, spec: Any) -> bool:
        """Return whether the model has been trained, and what is known of it can be read."""
        return _info(self.directory(spec)) is not None

    def is_training(self, spec: Any) -> bool:
        """Return whether another process trains the model now."""
        try:
            with locked(self.directory(spec), "--work", wait=False):
                return False
        except BlockingIOError:
            return True

    def get(self, spec: Any) -> TrainedModel:
        """Return the trained model: found, resumed where a run was interrupted, or trained from the start."""
        if spec not in self._found:
            directory = self.directory(spec)
            with locked(directory, "--work"):
                info = _info(directory)
                if _drop_damaged(directory, spec.label()) or info is None:
                    if directory.exists() and not self.stepwise(spec):
                        shutil.rmtree(directory)
                    info = self._train(spec, directory, info)
            self._found[spec] = TrainedModel(directory, info)
        return self._found[spec]

    def _train(self, spec: Any, directory: Path, known: dict[str, Any] | None) -> dict[str, Any]:
        """Train a model, keep its predictions, and return what is known of it (`known`, if it was trained before)."""
        started = time.perf_counter()
        with training_times.timed(directory), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            fitted = self.fit(spec, directory)
        for part, array in fitted.predictions.items():
            _keep(_predictions(directory, part), array)
        label, said = spec.label(), [str(warning.message) for warning in caught]
        seconds = training_times.earlier(directory) + time.perf_counter() - started
        history, times = Journal(directory).lines(), Journal(directory).times()
        info = known or {
            "label": label,
            "identity": self.identity(spec),
            "decided": dict(fitted.decided),
            "source": self.source(spec),
            "made_from": [self.directory(other).name for other in self.below(spec)],
            "seconds": {**fitted.seconds, **training_times.of_epochs(times), "all": seconds},
            "history": history,
            "timing": training_times.timing(times, history),
            "warnings": said,
            "environment": record.environment(),
            "date": record.today(),
        }
        with replacing(directory / DONE) as path:
            path.write_text(json_text.dumps(info, indent=1))
        for line in said:
            print(f"  {label}: {line}", file=sys.stderr)
        print(f"  trained {label} in {seconds:.1f} s", file=sys.stderr, flush=True)
        return json_text.plain(info)


def _predictions(directory: Path, part: str) -> Path:
    return directory / f"predictions-{part}.npy"


def _keep(path: Path, array: np.ndarray) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        write_npy(file, array)


def _info(directory: Path) -> dict[str, Any] | None:
    """Return what is known of a trained model; None where it is not trained, or the file is damaged."""
    try:
        found = json_text.read(directory / DONE)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _drop_damaged(directory: Path, label: str) -> bool:
    """Remove damaged files of a trained model, as if its training had been stopped; return whether there were any."""
    damaged = [directory / DONE] if (directory / DONE).is_file() and _info(directory) is None else []
    for path in directory.glob(_predictions(directory, "*").name):
        try:
            np.load(path, mmap_mode="r")  # an error for a file that was cut
        except (ValueError, EOFError):
            damaged.append(path)
    for path in damaged:
        print(f"  {label}: {path.name} is damaged, and is made again ({path})", file=sys.stderr)
        path.unlink()
    return bool(damaged)


def size_field(config: type) -> str | None:
    """Return the field of a model's Config that says how large the model is; None where its recipe does.

    Recurrent networks have, by default, 0 features: as many as units.
    """
    found = next((f for f in fields(config) if f.name in ("num_features", "num_hidden")), None)
    return found.name if found is not None and found.default != 0 else None


def validation(history: Iterable[dict[str, Any]]) -> dict[str, list[float]]:
    """Return a model's validation metrics by name: a figure for each epoch.

    Args:
        history: lines of the journal, whose "shown" has it as people read it: `validation document perplexity`.
    """
    found: dict[str, list[float]] = {}
    for line in history:
        for name, value in line["shown"].items():
            key = name.lower().replace(" ", "_")
            if key.startswith(VALIDATION):
                found.setdefault(key, []).append(round(value, 5))
    return found
