"""A recipe: how a model is trained, as data."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from jaxfit.errors import UserError

if TYPE_CHECKING:
    import optax


@dataclass(frozen=True)
class Recipe:
    """How a model is trained. Rates and decays map parameter names to values; "*" stands for all others.

    Differs: decay is decoupled from the loss and applied once a step, w <- w (1 - ηλ) before the gradient's step,
    whatever the minibatch's size and the optimizer, where the thesis adds a penalty to the loss. After a drop of
    the rate training goes on from the current parameters; the best ones are kept aside, and are the result.
    """

    optimizer: Literal["sgd", "adagrad", "adam"] = field(metadata={"help": "update rule"})
    batch_size: int = field(metadata={"help": "minibatch", "unit": "examples"})
    epochs: int = field(metadata={"help": "passes over the data at most", "unit": "epochs"})
    rate: Mapping[str, float] = field(metadata={"help": "learning rate: 0.01, or 0.01,b=0.1 per parameter"})
    decay: Mapping[str, float] = field(
        metadata={
            "help": "weight decay λ, of words in w <- w (1 - ηλ) each step, of ratings as --prior says: 1e-5, or "
            "1e-5,b=0 per parameter"
        }
    )
    anneal: bool = field(default=False, metadata={"help": "let the rate fall to 0 as half a cosine"})
    drops: tuple[float, ...] = field(
        default=(), metadata={"help": "factors of the rate, each entered when validation stops improving"}
    )
    patience: int = field(
        default=1, metadata={"help": "epochs without improvement before a drop or the end", "unit": "epochs"}
    )
    reduction: Literal["sum", "mean"] = field(
        default="mean", metadata={"help": "a step follows the gradient of the minibatch's sum or mean"}
    )


@functools.cache
def transform(optimizer: str) -> "optax.GradientTransformation":
    """The direction of a recipe's optimizer; rates and decay are applied by the engine."""
    import optax  # here: options are read without JAX

    if optimizer == "sgd":
        return optax.identity()
    if optimizer == "adagrad":
        return optax.scale_by_rss(initial_accumulator_value=0.0, eps=1e-10)
    return optax.scale_by_adam(b1=0.9, b2=0.999)


def per_parameter(names: tuple[str, ...], values: Mapping[str, float], option: str) -> list[float]:
    """One value for each parameter name; raises UserError for a name that the model does not have."""
    for name in values:
        if name != "*" and name not in names:
            raise UserError(f"no parameter is called {name!r}", option, f"use one of {', '.join(names)}")
    return [float(values.get(name, values.get("*", 0.0))) for name in names]


def parse_per_parameter(text: str, option: str) -> dict[str, float]:
    """Read "1e-5,R=1e-4,b=0": a value for all parameters, then values for those named.

    Raises UserError for what is no number.
    """
    values: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        try:
            values[name.strip() or "*"] = float(value)
        except ValueError:
            raise UserError(
                f"{value.strip()!r} is not a number", option, "write 0.01 or 0.01,b=0.1"
            ) from None
    return values
