"""`jaxcf train MODEL`: the ratings, the training, and what came of it."""

import argparse
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxcf import card, metrics, ranking, training
from jaxcf.cli.evaluate import TOP, summary
from jaxcf.cli.queries import reading_of
from jaxcf.contract import FROM_DATA, NO_PAIRS, BySGD, BySweeps, ClosedForm, RatingModel, UsesRatedItems
from jaxcf.data import reading, splits, synthetic
from jaxcf.data.ratings import Dataset, Pairs, Units
from jaxcf.data.reading import Reading
from jaxcf.model_files import FILES
from jaxcf.models import REGISTRY
from jaxcf.recommender import Model
from jaxfit.cli import options, streams, training_options
from jaxfit.cli.command import note, output, print_json
from jaxfit.cli.parser import Parser
from jaxfit.devices import distributed as processes
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe
from jaxfit.run_dir.run import Run, Trained

SETS = ("train", "valid", "test")
MANY_LEVELS = 20  # of which the cost is said
NAMES = {"valid": "validation", "test": "test"}
Results = dict[str, metrics.Evaluation | ranking.Ranking]  # by part of the data


def add(parser: Parser) -> None:
    """Give the parser of `jaxcf train` a parser for each model."""
    training_options.add_models(parser, REGISTRY, "--ratings FILE…", _add_options)


def _add_options(parser: Parser, record: RatingModel) -> None:
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
    data.add_argument(
        "--ratings",
        nargs="+",
        action="extend",
        metavar="FILE",
        help="training ratings, or who took what (default: drawn from a planted model)",
    )
    data.add_argument(
        "--valid", nargs="+", action="extend", metavar="FILE",
        help="validation ratings" + (" (default: 5 %% of the training ratings)" if validated else ""),
    )  # fmt: skip
    data.add_argument(
        "--test", nargs="+", action="extend", metavar="FILE", help="ratings to evaluate the finished model on"
    )
    if record.capability(UsesRatedItems):
        data.add_argument(
            "--rated",
            nargs="+",
            action="extend",
            metavar="FILE",
            help="further pairs of user and item, without ratings",
        )
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


def run(args: argparse.Namespace) -> None:
    """Train a model and print its results."""
    streams.escape()
    place, record = output(args, folder=True), REGISTRY.get(args.model)
    fitting = record.solver(getattr(args, "solver", None))
    plan = training_options.plan(
        args, record.config, record.recipes, training.parameters(record, args.recipe, vars(args))
    )
    given = [name for cls in (Recipe, Run, processes.Join) for name in options.given(args, cls)]
    training.require_used(record, fitting, given)
    resumable = isinstance(fitting, BySGD)
    resume = plan.run.resume
    with training_options.folder(args, place, record.name, FILES, resume=resume, resumable=resumable) as out:
        counts = record.counts(plan.config.get("positive"))
        data, rated, notes = _read(args, plan.seed, carve=not isinstance(fitting, ClosedForm), counts=counts)
        note(args, *notes, *_cost_of_levels(record, data, plan.config))
        with training_options.stoppable(place, resumable):
            trained = training.train(
                args.model, data, out, recipe=plan.recipe, config=plan.config, rated=rated, seed=plan.seed,
                run=plan.run, solver=fitting.name,
            )  # fmt: skip
        if processes.leads():
            results = _evaluate(trained.model, data)
            card.write(trained, out, place, {NAMES[name]: result.record() for name, result in results.items()})
    if processes.leads():
        _report(args, trained, data, results)


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


def _read(args: argparse.Namespace, seed: int, carve: bool, counts: bool) -> tuple[Dataset, Pairs, list[str]]:
    """Read the data set, further rated pairs to condition on, and notes for the user."""
    known, notes, more = NO_PAIRS, [], getattr(args, "rated", None) or ()
    if args.ratings:
        how = reading_of(args, counts)
        files = reading.read_dataset(args.ratings, args.valid or (), args.test or (), more, how, counts)
        data, notes, known = files.dataset, files.notes, files.rated or NO_PAIRS
    elif args.valid or args.test or more or options.given(args, Reading):
        what = "the default data has its own validation and test ratings"
        raise UserError(what, "--valid, --test, …", "give --ratings FILE")
    else:
        data = synthetic.planted(jax.random.key(0))
        notes = [f"no --ratings: {data.note}"]
    if carve and len(data.valid.user) == 0:
        data = splits.carve(jax.random.fold_in(jax.random.key(seed), training.VALID), data)
        notes = [*notes, "no --valid: 5 % of the training ratings are set aside for it"]
    rated = [known]
    for name in getattr(args, "condition", ["train"]):
        part = getattr(data, name)
        if part is None:
            raise UserError("there are no test ratings to condition on", "--condition", "give --test FILE")
        if name != "train":  # those of training are always conditioned on
            rated.append(Pairs(part.user, part.item))
    pairs = Pairs(*(np.concatenate(column) for column in zip(*rated, strict=True)))
    return data, pairs, notes


def _evaluate(model: Model, data: Dataset) -> Results:
    """Evaluate the model on validation and test ratings, where there are any: predictions, or rankings of positives."""
    results: Results = {}
    sizes = data.catalogue.num_users, data.catalogue.num_items
    for name, part in (("valid", data.valid), ("test", data.test)):
        if part is None or not len(part.user):
            continue
        if model.record.implicit:
            results[name] = ranking.recommended(model.scorer, model.known.ratings, model.taken(part), *sizes, TOP)
        else:
            predicted = model.predictor(part.user, part.item)
            results[name] = metrics.evaluate(predicted, part.stars, data.catalogue.scale)
    return results


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
        f"{args.model}: {data.catalogue.num_users:,} users, {data.catalogue.num_items:,} items, "
        f"{parameters:,} parameters, in {args.out}"
    )
    for name, title in NAMES.items():
        if name in results:
            result = results[name]
            print(f"{title} {summary(result) if isinstance(result, metrics.Evaluation) else result}")
    training_options.print_end(trained, "ratings")
