"""What `config.json` of a model's folder says, and whether a training there can go on.

An *identity* is all that determines a trained model, as `config.json` holds it: a training goes on only where that is
the same. The environment is recorded, too, but is no part of it.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from jaxfit.errors import UserError
from jaxfit.recipe import Recipe
from jaxfit.run_dir import checkpoint, json_text, manifest
from jaxfit.run_dir.atomic import recover, replacing

FORMAT = 1
CONFIG, PARAMETERS = "config.json", "parameters"
LARGEST = 3e38  # number of a model: float32 holds it
FIRST_STAGE = "bootstrap"  # folder, within a model's, of the model that its structure is built from


def read_info(directory: Path) -> dict[str, Any]:
    """What `config.json` of a model's folder holds.

    Raises:
        UserError: There is none, or it is of another format.
    """
    recover(directory / PARAMETERS)
    try:
        info = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError("no model here", directory, "name a folder that `train` wrote") from None
    except ValueError:
        raise UserError("not a model's configuration", directory / CONFIG, "train the model again") from None
    if not isinstance(info, dict) or not isinstance(info.get("model"), str):
        raise UserError("not a model's configuration", directory / CONFIG, "train the model again")
    if info.get("format") != FORMAT:
        raise UserError(f"a model of format {info.get('format')}, not {FORMAT}", directory, "train it again")
    recipe = info.get("recipe") or {}
    numbers: dict[type, Any] = {dict: dict[str, float], list: tuple[float, ...]}
    require_types({"recipe": recipe}, {"recipe": dict}, directory)
    require_types(recipe, {name: numbers.get(type(value), type(value)) for name, value in recipe.items()}, directory)
    return info


def read_config(kind: type, info: dict[str, Any], directory: Path) -> Any:
    """Return the Config, a dataclass, of a model that `config.json` describes; JSON's lists are its tuples.

    Raises:
        UserError: The configuration is missing, or has other fields.
    """
    try:
        config = kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in info["config"].items()})
    except (AttributeError, KeyError, TypeError) as error:
        what = "it is missing" if isinstance(error, KeyError) else str(error)
        what = f"the configuration is not that of {info['model']}: {what}"
        raise UserError(what, directory / CONFIG, "train the model again") from None
    require_types(info["config"], get_type_hints(kind), directory, optional=True)
    for field in dataclasses.fields(kind):
        value, least = getattr(config, field.name), field.metadata.get("low", 1)  # as those of options
        if type(value) is int and value < least:
            what = f"not a model's configuration: {field.name} is {value}, less than {least}"
            raise UserError(what, directory / CONFIG, "train the model again")
        if type(value) in (int, float) and not abs(value) <= LARGEST:  # or it is NaN
            what = f"not a model's configuration: {field.name} is {value}, which no float32 holds"
            raise UserError(what, directory / CONFIG, "train the model again")
    return config


def require_types(
    values: Mapping[str, Any], types: Mapping[str, Any], directory: Path, *, optional: bool = False
) -> None:
    """Raise a UserError where a part of `config.json` has a value that is not of its type, or, unless optional, none.

    Args:
        values: The part.
        types: By name: classes, and types of tuples and literals.
        directory: The model's folder.
        optional: Whether values may be missing.
    """
    for name, kind in types.items():
        if not (_is_of_type(values.get(name), kind) or (optional and name not in values)):
            what = f"not a model's configuration: {name} is {json.dumps(values.get(name))[:40]}"
            raise UserError(what, directory / CONFIG, "train the model again")


def _is_of_type(value: Any, kind: Any) -> bool:
    """Whether a value that was read from JSON is of a type as `Config`s have them, with lists for tuples."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        any_number = isinstance(value, list) and (parts[-1] is ... or len(value) == len(parts))
        return any_number and all(_is_of_type(part, parts[0]) for part in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(_is_of_type(part, get_args(kind)[1]) for part in value.values())
    if kind is int:
        return type(value) is int and abs(value) < 1 << 53
    return type(value) in (int, float) if kind is float else isinstance(value, kind)


def write_info(directory: Path, info: dict[str, Any]) -> None:
    """Write `config.json`, and the manifest of a model that is finished: all else it needs must be there."""
    (directory / manifest.NAME).unlink(missing_ok=True)
    with replacing(directory / CONFIG) as aside:
        json_text.write(aside, info)
    if info.get("finished", True):
        write_manifest(directory)


def write_manifest(directory: Path) -> None:
    """Write the manifest of a finished model."""
    listed = manifest.of_model(directory, [PARAMETERS])
    with replacing(directory / manifest.NAME) as aside:
        json_text.write(aside, listed)


def require_free(directory: Path, model: str, *, resume: bool, resumable: bool = True) -> None:
    """Raise a UserError where a folder holds a model, unless it is to be resumed.

    Args:
        directory: The model's folder.
        model: The name of the model that is to be trained there.
        resume: Whether to go on with what is there.
        resumable: Whether the engine trains the model.
    """
    if not (directory / CONFIG).exists():
        return
    found = read_info(directory)
    same = resumable and found["model"] == model and "solver" not in found
    if not (same and resume):
        advice = "choose another --out, or replace it by --overwrite"
        advice = f"add --resume to go on with it, {advice}" if same else advice
        raise UserError(f"a model is there already: {found['model']}", directory, advice)


def earlier(directory: Path, known: dict[str, Any], resume: bool, fixed: str | None = None) -> dict[str, Any] | None:
    """The `config.json` of an earlier run of this training; None where there is nothing to go on with.

    Args:
        directory: The model's folder.
        known: The training's identity.
        resume: Whether to go on with what is there.
        fixed: What depends on the number of epochs, which therefore cannot change; None where nothing does.

    Raises:
        UserError: There is something, but of another training, or it is not to be resumed.
    """
    if not (directory / CONFIG).exists():
        return None
    found = read_info(directory)
    # without a recipe it was not trained step by step, and is complete; others may have been killed early
    if "recipe" in found and not has_saved(directory):
        return None
    require_free(directory, known["model"], resume=resume)
    checkpoint.require_same(found, with_epochs_of(found, known, found.get("epochs", 0), fixed, directory), directory)
    return found


def has_saved(directory: Path) -> bool:
    """Whether a training has saved parameters there."""
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
    """Whether a training that has finished can go on, and is to."""
    return recipe.epochs > found["recipe"]["epochs"] and bool(checkpoint.every(directory))


def drop_checkpoints(directory: Path) -> None:
    """Remove the checkpoints, of no use once training is done."""
    for path in checkpoint.every(directory):
        checkpoint.remove(path)


def drop_old_checkpoints(directory: Path) -> None:
    """Remove all checkpoints but the newest, from which a training can go on for more epochs."""
    for path in checkpoint.every(directory)[:-1]:
        checkpoint.remove(path)
