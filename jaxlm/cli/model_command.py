"""What the commands that use a trained model have in common: their arguments, and loading the model."""

import argparse
from collections.abc import Callable
from typing import Any

from jaxfit.cli import options
from jaxfit.cli.command import Parser
from jaxfit.errors import UserError
from jaxlm.trained_model import Model, load

ANY = "folder of a model, or an ARPA file"


def add(
    commands: Any,
    name: str,
    about: str,
    run: Callable[[argparse.Namespace], None],
    directory: str = ANY,
    unfinished: bool = True,
) -> Parser:
    """Add a command on a model, with the options of such commands; unfinished: whether it has that option."""
    parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    parser.set_defaults(run=run)
    parser.add_argument("directory", metavar="DIR", help=directory)
    if unfinished:
        about = "use the best parameters so far of a training that has not finished"
        parser.add_argument("--unfinished", action="store_true", help=about)
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    return parser


def add_top(parser: Parser) -> None:
    """Add the number of words to show."""
    parser.add_argument(
        "--top", type=options.number("--top"), default=10, metavar="N", help="how many words (default: 10)"
    )


def model_of(args: argparse.Namespace) -> Model:
    """The model that a command names."""
    return load(args.directory, unfinished=args.unfinished)


def required(args: argparse.Namespace, name: str, advice: str) -> Any:
    """The value of an option that a command needs; raises UserError where it is missing."""
    if not getattr(args, name):
        raise UserError(f"--{name} is missing", args.parser.prog, advice)
    return getattr(args, name)
