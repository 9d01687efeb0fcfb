"""What `jaxlm train` and `jaxcf train` have in common: options from a model's Config, recipes and `Run`; the result."""

import argparse
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jaxfit.cli import options
from jaxfit.cli.command import Stopped, note
from jaxfit.cli.help import Rare
from jaxfit.cli.parser import Parser, add_limits
from jaxfit.devices import distributed as processes
from jaxfit.devices.cores import chosen_threads, simulate_devices, use_threads
from jaxfit.errors import Interrupted
from jaxfit.plan import Plan, Recipes, choose
from jaxfit.recipe import SEED, Recipe
from jaxfit.registry import Registry
from jaxfit.run_dir import manifest, replacement
from jaxfit.run_dir.run import FROM_PYTHON, Run, Trained

RECIPES = {"thesis": "as in the thesis or paper", "tuned": "chosen by validation"}


def add_models(
    parser: Parser,
    registry: Registry[Any],
    needed: str,
    add_options: Callable[[Parser, Any], None],
    doing: str = "Train",
) -> None:
    """Give the parser of a command that trains a parser for each model, which is imported when it is chosen.

    Args:
        parser: of the command.
        registry: of the models.
        needed: the options that name data and folder, for the usage: "--train FILE… --out DIR".
        add_options: (parser, record) adds the options of a model.
        doing: what the command does with a model, for the help.
    """

    def add_model(parser: Parser, name: str) -> None:
        record = registry.get(name)
        parser.description = f"{doing} {record.about} ({record.source})."
        add_options(parser, record)
        add_limits(parser)

    def about(name: str) -> str:
        return f"{registry.get(name).about} ({registry.get(name).source})"

    parser.description = f"{doing} a model. Its options: {parser.prog} MODEL --help"
    known: Any = parser.add_subparsers(metavar="MODEL", dest="model", required=True, title="models")
    for name in registry.names():
        usage = f"{parser.prog} {name} {needed} [options]"
        chosen = known.add_parser(name, help=lambda name=name: about(name), usage=usage)
        chosen.add_options = lambda parser, name=name: add_model(parser, name)


def add_result(parser: Parser) -> None:
    """Add where the model is written, and how its results are printed."""
    out = parser.add_argument_group("result")
    out.add_argument("--out", metavar="DIR", help="folder for the model")
    out.add_argument(
        "--overwrite", action="store_true",
        help="replace the model in that folder, and all of its files; it stays until the new one has been trained",
    )  # fmt: skip
    out.add_argument("--json", action="store_true", help="print the result as one JSON object")
    out.add_argument("--quiet", action="store_true", help="print results, warnings and errors only")


def add(
    parser: Parser,
    config: type,
    recipes: Recipes,
    *,
    skip: Iterable[str] = (),
    rename: Mapping[str, str] | None = None,
) -> None:
    """Add an option for each field of a model's Config and of its recipe, and, for training by the engine, of `Run`.

    Args:
        parser: of one model.
        config: the model's Config.
        recipes: as in `jaxfit.registry.Record`.
        skip: fields of Config that are determined by its data.
        rename: option names that differ from their field's.
    """
    shown = {field: _show(values) for field, values in _values(config, recipes).items()}
    options.add(parser.add_argument_group("model"), config, skip=skip, defaults=shown, rename=rename)
    if not recipes:
        return
    training = parser.add_argument_group("training")
    training.add_argument(
        "--recipe", type=options.choice("--recipe", recipes), default="tuned", metavar="|".join(recipes),
        help=f"which defaults: {' or '.join(RECIPES[name] for name in recipes)} (default: tuned)",
    )  # fmt: skip
    recipe, _ = recipes["tuned"]
    if recipe is None:
        return
    if any(isinstance(one, Recipe) and one.anneal for one, _ in recipes.values()):
        shown["patience"] += ", with --no-anneal"
    options.add(training, type(recipe), defaults=shown)
    training.add_argument(
        "--seed", type=options.number("--seed", **SEED), default=1, metavar="N",
        help=Rare("of all random draws (default: 1)"),
    )  # fmt: skip
    if isinstance(recipe, Recipe):
        options.add(training, Run, skip=FROM_PYTHON, switches=True)
        options.add(parser.add_argument_group("training by several processes"), processes.Join)


def _show(values: dict[str, Any]) -> str:
    """Say what recipes set a field to; nothing of those that leave it unset."""
    if len({options.show(value) for value in values.values()}) == 1:
        return options.show(next(iter(values.values())))
    return ", ".join(f"{options.show(value)} in {recipe}" for recipe, value in values.items() if value is not None)


def _values(config: type, recipes: Recipes) -> dict[str, dict[str, Any]]:
    """Return what recipes set: field of the recipe or of Config -> recipe -> value."""
    defaults = {f.name: f.default for f in dataclasses.fields(config)}
    chosen = {field for _, overrides in recipes.values() for field in overrides}
    values: dict[str, dict[str, Any]] = {}
    for name, (recipe, overrides) in recipes.items():
        fields = {field: overrides.get(field, defaults[field]) for field in chosen}
        if recipe is not None:
            fields.update(vars(recipe))
        for field, value in fields.items():
            values.setdefault(field, {})[name] = value
    return values


def plan(
    args: argparse.Namespace, config: type, recipes: Recipes, names: Collection[str] = (), one_thread_up_to: float = 0
) -> Plan:
    """Read the options, and meet the other processes where there are any.

    Args:
        args: of the command.
        config: the model's Config.
        recipes: as in `jaxfit.registry.Record`.
        names: the model's parameters.
        one_thread_up_to: as in `jaxfit.registry.Record`.

    Raises:
        UserError: An option's value is wrong by itself or does not fit the others.
    """
    fields, recipe = choose(config, recipes, getattr(args, "recipe", "tuned"), vars(args), names)
    if recipe is None:
        return Plan(fields)
    if not isinstance(recipe, Recipe):
        return Plan(fields, recipe, args.seed)
    run = Run(**options.given(args, Run))
    simulate_devices(run.devices)
    if run.threads or (recipe.batch_size <= one_thread_up_to and run.devices == 1 and not chosen_threads()):
        use_threads(run.threads or 1)
    processes.join(processes.Join(**options.given(args, processes.Join)), args.parser.prog.split()[0])
    from jaxfit.checks import check_minibatch  # here: the help is shown without JAX
    from jaxfit.devices import sharding

    # before data are read
    processes.require_same({"--devices": run.devices, "--row-shards": run.row_shards, "--resume": run.resume})
    check_minibatch(recipe, sharding.make(run.devices, run.row_shards))
    return Plan(fields, recipe, args.seed, dataclasses.replace(run, show=processes.leads() and not args.quiet))


@contextmanager
def folder(
    args: argparse.Namespace, place: Path, model: str, files: Collection[str], *, resume: bool, resumable: bool
) -> Iterator[Path]:
    """Yield the folder to train in: `place`, or one beside it that takes its place once the model has been trained.

    Args:
        args: of the command.
        place: the folder of `--out`.
        model: the name of the model.
        files: as for `replacement.choose`.
        resume: whether to go on with what is there.
        resumable: whether the engine trains the model.

    Raises:
        UserError: There is a model that is neither to be resumed nor to be replaced, or another training runs there.
    """
    with replacement.folder(
        place, model, files, overwrite=args.overwrite, resume=resume, resumable=resumable
    ) as out:  # fmt: skip
        # a model that has finished
        if args.overwrite and resumable and out != place and (place / manifest.NAME).exists():
            note(args, f"{place} stays as it is until its new model has been trained")
        yield out


@contextmanager
def stoppable(place: Path, work: Path | None) -> Iterator[None]:
    """After a signal within, say what was saved and how to go on.

    Args:
        place: the folder of `--out`.
        work: the folder in which the training saves its state; None: it cannot be resumed.
    """
    advice = "give the same command with --resume to go on"
    there = (place / manifest.NAME).exists()
    try:
        yield
    except KeyboardInterrupt as stop:
        if isinstance(stop, Interrupted):
            processes.anywhere(False)  # no process leaves before process 0 has saved
            said = f", all is saved ({place}) - {advice}"
        elif not processes.leads():  # others write nothing that would tell
            said = ""
        elif not there and work is None and (place / manifest.NAME).exists():
            said = f", the model is complete ({place})"
        elif work is not None and replacement.goes_on(work, place):  # in building a structure, in compiling
            said = f" ({place}) - {advice} from what is saved"
        else:
            said = " - give the same command again to begin anew"
        raise Stopped(stop, said) from None


def print_end(trained: Trained[Any], unit: str) -> None:
    """Print how a training ended, and how long it took.

    Args:
        unit: of the engine's speed, "words".
    """
    if trained.stopped != "done":
        print("stopped after --max-minutes: give the same command with --resume to go on")
    if not trained.seconds:
        print(f"its training had finished before{_ended_early(getattr(trained.model, 'info', {}))}")
        return
    speed = trained.events_per_second
    spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in trained.seconds.items())
    print(f"time: {spent}" + (f", {speed:,.0f} {unit}/s" if speed else ""))


def _ended_early(info: Mapping[str, Any]) -> str:
    """Say why a training had fewer epochs than it could have had."""
    recipe, epochs = info.get("recipe") or {}, info.get("epochs")
    if epochs is None or epochs >= recipe.get("epochs", epochs):
        return ""
    return f": it ended after {epochs} epochs, the last {recipe['patience']} without improvement (--patience)"
