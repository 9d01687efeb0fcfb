"""Recommenders: `jaxcf.train(…)` trains one, `jaxcf.load(directory)` reads it (see `jaxcf.recommender.Model`)."""

from typing import TYPE_CHECKING, Any

from jaxfit import __version__
from jaxfit.errors import UserError

if TYPE_CHECKING:
    from jaxcf.api import train
    from jaxcf.model_files import load
    from jaxcf.recommender import Model

__all__ = ["Model", "UserError", "__version__", "load", "train"]


def __dir__() -> list[str]:
    # for completion, which otherwise lacks the names that are imported on first use
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    # Imported when asked for, so that reading and splitting ratings do without JAX.
    if name == "train":
        from jaxcf.api import train

        return train
    if name in ("Model", "load"):
        from jaxcf import model_files

        return getattr(model_files, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
