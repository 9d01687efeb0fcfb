"""The same computations in other programs, for comparison in speed. None of these needs to be installed."""

import contextlib
import importlib
import io
import warnings
from typing import Any


def load(name: str) -> Any:
    """Import a module, without what it prints and warns of while it is loaded."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def missing(name: str) -> str | None:
    """Say why a module cannot be used; None where it can."""
    try:
        load(name)
    except ImportError as error:
        return f"not installed ({error})"
    except Exception as error:  # built for another NumPy, or without a compiler
        return f"cannot be loaded ({error})"
    return None
