"""A recipe: how a model is trained, as data; and the fields of which commands make options."""

import math
import types
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from jaxfit.errors import UserError, shortened, suggestion

FLOAT32_MAX = 3e38  # rounded down
INT32_MAX = 2**31 - 1
SEED: dict[str, Any] = {
    "low": 0,
    "high": 2**32 - 1,
}  # JAX's keys take the low 32 bits of a seed, so that larger ones repeat others


def option(default: Any = MISSING, help: str = "", unit: str = "", **more: Any) -> Any:
    """Return a dataclass field that `jaxfit.cli.options` makes an option of.

    Args:
        default: its value if none is given; a field without one has to be given.
        help: what it means, in a command's help.
        unit: what it is counted in, for the help.
        **more: `low`, `high` and `below` bound a number (`below` itself is out of bounds; without `low`, whole numbers
            start at 1 and others at 0; all are finite, and whole ones fit 32 bits); `metavar` is the help's
            placeholder for a text; `first`: whether --help shows it, and not only --help-all; `decided`: whether the
            data or the model decide it, so that it is no option; `only_with`: the name of another field and those of
            its values (a tuple, a range) without which this one has no effect.
    """
    return field(default=default, metadata={"help": help, "unit": unit, **more})


def correction(
    value: Any,
    kind: type[int] | type[float],
    low: float | None = None,
    high: float | None = None,
    below: float = math.inf,
) -> str | None:
    """Say what to give in place of a value that is not a number within the bounds of `option`; None for one that is."""
    largest = INT32_MAX if kind is int else FLOAT32_MAX
    least = (1 if kind is int else 0) if low is None else max(low, -largest)
    most = largest if high is None else high
    number: Any = (
        value if isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool) else None
    )
    if number is not None and least <= number <= most and number < below:
        return None
    too_large = number is not None and number > most and below == math.inf
    what = "a whole number" if kind is int else "a number"
    between = high is not None or least == -largest or too_large
    span = f"from {least:.10g} to {most:.10g}" if between else f"of at least {least:.10g}"
    return f"give {what} {span}" + (f", below {below:g}" if below < math.inf else "")


def require_number(value: Any, where: str, kind: type[int] | type[float], **bounds: float) -> None:
    """Raise a UserError for a value that is no number of the kind within the bounds of `option`."""
    do = correction(value, kind, **bounds)
    if do:
        raise UserError(f"invalid value {shortened(repr(value), 40)}", where, do)


def require_choice(value: Any, where: str, known: Collection[Any]) -> None:
    """Raise a UserError for a value that is none of those known."""
    if value not in known:
        do = suggestion(str(value), map(str, known))
        raise UserError(f"unknown value {shortened(repr(value), 40)}", where, do)


def require_bounds(settings: Any) -> None:
    """Raise a UserError for a number out of its bounds, or an unknown choice, in a dataclass of fields by `option`."""
    hints = get_type_hints(type(settings))
    for each in fields(settings):
        kind, value = number_of(hints[each.name]), getattr(settings, each.name)
        if get_origin(hints[each.name]) is Literal:
            require_choice(value, f"--{each.name.replace('_', '-')}", get_args(hints[each.name]))
        if kind is None or value is None:
            continue
        values = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else [value]
        bounds = {name: each.metadata[name] for name in ("low", "high", "below") if name in each.metadata}
        for one in values:
            require_number(one, f"--{each.name.replace('_', '-')}", kind, **bounds)


def number_of(hint: Any) -> type[int] | type[float] | None:
    """Return the kind of number, int or float, that a field of this type holds, also in a tuple or mapping, or None."""
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is not Literal and get_args(hint):
        hint = next((part for part in get_args(hint) if part in (int, float)), None)
    return hint if hint in (int, float) else None


@dataclass(frozen=True)
class Recipe:
    """How a model is trained. Rates and decays are by path in the parameters, as `per_parameter` says.

    Differs: unless the program says otherwise (`jaxfit.program.Decay`), decay is decoupled from the loss and applied
    once a step, w <- w (1 - ηλ) before the gradient's step, whatever the minibatch's size and the optimizer, where the
    thesis adds a penalty to the loss. After a drop of the rate, training continues from the current parameters; the
    result is the best parameters of all epochs, or the last ones where the program says so (`Program.result`), for
    which there are no drops and no patience.
    """

    optimizer: Literal["sgd", "adagrad", "rowwise-adagrad", "adam"] = option(
        help="update rule; rowwise-adagrad has one sum of squares for each row of a table"
    )
    batch_size: int = option(help="minibatch", unit="examples")
    epochs: int = option(help="passes over the data at most", unit="epochs", first=True)
    rate: Mapping[str, float] = option(help="learning rate: 0.01, or 0.01,b=0.1 per parameter", first=True)
    decay: Mapping[str, float] = option(
        help="weight decay λ; the model says when it is applied: 1e-5, or 1e-5,b=0 per parameter"
    )
    anneal: bool = option(False, "let the rate fall to 0 as half a cosine")
    drops: tuple[float, ...] = option(
        (), "factors of the rate, each entered when validation stops improving", low=1e-6, below=1
    )
    patience: int = option(1, "epochs without improvement before a drop or the end", "epochs")
    reduction: Literal["sum", "mean"] = option("mean", "a step follows the gradient of the minibatch's sum or mean")

    def __post_init__(self) -> None:
        require_bounds(self)


def named_arrays(params: Any) -> dict[str, Any]:
    """Return the arrays (or what has a shape) of a pytree by their paths, as recipes name them: "R", "dense/kernel"."""
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(params, is_leaf=lambda leaf: hasattr(leaf, "shape"))
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def per_parameter(names: Collection[str], values: Mapping[str, float], where: str) -> list[float]:
    """Return one value for each array of the parameters.

    Args:
        names: their paths ("R", "dense/kernel").
        values: by path; "dense" covers all below it unless a longer path does, "*" what no other covers. What nothing
            covers has 0.
        where: the option that set the values, for messages.

    Raises:
        UserError: a path is none of the model's.
    """
    for name in values:
        if name != "*" and not any(f"{path}/".startswith(f"{name}/") for path in names):
            raise UserError(f"no parameter is called {name!r}", where, f"use one of {', '.join(names)}")

    def value(path: str) -> float:
        covering = [name for name in values if f"{path}/".startswith(f"{name}/")]
        return float(values[max(covering, key=len)] if covering else values.get("*", 0.0))

    return [value(path) for path in names]


def parse_per_parameter(text: str, where: str) -> dict[str, float]:
    """Read "1e-5,R=1e-4,b=0": a value for all parameters, then values for those named.

    Raises UserError for what is no number, and for two values of the same parameter.
    """
    values: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        name = name.strip() or "*"
        if name in values:
            what = f"two values for {'all parameters' if name == '*' else name}"
            raise UserError(what, where, "write one for all, then those by name: 0.01,b=0.1")
        try:
            values[name] = float(value)
        except ValueError:
            raise UserError(f"{value.strip()!r} is not a number", where, "write 0.01 or 0.01,b=0.1") from None
    return values
