"""Whether a value, read from JSON or given by a caller, is of the type that a field of a dataclass has."""

import itertools
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin


def is_of_type(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type as Configs have them, with lists for tuples, and whole numbers for others."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        if not isinstance(value, list | tuple) or (parts[-1] is not ... and len(value) != len(parts)):
            return False
        return all(map(is_of_type, value, itertools.repeat(parts[0]) if parts[-1] is ... else parts))
    if get_origin(kind) in (Union, types.UnionType):
        return any(is_of_type(value, part) for part in get_args(kind))
    if get_origin(kind) in (dict, Mapping):
        return isinstance(value, dict) and all(is_of_type(part, get_args(kind)[1]) for part in value.values())
    if kind is int:
        return type(value) is int and abs(value) < 1 << 53
    if kind is float:
        return type(value) is float or (type(value) is int and abs(value) < 1 << 53)
    return isinstance(value, kind)
