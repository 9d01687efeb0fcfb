"""The registry of language models: one line per model, imported only when it is asked for.

Importing this package or an n-gram model does not import JAX.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from jaxfit.errors import UserError
from jaxlm.contract import Capability, LanguageModel

MODELS = {
    "unigram": "jaxlm.ngram.unigram:MODEL",
    "gt": "jaxlm.ngram.good_turing:MODEL",
    "kn": "jaxlm.ngram.kneser_ney:MODEL",
    "lbl": "jaxlm.models.lbl:MODEL",
    "hlbl": "jaxlm.models.hlbl.model:MODEL",
    "nplm": "jaxlm.models.nplm:MODEL",
}


def names() -> list[str]:
    """Return the names of all models."""
    return list(MODELS)


def get(name: str) -> LanguageModel:
    """Return the record of a model.

    Raises:
        UserError: no model has this name; the message lists those there are.
    """
    if name not in MODELS:
        raise UserError(f"there is no language model {name!r}", do=f"choose from {', '.join(MODELS)}")
    module, _, attribute = MODELS[name].partition(":")
    return getattr(import_module(module), attribute)


def having(condition: Callable[[LanguageModel], Any]) -> list[str]:
    """Return the names of the models that meet a condition, for messages."""
    return [name for name in MODELS if condition(get(name))]


def require(model: LanguageModel, kind: type[Capability], task: str, where: object | None = None) -> Capability:
    """Return the model's capability of this kind, which a task needs.

    Args:
        model: record of the model.
        kind: class of the capability.
        task: the command or function that asks, for the message.
        where: the model's folder, for the message.

    Raises:
        UserError: the model does not have it; the message says what the model offers, and which models have it.
    """
    found = model.capability(kind)
    if found is not None:
        return found
    needed = kind.offers.partition(" (")[0]
    able = _listed(having(lambda other: other.capability(kind) is not None))
    offered = ", ".join(c.offers for c in model.capabilities) or "nothing that commands use"
    raise UserError(f"{task} needs {needed}; {model.name} has none", where, f"use {able}; {model.name} has {offered}")


def _listed(words: list[str]) -> str:
    """Return words in a sentence: "a, b or c"."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
