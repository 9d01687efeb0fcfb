"""How large a benchmark is: what the scales of both packages' tables share."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jaxfit.recipe import Recipe

RECIPES = ("tuned", "thesis")


@dataclass(frozen=True)
class Scale:
    """The size of data, models and training, compared with the thesis' setting."""

    name: str
    about: str
    data: str  # the data set unless --data names one
    # model -> fields of its tuned recipe that fit this size
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, kw_only=True)
    epochs: int | None = field(default=None, kw_only=True)  # in every recipe, in place of its own
    window: float | None = field(default=None, kw_only=True)  # seconds of a timing, where not `core.timing.WINDOW`

    def adapt(self, model: str, name: str, recipe: Recipe) -> Recipe:
        """Adapt the recipe of this name of a model to this scale."""
        changes = dict(self.tuned.get(model, {})) if name == "tuned" else {}
        changes |= {} if self.epochs is None else {"epochs": self.epochs}
        return replace(recipe, **changes)
