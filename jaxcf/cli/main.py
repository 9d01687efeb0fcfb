"""The `jaxcf` command: what it can do, and which room does it.

jaxcf train pmf --ratings ratings.csv --out pmf
jaxcf recommend pmf --user 196
"""

import sys
from collections.abc import Sequence
from importlib.metadata import version

import jax

from jaxfit.cli import command

ABOUT = """Train and use recommenders: bias models, online SVD, PMF, RBMs and their conditional forms.

  jaxcf split ratings.csv --scheme random --out parts   training, validation and test files
  jaxcf train pmf --ratings parts/train.csv --valid parts/valid.csv --out pmf
  jaxcf eval pmf --ratings parts/test.csv               root mean squared error, in stars
  jaxcf recommend pmf --user 196                        what they have not rated and may like
  jaxcf recommend pmf --rated "50:5,172:4"              for somebody who is new

Ratings are files of any layout with users, items and stars: MovieLens, the Netflix Prize, CSV."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status (see `jaxfit.cli.command`); products are of full precision."""
    with jax.default_matmul_precision("highest"):
        return command.run("jaxcf", build, argv, cached=True)


def build() -> command.Parser:
    """Parser of all commands."""
    from jaxcf.cli import evaluate as cli_eval
    from jaxcf.cli import recommend as cli_recommend
    from jaxcf.cli import split as cli_split
    from jaxcf.cli import train as cli_train
    from jaxcf.cli import use as cli_use

    parser = command.Parser("jaxcf", description=ABOUT)
    parser.add_argument("--version", action="version", version=f"jaxcf {version('jax-mnih')}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True, title="commands")
    cli_train.add(commands)
    cli_split.add(commands)
    cli_eval.add(commands)
    cli_recommend.add(commands)
    cli_use.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
