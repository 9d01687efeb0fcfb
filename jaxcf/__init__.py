"""Collaborative filtering: `jaxcf.load(directory)` reads a trained model (see `jaxcf.recommender.Model`)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxcf.recommender import Model, load

__all__ = ["Model", "load"]


def __getattr__(name: str) -> Any:
    # Only when asked for, so that reading and splitting ratings do without JAX.
    if name in __all__:
        from jaxcf import recommender as model

        return getattr(model, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
