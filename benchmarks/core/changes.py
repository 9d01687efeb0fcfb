"""A recipe and a configuration with some of their fields changed, by name."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from jaxfit.recipe import Recipe


def changed(
    recipe: Recipe | None, config: Mapping[str, Any], changes: Iterable[tuple[str, Any]]
) -> tuple[Recipe | None, dict[str, Any]]:
    """Change fields of the recipe, or of the configuration where the recipe has no such field.

    Args:
        recipe: None for a model without one.
        config: fields of the model's Config.
        changes: names and new values; "rate.b,c" sets the recipe's rate of the parameters b and c.

    Returns:
        The new recipe and configuration; names of the configuration's fields are checked only when a Config is made.

    Raises:
        AssertionError: a field of the recipe is to be changed, and the model has none.
    """
    of_recipe, config = {field.name for field in fields(Recipe)}, dict(config)
    for name, value in changes:
        field, _, parameters = name.partition(".")
        if field not in of_recipe:
            config[field] = value
            continue
        assert recipe is not None, f"{name} is changed of a model without a recipe"
        if parameters:
            value = {**getattr(recipe, field), **dict.fromkeys(parameters.split(","), value)}
        recipe = replace(recipe, **{field: value})
    return recipe, config
