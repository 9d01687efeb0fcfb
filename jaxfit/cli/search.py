"""The command `search`: trainings with different options, judged by the validation score that each reports."""

import argparse
import dataclasses
import functools
import math
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from jaxfit import search
from jaxfit.cli import options, several
from jaxfit.cli.command import note, output, print_json
from jaxfit.cli.help import Rare
from jaxfit.cli.parser import Parser
from jaxfit.cli.streams import escape
from jaxfit.errors import Diverged, FolderTaken, UserError, suggestion
from jaxfit.recipe import number_of
from jaxfit.run_dir.atomic import DISK
from jaxfit.search import SearchOption, Setting

FILE = "trials.json"
ENDED, BEGUN = "done", "begun"
# what the file has of each trial; a score that is not finite is null
TYPES: dict[str, Any] = {
    "trial": int, "settings": dict, "score": float | None, "ended": str, "max_minutes": float | None, "seconds": float,
    "train": str,
}  # fmt: skip

# Trains a model, and returns its validation score and how the training ended, "done" or "max-minutes".
Train = Callable[[], tuple[float, str]]


class Measure(NamedTuple):
    """What trials are judged by."""

    name: str  # "perplexity"
    higher_is_better: bool = False


class Trial(NamedTuple):
    """A training of the search: its number, options, folder, and the words of its own of the command `train`."""

    number: int
    setting: Setting
    args: argparse.Namespace
    words: list[str]


def add(parser: Parser, classes: Collection[type], excluded: Collection[str], data: str) -> None:
    """Make a parser that has the options of `train` one of `search`, and say how it works.

    Args:
        parser: of one model.
        classes: dataclasses whose fields can be tried, where they are options.
        excluded: fields that cannot.
        data: options that name training and validation data, for an example.
    """
    several.leave_out(parser)
    kinds = {
        field.name: number_of(get_type_hints(cls)[field.name])
        for cls in classes
        for field in dataclasses.fields(cls)
        if field.name not in excluded
    }
    # option -> the kind of its numbers, None for others
    tryable = {
        name: kinds[action.dest] for name, action in parser._option_string_actions.items() if action.dest in kinds
    }
    sizes = {field.name: field.default for cls in classes for field in dataclasses.fields(cls)}
    shown = [name for name in tryable if not isinstance(parser._option_string_actions[name].help, Rare)]
    tried = _example({name: tryable[name] for name in shown or tryable}, sizes)
    parser.description = (
        f"{parser.description}\n\n  {parser.prog} {data} {tried} --out DIR\n\n"
        "Each trial is a training in a folder of its own, DIR/1, DIR/2 …, judged by its validation score; the test\n"
        "set plays no role. Any option of the model and of its training can be tried, by its name in --help-all."
    )
    own = functools.partial(_add_own, seeded="--seed" not in parser.options())
    own(parser.add_argument_group("search"))
    parser.set_defaults(own=own, tryable=tryable)


def _example(kinds: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Return what could be tried: the first size, and a rate, or else another number."""
    sizes = {name: defaults.get(name[2:].replace("-", "_")) for name, kind in kinds.items() if kind is int}
    tried = [
        f"--try {name[2:]}={size // 2},{size}" for name, size in sizes.items() if isinstance(size, int) and size > 1
    ]
    numbers = [name[2:] for name, kind in kinds.items() if kind is float]
    ranges = [f"--try {name}=0.01..0.1 --trials 10" for name in numbers if name == "rate" or not tried]
    return " ".join([*tried[:1], *ranges[:1]]) or "--try OPTION=VALUES"


def _add_own(group: Any, seeded: bool) -> None:
    group.add_argument(
        "--try", dest="tried", action="append", metavar="OPTION=VALUES",
        help="a list of values 10,20,50, separated by ; if they have commas themselves, or yes,no of an option without "
        "a value; or, with --trials, a range 0.01..0.1, uniform in the logarithm if it begins above 0 and spans a "
        "factor of 10. May be repeated: all combinations are tried",
    )  # fmt: skip
    group.add_argument(
        "--trials", type=options.number("--trials", high=10_000), metavar="N",
        help="draw N different settings at random, by --seed, in place of all combinations",
    )  # fmt: skip
    several.add_own(group, f"folder for the models and the table of trials, {FILE}", seeded)


def run(
    args: argparse.Namespace,
    measure: Measure,
    resumable: bool,
    prepare: Callable[[argparse.Namespace], Train],
    read: Callable[[], object],
) -> None:
    """Search, and print the trials, the best first.

    Args:
        args: of the command.
        measure: the validation score.
        resumable: whether the engine trains the model.
        prepare: (options of `train`) -> its training; raises UserError for options that are wrong.
        read: reads the data that all trainings have.
    """
    escape()
    place, plain = output(args, folder=True), several.command(args, "train")  # before the parser is used again
    trials = _trials(args, place, _tried(args), resumable)
    trainings = [prepare(trial.args) for trial in trials]
    known, path = several.identity(args, "tried", "trials"), place / FILE
    folders = [Path(trial.args.out) for trial in trials]
    with several.open_results(args, path, known, TYPES, folders) as done:
        _require_begun_by(done, trials, place)
        recorded = {each["trial"]: each for each in done}  # also those that are to go on
        results = {number: each for number, each in recorded.items() if several.is_over(each, args)}

        def save(*more: Mapping[str, Any]) -> None:
            newest = recorded | results | {each["trial"]: each for each in more}
            ordered = search.best_first([*newest.values()], measure.higher_is_better)
            several.save(path, known, ordered, measure=f"validation {measure.name}")

        if len(results) < len(trials):
            read()
        for trial, train in zip(trials, trainings, strict=True):
            if trial.number not in results:
                begun = _begun(args, trial, shlex.join([*plain, *trial.words]))
                save(begun)  # or its folder could be gone on with by other settings
                results[trial.number] = {**begun, **_outcome(args, trial, len(trials), train, measure)}
                save()
    _report(args, measure, [*results.values()])


def _tried(args: argparse.Namespace) -> list[SearchOption]:
    """Read what is to be tried, with the names of options as they are given without it."""
    parser: Parser = args.parser
    known = {name: parser._option_string_actions[name].dest for name in args.tryable}
    tried: list[SearchOption] = []
    if not args.tried:
        raise UserError("--try is missing", parser.prog, search.EXAMPLE)
    for each in map(search.parse, args.tried):
        option = f"--{each.option.replace('_', '-')}"
        if option not in known:
            if option in parser.options():
                what, do = (
                    f"{option} is no option of the model or its training",
                    "give it for all trials, without --try",
                )
            elif not known:
                what, do = f"{args.model} has no option to try", f"see {parser.prog} --help-all"
            else:
                what = f"{args.model} has no option {option} to try"
                do = suggestion(option, known) if len(option) > 3 else f"see {parser.prog} --help-all"
            raise UserError(what, "--try", do)
        if hasattr(args, known[option]):
            raise UserError("it is given for all trials, and tried", option, "leave one of the two out")
        if known[option] in [known[f"--{other.option}"] for other in tried]:
            raise UserError("it is tried twice", option, f"write one list: --try {each.option}=…")
        tried.append(each._replace(option=option[2:], whole=args.tryable[option] is int))
        for value in each.values or (f"{each.low:.17g}", f"{each.high:.17g}"):
            parser.parse_args(_words(parser, option[2:], value))
    return tried


def _words(parser: Parser, option: str, value: str) -> list[str]:
    """Return an option and its value as words of a command line; "yes" and "no" for one that takes no value."""
    action = parser._option_string_actions[f"--{option}"]
    if action.nargs != 0:
        return [f"--{option}={value}"] if value.startswith("-") else [f"--{option}", value]
    if value not in ("yes", "no"):
        raise UserError(f"unknown value {value!r}", f"--{option}", "write yes or no")
    if value == "yes":
        return [f"--{option}"]
    names = [name for each in parser._actions if each.dest == action.dest for name in each.option_strings]
    return [name for name in names if name != f"--{option}"][:1]


def _trials(args: argparse.Namespace, place: Path, tried: Sequence[SearchOption], resumable: bool) -> list[Trial]:
    """Return the trainings of a grid, or of settings drawn at random."""
    settings = search.draw(tried, args.trials, args.seed) if args.trials else search.grid(tried)
    trials = []
    for number, setting in enumerate(settings, 1):
        words = [word for option, value in setting.items() for word in _words(args.parser, option, value)]
        read = vars(args.parser.parse_args(words))
        names = {args.parser._option_string_actions[f"--{option}"].dest for option in setting}
        values = {name: read[name] for name in names if name in read}
        folder = place / str(number)
        training_args = several.training(args, folder, resumable, **values)
        trials.append(Trial(number, setting, training_args, [*words, "--out", str(folder)]))
    return trials


def _require_begun_by(done: Sequence[Mapping[str, Any]], trials: Sequence[Trial], place: Path) -> None:
    """Raise a UserError unless trials that were begun are those of this command."""
    settings = {trial.number: _recorded(trial.setting) for trial in trials}
    for each in done:
        if settings.get(each["trial"], each["settings"]) != each["settings"]:
            options = ", ".join(f"{option} {value}" for option, value in each["settings"].items())
            what = f"trial {each['trial']} there has other options, {options}"
            raise UserError(what, place, "give --try as before, or choose another --out")


def _recorded(setting: Setting) -> dict[str, Any]:
    return {option: search.as_number(value) for option, value in setting.items()}


def _begun(args: argparse.Namespace, trial: Trial, command: str) -> dict[str, Any]:
    """Return what the file has of a trial before it is trained."""
    return {
        "trial": trial.number, "settings": _recorded(trial.setting), "score": None, "ended": BEGUN,
        "max_minutes": several.minutes(args), "seconds": 0.0, "folder": trial.args.out, "train": command,
    }  # fmt: skip


def _outcome(args: argparse.Namespace, trial: Trial, total: int, train: Train, measure: Measure) -> dict[str, Any]:
    """Run a training, and return what came of it."""
    title = f"trial {trial.number} of {total}"
    note(args, f"{title}: {', '.join(f'{option} {value}' for option, value in trial.setting.items())}")
    began, why = time.perf_counter(), {}
    try:
        score, ended = train()
        note(args, f"{title}: validation {measure.name} {_format_score(score, ended)}")
    except FolderTaken:
        raise
    except UserError as error:  # incompatible options; a loss that is not finite
        if getattr(error.__cause__, "errno", None) in DISK:  # no fault of the setting
            raise
        score, ended, why = math.inf, "diverged" if isinstance(error, Diverged) else "failed", {"error": error.what}
        note(args, f"{title}: {ended}: {error.what if ended == 'diverged' else error}")
    known = score if math.isfinite(score) else None
    return {"score": known, "ended": ended, **why, "seconds": time.perf_counter() - began}


def _format_score(score: float | None, ended: str) -> str:
    """Return a score for people, and how its training ended if not as trainings do."""
    if score is None or not math.isfinite(score):
        return "infinite" if ended == ENDED else ended
    return f"{score:#.5g}".rstrip(".") + (f" ({ended})" if ended != ENDED else "")


def _report(args: argparse.Namespace, measure: Measure, done: Sequence[Mapping[str, Any]]) -> None:
    ordered = search.best_first(done, measure.higher_is_better)
    best = ordered[0] if ordered[0]["score"] is not None else None
    if args.json:
        print_json(
            {
                "command": "search", "model": args.model, "out": args.out, "measure": f"validation {measure.name}",
                "best": best, "trials": ordered,
            }
        )  # fmt: skip
    else:
        names = list(ordered[0]["settings"])
        rows = [["trial", *names, f"validation {measure.name}", "seconds"]]
        for each in ordered:
            values = [str(each["settings"][name]) for name in names]
            rows.append(
                [str(each["trial"]), *values, _format_score(each["score"], each["ended"]), f"{each['seconds']:.1f}"]
            )
        print(several.table(rows))
        for each in ordered:
            if each["ended"] == "failed":
                print(f"trial {each['trial']} failed: {each['error']}")
        if best is not None:
            print(f"best: {best['folder']}, made by\n{best['train']}")
    if best is None:
        what = f"none of {len(ordered)} trials has a finite validation {measure.name}"
        raise UserError(what, args.out, "try others in another --out, as lower rates")
