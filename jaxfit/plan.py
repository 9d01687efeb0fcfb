"""From options by name, of a command or of a call, to a model's Config, its recipe and how its training is run."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from jaxfit.errors import UserError, suggestion
from jaxfit.recipe import Recipe, per_parameter
from jaxfit.run_dir.run import Run

Recipes = Mapping[str, tuple[Any, dict[str, Any]]]  # name -> recipe, None without one; overrides of Config


class Plan(NamedTuple):
    """What the options of a training say: values that differ from Config's defaults, recipe, seed, how it is run."""

    config: dict[str, Any]
    recipe: Any = None
    seed: int = 1
    run: Run = Run()


def fields_of(given: Mapping[str, Any], cls: type) -> dict[str, Any]:
    """Return those of the given values that are fields of a dataclass."""
    names = {field.name for field in dataclasses.fields(cls)}
    return {name: value for name, value in given.items() if name in names}


def choose(
    config: type, recipes: Recipes, name: str, given: Mapping[str, Any], parameters: Collection[str] = ()
) -> tuple[dict[str, Any], Any]:
    """Return the values of Config that differ from its defaults, and the recipe, None for a model without one.

    Args:
        config: the model's Config.
        recipes: the model's, or none.
        name: of the recipe whose values stand where none is given.
        given: options by name; those that belong neither to the Config nor to the recipe are not read.
        parameters: names of the model's parameters, where they can have rates and decays of their own.

    Raises:
        UserError: there is no recipe of this name; a value is wrong by itself or does not fit the others.
    """
    of_config = fields_of(given, config)
    if name not in recipes and (recipes or name != "tuned"):
        raise UserError(f"there is no recipe {name!r}", do=suggestion(str(name), recipes or ["tuned"]))
    recipe, overrides = recipes[name] if recipes else (None, {})
    fields = {**overrides, **of_config}
    require_effect(of_config, fields, config)
    if recipe is None:
        return fields, None
    chosen = fields_of(given, type(recipe))
    if isinstance(recipe, Recipe):
        for each in ("rate", "decay"):
            per_parameter(parameters, chosen.get(each, {}), f"--{each}")
            if each in chosen and "*" not in chosen[each]:  # a value for one parameter leaves the others theirs
                chosen[each] = {**getattr(recipe, each), **chosen[each]}
    return fields, dataclasses.replace(recipe, **chosen)


def require_stops(recipe: Any, given: Collection[str]) -> None:
    """Raise a UserError for a given option of the stop rule with a recipe of the engine by which all epochs are run."""
    for name in ("drops", "patience"):
        if name in given and isinstance(recipe, Recipe) and recipe.anneal:
            what = "no effect where the rate falls as a cosine: all epochs are run"
            raise UserError(what, f"--{name}", "leave it out, or give --no-anneal")


def require_consistent(fields: Mapping[str, Any], config: type) -> None:
    """Raise the UserError of a Config whose values do not fit each other, before data are read.

    Fields without a default, which only the data decide, are 2 for this check.
    """
    unknown = [f.name for f in dataclasses.fields(config) if f.default is f.default_factory is dataclasses.MISSING]
    config(**{**dict.fromkeys(unknown, 2), **fields})


def require_effect(given: Mapping[str, Any], fields: Mapping[str, Any], config: type) -> None:
    """Raise a UserError for a given option that has no effect with the value of another, unless it is at its default.

    Args:
        given: values by the names of fields.
        fields: values of those that are not at their defaults.
        config: the dataclass, of fields by `option`.
    """
    all_fields = {f.name: f for f in dataclasses.fields(config)}
    for name, chosen in given.items():
        if "only_with" in all_fields[name].metadata and chosen != all_fields[name].default:
            other, values = all_fields[name].metadata["only_with"]
            value = fields.get(other, all_fields[other].default)
            if value not in values:
                listed = f"of {values[0]} or more" if isinstance(values, range) else " or ".join(values)
                needed = f"--{other.replace('_', '-')} {listed}"
                what = f"no effect with the {other.replace('_', ' ')} {value}"
                raise UserError(what, f"--{name.replace('_', '-')}", f"leave it out, or give {needed}")
