"""`jaxcf train MODEL`: the ratings, the training, and what came of it."""

import argparse
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxcf import metrics, train
from jaxcf.cli.evaluate import summary
from jaxcf.contract import FROM_DATA, NO_PAIRS, BySGD, BySweeps, ClosedForm, RatingModel, UsesRatedItems
from jaxcf.data import reading, splits, synthetic
from jaxcf.data.ratings import Catalogue, Dataset, Pairs, Scale
from jaxcf.data.reading import Reading
from jaxcf.models import get, names
from jaxfit.cli import options, training_options
from jaxfit.cli.command import Parser, Stopped, output, print_json
from jaxfit.devices import distributed as processes
from jaxfit.errors import UserError
from jaxfit.fit import Interrupted
from jaxfit.program import parameter_names
from jaxfit.recipe import Recipe
from jaxfit.run_dir.lock import locked
from jaxfit.run_dir.metadata import CONFIG, read_info
from jaxfit.run_dir.training import Run

VALID = 2  # for `fold_in` of the seed's key (see `jaxcf.train`)
SETS = ("train", "valid", "test")


def add(parser: Parser) -> None:
    """Give the parser of `jaxcf train` a parser for each model of the registry."""
    parser.description = "Train a model. Its options: jaxcf train MODEL --help"
    models: Any = parser.add_subparsers(metavar="MODEL", dest="model", required=True, title="models")
    for name in names():
        usage = f"jaxcf train {name} --ratings FILE… --out DIR [options]"
        chosen = models.add_parser(name, help=lambda name=name: _about(get(name)), usage=usage)
        chosen.add_options = lambda parser, name=name: _add_options(parser, get(name))


def _about(record: RatingModel) -> str:
    return f"{record.about} ({record.source})"


def _add_options(parser: Parser, record: RatingModel) -> None:
    parser.description = f"Train {_about(record)}."
    parser.set_defaults(run=run)
    default = record.fitting[0]
    _add_ratings(parser, record, validated=not isinstance(default, ClosedForm))
    skip = [*FROM_DATA, *record.fixed]
    if isinstance(default, BySGD):
        training_options.add_model(parser, record.config, record.recipes, skip=skip)
        training_options.add_training(parser, record.config, record.recipes)
    else:
        _add_recipe(parser, record, skip)
    if len(record.fitting) > 1:
        solvers = [fitting.name for fitting in record.fitting]
        others = "; ".join(f"{f.name}: {f.about}" for f in record.fitting if isinstance(f, BySweeps))
        parser.add_argument(
            "--solver", type=options.choice("--solver", solvers), default=default.name, metavar="|".join(solvers),
            help=f"{others}; --epochs are then sweeps, and other options of training have no meaning "
            f"(default: {default.name})",
        )  # fmt: skip


def _add_recipe(parser: Parser, record: RatingModel, skip: list[str]) -> None:
    """Add the options of a model that the engine does not fit."""
    group = parser.add_argument_group("model")
    options.add(group, record.config, skip=skip, defaults=_shown({n: c for n, (_, c) in record.recipes.items()}))
    group.add_argument(
        "--recipe", type=options.choice("--recipe", record.recipes), default="tuned",
        metavar="|".join(record.recipes), help="which defaults: the thesis', or what serves best (default: tuned)",
    )  # fmt: skip
    if not isinstance(record.fitting[0], ClosedForm):
        recipe, _ = record.recipes["tuned"]
        shown = _shown({n: vars(r) for n, (r, _) in record.recipes.items()})
        options.add(group, type(recipe), defaults=shown)
        group.add_argument(
            "--seed", type=options.number("--seed", low=0), default=1, metavar="N",
            help="of all random draws (default: 1)",
        )  # fmt: skip


def _add_ratings(parser: Parser, record: RatingModel, validated: bool) -> None:
    data = parser.add_argument_group("ratings (of any layout, gzipped or not; - is standard input)")
    data.add_argument(
        "--ratings", nargs="+", metavar="FILE", help="training ratings (default: drawn from a planted model)"
    )
    data.add_argument(
        "--valid", nargs="+", metavar="FILE",
        help="validation ratings" + (" (default: 5 %% of the training ratings)" if validated else ""),
    )  # fmt: skip
    data.add_argument("--test", nargs="+", metavar="FILE", help="ratings to evaluate the finished model on")
    if record.capability(UsesRatedItems):
        data.add_argument("--rated", nargs="+", metavar="FILE", help="further pairs of user and item, without ratings")
        data.add_argument(
            "--condition", nargs="+", choices=SETS, default=["train"], metavar="SET",
            help="sets whose rated items the model conditions on: train, valid, test (default: train), besides --rated",
        )  # fmt: skip
    options.add(parser.add_argument_group("reading"), Reading)
    out = parser.add_argument_group("result")
    out.add_argument("--out", metavar="DIR", help="folder for the model")
    out.add_argument("--json", action="store_true", help="print the result as one line of JSON")


def _shown(recipes: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Describe what each recipe sets a field to, for the help."""
    fields = {field for values in recipes.values() for field in values}
    return {
        field: ", ".join(f"{options.show(values[field])} in {name}" for name, values in recipes.items())
        for field in fields
    }


def run(args: argparse.Namespace) -> None:
    """Train a model and say what came of it."""
    place = output(args, folder=True)
    record = get(args.model)
    fitting = record.solver(getattr(args, "solver", None))
    plan = _plan(args, record)
    if isinstance(fitting, BySweeps):
        _check_used(args, record, fitting)
    with processes.folder(place) as out:
        _check_place(out, record, isinstance(fitting, BySGD), plan.run.resume)
        with locked(out):
            _run(args, out, record, plan)


def _plan(args: argparse.Namespace, record: RatingModel) -> training_options.Plan:
    """Read the recipe, fields of Config and how training is run from the options."""
    if isinstance(record.fitting[0], BySGD):
        return training_options.plan(args, record.config, record.recipes, _parameters(args, record))
    recipe, config = record.recipes[args.recipe]
    if recipe is not None:
        recipe = type(recipe)(**{**vars(recipe), **options.given(args, type(recipe))})
    return training_options.Plan(recipe, {**config, **options.given(args, record.config)}, Run())


def _parameters(args: argparse.Namespace, record: RatingModel) -> tuple[str, ...]:
    """Return the names of the model's parameters, which do not depend on the data."""
    chosen = {**record.recipes[args.recipe][1], **options.given(args, record.config)}
    two = np.arange(2)
    return parameter_names(record.shapes(record.configure(Catalogue(two, two, Scale(1, 5, 1)), 0.0, chosen)))


def _check_used(args: argparse.Namespace, record: RatingModel, fitting: BySweeps) -> None:
    """Raise UserError for an option of training that has no meaning for a fit by sweeps."""
    given = [name for cls in (Recipe, Run, processes.Join) for name in options.given(args, cls)]
    unused = [name for name in given if name not in fitting.uses]
    if unused and len(record.fitting) > 1:
        option = f"--{unused[0].replace('_', '-')}"
        raise UserError(f"{option} applies to SGD only", f"--solver {fitting.name}", "leave it out")


def _run(args: argparse.Namespace, out: Path, record: RatingModel, plan: training_options.Plan) -> None:
    fitting = record.solver(getattr(args, "solver", None))
    data, rated, notes = _read(args, carve=not isinstance(fitting, ClosedForm))
    for note in notes if processes.leads() else ():
        print(f"{args.model}: {note}", file=sys.stderr)
    advice = "give the same command with --resume to go on"
    try:
        trained = train.train(
            args.model, data, out, recipe=plan.recipe, config=plan.config, rated=rated,
            seed=getattr(args, "seed", 1), run=plan.run, solver=fitting.name,
        )  # fmt: skip
    except Interrupted:
        raise Stopped(f"stopped by Ctrl-C, all is saved ({out}) - {advice}") from None
    except KeyboardInterrupt:  # outside the epochs: in compiling
        if not isinstance(fitting, BySGD):
            raise Stopped("stopped by Ctrl-C - give the same command again to begin anew") from None
        raise Stopped(f"stopped by Ctrl-C ({out}) - {advice} from what is saved") from None
    if processes.leads():
        _report(args, trained, data)


def _check_place(out: Path, record: RatingModel, resumable: bool, resume: bool) -> None:
    """Raise a UserError where another model is in the folder."""
    if (out / CONFIG).exists():
        info = read_info(out)
        what = f"a model is there already: {info['model']}"
        if info["model"] != record.name or not resumable or "solver" in info:
            raise UserError(what, out, "choose another --out")
        if not resume:
            raise UserError(what, out, "add --resume to go on with it, or choose another --out")


def _read(args: argparse.Namespace, carve: bool) -> tuple[Dataset, Pairs, list[str]]:
    """Read the data set, further rated pairs to condition on, and notes for the user."""
    seed = jax.random.key(getattr(args, "seed", 1))
    known, notes, more = NO_PAIRS, [], getattr(args, "rated", None) or ()
    if args.ratings:
        how = Reading(**options.given(args, Reading))
        files = reading.read_dataset(args.ratings, args.valid or (), args.test or (), more, how)
        data, notes, known = files.dataset, files.notes, files.rated or NO_PAIRS
    elif args.valid or args.test or more or options.given(args, Reading):
        what = "the default data has its own validation and test ratings"
        raise UserError(what, "--valid, --test, …", "give --ratings FILE")
    else:
        data = synthetic.planted(jax.random.key(0))
        notes = [f"no --ratings: {data.note}"]
    if carve and len(data.valid.user) == 0:
        data = splits.carve(jax.random.fold_in(seed, VALID), data)
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


def _report(args: argparse.Namespace, trained: train.Trained, data: Dataset) -> None:
    model, speed = trained.model, trained.events_per_second
    results = {}
    for name, part in (("valid", data.valid), ("test", data.test)):
        if part is not None and len(part.user):
            predicted = model.predictor(part.user, part.item)
            results[name] = metrics.evaluate(predicted, part.stars, data.catalogue.scale)
    parameters = sum(int(np.size(array)) for array in jax.tree.leaves(model.params))
    if args.json:
        print_json(
            {
                "command": "train", "model": args.model, "out": args.out, "stopped": trained.stopped,
                "users": data.catalogue.num_users, "items": data.catalogue.num_items, "parameters": parameters,
                "config": model.info["config"], "epochs": model.info.get("epochs"),
                "ratings": {"train": len(data.train.user), **{n: len(getattr(data, n).user) for n in results}},
                "ratings_per_second": speed, "seconds": trained.seconds,
                **{name: result.record() for name, result in results.items()},
            }
        )  # fmt: skip
        return
    print(
        f"{args.model}: {data.catalogue.num_users:,} users, {data.catalogue.num_items:,} items, "
        f"{parameters:,} parameters, in {args.out}"
    )
    for name, title in (("valid", "validation"), ("test", "test")):
        if name in results:
            print(f"{title} {summary(results[name])}")
    if trained.stopped != "done":
        print("stopped after --max-minutes: give the same command with --resume to go on")
    if not trained.seconds:
        print("its training had finished before")
    else:
        spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in trained.seconds.items())
        print(f"time: {spent}" + (f", {speed:,.0f} ratings/s" if speed else ""))
