"""What a user chooses for `jaxlm train`: options from the models' dataclasses, and reading them back."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from jaxfit.cli import options, training_options
from jaxfit.cli.command import Parser, suggestion
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe
from jaxfit.run_dir.training import Run
from jaxlm import train
from jaxlm.data.files import Reading
from jaxlm.models import lbl
from jaxlm.models.hlbl import model as hlbl

MODELS = {
    "unigram": "relative frequencies of words, smoothed by adding one",
    "gt": "Good-Turing (Katz) back-off n-grams",
    "kn": "modified Kneser-Ney n-grams",
    "lbl": "the log-bilinear model (thesis, 3.3)",
    "hlbl": "the hierarchical log-bilinear model and its tree over words (thesis, 4.3)",
}
NEURAL = {"lbl": lbl, "hlbl": hlbl}
ORDER = 5
RENAMED = {"across_lines": "context-across-lines"}
FROM_DATA = ("num_words", "num_nodes")  # fields of Config that are not the user's to choose


def add_text(parser: Parser, name: str) -> None:
    """Add what every model has: the text, its vocabulary, the result."""
    text = parser.add_argument_group("text (plain, one sentence a line, gzipped or not; - is standard input)")
    text.add_argument(
        "--train", nargs="+", metavar="FILE", help="training text (default: prose that comes with Python)"
    )
    text.add_argument(
        "--valid", nargs="+", metavar="FILE",
        help="validation text" + (" (default: the last 5 %% of the training text)" if name in NEURAL else ""),
    )  # fmt: skip
    text.add_argument("--test", nargs="+", metavar="FILE", help="text to evaluate the finished model on")
    words = parser.add_argument_group("vocabulary").add_mutually_exclusive_group()
    words.add_argument("--vocab", metavar="FILE", help="a list of words, one a line")
    words.add_argument(
        "--vocab-size", type=options.number("--vocab-size", low=3), metavar="N",
        help="the most frequent words; the others become <unk> (words, with <eos> and <unk>)",
    )  # fmt: skip
    words.add_argument(
        "--min-count", type=options.number("--min-count"), metavar="N",
        help="words seen less often become <unk> (default: 1; for the default data 2)",
    )  # fmt: skip
    options.add(parser.add_argument_group("reading"), Reading, switches=True)
    out = parser.add_argument_group("result")
    out.add_argument("--out", metavar="DIR", help="folder for the model")
    out.add_argument("--json", action="store_true", help="print the result as one line of JSON")


def add_ngram(parser: Parser, name: str) -> None:
    """Add an n-gram model's options."""
    group = parser.add_argument_group("model")
    if name != "unigram":
        group.add_argument(
            "--order", type=options.number("--order", high=9), default=ORDER, metavar="N",
            help=f"length of the longest n-grams (words, 1 to 9; default: {ORDER})",
        )  # fmt: skip
    if name == "kn":
        kind = group.add_mutually_exclusive_group()
        kind.add_argument(
            "--interpolated", action="store_true", default=True, help="mix all orders (default)"
        )
        kind.add_argument(
            "--backoff",
            action="store_false",
            dest="interpolated",
            help="use lower orders for unseen n-grams only",
        )


def add_neural(parser: Parser, name: str) -> None:
    """Add a neural model's options: its Config, the tree, the recipe."""
    module = NEURAL[name]
    training_options.add_model(parser, module.Config, module.RECIPES, skip=FROM_DATA, rename=RENAMED)
    if name == "hlbl":
        tree = parser.add_argument_group("tree")
        kinds = "|".join(train.KINDS)
        default = train.TreeOptions().kind
        tree.add_argument(
            "--tree",
            metavar=f"{kinds}|FILE",
            help=f"how words are split, or a tree file (default: {default})",
        )
        options.add(tree, train.TreeOptions, skip=["kind"], switches=True)
        tree.add_argument(
            "--bootstrap", metavar="DIR",
            help="an hlbl, trained on this text, whose word features the tree is built from "
            "(default: one over a random tree is trained first)",
        )  # fmt: skip
    training_options.add_training(parser, module.Config, module.RECIPES)


class Plan(NamedTuple):
    """What the options of a neural model's training come to; tree and bootstrap are an hlbl's."""

    recipe: Recipe
    config: dict[str, Any]
    run: Run
    more: dict[str, Any]


def plan(args: argparse.Namespace) -> Plan:
    """Read the options of a neural model; raises UserError for all that can be wrong with them by themselves."""
    module = NEURAL[args.model]
    chosen = training_options.plan(args, module.Config, module.RECIPES, module.Params._fields)
    more: dict[str, Any] = {}
    if args.model == "hlbl":
        more = {"tree": _tree(args), "bootstrap": Path(args.bootstrap) if args.bootstrap else None}
    return Plan(*chosen, more)


def _tree(args: argparse.Namespace) -> train.TreeOptions | Path:
    given = options.given(args, train.TreeOptions)
    if not args.tree or args.tree in train.KINDS:
        kind = {"kind": args.tree} if args.tree else {}
        return train.TreeOptions(**kind, **given)
    if given:
        raise UserError(
            f"--{next(iter(given))} is for building a tree", f"--tree {args.tree}", "leave one out"
        )
    path = Path(args.tree)
    if not path.exists():
        what = f"there is no tree kind or file {args.tree!r}"
        raise UserError(what, "--tree", suggestion(args.tree, train.KINDS))
    return path / "tree.npz" if path.is_dir() and (path / "tree.npz").exists() else path
