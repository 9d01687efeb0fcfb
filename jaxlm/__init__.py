"""Language models: `jaxlm.load(directory)` reads a trained one (see `jaxlm.trained_model.Model`)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxlm.trained_model import Model, load

__all__ = ["Model", "load"]


def __getattr__(name: str) -> Any:
    # Only when asked for, so that the n-gram code and the text code do without JAX.
    if name in __all__:
        from jaxlm import trained_model

        return getattr(trained_model, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
