"""Warnings that point at the line of the caller's own program, not at one of this project."""

import sys
import warnings

# packages whose lines are passed over; those of the last are of decorators
OWN = ("jaxfit", "jaxlm", "jaxcf", "contextlib")


def warn(message: str) -> None:
    """Give a UserWarning of the first caller outside of these packages, or of a command, which prints its own ones."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and _is_passed_over(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def _is_passed_over(module: str) -> bool:
    package, *inner = module.split(".")
    return package in OWN and "cli" not in inner
