"""What commands that train several models have in common: their options, what came of each, kept in a file, a table.

Such a command has all options of `train` but those about one model's folder and the test set. What came of trainings is
in a JSON file in `--out`, from which `--resume` goes on.
"""

import argparse
import dataclasses
import hashlib
import re
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
from jaxfit.files.opening import is_pipe
from jaxfit.recipe import SEED
from jaxfit.run_dir import json_text, manifest
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.lock import locked
from jaxfit.run_dir.metadata import CONFIG
from jaxfit.run_dir.run import Run
from jaxfit.types_of_values import is_of_type

# options of `train` that are not of such a command, or that it has as options of its own
_NOT_SHARED = ("test", "out", "overwrite", "resume", "json", "quiet")
FILES = "files"  # in the options of the file
# what makes no difference to the results, or is no option
_NOT_IDENTITY = {"parser", "run", "own", "tryable", "out", "overwrite", "resuming", "json", "quiet"}


def leave_out(parser: Parser, *names: str) -> None:
    """Remove options of `train`: those that no command of several trainings has, and others by their names."""
    joining = (field.name.replace("_", "-") for field in dataclasses.fields(processes.Join))
    unwanted = {f"--{name}" for name in (*names, *_NOT_SHARED, *joining)}
    for action in [action for action in parser._actions if unwanted & set(action.option_strings)]:
        parser._actions.remove(action)
        for group in parser._action_groups:
            if action in group._group_actions:
                group._group_actions.remove(action)
        for string in action.option_strings:
            del parser._option_string_actions[string]
    parser.set_defaults(overwrite=False, **dict.fromkeys(("test", *names)))


def add_own(group: Any, out: str, seeded: bool) -> None:
    """Add the options that such a command has in place of others.

    Args:
        seeded: whether `train` has no seed.
    """
    group.add_argument("--out", metavar="DIR", help=out)
    group.add_argument(
        "--resume",
        action="store_true",
        dest="resuming",
        help="go on with what is in --out; what is done is not repeated",
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
        args: of the command.
        place: the folder of the model.
        resumable: whether the engine trains it; else a model that is there is trained again.
        **changed: options that are of this training alone.
    """
    again = {"resume": True} if resumable else {"overwrite": (place / CONFIG).exists()}
    return argparse.Namespace(**{**vars(args), **(again if args.resuming else {}), "out": str(place), **changed})


def identity(args: argparse.Namespace, *excluded: str) -> dict[str, Any]:
    """Return what determines the results, as the file holds it: options, and the sha256 of the files that they name.

    Args:
        args: of the command.
        *excluded: names of options that make no difference to the trainings that have ended.
    """
    limits = (field.name for cls in (Run, Limits) for field in dataclasses.fields(cls))
    unused = {*_NOT_IDENTITY, *excluded, *limits}
    found = {name: value for name, value in vars(args).items() if name not in unused and value is not None}
    no_files = {"model", *(action.dest for action in args.parser._actions if action.choices)}
    values = [value for name, value in found.items() if name not in no_files]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    out = Path(args.out).resolve() if args.out else None
    named = {text: _content(text, out) for text in texts if isinstance(text, str)}
    files = {text: digest for text, digest in named.items() if digest is not None}
    return json_text.plain({**found, **({FILES: files} if files else {})})


def _content(name: str, out: Path | None) -> str | None:
    """Return the sha256 of a file, of the manifest of a model's folder, or of the files of another; None of no file.

    Args:
        name: of the file or folder.
        out: the folder of the trainings, whose files change, and do not count.
    """
    path = Path(name)
    try:
        if not path.exists() and (of_file := re.fullmatch(r"(.*\.mat):\w+", name)):  # an array of a file
            path = Path(of_file[1])
        if path.is_dir() and not (path / manifest.NAME).is_file():
            inside = [file for file in path.rglob("*") if file.is_file()]
            files = [file for file in inside if not (out and file.resolve().is_relative_to(out))]
            each = "".join(f"{_content(str(file), None)} {file.relative_to(path)}\n" for file in sorted(files))
            return hashlib.sha256(each.encode("utf-8", "surrogateescape")).hexdigest() if files else None
        content = path / manifest.NAME if path.is_dir() else path
        if not content.is_file():
            return None
        with open(content, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):  # what cannot be read is reported where it is read
        return None


def minutes(args: argparse.Namespace) -> float | None:
    """Return the time that each training may take, as the file holds it of each."""
    return getattr(args, "max_minutes", None)


def is_over(entry: Mapping[str, Any], args: argparse.Namespace) -> bool:
    """Return whether a training need not be gone on with: it ended by itself, or by the same `--max-minutes`."""
    stopped_alike = entry["ended"] == "max-minutes" and entry["max_minutes"] == minutes(args)
    return entry["ended"] in ("done", "diverged") or stopped_alike


@contextmanager
def open_results(
    args: argparse.Namespace, path: Path, known: Mapping[str, Any], types: Mapping[str, Any], folders: Sequence[Path]
) -> Iterator[list[dict[str, Any]]]:
    """Yield what came of the trainings that ended in an earlier run; after a signal within, say how to go on.

    Args:
        args: of the command; without `--out` nothing is kept.
        path: the file, in the folder of the trainings, in which no other process works meanwhile.
        known: the `identity` of the command.
        types: what the file has of each training, by name.
        folders: of the trainings. Where none is written, nothing is left behind.

    Raises:
        FolderTaken: There is something that is not to be resumed.
        UserError: It is of another command, or cannot be read.
    """
    with locked(path.parent, "working there"):
        there = path.exists()
        done = _earlier(args, path, known, types, folders)
        if not there:
            save(path, known, [])  # so that it can be resumed, however this ends
        try:
            yield done
        except KeyboardInterrupt as stop:
            pipe = "the data come from a pipe, so that --resume cannot go on"
            saved = f" ({args.out}) - {pipe if _pipe(args) else 'give the same command with --resume to go on'}"
            raise Stopped(stop, saved if args.out else " - nothing is kept without --out DIR") from None
        finally:
            if not done and not any(folder.exists() for folder in folders):
                path.unlink()


def _earlier(
    args: argparse.Namespace, path: Path, known: Mapping[str, Any], types: Mapping[str, Any], folders: Sequence[Path]
) -> list[dict[str, Any]]:
    if not path.exists():
        for folder in (path.parent / CONFIG, *folders):
            if folder.exists():
                raise FolderTaken("it exists already", folder, "choose another --out")
        return []
    if not args.resuming:
        do = "choose another --out" if _pipe(args) else "add --resume to go on with them, or choose another --out"
        what = f"{path.stem} are there already"
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
        before, now = ({**each, FILES: None} for each in (stored["options"], known))
        if before == now:
            then = stored["options"].get(FILES, {})
            changed = [name for name, digest in known.get(FILES, {}).items() if then.get(name) != digest]
            raise UserError(
                f"{path.stem} there were begun with another {changed[0]}", path.parent, "choose another --out"
            )
        what = f"{path.stem} there were begun with other options{json_text.difference(stored['options'], known)}"
        raise UserError(what, path.parent, "choose another --out")
    if done and (pipe := _pipe(args)):
        what = f"{path.stem} there cannot be resumed, as the data come from a pipe and may have changed"
        raise UserError(what, pipe, "give files, and choose another --out")
    return done


def _pipe(args: argparse.Namespace) -> str | None:
    """Return the first input that is standard input or another pipe, and so has no digest."""
    options = [action.dest for action in args.parser._actions if str(action.metavar).endswith("FILE")]
    values = [getattr(args, option, None) for option in options]
    named = [text for value in values for text in (value if isinstance(value, list) else [value])]
    return next((text for text in named if text is not None and is_pipe(text)), None)


def save(path: Path, known: Mapping[str, Any], done: Iterable[Mapping[str, Any]], **more: Any) -> None:
    """Write the file, which is always whole.

    Args:
        known: as for `open_results`.
        **more: what else it says.
    """
    with replacing(path) as aside:
        json_text.write(aside, {"options": known, **more, path.stem: list(done)})


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of which has the headings, with columns that are aligned on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
