"""What `config.json` of a model's folder says, and whether a training there can go on.

An *identity* is all that determines a trained model, as `config.json` holds it: a training goes on only where that is
the same. The environment is recorded, too, but is no part of it.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from jaxfit.errors import FolderTaken, NoModel, UserError
from jaxfit.recipe import Recipe, require_bounds
from jaxfit.run_dir import checkpoint, json_text, manifest
from jaxfit.run_dir.atomic import recover, replacing
from jaxfit.run_dir.manifest import REPAIR
from jaxfit.types_of_values import is_of_type

FORMAT = 1
CONFIG, PARAMETERS = "config.json", "parameters"
FIRST_STAGE = "bootstrap"  # folder, within a model's, of the model that its structure is built from


def read_info(directory: Path) -> dict[str, Any]:
    """Return what `config.json` of a model's folder holds.

    Raises:
        NoModel: There is none, or only the model of a first stage.
        UserError: It cannot be read or is malformed, or it is of another format.
    """
    recover(directory / PARAMETERS)
    try:
        info = json_text.read(directory / CONFIG)
    except (FileNotFoundError, NotADirectoryError):
        if (directory / manifest.NAME).exists() or has_saved(directory):
            raise UserError(f"the model is damaged: {CONFIG} is missing", directory, REPAIR) from None
        if any(map(has_model, stages(directory)[1:])):
            raise unfinished_training(directory, False, asked=False) from None
        what = "no model here" if directory.exists() else "no model here: the path does not exist"
        raise NoModel(what, directory, "name a folder that `train` wrote") from None
    except OSError as error:
        what = f"the configuration cannot be read: {error.strerror or error}"
        raise UserError(what, directory / CONFIG, "check its permissions") from None
    except ValueError:
        raise UserError("not a model's configuration", directory / CONFIG, REPAIR) from None
    if not isinstance(info, dict) or not isinstance(info.get("model"), str):
        raise UserError("not a model's configuration", directory / CONFIG, REPAIR)
    if info.get("format") != FORMAT:
        raise UserError(f"a model of format {info.get('format')}, not {FORMAT}", directory, REPAIR)
    recipe = info.get("recipe") or {}
    require_types({"recipe": recipe}, {"recipe": dict}, directory)
    require_types(recipe, {name: kind for name, kind in get_type_hints(Recipe).items() if name in recipe}, directory)
    return info


def stages(directory: Path) -> list[Path]:
    """List a model's folder and, each within the one before, those of the models that its structure is built from."""
    found = [directory]
    while (first := found[-1] / FIRST_STAGE).is_dir():
        found.append(first)
    return found


def read_config(kind: type, info: dict[str, Any], directory: Path) -> Any:
    """Return the Config, a dataclass, of a model that `config.json` describes; JSON's lists are its tuples.

    A field that is not there has its default: it was added later, and the default is what models were before.

    Raises:
        UserError: The configuration is missing, lacks a field without a default or has another one, or a value is not
            of its type, or out of bounds.
    """
    stored: Any = info.get("config")
    every, wrong = get_type_hints(kind), ["it is missing"]
    hints = {field.name: every[field.name] for field in fields(kind)}
    if isinstance(stored, dict):
        wrong = [f"{f.name} is missing" for f in fields(kind) if f.name not in stored and f.default is MISSING]
        wrong += [f"{name!r} is unknown" for name in stored if name not in hints]
    if wrong:
        what = f"the configuration is not that of {info['model']}: {wrong[0]}"
        raise UserError(what, directory / CONFIG, REPAIR)
    require_types(stored, {name: hints[name] for name in stored}, directory)
    values: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in stored.items()}
    config = kind(**{name: float(x) if hints[name] is float else x for name, x in values.items()})
    try:
        require_bounds(config)
    except UserError as error:
        name = str(error.where).removeprefix("--").replace("-", "_")
        what = f"not a model's configuration: {name} is {getattr(config, name)}, which is out of bounds"
        raise UserError(what, directory / CONFIG, REPAIR) from None
    return config


def require_types(
    values: Mapping[str, Any], types: Mapping[str, Any], directory: Path, *, optional: bool = False
) -> None:
    """Raise a UserError where a part of `config.json` has a value that is not of its type, or, unless optional, none.

    Args:
        values: the part.
        types: by name: classes, and types of tuples and literals.
        directory: the model's folder.
        optional: whether values may be missing.
    """
    for name, kind in types.items():
        if not (is_of_type(values.get(name), kind) or (optional and name not in values)):
            what = f"not a model's configuration: {name} is {json.dumps(values.get(name))[:40]}"
            raise UserError(what, directory / CONFIG, REPAIR)


def write_info(directory: Path, info: dict[str, Any], files: Collection[str]) -> None:
    """Write `config.json`, and then the manifest: all else that the model has must be there.

    Args:
        directory: the model's folder.
        info: what `config.json` is to hold.
        files: names of the files that the models of the package write in addition to those of the engine.
    """
    begin_changes(directory)
    with replacing(directory / CONFIG) as aside:
        json_text.write(aside, info)
    write_manifest(directory, files)


def write_manifest(directory: Path, files: Collection[str]) -> None:
    """Write the manifest of a model's folder.

    Args:
        files: as for `write_info`.
    """
    listed = manifest.of_model(directory, [CONFIG, *files], [PARAMETERS])
    with replacing(directory / manifest.NAME) as aside:
        json_text.write(aside, listed)


def begin_changes(directory: Path) -> None:
    """Remove the manifest: until `write_info`, the model's files do not belong together."""
    path = directory / manifest.NAME
    if path.is_dir():
        raise UserError("a folder is there in place of the model's manifest", path, "remove it")
    path.unlink(missing_ok=True)


def has_model(directory: Path) -> bool:
    """Return whether a folder has a model, which may be damaged; a `config.json` alone may be another program's."""
    if (directory / manifest.NAME).exists() or has_saved(directory) or readable_info(directory) is not None:
        return True
    try:
        json_text.read(directory / CONFIG)
    except FileNotFoundError:
        return False
    except (OSError, ValueError):  # damaged
        return True
    return False


def unfinished_training(directory: Path, has_parameters: bool, *, asked: bool) -> NoModel:
    """Return the error that a model's training has not finished.

    Args:
        directory: the model's folder.
        has_parameters: whether parameters of a best epoch have been saved.
        asked: whether these would have been read.
    """
    if asked:
        advice = "go on with it by --resume; with --max-minutes it saves them when it stops"
        return NoModel("no parameters of a best epoch have been saved yet", directory, advice)
    more = ", or add --unfinished (load: unfinished=True)" if has_parameters else ""
    return NoModel("the model's training has not finished", directory, f"go on with it by --resume{more}")


def require_free(directory: Path, model: str, *, resume: bool, resumable: bool = True) -> None:
    """Raise FolderTaken where a folder holds a model, unless it is to be resumed.

    Raise UserError where it holds none, but files that one would replace.

    Args:
        directory: the model's folder.
        model: the name of the model that is to be trained there.
        resume: whether to go on with what is there.
        resumable: whether the engine trains the model.
    """
    if not has_model(directory):
        for name in (CONFIG, manifest.CARD, manifest.SCORES):  # others may be left by a training that was killed
            if (directory / name).exists():
                what = "the folder has this file, but no model"
                raise UserError(what, directory / name, "move it, or choose another --out")
        return
    if not ((directory / CONFIG).exists() or (resumable and has_saved(directory))):
        return
    try:
        found = read_info(directory)
        same, what = resumable and found["model"] == model and "solver" not in found, found["model"]
    except UserError:
        same, what = resumable, f"{CONFIG} is lost or damaged"
    if not (same and resume):
        advice = "choose another --out, or add --overwrite"
        advice = f"add --resume to go on with it, {advice}" if same else advice
        raise FolderTaken(f"a model is there already: {what}", directory, advice)


class Earlier(NamedTuple):
    """What a training finds of an earlier run.

    Attributes:
        info: what `config.json` holds or, damaged, is to hold again; None where there is nothing to go on with, or only
            checkpoints.
        whole: whether all files but checkpoints are as they were written; else they are to be written again.
        warning: what is damaged, and what will be done about it; None where nothing is.
    """

    info: dict[str, Any] | None
    whole: bool
    warning: str | None


def earlier(
    directory: Path, known: dict[str, Any], files: Collection[str], resume: bool, fixed: str | None = None
) -> Earlier:
    """Find an earlier run of a training.

    If a finished model is damaged but its parameters are whole, its other files are written again. Otherwise it is
    trained again, from its newest whole checkpoint or from the start.

    Args:
        directory: the model's folder.
        known: the training's identity.
        files: as for `write_info`.
        resume: whether to go on with what is there.
        fixed: what depends on the number of epochs, which therefore cannot change; None where nothing does.

    Raises:
        UserError: There is something, but of another training, or it is not to be resumed.
    """
    found = readable_info(directory)
    there = (directory / CONFIG).exists()
    # without a recipe it was not trained step by step, and is complete; others may have been killed early
    early = not there if found is None else "recipe" in found and not found.get("finished")
    if early and not has_saved(directory):
        return Earlier(None, False, None)
    require_free(directory, known["model"], resume=resume)
    problem = manifest.model_damage(directory, files)
    epochs = (found or {}).get("epochs")
    stored, done, way = found, epochs if type(epochs) is int else 0, ""
    if problem is not None:
        found, whole = _of_parameters(directory / PARAMETERS), checkpoint.latest(directory, warn=False)
        if found is not None:
            stored, done, way = found, found["epochs"], "its files are written again, but for the parameters"
        elif whole is not None:
            state = checkpoint.state(whole)
            stored, done, way = state["identity"], state["progress"]["epoch"], f"it is trained on from {whole.name}"
        else:
            stored = stored if manifest.file_is_whole(directory, CONFIG) else None
            way = "it is trained again from the start"
    if stored is not None:
        checkpoint.require_same(stored, with_epochs_of(stored, known, done, fixed, directory), directory)
    # a kill leaves files without a manifest, of which nothing is lost
    killed = there and not (directory / manifest.NAME).exists() and "the start" not in way
    warning = None if problem is None or killed else f"{directory} is damaged ({problem}): {way}"
    return Earlier(found, problem is None, warning)


def _of_parameters(path: Path) -> dict[str, Any] | None:
    """Return the `config.json` of the finished model that the parameters are of, if they are whole."""
    state = checkpoint.state(path) if manifest.damage(path) is None else None
    info = state.get("info") if isinstance(state, dict) else None
    return info if isinstance(info, dict) and info.get("finished") and type(info.get("epochs")) is int else None


def readable_info(directory: Path) -> dict[str, Any] | None:
    """Read the `config.json` of a model's folder, which may be damaged; None where there is none that can be read."""
    try:
        return read_info(directory)
    except UserError:
        return None


def has_saved(directory: Path) -> bool:
    """Return whether a training has saved parameters there."""
    return bool(checkpoint.every(directory)) or (directory / PARAMETERS).is_dir()


def with_epochs_of(
    stored: dict[str, Any], known: dict[str, Any], done: int, fixed: str | None, where: Path
) -> dict[str, Any]:
    """Return an identity with the number of epochs of a stored one, of which `done`: it alone may change.

    Raises:
        UserError: It may not, as `fixed` depends on it, or more epochs are done already.
    """
    if not (isinstance(stored.get("recipe"), dict) and "recipe" in known):
        return known
    was, now = stored["recipe"].get("epochs"), known["recipe"].get("epochs")
    if was == now:
        return known
    if fixed:
        what = f"{fixed} over all epochs, {was} there and {now} here: it would have been another from the start"
        raise UserError(what, where, f"give --epochs {was}, or choose another --out")
    if done > now:
        raise UserError(f"{done} epochs are trained already", where, f"give --epochs {done} or more")
    return {**known, "recipe": {**known["recipe"], "epochs": was}}


def more_epochs(directory: Path, found: dict[str, Any], recipe: Recipe) -> bool:
    """Return whether a training that has finished can go on, and is to.

    One that validation ended early cannot: with more epochs it would have ended there, too.

    Raises:
        UserError: it is to, but no checkpoint is left.
    """
    was = found["recipe"]["epochs"]
    if recipe.epochs <= was or found["epochs"] < was:
        return False
    if not checkpoint.every(directory):
        what = f"no checkpoint is left from which a training of {was} epochs could go on"
        raise UserError(what, directory, f"give --epochs {was}, or choose another --out")
    return True


def drop_checkpoints(directory: Path) -> None:
    """Remove the checkpoints, of no use once training is done."""
    for path in checkpoint.every(directory):
        checkpoint.remove(path)


def drop_old_checkpoints(directory: Path) -> None:
    """Remove all checkpoints but the newest, from which a training can go on for more epochs."""
    for path in checkpoint.every(directory)[:-1]:
        checkpoint.remove(path)
