"""What the commands that use a trained model have in common: their arguments, and loading the model."""

import argparse
import functools

from jaxfit.cli import command, options
from jaxfit.cli.command import Parser
from jaxfit.registry import Capability
from jaxlm.trained_model import Model, load

add = functools.partial(command.add_model, about="folder of a model, or an ARPA file")


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
