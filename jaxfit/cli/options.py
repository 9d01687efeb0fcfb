"""Command-line options from dataclasses: a field's `jaxfit.recipe.option` is the one source of its meaning and unit.

A field `num_features: int = option(100, "feature vector dimensionality", "features")` becomes `--num-features N`; a
bool becomes a pair `--diagonal`, `--no-diagonal`, or a switch `--lower`, or, where the option has an `opposite` (and
`opposite_help`), a pair with names of their own.
"""

import argparse
import dataclasses
import math
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from jaxfit.cli.help import Rare
from jaxfit.errors import UserError
from jaxfit.plan import fields_of
from jaxfit.recipe import correction, number_of, parse_per_parameter, require_choice


def add(
    group: Any,
    cls: type,
    *,
    skip: Iterable[str] = (),
    defaults: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    switches: bool = False,
) -> None:
    """Add an option for each field of a dataclass to an argument parser or a group of one.

    Those that people use first, of `option(…, first=True)`, are shown by --help, the others by --help-all.

    Args:
        skip: fields without an option.
        defaults: what to show as a field's default, where that is not the field's own.
        rename: option names that differ from their field's.
        switches: a bool that is false can only be set.
    """
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if field.name in skip or field.metadata.get("decided"):
            continue
        option = "--" + (rename or {}).get(field.name, field.name).replace("_", "-")
        shown = (defaults or {}).get(field.name) or show(field.default)
        unit = field.metadata.get("unit")
        notes = [unit] if unit else []
        hint = _optional(hints[field.name])
        switch = hint is bool and switches and not field.default
        if shown and not switch:
            notes.append(f"default: {shown}")
        kind = str if field.metadata.get("first") else Rare
        text = field.metadata.get("help", "") + (f" ({'; '.join(notes)})" if notes else "")
        common: dict[str, Any] = {
            "dest": field.name, "default": argparse.SUPPRESS, "help": kind(text.replace("%", "%%"))
        }  # fmt: skip
        if hint is bool and "opposite" in field.metadata:
            pair = group.add_mutually_exclusive_group()
            pair.add_argument(option, action="store_true", **common)
            opposite, common["help"] = f"--{field.metadata['opposite']}", kind(field.metadata["opposite_help"])
            pair.add_argument(opposite, action="store_false", **common)
        elif hint is bool:
            action = "store_true" if switch else argparse.BooleanOptionalAction
            group.add_argument(option, action=action, **common)
        else:
            reader, metavar = _reader(hint, option, field.metadata)
            group.add_argument(option, type=reader, metavar=metavar, **common)


def given(args: argparse.Namespace, cls: type) -> dict[str, Any]:
    """Return the fields of a dataclass that the command line sets."""
    return fields_of(vars(args), cls)


def number(
    option: str,
    kind: type[int] | type[float] = int,
    low: float | None = None,
    high: float | None = None,
    below: float = math.inf,
) -> Callable[[str], Any]:
    """Return a reader of an option's number, which raises UserError outside the bounds."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        do = correction(value, kind, low, high, below)
        if do:
            raise UserError(f"invalid value {text!r}", option, do)
        return value

    return read


def files(group: Any, option: str, about: str) -> None:
    """Add an option that takes one or more files, and may be given several times."""
    group.add_argument(option, nargs="+", action="extend", metavar="FILE", help=about)


def choice(option: str, known: Iterable[str]) -> Callable[[str], str]:
    """Return a reader of an option's word, which raises UserError unless it is one of those known."""
    known = list(known)

    def read(text: str) -> str:
        require_choice(text, option, known)
        return text

    return read


def show(value: Any) -> str:
    """Return a default as a user would type it; empty where there is none."""
    if value is dataclasses.MISSING or value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ",".join(f"{v:g}" if k == "*" else f"{k}={v:g}" for k, v in value.items()) or "0"
    if isinstance(value, list | tuple):
        return ",".join(f"{v:g}" for v in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def listed(values: Mapping[str, Any], but: Collection[str] = ()) -> str:
    """Return values by name in a line, "batch_size 100, rate 0.1", without those of None.

    Args:
        but: names to leave out.
    """
    shown = {name: show(value) for name, value in values.items() if name not in but}
    return ", ".join(f"{name} {value}" for name, value in shown.items() if value)


def _optional(hint: Any) -> Any:
    """Return the type that a `T | None` holds."""
    if get_origin(hint) in (Union, types.UnionType):
        return next(part for part in get_args(hint) if part is not type(None))
    return hint


def _reader(hint: Any, option: str, metadata: Mapping[str, Any]) -> tuple[Callable[[str], Any], str]:
    bounds = {name: metadata[name] for name in ("low", "high", "below") if name in metadata}
    if hint is int:
        return number(option, int, **bounds), "N"
    if hint is float:
        return number(option, float, **bounds), "X"
    if get_origin(hint) is Literal:
        return choice(option, get_args(hint)), "|".join(get_args(hint))
    if get_origin(hint) is tuple:
        one = number(option, number_of(hint) or float, **bounds)
        return lambda text: () if text == "none" else tuple(map(one, text.split(","))), "X,…"
    if hint is str:
        return str, metadata.get("metavar", "NAME")
    return lambda text: parse_per_parameter(text, option), "X,name=X,…"
