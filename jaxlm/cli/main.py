"""The `jaxlm` command: what it can do, and which room does it.

jaxlm train lbl --train text.txt --out lbl
jaxlm eval lbl --text test.txt
"""

import sys
from collections.abc import Sequence
from importlib.metadata import version

import jax

from jaxfit.cli import command

ABOUT = """Train and use neural and n-gram language models.

  jaxlm train kn --train train.txt --out kn5            an n-gram model in seconds
  jaxlm train hlbl --out hlbl                           a neural model of the default data
  jaxlm eval hlbl --text test.txt --mix kn5             perplexity of the two mixed
  jaxlm next hlbl "he has joined the rolling"           what comes next

A model is a folder; eval, score, next and sample also take an ARPA file in its place."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status (see `jaxfit.cli.command`).

    Matrix products are of full float32 precision: by default a GPU rounds their factors to 10 bits and a TPU to 7,
    so that figures would depend on the device.
    """
    with jax.default_matmul_precision("highest"):
        return command.run("jaxlm", build, argv, cached=True)


def build() -> command.Parser:
    """Parser of all commands."""
    from jaxlm.cli import train as cli_train
    from jaxlm.cli import use as cli_use

    parser = command.Parser("jaxlm", description=ABOUT)
    parser.add_argument("--version", action="version", version=f"jaxlm {version('jax-mnih')}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True, title="commands")
    cli_train.add(commands)
    cli_use.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
