"""The `jaxcf` command: what it can do, and which module does it.

jaxcf train pmf --ratings ratings.csv --out pmf
jaxcf recommend pmf --user 196
"""

import sys
from collections.abc import Sequence

ABOUT = """Train and use recommenders: bias models, online SVD, PMF, RBMs and their conditional forms, WMF.

  jaxcf split ratings.csv --scheme random --out parts   training, validation and test files
  jaxcf train pmf --ratings parts/train.csv --valid parts/valid.csv --out pmf
  jaxcf eval pmf --ratings parts/test.csv               root mean squared error, in stars
  jaxcf recommend pmf --user 196                        what they have not rated and may like
  jaxcf recommend pmf --rated "50:5,172:4"              for somebody who is new
  jaxcf train wmf --ratings plays.csv --out wmf         who took what: plays, purchases

Ratings are files of any layout with users, items and stars: MovieLens, the Netflix Prize, CSV, Parquet,
JSON lines."""

# command -> its line of help, and the function that gives its parser options and what to run
COMMANDS = {
    "train": ("train a model on ratings", "jaxcf.cli.train:add"),
    "search": ("try several options of a model, and judge by validation", "jaxcf.cli.search:add"),
    "cross-validate": ("train and evaluate a model on each fold of the ratings", "jaxcf.cli.cross_validate:add"),
    "split": ("split ratings into training, validation and test files", "jaxcf.cli.split:add"),
    "eval": ("errors of predictions, in stars, and measures of rankings", "jaxcf.cli.evaluate:add"),
    "recommend": ("the best items that a user has not rated", "jaxcf.cli.recommend:add_recommend"),
    "similar": ("the items most like an item", "jaxcf.cli.recommend:add_similar"),
    "predict": ("stars for pairs of user and item, one a line", "jaxcf.cli.use:add_predict"),
    "info": ("what a model is and how it was trained", "jaxcf.cli.use:add_info"),
    "export": ("write a model for other programs", "jaxcf.cli.use:add_export"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status (see `jaxfit.cli.command`)."""
    from jaxfit.cli import interrupts  # here and below: Ctrl-C while Python imports ends in one line

    with interrupts.one_line("jaxcf", argv is None):
        from jaxfit.cli import command
        from jaxfit.cli.parser import of_commands

        return command.run("jaxcf", lambda: of_commands("jaxcf", ABOUT, COMMANDS), argv, cached=True)


if __name__ == "__main__":
    sys.exit(main())
