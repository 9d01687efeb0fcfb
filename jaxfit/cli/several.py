"""What commands that train several models have in common: their options, what came of each, kept in a file, a table.

Such a command has all options of `train` but those about one model's folder and the test set. What came of trainings is
in a JSON file in `--out`, from which `--resume` goes on.
"""

import argparse
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jaxfit.cli import options
from jaxfit.cli.command import Stopped
from jaxfit.cli.parser import Parser
from jaxfit.devices import distributed as processes
from jaxfit.errors import FolderTaken, UserError
from jaxfit.files.limits import Limits
from jaxfit.recipe import SEED
from jaxfit.run_dir import json_text
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.lock import locked
from jaxfit.run_dir.metadata import CONFIG
from jaxfit.run_dir.run import Run
from jaxfit.types_of_values import is_of_type

# options of `train` that are not of such a command, or that it has as options of its own
_OTHERS = ("test", "out", "overwrite", "resume", "json", "quiet")
# what makes no difference to the results, or is no option
_APART = {"parser", "run", "own", "tryable", "out", "overwrite", "go_on", "json", "quiet"}


def leave_out(parser: Parser, *names: str) -> None:
    """Remove options of `train`: those that no command of several trainings has, and others by their names."""
    joining = (field.name.replace("_", "-") for field in dataclasses.fields(processes.Join))
    unwanted = {f"--{name}" for name in (*names, *_OTHERS, *joining)}
    for action in [action for action in parser._actions if unwanted & set(action.option_strings)]:
        parser._actions.remove(action)
        for group in parser._action_groups:
            if action in group._group_actions:
                group._group_actions.remove(action)
        for string in action.option_strings:
            del parser._option_string_actions[string]
    parser.set_defaults(overwrite=False, **dict.fromkeys(("test", *names)))


def add_own(group: Any, out: str, seeded: bool) -> None:
    """Add the options that such a command has in place of others; seeded: whether `train` has no seed."""
    group.add_argument("--out", metavar="DIR", help=out)
    group.add_argument(
        "--resume", action="store_true", dest="go_on", help="go on with what is in --out; what is done is not repeated"
    )
    if seeded:
        group.add_argument("--seed", type=options.number("--seed", **SEED), default=1, metavar="N",
                           help="of all random draws (default: 1)")  # fmt: skip
    group.add_argument("--json", action="store_true", help="print the result as one JSON object")
    group.add_argument("--quiet", action="store_true", help="print results, warnings and errors only")


def command(args: argparse.Namespace, name: str) -> list[str]:
    """Return the command that was given, as that of another command, without the options of `add_own` and such."""
    bare = Parser(add_help=False)
    args.own(bare)
    return [args.parser.prog.split()[0], name, args.model, *bare.parse_known_args(args.parser.given)[1]]


def training(args: argparse.Namespace, place: Path, resumable: bool, **changed: Any) -> argparse.Namespace:
    """Return the options of one of the trainings.

    Args:
        args: Of the command.
        place: The folder of the model.
        resumable: Whether the engine trains it; else a model that is there is trained again.
        **changed: Options that are of this training alone.
    """
    again = {"resume": True} if resumable else {"overwrite": (place / CONFIG).exists()}
    return argparse.Namespace(**{**vars(args), **(again if args.go_on else {}), "out": str(place), **changed})


def identity(args: argparse.Namespace, *apart: str) -> dict[str, Any]:
    """Return the options that determine the results, as the file holds them; apart: names of others that do not."""
    left = {*_APART, *apart, *(field.name for cls in (Run, Limits) for field in dataclasses.fields(cls))}
    found = {name: value for name, value in vars(args).items() if name not in left and value is not None}
    return json_text.plain(found)


@contextmanager
def begun(
    args: argparse.Namespace, path: Path, known: Mapping[str, Any], types: Mapping[str, Any], folders: Sequence[Path]
) -> Iterator[list[dict[str, Any]]]:
    """Yield what came of the trainings that ended in an earlier run; after a signal within, say how to go on.

    Args:
        args: Of the command; without `--out` nothing is kept.
        path: The file, in the folder of the trainings, in which no other process works meanwhile.
        known: The `identity` of the command.
        types: What the file has of each training, by name.
        folders: Of the trainings. Where none is written, nothing is left behind.

    Raises:
        FolderTaken: There is something that is not to be resumed.
        UserError: It is of another command, or cannot be read.
    """
    with locked(path.parent, "working there"):
        there = path.exists()
        done = _earlier(path, known, types, folders, args.go_on)
        if not there:
            save(path, known, [])  # so that it can be resumed, however this ends
        try:
            yield done
        except KeyboardInterrupt as stop:
            saved = f" ({args.out}) - give the same command with --resume to go on"
            raise Stopped(stop, saved if args.out else " - nothing is kept without --out DIR") from None
        finally:
            if not done and not any(folder.exists() for folder in folders):
                path.unlink()


def _earlier(
    path: Path, known: Mapping[str, Any], types: Mapping[str, Any], folders: Sequence[Path], resume: bool
) -> list[dict[str, Any]]:
    if not path.exists():
        for folder in (path.parent / CONFIG, *folders):
            if folder.exists():
                raise FolderTaken("there is something else already", folder, "choose another --out")
        return []
    if not resume:
        what, do = f"{path.stem} are there already", "add --resume to go on with them, or choose another --out"
        raise FolderTaken(what, path.parent, do)
    try:
        stored = json_text.read(path)
    except (OSError, ValueError):
        stored = None
    done: Any = stored.get(path.stem) if isinstance(stored, dict) else None
    whole = isinstance(done, list) and all(
        isinstance(each, dict) and all(is_of_type(each.get(name), kind) for name, kind in types.items())
        for each in done
    )
    if not whole or not isinstance(stored.get("options"), dict):
        raise UserError("it is damaged", path, "choose another --out")
    if stored["options"] != known:
        what = f"{path.stem} with other options are there{json_text.difference(stored['options'], known)}"
        raise UserError(what, path.parent, "choose another --out")
    return done


def save(path: Path, known: Mapping[str, Any], done: Iterable[Mapping[str, Any]], **more: Any) -> None:
    """Write the file, which is always whole; known: as for `begun`; more: what else it says."""
    with replacing(path) as aside:
        json_text.write(aside, {"options": known, **more, path.stem: list(done)})


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of which has the headings, with columns that are aligned on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
