"""`jaxlm search MODEL`: trainings with different options, judged by perplexity on validation text."""

import argparse
import functools
import math
from pathlib import Path

from jaxfit.cli import search, training_options
from jaxfit.cli.parser import Parser
from jaxfit.cli.search import Measure
from jaxfit.errors import UserError
from jaxlm import models
from jaxlm.cli import train
from jaxlm.contract import BySGD, LanguageModel, PredictsDocuments, PredictsWords


def add(parser: Parser) -> None:
    """Give the parser of `jaxlm search` a parser for each model."""
    needed = "--train FILE… --valid FILE --try OPTION=VALUES… --out DIR"
    training_options.add_models(parser, models.REGISTRY, needed, _add_options, "Search options of")


def _add_options(parser: Parser, model: LanguageModel) -> None:
    train.add_options(parser, model)
    recipes = [type(recipe) for recipe, _ in model.recipes.values() if recipe is not None]
    classes = [model.config, *recipes[:1], *(structure.options for structure in model.structures)]
    search.add(parser, classes, (), "--train train.txt --valid valid.txt")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Search, and print the trials."""
    model = models.get(args.model)
    if not (model.capability(PredictsWords) or model.capability(PredictsDocuments)):
        what, do = f"a {model.name} has no perplexity by which trainings can be compared", "train it, and compare tasks"
        raise UserError(what, args.parser.prog, f"{do}: jaxlm analogies, similarity")
    resumable = isinstance(model.fitting, BySGD)
    if args.train and not args.valid and not resumable:
        raise UserError(f"a {model.name} sets no validation text aside", "--valid is missing", "give --valid FILE")
    texts = functools.cache(lambda: train.read(args, model, Path(args.out), carve=resumable))

    def prepare(of_train: argparse.Namespace) -> search.Train:
        task = train.check(of_train)

        def run_training() -> tuple[float, str]:
            done = train.train(of_train, task, lambda directory: texts())
            valid = done.results.get("valid")
            return math.inf if valid is None else valid.perplexity, done.trained.stopped

        return run_training

    search.run(args, Measure("perplexity"), resumable, prepare, texts)
