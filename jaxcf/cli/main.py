"""The `jaxcf` command: what it can do, and which module does it.

jaxcf train pmf --ratings ratings.csv --out pmf
jaxcf recommend pmf --user 196
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from jaxfit.cli import command

ABOUT = """Train and use recommenders: bias models, online SVD, PMF, RBMs and their conditional forms.

  jaxcf split ratings.csv --scheme random --out parts   training, validation and test files
  jaxcf train pmf --ratings parts/train.csv --valid parts/valid.csv --out pmf
  jaxcf eval pmf --ratings parts/test.csv               root mean squared error, in stars
  jaxcf recommend pmf --user 196                        what they have not rated and may like
  jaxcf recommend pmf --rated "50:5,172:4"              for somebody who is new

Ratings are files of any layout with users, items and stars: MovieLens, the Netflix Prize, CSV."""

# command -> its line of help, and the function that gives its parser options and what to run
COMMANDS = {
    "train": ("train a model on ratings", "jaxcf.cli.train:add"),
    "split": ("split ratings into training, validation and test files", "jaxcf.cli.split:add"),
    "eval": ("errors of predictions of ratings, in stars", "jaxcf.cli.evaluate:add"),
    "recommend": ("the best items that a user has not rated", "jaxcf.cli.recommend:add_recommend"),
    "similar": ("the items most like an item", "jaxcf.cli.recommend:add_similar"),
    "predict": ("stars for pairs of user and item, one a line", "jaxcf.cli.use:add_predict"),
    "info": ("what a model is and how it was trained", "jaxcf.cli.use:add_info"),
    "export": ("factors as safetensors, with the ids beside them", "jaxcf.cli.use:add_export"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status (see `jaxfit.cli.command`)."""
    return command.run("jaxcf", build, argv, cached=True)


def build() -> command.Parser:
    """Parser of all commands."""
    parser = command.Parser("jaxcf", description=ABOUT)
    parser.add_argument("--version", action="version", version=f"jaxcf {version('jax-mnih')}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True, title="commands")
    for name, (about, place) in COMMANDS.items():
        chosen = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        chosen.add_options = _imported(place)
    return parser


def _imported(place: str) -> Callable[[command.Parser], None]:
    """A function by the names of its module and its own, imported when it is called."""
    module, _, function = place.partition(":")
    return lambda parser: getattr(importlib.import_module(module), function)(parser)


if __name__ == "__main__":
    sys.exit(main())
