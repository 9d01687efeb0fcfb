"""What calls from Python that train a model have in common: their options, their folder, and running out of time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from jaxfit.devices import distributed as processes
from jaxfit.devices.cores import simulate_devices, use_threads
from jaxfit.errors import FolderTaken, UserError, rewrite, suggestion
from jaxfit.plan import Plan, choose, fields_of
from jaxfit.recipe import SEED, Recipe, require_number
from jaxfit.registry import Record
from jaxfit.run_dir import replacement
from jaxfit.run_dir.run import FROM_PYTHON, Run, Trained
from jaxfit.types_of_values import is_of_type

# options of both commands that calls lack, and what to do instead
OF_COMMANDS = {"test": "call evaluate of the trained model", "overwrite": "remove the folder first"}


def of_call(
    record: Record,
    recipe: str,
    options: Mapping[str, Any],
    *,
    arguments: Collection[str],
    classes: Collection[type],
    skip: Collection[str],
    parameters: Callable[[Mapping[str, Any]], Collection[str]],
    trained: bool,
    seed: int,
    out: object | None,
    progress: bool,
) -> tuple[dict[str, Any], Plan]:
    """Check the options of a call that trains a model; return them, and the Plan that they describe.

    Args:
        record: of the model.
        recipe: its name.
        options: by name, as those of the command with _ for -; rates and decays may be single numbers.
        arguments: names of the call's arguments that are not options, to suggest in place of a misspelled option.
        classes: dataclasses to whose fields options belong, besides Config, recipe and `Run`.
        skip: fields that are no options.
        parameters: (options, of their types) -> the names of the parameters, as for `choose`.
        trained: whether the model can be trained by the engine, and so stopped and resumed.
        seed: of all random draws.
        out: the folder of the model, None where there is none.
        progress: whether progress is shown.

    Raises:
        UserError: there is no such option; a value is of another type than its option, or out of its bounds; `resume`
            or `max_minutes` is given without `out`; this is one of several processes.
    """
    if processes.several():
        raise UserError("a call trains in one process", do="use the command on each machine (docs/scaling.md)")
    chosen = [type(one) for one, _ in record.recipes.values() if one is not None]
    known = [record.config, *chosen[:1], *classes, *([Run] if trained else [])]
    by_parameter = {"rate", "decay"} - {field.name for field in fields(record.config)}
    instead = f"leave it out: {record.name} is not trained by SGD"
    of_engine = {} if trained else {field.name: instead for cls in (Recipe, Run) for field in fields(cls)}
    options = checked(options, known, (*skip, *FROM_PYTHON), by_parameter, arguments, {**of_engine, **OF_COMMANDS})
    require_number(seed, "seed", int, **SEED)
    require_flag(progress, "progress")
    config, fitted = choose(record.config, record.recipes, recipe, options, parameters(options))
    run = Run(**fields_of(options, Run), show=progress) if trained else Run(show=progress)
    if out is None and (run.resume or run.max_minutes is not None):
        name = "resume" if run.resume else "max_minutes"
        raise UserError("a training in memory cannot be resumed", name, "name a folder: out=…")
    simulate_devices(run.devices)
    # not by the model: it would hold for all that the process does with JAX
    if run.threads and not use_threads(run.threads):
        warnings.warn("JAX has begun: threads has no effect - train before JAX is used, or set NPROC", stacklevel=3)
    return options, Plan(config, fitted, seed, run)


@contextmanager
def folder(
    out: str | PathLike[str] | None, model: str, run: Run, *, files: Collection[str], resumable: bool
) -> Iterator[Path]:
    """Yield the folder to train in, checked and locked: as the command does (`replacement.folder`), or a temporary one.

    Args:
        out: the folder of the model; None for one in memory.
        model: its name.
        run: says whether to resume.
        files: as for `replacement.choose`.
        resumable: whether the engine trains the model.

    Raises:
        FolderTaken: it holds a model that is not to be resumed, and whose training has not diverged.
        UserError: another training runs there now; the name is empty.
    """
    if out is not None and not str(out):
        raise UserError("the name of the folder is empty", "out", "name a folder, or leave it out")
    if out is None:
        with TemporaryDirectory() as temporary:
            yield Path(temporary)
        return
    try:
        with replacement.folder(
            Path(out), model, files, overwrite=False, resume=run.resume, resumable=resumable
        ) as path:  # fmt: skip
            path.mkdir(parents=True, exist_ok=True)  # `locked` makes it only on POSIX systems
            yield path
    except FolderTaken as error:
        rewrite(error, lambda part: part.replace("add --overwrite", OF_COMMANDS["overwrite"]))
        raise


def require_flag(value: object, name: str) -> None:
    """Raise a UserError for what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise UserError(f"invalid value {value!r}", name, f"give {_shown(bool)}")


def require_on_epoch(on_epoch: object, model: str, in_epochs: bool) -> None:
    """Raise a UserError for an `on_epoch` that cannot be called, or that a model not trained in epochs is given."""
    if on_epoch is not None and not in_epochs:
        raise UserError(f"{model} is not trained in epochs", "on_epoch", "leave it out")
    if on_epoch is not None and not callable(on_epoch):
        raise UserError(f"{on_epoch!r} is not a function", "on_epoch", "give a function of one argument")


def warn_stopped(trained: Trained[Any]) -> None:
    """Warn of a training that ran out of time."""
    if trained.stopped != "done":
        warnings.warn("the training stopped after max_minutes: give resume=True to go on", stacklevel=3)


def checked(
    options: Mapping[str, Any],
    classes: Collection[type],
    skip: Collection[str] = (),
    by_parameter: Collection[str] = (),
    arguments: Collection[str] = (),
    advice: Mapping[str, str] = OF_COMMANDS,
) -> dict[str, Any]:
    """Check the options of a call; return them as the command would read them.

    Args:
        options: by name.
        classes: dataclasses to whose fields they belong.
        skip: fields that are no options.
        by_parameter: options whose value is one number for all parameters, or a mapping by parameter.
        arguments: as for `of_call`.
        advice: what to do instead, by the names of options that calls lack.

    Raises:
        UserError: there is no such option, or a value is of another type than its option.
    """
    lists = {field.name for cls in classes for field in fields(cls) if "," in field.metadata.get("metavar", "")}
    options = {name: _converted(name, value, by_parameter, lists) for name, value in options.items()}
    _require_options(options, classes, skip, arguments, advice)
    return options


def _converted(name: str, value: Any, by_parameter: Collection[str], lists: Collection[str]) -> Any:
    """Return a value as the command would read it: a rate for all parameters, a list or a path as text."""
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, np.generic):
        value = value.item()
    if name in by_parameter and isinstance(value, int | float) and not isinstance(value, bool):
        return {"*": value}
    if name in lists and isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return value


def _require_options(
    given: Mapping[str, Any],
    classes: Collection[type],
    skip: Collection[str],
    arguments: Collection[str],
    advice: Mapping[str, str],
) -> None:
    """Raise a UserError for the first option that no class has as a field, or whose value is not of its type."""
    skip = {*skip, *(field.name for cls in classes for field in fields(cls) if field.metadata.get("decided"))}
    hints = {
        name: kind for cls in reversed(list(classes)) for name, kind in get_type_hints(cls).items() if name not in skip
    }
    for name, value in given.items():
        if name not in hints:
            do = advice.get(name) or _similar(name, [*hints, *arguments])
            raise UserError(f"there is no option {name!r}", do=do)
        if not is_of_type(value, hints[name]):
            kind = hints[name]
            choices = next((get_args(part) for part in (kind, *get_args(kind)) if get_origin(part) is Literal), ())
            wanted = suggestion(str(value), map(str, choices)) if choices else f"give {_shown(kind)}"
            raise UserError(f"invalid value {value!r}", name, wanted)


def _similar(name: str, options: Collection[str]) -> str:
    """Say what to do about an option that does not exist; all names would be too many for a line."""
    close = get_close_matches(name, options, n=1, cutoff=0.65)
    return f"did you mean {close[0]}?" if close else "the command's --help-all lists the options"


def _shown(kind: Any) -> str:
    """Return what a type is called in a message."""
    if get_origin(kind) in (dict, Mapping):
        return "a number, or a dict of numbers by parameter, '*' for all others"
    shown = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
    part = next((part for part in shown if part in (kind, *get_args(kind))), None)
    if get_origin(kind) is tuple or part is None:
        return f"a tuple of {'whole numbers' if part is int else 'numbers'}"
    return shown[part]
