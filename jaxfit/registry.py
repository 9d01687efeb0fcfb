"""The registry of a package's models: one line per model, imported only when its record is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

from jaxfit.errors import UserError

Model = TypeVar("Model")  # a record: `name`, `capabilities`, `capability(kind)`
Capability = TypeVar("Capability")


@dataclass(frozen=True)
class Registry(Generic[Model]):
    """The models of a package.

    Attributes:
        what: what they are called in messages, "language model".
        models: name -> "module:ATTRIBUTE" of the record.
        advice: appended to the error for an unknown model.
    """

    what: str
    models: dict[str, str]
    advice: str

    def names(self) -> list[str]:
        """Return the names of all models."""
        return list(self.models)

    def get(self, name: str, where: object | None = None) -> Model:
        """Import the record of a model.

        Raises:
            UserError: no model has this name; the message lists those there are, and names `where`.
        """
        if name not in self.models:
            advice = f"choose from {', '.join(self.models)}; {self.advice}"
            raise UserError(f"there is no {self.what} {name!r}", where, advice)
        module, _, attribute = self.models[name].partition(":")
        return getattr(import_module(module), attribute)

    def having(self, condition: Callable[[Any], Any]) -> list[str]:
        """Return the names of the models that meet a condition, for messages."""
        return [name for name in self.models if condition(self.get(name))]

    def require(self, model: Any, kind: type[Capability], task: str, where: object | None = None) -> Capability:
        """Return the model's capability of this class, which a task needs.

        Args:
            model: record of the model.
            kind: class of the capability.
            task: the command or function that asks, for the message.
            where: the model's folder, for the message.

        Raises:
            UserError: the model does not have it; the message says which models have it, and what this one offers.
        """
        found = model.capability(kind)
        if found is not None:
            return found
        able = self.having(lambda other: other.capability(kind) is not None)
        listed = " or ".join([", ".join(able[:-1]), able[-1]] if len(able) > 1 else able)
        offered = ", ".join(c.offers for c in model.capabilities) or "nothing that commands use"
        needed = kind.offers.partition(" (")[0]  # type: ignore[attr-defined]
        advice = f"use {listed}; {model.name} has {offered}"
        raise UserError(f"{task} needs {needed}; {model.name} has none", where, advice)
