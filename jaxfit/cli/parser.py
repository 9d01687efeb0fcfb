"""The parser of command lines: errors that are UserErrors, suggestions, rare options, help in ASCII."""

import argparse
import difflib
import functools
import importlib
import itertools
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from jaxfit import __version__
from jaxfit.cli import options
from jaxfit.cli.help import Formatter, HelpAll, Rare
from jaxfit.errors import UserError, suggestion
from jaxfit.files.limits import Limits

# What the help has beyond ASCII.
ASCII = str.maketrans({"…": "...", "§": "section ", "λ": "lambda", "²": "^2", "×": "x", "–": "-", "−": "-"})


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are UserErrors.

    Attributes:
        given: the arguments that it was given last.
        add_options: called with the parser when it is chosen, so that what the options need is imported only then.
    """

    given: Sequence[str] = ()
    add_options: Callable[["Parser"], None] | None = None
    shows_rare = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": Formatter, "allow_abbrev": False, **kwargs})
        self._positionals.title = "arguments"
        self.add_argument("--help-all", action=HelpAll, nargs=0, help=argparse.SUPPRESS)
        self.set_defaults(parser=self)  # the innermost one that was chosen

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as a UserError."""
        choice = re.match(r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)$", message)
        if choice:
            name, given, known = choice[1].lower(), choice[2], re.findall(r"[\w-]+", choice[3])
            raise UserError(f"there is no {name} {given!r}", self.prog, suggestion(given, known))
        argument = re.match(r"argument (\S+): (.*)$", message)
        if argument:
            if argument[2].startswith("expected "):
                self._refuse_dashed_value(argument[1], argument[2])
            raise UserError(argument[2], argument[1], f"see {self.prog} --help")
        missing = re.match(r"the following arguments are required: (.*)$", message)
        if missing:
            raise UserError(f"{missing[1].split(', ')[0]} is missing", self.prog, f"see {self.prog} --help")
        raise UserError(message, self.prog, f"see {self.prog} --help")

    def _refuse_dashed_value(self, option: str, what: str) -> None:
        """Raise UserError if the value of an option begins with "-", which argparse takes as another option."""
        for name, value in itertools.pairwise(self.given):
            if name in option.split("/") and re.match("-[^-]", value) and value not in self._option_string_actions:
                do = f"a value that begins with - follows =: {shlex.join([f'{name}={value}'])}"
                raise UserError(what, option, do)

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """Parse, with all options."""
        self.given = list(args[0]) if args and args[0] is not None else sys.argv[1:]
        if self.add_options is not None:
            add_options, self.add_options = self.add_options, None
            add_options(self)
        try:
            return super().parse_known_args(*args, **kwargs)
        except UserError as error:
            argv = self._folder_first(args[0], error) if args and args[0] else None
            if argv is None:
                raise
            return super().parse_known_args(argv, *args[1:], **kwargs)

    def _folder_first(self, argv: Sequence[str], error: UserError) -> list[str] | None:
        """Return the arguments in the order meant, where an option of several files took the folder as its last."""
        words = [word for word in argv if not word.startswith("-")]
        if self._subparsers is not None and argv[0].startswith("--") and words:
            name = self._subparsers._group_actions[0].metavar
            raise UserError(f"{argv[0]} is before {name}", self.prog, f"write {name} first") from None
        lists = {name for action in self._actions if action.nargs == "+" for name in action.option_strings}
        if not error.what.endswith(" is missing"):
            return None
        starts = [i for i, word in enumerate(argv) if word.startswith("--")]
        for start, end in zip(starts, [*starts[1:], len(argv)], strict=False):
            if argv[start] in lists and end - start > 2:
                if os.path.isdir(argv[end - 1]):
                    return [argv[end - 1], *argv[: end - 1], *argv[end:]]
                advice = f"{argv[start]} takes all names after it: write the other one before it"
                raise UserError(error.what, error.where, advice) from None
        return None

    def format_help(self) -> str:
        """Write the help; the line of a command that is given as a function is asked for only now."""
        for action in self._get_positional_actions():
            for command in action._get_subactions() if isinstance(action, argparse._SubParsersAction) else ():
                if callable(command.help):
                    command.help = command.help()
        rare = sum(isinstance(action.help, Rare) for action in self._actions)
        more = f"\n{self.prog} --help-all shows {rare} more options\n" if rare and not self.shows_rare else ""
        return super().format_help() + more

    def _get_formatter(self) -> argparse.HelpFormatter:
        formatter = super()._get_formatter()
        if isinstance(formatter, Formatter):
            formatter.rare = self.shows_rare
        return formatter

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print the help, in ASCII where the terminal has no more."""
        file = file or sys.stderr
        try:
            message.encode(getattr(file, "encoding", None) or "utf-8")
        except UnicodeEncodeError:
            message = message.translate(ASCII).encode("ascii", "replace").decode()
        file.write(message)  # argparse would not say that a disk is full
        file.flush()

    def options(self) -> list[str]:
        """Return all option names."""
        return [name for action in self._actions for name in action.option_strings if len(name) > 2]

    def opposites(self) -> dict[str, str]:
        """Return the options that switch others off under a name of their own: "no-interpolated" -> "--backoff"."""
        off = {action.dest: action.option_strings[0] for action in self._actions if action.const is False}
        on = {action.dest: action.option_strings[0] for action in self._actions if action.const is True}
        return {f"no-{on[name][2:]}": off[name] for name in off if name in on}


def of_commands(program: str, about: str, commands: Mapping[str, tuple[str, str]]) -> Parser:
    """Make the parser of a program with several commands, whose modules are imported when they are chosen.

    Args:
        program: its name.
        about: its description.
        commands: name -> the line of help, and "module:function" of what gives the command's parser its options.
    """
    parser = Parser(program, description=about)
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    added = parser.add_subparsers(metavar="COMMAND", dest="command", required=True, title="commands")
    for name, (line, place) in commands.items():
        chosen = added.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}.")
        chosen.add_options = functools.partial(_call, place)
    return parser


def _call(place: str, parser: Parser) -> None:
    module, _, function = place.partition(":")
    getattr(importlib.import_module(module), function)(parser)
    if parser._subparsers is None:  # else the chosen one has them
        add_limits(parser)


def add_limits(parser: Parser) -> None:
    """Add the options that limit how much is read of files, which are rare."""
    options.add(parser.add_argument_group("limits of the files that are read"), Limits)


def parse(parser: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse arguments; raises UserError, with a suggestion for a mistyped option."""
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        chosen = args.parser
        given = unknown[0].split("=")[0]
        if not given.startswith("-"):
            advice = f"put words that belong together in quotes, or see {chosen.prog} --help"
            raise UserError(f"{given!r} is one argument too many", chosen.prog, advice)
        names = {name.lstrip("-"): name for name in chosen.options()}  # the dashes are alike in all
        names |= chosen.opposites()
        names.pop(given.removeprefix("--no-"), None)  # the opposite of what is meant
        close = difflib.get_close_matches(given.lstrip("-"), names, n=1, cutoff=0.65)
        advice = f"did you mean {names[close[0]]}?" if close else f"see {chosen.prog} --help"
        raise UserError(f"there is no option {given}", chosen.prog, advice)
    return args
