"""Collaborative filtering: `jaxcf.load(directory)` reads a trained model (see `jaxcf.recommender.Model`)."""

from typing import TYPE_CHECKING, Any

from jaxfit import __version__

if TYPE_CHECKING:
    from jaxcf.recommender import Model, load

__all__ = ["Model", "__version__", "load"]


def __getattr__(name: str) -> Any:
    # Imported on first use: reading and splitting ratings do without JAX.
    if name in __all__:
        from jaxcf import recommender

        return getattr(recommender, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
