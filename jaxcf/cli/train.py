"""`jaxcf train MODEL`: the ratings, the training, and what came of it."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxcf import card, metrics, ranking, training
from jaxcf.cli.evaluate import TOP, summary
from jaxcf.cli.queries import reading_of
from jaxcf.contract import (
    FROM_DATA,
    NO_PAIRS,
    BySGD,
    BySweeps,
    ClosedForm,
    Fitting,
    RatingModel,
    Scorer,
    UsesRatedItems,
)
from jaxcf.data import reading, splits, synthetic
from jaxcf.data.ratings import Dataset, Pairs, Ratings, Units, take
from jaxcf.data.reading import Reading
from jaxcf.model_files import FILES
from jaxcf.models import REGISTRY
from jaxcf.recommender import Model
from jaxfit.cli import options, streams, training_options
from jaxfit.cli.command import note, output, print_json
from jaxfit.cli.parser import Parser
from jaxfit.devices import distributed as processes
from jaxfit.errors import UserError
from jaxfit.files.large_arrays import stored_in
from jaxfit.plan import Plan, require_consistent
from jaxfit.recipe import Recipe
from jaxfit.run_dir.run import Run, Trained
from jaxfit.wording import quantity

SETS = ("train", "valid", "test")
MANY_LEVELS = 20  # of which the cost is said
NAMES = {"valid": "validation", "test": "test"}
Result = metrics.Evaluation | ranking.Ranking
Results = dict[str, Result]  # by part of the data


def add(parser: Parser) -> None:
    """Give the parser of `jaxcf train` a parser for each model."""
    training_options.add_models(parser, REGISTRY, "--ratings FILE… --out DIR", add_options)


def add_options(parser: Parser, record: RatingModel) -> None:
    """Add the options of a model's training."""
    parser.set_defaults(run=run)
    default, *others = record.fitting
    _add_ratings(parser, record, validated=not isinstance(default, ClosedForm))
    training_options.add_result(parser)
    training_options.add(parser, record.config, record.recipes, skip=[*FROM_DATA, *record.fixed])
    if others:
        solvers = [fitting.name for fitting in record.fitting]
        about = "; ".join(f"{f.name}: {f.about}" for f in record.fitting if isinstance(f, BySweeps))
        if isinstance(default, BySGD):
            about += "; --epochs are then sweeps, and other options of training have no meaning"
        parser.add_argument(
            "--solver", type=options.choice("--solver", solvers), default=default.name, metavar="|".join(solvers),
            help=f"{about} (default: {default.name})",
        )  # fmt: skip


def _add_ratings(parser: Parser, record: RatingModel, validated: bool) -> None:
    data = parser.add_argument_group("ratings (of any layout, compressed or not; - is standard input)")
    options.files(
        data, "--ratings", "training ratings, or pairs of user and item (default: drawn from a planted model)"
    )
    carved = " (default: 5 %% of the training ratings)" if validated else ""
    options.files(data, "--valid", "validation ratings" + carved)
    options.files(data, "--test", "ratings to evaluate the finished model on")
    if record.capability(UsesRatedItems):
        options.files(data, "--rated", "further pairs of user and item, without ratings")
        data.add_argument(
            "--condition", nargs="+", action="extend", choices=SETS, default=["train"], metavar="SET",
            help="sets whose rated items the model conditions on: train, valid, test (default: train), besides --rated",
        )  # fmt: skip
    if record.needs_levels:
        data.add_argument(
            "--levels", dest="num_values", type=options.number("--levels", low=2), default=argparse.SUPPRESS,
            metavar="N", help="round ratings to so many levels of the scale (default: each rating is its own level)",
        )  # fmt: skip
    options.add(parser.add_argument_group("reading"), Reading)


class Task(NamedTuple):
    """What the options say of a training."""

    place: Path
    record: RatingModel
    fitting: Fitting
    plan: Plan

    @property
    def resumable(self) -> bool:
        """Whether the engine trains the model."""
        return isinstance(self.fitting, BySGD)

    @property
    def validated(self) -> bool:
        """Whether training needs validation ratings, which are set aside if none are given."""
        return not isinstance(self.fitting, ClosedForm)

    @property
    def counts(self) -> bool:
        """Whether the values of the ratings are counts."""
        return self.record.takes_counts(self.plan.config.get("positive"))


class Done(NamedTuple):
    """A trained model, its data, and how it did."""

    trained: Trained[Model]
    data: Dataset
    results: Results


def run(args: argparse.Namespace) -> None:
    """Train a model and print its results."""
    streams.escape()
    task = check(args)
    require_consistent(task.plan.config, task.record.config)
    done = train(args, task, lambda: read(args, task))
    if processes.leads():
        _report(args, *done)


def check(args: argparse.Namespace) -> Task:
    """Read what the options say; raises UserError where they are wrong, before anything is read."""
    place, record = output(args, folder=True), REGISTRY.get(args.model)
    fitting = record.solver(getattr(args, "solver", None))
    plan = training_options.plan(
        args, record.config, record.recipes, training.parameters(record, args.recipe, vars(args)),
        record.one_thread_up_to if isinstance(fitting, BySGD) else 0,
    )  # fmt: skip
    given = [name for cls in (Recipe, Run, processes.Join) for name in options.given(args, cls)]
    training.require_used(record, fitting, plan.recipe, given)
    return Task(place, record, fitting, plan)


def train(args: argparse.Namespace, task: Task, data_of: Callable[[], tuple[Dataset, Pairs]]) -> Done:
    """Train a model in its folder.

    Args:
        data_of: reads the data, and further rated pairs to condition on.
    """
    place, record, fitting, plan = task
    with (
        training_options.folder(
            args, place, record.name, FILES, resume=plan.run.resume, resumable=task.resumable
        ) as out,
        stored_in(out, reading.LARGE),
    ):
        data, rated = data_of()
        note(args, *_cost_of_levels(record, data, plan.config))
        with training_options.stoppable(place, out if task.resumable else None):
            trained = training.train(
                args.model, data, out, recipe=plan.recipe, config=plan.config, rated=rated, seed=plan.seed,
                run=plan.run, solver=fitting.name,
            )  # fmt: skip
        results: Results = {}
        if processes.leads():
            results = _evaluate(trained.model, data)
            card.write(trained, out, place, {NAMES[name]: result.record() for name, result in results.items()})
    return Done(trained, data, results)


def _cost_of_levels(record: RatingModel, data: Dataset, chosen: Mapping[str, Any]) -> list[str]:
    """Say what a model of many levels costs, before it is compiled."""
    if not record.needs_levels or chosen.get("num_values", data.catalogue.scale.levels) <= MANY_LEVELS:
        return []
    config = record.configure(data.catalogue, Units(), chosen)
    size = sum(int(np.prod(array.shape)) for array in jax.tree.leaves(record.shapes(config)))
    return [
        f"{config.num_values} levels of ratings are {size:,} parameters ({4e-6 * size:,.0f} MB, several times over in "
        f"training); memory and time are about {config.num_values / 5:.0f} times those of 5 levels - fewer: --levels 10"
    ]


def read(args: argparse.Namespace, task: Task) -> tuple[Dataset, Pairs]:
    """Read the data set, and further rated pairs to condition on; print what was read."""
    known, more = NO_PAIRS, getattr(args, "rated", None) or ()
    if args.ratings:
        how = reading_of(args, task.counts)
        data, listed, notes = reading.read_dataset(
            args.ratings, args.valid or (), args.test or (), more, how, task.counts,
            test_ids="test" in getattr(args, "condition", ()),
        )  # fmt: skip
        known = listed or NO_PAIRS
    elif args.valid or args.test or more or options.given(args, Reading):
        what = "the default data has its own validation and test ratings"
        raise UserError(what, "--valid, --test, …", "give --ratings FILE")
    else:
        data = synthetic.planted(jax.random.key(0))
        notes = [f"no --ratings: {data.note}"]
    if task.validated and len(data.valid.user) == 0:
        data = splits.carve(jax.random.fold_in(jax.random.key(task.plan.seed), training.VALID), data)
        notes = [*notes, "no --valid: 5 % of the training ratings are set aside for it"]
    pairs = conditioned(args, data, known)
    note(args, *notes)
    return data, pairs


def conditioned(args: argparse.Namespace, data: Dataset, known: Pairs = NO_PAIRS) -> Pairs:
    """Return the pairs that a model conditions on besides those of training: known ones, those of `--condition`."""
    rated = [known]
    for name in getattr(args, "condition", ["train"]):
        part = getattr(data, name)
        if part is None:
            what = f"there are no {'validation' if name == 'valid' else name} ratings to condition on"
            file = f"--{name} FILE, or " if f"--{name}" in args.parser.options() else ""
            raise UserError(what, "--condition", f"give {file}their pairs: --rated FILE")
        if name != "train":  # those of training are always conditioned on
            part = _of_known(part)
            rated.append(Pairs(part.user, part.item))
    return Pairs(*(np.concatenate(column) for column in zip(*rated, strict=True)))


def _of_known(ratings: Ratings) -> Ratings:
    """Return the ratings of users and items in the catalogue."""
    return take(ratings, (ratings.user >= 0) & (ratings.item >= 0))


def _evaluate(model: Model, data: Dataset) -> Results:
    """Evaluate the model on validation and test ratings, where there are any: predictions, or rankings of positives."""
    results: Results = {}
    for name, part in (("valid", data.valid), ("test", data.test)):
        if part is None or not len(part.user):
            continue
        if model.record.implicit:
            results[name] = ranked(model, part, model.scorer)
        else:
            predicted = model.predictor(part.user, part.item)
            results[name] = metrics.evaluate(predicted, part.stars, data.catalogue.scale)
    return results


def ranked(model: Model, positives: Ratings, scorer: Scorer) -> ranking.Ranking:
    """Evaluate the ranking of those of some ratings that are positives of known users and items."""
    sizes = model.catalogue.num_users, model.catalogue.num_items
    return ranking.recommended(scorer, model.known.ratings, model.taken(_of_known(positives)), *sizes, TOP)


def _report(args: argparse.Namespace, trained: Trained[Model], data: Dataset, results: Results) -> None:
    model = trained.model
    kind = "positives" if model.record.implicit else "ratings"
    sizes = {"train": len(model.known.ratings.user)}
    sizes |= {name: len(model.taken(getattr(data, name)).user) for name in results}
    parameters = sum(int(np.size(array)) for array in jax.tree.leaves(model.params))
    if args.json:
        print_json(
            {
                "command": "train", "model": args.model, "out": args.out, "stopped": trained.stopped,
                "users": data.catalogue.num_users, "items": data.catalogue.num_items, "parameters": parameters,
                "config": model.info["config"], "epochs": model.info.get("epochs"),
                kind: sizes,
                "ratings_per_second": trained.events_per_second, "seconds": trained.seconds,
                **{name: result.record() for name, result in results.items()},
            }
        )  # fmt: skip
        return
    print(
        f"{args.model}: {quantity(data.catalogue.num_users, 'user')}, {quantity(data.catalogue.num_items, 'item')}, "
        f"{parameters:,} parameters, in {args.out}"
    )
    for name, title in NAMES.items():
        if name in results:
            result = results[name]
            print(f"{title} {summary(result) if isinstance(result, metrics.Evaluation) else result}")
    training_options.print_end(trained, "ratings")
