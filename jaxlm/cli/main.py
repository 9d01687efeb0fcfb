"""The `jaxlm` command and its subcommands.

jaxlm train lbl --train text.txt --out lbl
jaxlm eval lbl --text test.txt
"""

import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version

from jaxfit.cli import command

ABOUT = """Train and use neural and n-gram language models.

  jaxlm train kn --train train.txt --out kn5            an n-gram model in seconds
  jaxlm train hlbl --out hlbl                           a neural model of the default data
  jaxlm eval hlbl --text test.txt --mix kn5             perplexity of the two mixed
  jaxlm next hlbl "he has joined the rolling"           what comes next

A model is a folder; eval, score, next and sample also take an ARPA file in its place."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status (see `jaxfit.cli.command`)."""
    given = sys.argv[1:] if argv is None else list(argv)
    return command.run("jaxlm", partial(build, given), given, cached=True)


def build(argv: Sequence[str]) -> command.Parser:
    """Parser of the commands; of `train`, with the models that this command line may mean."""
    from jaxlm.cli import describe, evaluate, predict, train, words

    parser = command.Parser("jaxlm", description=ABOUT)
    parser.add_argument("--version", action="version", version=f"jaxlm {version('jax-mnih')}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True, title="commands")
    train.add(commands, argv)
    for module in (evaluate, predict, words, describe):
        module.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
