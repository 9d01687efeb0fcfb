"""Language models: `jaxlm.train(…)` trains one, `jaxlm.load(directory)` reads it (see `jaxlm.trained_model.Model`)."""

from typing import TYPE_CHECKING, Any

from jaxfit import __version__
from jaxfit.errors import UserError

if TYPE_CHECKING:
    from jaxlm.api import train
    from jaxlm.model_files import load
    from jaxlm.trained_model import Model

__all__ = ["Model", "UserError", "__version__", "load", "train"]


def __dir__() -> list[str]:
    # for completion, which otherwise lacks the names that are imported on first use
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    # Imported on first use: texts and n-gram models do without JAX.
    if name == "train":
        from jaxlm.api import train

        return train
    if name in __all__:
        from jaxlm import model_files

        return getattr(model_files, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
