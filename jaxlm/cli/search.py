"""`jaxlm search MODEL`: trainings with different options, judged by perplexity on validation text."""

from __future__ import annotations

import argparse
import functools
import math
from typing import TYPE_CHECKING

from jaxfit.cli import search, training_options
from jaxfit.cli.parser import Parser
from jaxfit.cli.search import Measure
from jaxfit.errors import UserError
from jaxfit.files.large_arrays import stored_in
from jaxlm import models
from jaxlm.capabilities import PredictsDocuments, PredictsWords
from jaxlm.cli import train
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.data import user_text
from jaxlm.data.corpus import Texts

if TYPE_CHECKING:
    from jaxlm.data.documents.reading import DocumentFiles


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
        what, do = f"{model.name} has no perplexity to compare trials by", "train it, and compare tasks"
        raise UserError(what, args.parser.prog, f"{do}: jaxlm analogies, similarity")
    resumable = isinstance(model.fitting, BySGD)
    if args.train and not args.valid and not resumable:
        raise UserError(f"{model.name} does not hold out validation text", "--valid is missing", "give --valid FILE")

    @functools.cache
    def texts() -> Texts | DocumentFiles:
        """Read the data, which all trials share; the test part of the default text plays no role."""
        with stored_in(args.out, user_text.LARGE):
            found = train.read(args, model, carve=resumable)
        if not isinstance(found, Texts):
            return found
        return found._replace(corpus=found.corpus._replace(test=found.corpus.test[:0]))

    def prepare(training_args: argparse.Namespace) -> search.Train:
        task = train.check(training_args)

        def run_training() -> tuple[float, str]:
            done = train.train(training_args, task, texts)
            valid = done.results.get("valid")
            return math.inf if valid is None else valid.perplexity, done.trained.stopped

        return run_training

    search.run(args, Measure("perplexity"), resumable, prepare, texts)
