"""`jaxcf search MODEL`: trainings with different options, judged by RMSE, or NDCG, of validation ratings."""

import argparse
import dataclasses
import functools
import math

from jaxcf import metrics
from jaxcf.cli import train
from jaxcf.cli.evaluate import TOP
from jaxcf.contract import FROM_DATA, BySGD, ClosedForm, RatingModel
from jaxcf.data.positives import FromRatings
from jaxcf.data.ratings import Dataset, Pairs
from jaxcf.models import REGISTRY
from jaxfit.cli import search, training_options
from jaxfit.cli.parser import Parser
from jaxfit.cli.search import Measure
from jaxfit.errors import UserError

# not comparable: the validation data depend on them
POSITIVES = [field.name for field in dataclasses.fields(FromRatings)]


def add(parser: Parser) -> None:
    """Give the parser of `jaxcf search` a parser for each model."""
    needed = "--ratings FILE… --valid FILE --try OPTION=VALUES… --out DIR"
    training_options.add_models(parser, REGISTRY, needed, _add_options, "Search options of")


def _add_options(parser: Parser, record: RatingModel) -> None:
    train.add_options(parser, record)
    recipes = [type(recipe) for recipe, _ in record.recipes.values() if recipe is not None]
    excluded = {*FROM_DATA, *record.fixed, *POSITIVES} - {"num_values"}  # which --levels sets
    search.add(parser, [record.config, *recipes[:1]], excluded, "--ratings train.csv --valid valid.csv")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Search, and print the trials."""
    record = REGISTRY.get(args.model)
    fitting = record.solver(getattr(args, "solver", None))
    if args.ratings and not args.valid and isinstance(fitting, ClosedForm):
        raise UserError(
            f"{record.name} does not hold out validation ratings", "--valid is missing", "give --valid FILE"
        )
    tasks: list[train.Task] = []

    @functools.cache
    def read() -> tuple[Dataset, Pairs]:
        """Read the data, which all trials share; the test part of the default data plays no role."""
        data, rated = train.read(args, tasks[0])
        return data._replace(test=None), rated

    def prepare(training_args: argparse.Namespace) -> search.Train:
        task = train.check(training_args)
        tasks.append(task)

        def run_training() -> tuple[float, str]:
            done = train.train(training_args, task, read)
            valid = done.results.get("valid")
            return math.nan if valid is None else _score(valid), done.trained.stopped

        return run_training

    measure = Measure(f"NDCG@{TOP}", higher_is_better=True) if record.implicit else Measure("RMSE")
    search.run(args, measure, isinstance(fitting, BySGD), prepare, read)


def _score(result: train.Result) -> float:
    return result.rmse if isinstance(result, metrics.Evaluation) else result.ndcg
