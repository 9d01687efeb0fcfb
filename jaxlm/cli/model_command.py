"""What the commands that use a trained model have in common: their arguments, and loading the model."""

import argparse
from collections.abc import Callable

from jaxfit.cli import options
from jaxfit.cli.command import Parser
from jaxfit.registry import Capability
from jaxlm.trained_model import Model, load


def add(
    parser: Parser,
    run: Callable[[argparse.Namespace], None],
    directory: str = "folder of a model, or an ARPA file",
    unfinished: bool = True,
) -> None:
    """Give a parser the options of a command on a model; unfinished: whether it has that option."""
    parser.set_defaults(run=run)
    parser.add_argument("directory", metavar="DIR", help=directory)
    if unfinished:
        about = "use the best parameters so far of a training that has not finished"
        parser.add_argument("--unfinished", action="store_true", help=about)
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")


def add_top(parser: Parser) -> None:
    """Add the number of words to show."""
    parser.add_argument(
        "--top", type=options.number("--top"), default=10, metavar="N", help="how many words (default: 10)"
    )


def model_of(args: argparse.Namespace, needed: type[Capability] | None = None) -> Model:
    """Load the model that a command names; raises UserError where it has not the capability that is needed."""
    model = load(args.directory, unfinished=args.unfinished)
    if needed is not None:
        model.require(needed, args.command, args.directory)
    return model
