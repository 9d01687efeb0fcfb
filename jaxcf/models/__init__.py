"""Rating models, one per file or folder, and their registry.

A model is added by its file and one line of `MODELS`: the module and the name of its record (`jaxcf.contract`). A
model's module, and JAX with it, is imported when its record is first asked for.
"""

import importlib

from jaxcf.contract import Capability, RatingModel
from jaxfit.errors import UserError

MODELS = {
    "user-bias": "jaxcf.models.bias:USER_BIAS",
    "item-bias": "jaxcf.models.bias:ITEM_BIAS",
    "bias": "jaxcf.models.bias:BIAS",
    "svd": "jaxcf.models.pmf:SVD",
    "svd-bias": "jaxcf.models.pmf:SVD_BIAS",
    "pmf": "jaxcf.models.pmf:PMF",
    "cpmf": "jaxcf.models.cpmf.model:CPMF",
    "rbm": "jaxcf.models.rbm.model:RBM",
    "crbm": "jaxcf.models.crbm:CRBM",
}


def names() -> tuple[str, ...]:
    """Return the models' names."""
    return tuple(MODELS)


def get(name: str, where: object | None = None) -> RatingModel:
    """Import the record of a model.

    Raises:
        UserError: no model has this name; the message lists those there are, and names `where`.
    """
    if name not in MODELS:
        advice = f"choose from {', '.join(MODELS)}; language models are for jaxlm"
        raise UserError(f"there is no rating model {name!r}", where, advice)
    module, _, attribute = MODELS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def require(model: RatingModel, kind: type[Capability], task: str, where: object | None = None) -> Capability:
    """Return the model's capability of this class, which a task needs.

    Raises:
        UserError: the model does not have it; the message names `task` and `where`, and says which models do.
    """
    found = model.capability(kind)
    if found is None:
        able = [name for name in MODELS if get(name).capability(kind) is not None]
        offers = kind.offers  # type: ignore[attr-defined]
        raise UserError(f"{task} needs {offers}; {model.name} has none", where, f"use {_listed(able)}")
    return found


def _listed(words: list[str]) -> str:
    """List words in a sentence: "a, b or c"."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
