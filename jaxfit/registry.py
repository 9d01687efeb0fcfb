"""The record of a model, and the registry of a package's models, which imports a record only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pickle import PicklingError
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from jaxfit.errors import Unsupported, UserError, suggestion

PRODUCT = 2 * 3  # operations for each weight of a product: a multiplication and an addition; forward, in both gradients
Capability = TypeVar("Capability")


class Cost(NamedTuple):
    """What training takes at least for an event (a word, a rating).

    Operations are multiplications and additions of products of weights with what they are applied to. Softmax, other
    functions of single numbers, random numbers, and updates of whole arrays are left out.

    Attributes:
        operations: of an event.
        read: float32 numbers of table rows that an event reads, each once, whatever a cache would save.
        added: float32 numbers of table rows that are added to, likewise.
        formula: of the operations and of the bytes, 4 (read + added), in words.
    """

    operations: float
    read: float
    added: float
    formula: str

    @property
    def bytes(self) -> float:
        """Bytes of rows that are read or written."""
        return 4 * (self.read + self.added)


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """What any model is and can do; it is pickled by its name in the registry.

    Attributes:
        package: the module whose REGISTRY has the record.
        name: as in `jaxlm train NAME`.
        about: a noun phrase for the help.
        source: the paper and section that it is from.
        config: frozen dataclass of all that shapes the model.
        capabilities: what it can do, at most one of each class.
        recipes: name -> how it is fitted (a Recipe, another dataclass, None without options) and overrides of Config;
            "tuned" is the default.
        cost: (config, costs) -> what an event of training takes at least; costs: `Ragged.costs` of the training data,
            None for programs without. Every model that is fitted by SGD has one; None for the others.
        one_thread_up_to: the largest minibatch, in examples, whose steps take less time on one thread of a CPU than on
            several, as they consist of many small operations; 0: none, inf: all.
    """

    package: ClassVar[str]
    name: str
    about: str
    source: str
    config: type[Any]
    capabilities: tuple[Any, ...]
    recipes: Mapping[str, tuple[Any, dict[str, Any]]] = field(default_factory=dict)
    cost: Callable[[Any, Any], Cost] | None = None
    one_thread_up_to: float = 0

    def __reduce__(self) -> tuple[Callable[[str, str], Record], tuple[str, str]]:
        if _registered(self.package, self.name) is not self:
            raise PicklingError(f"the registry has another record of the name {self.name}")
        return _registered, (self.package, self.name)

    def capability(self, kind: type[Capability] | tuple[type[Capability], ...]) -> Capability | None:
        """Return the capability of a class, or the first of several classes; None where the model lacks it."""
        return next((each for each in self.capabilities if isinstance(each, kind)), None)

    def recipe(self, name: str) -> tuple[Any, dict[str, Any]]:
        """Return the recipe of this name and its overrides of Config; raises UserError for an unknown one."""
        if name not in self.recipes:
            raise UserError(f"{self.name} has no recipe {name!r}", do=f"choose from {', '.join(self.recipes)}")
        recipe, overrides = self.recipes[name]
        return recipe, dict(overrides)  # which the caller may change


def _registered(package: str, name: str) -> Record:
    """Return the record of this name of a package's registry, or of its files."""
    return import_module(package).REGISTRY.record(name)


def _imported(place: str) -> Any:
    """Return what a module has: "module:ATTRIBUTE"."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def in_short(capability: Any) -> str:
    """Return what a capability offers, without the commands that use it."""
    return capability.offers.partition(" (")[0]


AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class Registry(Generic[AnyRecord]):
    """The models of a package.

    Attributes:
        what: what they are called in messages, "language model".
        models: name -> "module:ATTRIBUTE" of the record.
        advice: appended to the error for an unknown model.
        of_files: likewise, of models that are only read, from files of other programs; `names` does not list them.
    """

    what: str
    models: dict[str, str]
    advice: str
    of_files: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Return the names of all models."""
        return list(self.models)

    def get(self, name: str, where: object | None = None) -> AnyRecord:
        """Import the record of a model.

        Raises:
            UserError: no model has this name; the message suggests one, or lists those there are, and names `where`.
        """
        if not isinstance(name, str):
            what = f"{type(name).__name__} is not the name of a {self.what}"
            raise UserError(what, where, f"give one of {', '.join(self.models)} first")
        if name not in self.models:
            advice = f"{suggestion(name, self.models)}; {self.advice}"
            raise UserError(f"there is no {self.what} {name!r}", where, advice)
        return _imported(self.models[name])

    def record(self, name: str) -> AnyRecord:
        """Import the record of a model, or of files; raises as `get`."""
        return _imported(self.of_files[name]) if name in self.of_files else self.get(name)

    def having(self, condition: Callable[[Any], Any]) -> list[str]:
        """Return the names of the models that meet a condition, for messages."""
        return [name for name in self.models if condition(self.get(name))]

    def require(
        self, model: Any, kind: type[Capability] | tuple[type[Capability], ...], task: str, where: object | None = None
    ) -> Capability:
        """Return the model's capability of this class, or of one of several, which a task needs.

        Args:
            model: record of the model.
            kind: class of the capability, or several.
            task: the command or function that asks, for the message.
            where: the model's folder, for the message.

        Raises:
            Unsupported: the model does not have it; the message says which models have it.
        """
        found = model.capability(kind)
        if found is not None:
            return found
        able = self.having(lambda other: other.capability(kind) is not None)
        listed = " or ".join([", ".join(able[:-1]), able[-1]] if len(able) > 1 else able)
        needed = " or ".join(map(in_short, kind if isinstance(kind, tuple) else (kind,)))
        raise Unsupported(f"{task} needs {needed}; {model.name} has none", where, f"use {listed}")
