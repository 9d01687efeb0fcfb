"""The options of a training from a model's Config, its recipes and `Run`, read into a plan."""

import argparse
import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jaxfit.cli import options
from jaxfit.cli.command import Parser
from jaxfit.devices import distributed as processes
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe, per_parameter
from jaxfit.run_dir.run import Run

Recipes = Mapping[str, tuple[Recipe, dict[str, Any]]]


class Plan(NamedTuple):
    """What the options of a training say: the recipe, values that differ from Config's defaults, how it is run."""

    recipe: Recipe
    config: dict[str, Any]
    run: Run


def add_model(
    parser: Parser,
    config: type,
    recipes: Recipes,
    *,
    skip: Iterable[str] = (),
    rename: Mapping[str, str] | None = None,
) -> None:
    """Add an option for each field of a model's Config; skip: fields that are determined by its data."""
    shown = {field: _show(values) for field, values in _values(config, recipes).items()}
    group = parser.add_argument_group("model")
    options.add(group, config, skip=skip, defaults=shown, rename=rename)


def add_training(parser: Parser, config: type, recipes: Recipes) -> None:
    """Add `--recipe`, an option for each field of Recipe, of Run and of Join, and `--seed`."""
    shown = {field: _show(values) for field, values in _values(config, recipes).items()}
    training = parser.add_argument_group("training")
    training.add_argument(
        "--recipe", type=options.choice("--recipe", recipes), default="tuned", metavar="|".join(recipes),
        help="which defaults: the thesis', or what serves best (default: tuned)",
    )  # fmt: skip
    options.add(training, Recipe, defaults=shown)
    training.add_argument(
        "--seed", type=options.number("--seed", low=0), default=1, metavar="N",
        help="of all random draws (default: 1)",
    )  # fmt: skip
    options.add(training, Run, skip=["show"], switches=True)
    options.add(parser.add_argument_group("training by several processes"), processes.Join)


def _show(values: dict[str, Any]) -> str:
    """What recipes set a field to, in words."""
    if len({options.show(value) for value in values.values()}) == 1:
        return options.show(next(iter(values.values())))
    return ", ".join(f"{options.show(value)} in {recipe}" for recipe, value in values.items())


def _values(config: type, recipes: Recipes) -> dict[str, dict[str, Any]]:
    """What recipes set: field of Recipe or Config -> recipe -> value."""
    values: dict[str, dict[str, Any]] = {}
    defaults = {f.name: f.default for f in dataclasses.fields(config)}
    for recipe, (settings, overrides) in recipes.items():
        for field, value in vars(settings).items():
            values.setdefault(field, {})[recipe] = value
        for field in {f for _, more in recipes.values() for f in more}:
            values.setdefault(field, {})[recipe] = overrides.get(field, defaults[field])
    return values


def plan(args: argparse.Namespace, config: type, recipes: Recipes, names: tuple[str, ...]) -> Plan:
    """Read the options, and meet the other processes where there are any; names: the model's parameters.

    Raises:
        UserError: An option's value is wrong by itself or does not fit the others.
    """
    recipe, overrides = recipes[args.recipe]
    chosen = options.given(args, Recipe)
    for name in ("rate", "decay"):
        per_parameter(names, chosen.get(name, {}), f"--{name}")
        if name in chosen and "*" not in chosen[name]:  # a value for one parameter leaves the others theirs
            chosen[name] = {**getattr(recipe, name), **chosen[name]}
    recipe = dataclasses.replace(recipe, **chosen)
    how = Run(show=True, **options.given(args, Run))
    _simulate_devices(how.devices)
    processes.join(processes.Join(**options.given(args, processes.Join)))
    from jaxfit.devices import sharding as mesh  # here: the help is shown without JAX

    shards = mesh.shards(mesh.make(how.devices))
    if recipe.batch_size % shards:
        what = f"{recipe.batch_size} examples do not divide among {shards} devices"
        raise UserError(what, "--batch-size", f"make it a multiple of {shards}")
    how = dataclasses.replace(how, show=processes.leads())
    return Plan(recipe, {**overrides, **options.given(args, config)}, how)


def _simulate_devices(number: int) -> None:
    """Make a CPU into several devices, if JAX has not begun yet; `jaxfit.devices.sharding` reports too few of them."""
    import jax

    if number > 1 and "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        try:
            jax.config.update("jax_num_cpu_devices", number)
        except RuntimeError:  # JAX has begun, with the devices it has
            return
