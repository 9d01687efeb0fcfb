"""Numbers of other libraries, as callers in notebooks have them, as those of Python."""

from collections.abc import Mapping
from typing import Any


def as_python(value: Any) -> Any:
    """Return a value with numbers of Python in place of those of NumPy or JAX, also within lists and mappings.

    An array becomes a list. What is no number stays as it is.
    """
    if isinstance(value, Mapping):
        return {name: as_python(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([as_python(each) for each in value])
    return value.tolist() if hasattr(value, "tolist") else value
