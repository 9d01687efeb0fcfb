"""Collaborative filtering: `jaxcf.load(directory)` reads a trained model (see `jaxcf.recommender.Model`)."""

from typing import TYPE_CHECKING, Any

from jaxfit import __version__
from jaxfit.errors import UserError

if TYPE_CHECKING:
    from jaxcf.recommender import Model, load

__all__ = ["Model", "UserError", "__version__", "load"]


def __getattr__(name: str) -> Any:
    # Imported on first use: reading and splitting ratings do without JAX.
    if name in ("Model", "load"):
        from jaxcf import recommender

        return getattr(recommender, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
