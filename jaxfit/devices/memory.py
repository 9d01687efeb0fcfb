"""The memory that a model takes, asked for before any of it is: from the shapes of its parameters."""

import math
import os
from typing import Any

import jax

from jaxfit.errors import UserError
from jaxfit.recipe import Recipe

MOMENTS = {"sgd": 0, "adagrad": 1, "adam": 2}  # arrays of an optimizer's state, as large as the parameters
COPIES = 3  # of the parameters: those trained, the best so far, and one while they are saved
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def available() -> int | None:
    """The bytes of memory that the first device has: this machine's on a CPU; None where it is not known."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        return (device.memory_stats() or {}).get("bytes_limit")
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system without them
        return None


def require(shapes: Any, recipe: Any, where: str) -> None:
    """Raise a UserError where a training takes more memory than there is.

    Args:
        shapes: Of the parameters, a pytree of `jax.ShapeDtypeStruct`.
        recipe: How they are trained; one that is no `Recipe` has no optimizer.
        where: The options that decide the shapes, for the message.
    """
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    needed = size * (COPIES + (MOMENTS[recipe.optimizer] if isinstance(recipe, Recipe) else 0))
    there = available()
    if there is not None and needed > there:
        what = f"the parameters, with what training keeps beside them, take {show(needed)}; there are {show(there)}"
        raise UserError(what, where, "make the model smaller")


def show(number: float) -> str:
    """Write a number of bytes as people read it: "4.1 TB"."""
    power = min(int(math.log(max(number, 1), 1000)), len(UNITS) - 1)
    return f"{number / 1000**power:.3g} {UNITS[power]}"
