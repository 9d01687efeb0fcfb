"""Collaborative filtering: `jaxcf.load(directory)` reads a trained model (see `jaxcf.recommender.Model`)."""

from typing import TYPE_CHECKING, Any

from jaxfit import __version__
from jaxfit.errors import UserError

if TYPE_CHECKING:
    from jaxcf.model_files import load
    from jaxcf.recommender import Model

__all__ = ["Model", "UserError", "__version__", "load"]


def __getattr__(name: str) -> Any:
    # Imported when asked for, so that reading and splitting ratings do without JAX.
    if name in ("Model", "load"):
        from jaxcf import model_files

        return getattr(model_files, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
