"""What a user chooses for `jaxlm train MODEL`: options from the model's record, and reading them back."""

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxfit.cli import options
from jaxfit.cli.command import Parser
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data.files import Reading

if TYPE_CHECKING:
    from jaxfit.recipe import Recipe
    from jaxfit.run_dir.run import Run

RENAMED = {"across_lines": "context-across-lines"}


def add_text(parser: Parser, carves: bool) -> None:
    """Add what every model has: the text, its vocabulary, the result; carves: takes validation from training text."""
    text = parser.add_argument_group("text (plain, one sentence a line, gzipped or not; - is standard input)")
    text.add_argument(
        "--train", nargs="+", metavar="FILE", help="training text (default: prose that comes with Python)"
    )
    text.add_argument(
        "--valid", nargs="+", metavar="FILE",
        help="validation text" + (" (default: the last 5 %% of the training text)" if carves else ""),
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


def add_model(parser: Parser, model: LanguageModel) -> None:
    """Add a model's own options: its Config, its structure, and how it is trained."""
    opposites = {f.name: f for f in dataclasses.fields(model.config) if "opposite" in f.metadata}
    skip = [*model.fields_from_data, *opposites]
    if isinstance(model.fitting, BySGD):
        from jaxfit.cli import training_options

        training_options.add_model(parser, model.config, model.recipes, skip=skip, rename=RENAMED)
    else:
        options.add(parser.add_argument_group("model"), model.config, skip=skip, rename=RENAMED)
    for field in opposites.values():
        _add_opposites(parser, field)
    if model.structure is not None:
        options.add(parser.add_argument_group(model.structure.name), model.structure.options, switches=True)
    if isinstance(model.fitting, BySGD):
        training_options.add_training(parser, model.config, model.recipes)


def _add_opposites(parser: Parser, field: "dataclasses.Field[bool]") -> None:
    """Add a pair of switches with names of their own for a field that is true or false."""
    pair = parser.add_mutually_exclusive_group()
    common: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS}
    pair.add_argument(f"--{field.name}", action="store_true", help=field.metadata["help"], **common)
    pair.add_argument(
        f"--{field.metadata['opposite']}", action="store_false", help=field.metadata["opposite_help"], **common
    )  # fmt: skip


class Plan(NamedTuple):
    """What the options of a training come to; recipe and run are those of fitting by SGD."""

    config: dict[str, Any]
    structure: Any = None
    recipe: "Recipe | str" = "tuned"
    run: "Run | None" = None
    seed: int = 1


def plan(args: argparse.Namespace, model: LanguageModel) -> Plan:
    """Read the options, and meet the other processes where there are any.

    Raises:
        UserError: what is wrong with the options by themselves, before any data are read.
    """
    if not isinstance(model.fitting, BySGD):
        return Plan(options.given(args, model.config))
    from jaxfit.cli import training_options

    structure = None
    if model.structure is not None:
        structure = model.structure.options(**options.given(args, model.structure.options))
        model.structure.check(structure)
    chosen = training_options.plan(args, model.config, model.recipes, model.fitting.parameters)
    return Plan(chosen.config, structure, chosen.recipe, chosen.run, args.seed)
