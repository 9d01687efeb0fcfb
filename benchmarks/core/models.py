"""What benchmarks know of a model by its name, whichever package it is of."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class ListedModel:
    """A model of a registry."""

    name: str
    about: str
    source: str  # where it is described: "Mnih 2010, §3.3"
    module: str  # "jaxlm.models.lbl"
    by_engine: bool  # trained step by step: such trainings can be resumed, projected and traced

    @property
    def command(self) -> str:
        """The command that trains it."""
        return f"{self.module.partition('.')[0]} train {self.name}"


def listed(registry: ModuleType, by_engine: Callable[[Any], bool]) -> dict[str, ListedModel]:
    """List the models of a registry; by_engine: of a model's record, whether the engine fits it."""
    models = {}
    for name, place in registry.MODELS.items():
        record = registry.get(name)
        models[name] = ListedModel(name, record.about, record.source, place.partition(":")[0], by_engine(record))
    return models


def size_field(config: type) -> str | None:
    """Return the field of a model's Config that says how large the model is."""
    names = {field.name for field in fields(config)}
    return next((name for name in ("num_features", "num_hidden") if name in names), None)
