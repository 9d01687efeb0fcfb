"""What benchmarks know of a model by its name, whichever package it is of."""

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class ListedModel:
    """A model of a registry."""

    name: str
    about: str
    source: str  # where it is described: "Mnih 2010, §3.3"
    module: str  # "jaxlm.models.lbl"
    fitting: str  # "engine", or another way: "counting", "closed-form"

    @property
    def command(self) -> str:
        """The command that trains it."""
        return f"{self.module.partition('.')[0]} train {self.name}"

    @property
    def by_engine(self) -> bool:
        """Whether it is trained step by step: such trainings can be resumed, projected and traced."""
        return self.fitting == "engine"


def size_field(config: Any) -> str | None:
    """Return the field of a model's Config that says how large the model is."""
    names = {field.name for field in fields(config)}
    return next((name for name in ("num_features", "num_hidden") if name in names), None)
