"""`jaxcf train MODEL`: the ratings, the training, and what came of it."""

import argparse
import sys
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from jaxcf import metrics as evaluate
from jaxcf import train
from jaxcf.cli.evaluate import summary
from jaxcf.data import reading, splits
from jaxcf.data import synthetic as planted
from jaxcf.data.ratings import Dataset, Pairs
from jaxcf.data.reading import Reading
from jaxcf.kinds import FROM_DATA, KINDS, Kind
from jaxcf.recommender import NO_PAIRS
from jaxfit import distributed as processes
from jaxfit.cli import options, training_options
from jaxfit.cli.command import Parser, Stopped, print_json
from jaxfit.errors import UserError
from jaxfit.fit import Interrupted
from jaxfit.recipe import Recipe
from jaxfit.run_dir.lock import locked
from jaxfit.run_dir.metadata import CONFIG, read_info
from jaxfit.run_dir.training import Run

VALID, TEST = 2, 3  # what is folded into the seed's key (see `train`)
SETS = ("train", "valid", "test")
SOLVERS = ("sgd", "als")
BY_SWEEPS = ("decay", "epochs", "patience")  # what of a recipe alternating solutions have


def add(commands: Any) -> None:
    """Add the command to those of `jaxcf`."""
    parser = commands.add_parser(
        "train", help="train a model on ratings", description="Train a model. Its options: jaxcf train MODEL --help"
    )  # fmt: skip
    models = parser.add_subparsers(metavar="MODEL", dest="model", required=True, title="models")
    for name, kind in KINDS.items():
        model = models.add_parser(
            name, help=kind.about, description=f"Train {kind.about}.",
            usage=f"jaxcf train {name} --ratings FILE… --out DIR [options]",
        )  # fmt: skip
        model.set_defaults(run=run)
        _add_ratings(model, kind)
        skip = [*FROM_DATA, *kind.fixed]
        if kind.setting is None:
            group = model.add_argument_group("model")
            options.add(group, kind.config, skip=skip, defaults=_shown(kind))
            group.add_argument(
                "--recipe", type=options.choice("--recipe", kind.recipes), default="tuned",
                metavar="|".join(kind.recipes),
                help="which defaults: the thesis', or what serves best (default: tuned)",
            )  # fmt: skip
        else:
            training_options.add_model(model, kind.config, kind.recipes, skip=skip)
            training_options.add_training(model, kind.config, kind.recipes)
        if kind.alternating is not None:
            model.add_argument(
                "--solver", type=options.choice("--solver", SOLVERS), default="sgd", metavar="|".join(SOLVERS),
                help="stochastic gradients, or alternating exact solutions for users and items of the same objective: "
                "--epochs are then sweeps; rates and minibatches have no meaning (default: sgd)",
            )  # fmt: skip


def _add_ratings(parser: Parser, kind: Kind) -> None:
    data = parser.add_argument_group("ratings (of any layout, gzipped or not; - is standard input)")
    data.add_argument(
        "--ratings", nargs="+", metavar="FILE", help="training ratings (default: drawn from a planted model)"
    )
    data.add_argument(
        "--valid", nargs="+", metavar="FILE",
        help="validation ratings" + (" (default: 5 %% of the training ratings)" if kind.setting else ""),
    )  # fmt: skip
    data.add_argument("--test", nargs="+", metavar="FILE", help="ratings to evaluate the finished model on")
    if kind.conditional:
        data.add_argument(
            "--rated", nargs="+", metavar="FILE", help="further pairs of user and item, without ratings"
        )
        data.add_argument(
            "--condition", nargs="+", choices=SETS, default=["train"], metavar="SET",
            help="whose identities are conditioned on: train, valid, test (default: train); --rated always is",
        )  # fmt: skip
    options.add(parser.add_argument_group("reading"), Reading)
    out = parser.add_argument_group("result")
    out.add_argument("--out", metavar="DIR", help="folder for the model")
    out.add_argument("--json", action="store_true", help="print the result as one line of JSON")


def _shown(kind: Kind) -> dict[str, str]:
    fields = {name for _, values in kind.recipes.values() for name in values}
    return {
        field: ", ".join(
            f"{options.show(values[field])} in {name}" for name, (_, values) in kind.recipes.items()
        )
        for field in fields
    }


def run(args: argparse.Namespace) -> None:
    """Train a model and say what came of it."""
    if not args.out:
        raise UserError("--out is missing", args.parser.prog, "name a folder for the model: --out DIR")
    kind = KINDS[args.model]
    closed = kind.setting is None
    if getattr(args, "solver", "sgd") == "als":
        given = [name for cls in (Recipe, Run, processes.Join) for name in options.given(args, cls)]
        idle = [name for name in given if name not in BY_SWEEPS]
        if idle:
            option = f"--{idle[0].replace('_', '-')}"
            raise UserError(f"{option} is of stochastic gradients", "--solver als", "leave it out")
    chosen = None if closed else training_options.plan(args, kind.config, kind.recipes, kind.names)
    with processes.folder(Path(args.out)) as out:
        _check_place(
            out, args.model, getattr(args, "solver", "sgd"), chosen is not None and chosen.run.resume
        )
        with locked(out):
            _run(args, out, chosen)


def _run(args: argparse.Namespace, out: Path, chosen: training_options.Plan | None) -> None:
    kind = KINDS[args.model]
    data, rated, notes = _read(args, carve=chosen is not None)
    for note in notes if processes.leads() else ():
        print(f"{args.model}: {note}", file=sys.stderr)
    if chosen is None:
        config = {**kind.recipes[args.recipe][1], **options.given(args, kind.config)}
        trained = train.train(args.model, data, out, recipe=None, config=config, rated=rated)
    else:
        advice = "give the same command with --resume to go on"
        solver: Literal["sgd", "als"] = getattr(args, "solver", "sgd")
        try:
            trained = train.train(
                args.model, data, out, recipe=chosen.recipe, config=chosen.config, rated=rated, seed=args.seed,
                run=chosen.run, solver=solver,
            )  # fmt: skip
        except Interrupted:
            raise Stopped(f"stopped by Ctrl-C, all is saved ({out}) - {advice}") from None
        except KeyboardInterrupt:  # outside the epochs: in compiling
            if solver == "als":
                raise Stopped("stopped by Ctrl-C - give the same command again to begin anew") from None
            raise Stopped(f"stopped by Ctrl-C ({out}) - {advice} from what is saved") from None
    if processes.leads():
        _report(args, trained, data)


def _check_place(out: Path, kind: str, solver: str, resume: bool) -> None:
    """Raise a UserError where something else stands in the model's place."""
    if out.exists() and not out.is_dir():
        raise UserError("a file stands where the model's folder should", out, "choose another --out")
    if (out / CONFIG).exists():
        info = read_info(out)
        there = info["model"]
        if there != kind or KINDS[kind].setting is None or "als" in (solver, info.get("solver")):
            raise UserError(f"a model of kind {there} is there already", out, "choose another --out")
        if not resume:
            advice = "add --resume to go on with it, or choose another --out"
            raise UserError(f"a model of kind {there} is there already", out, advice)


def _read(args: argparse.Namespace, carve: bool) -> tuple[Dataset, Pairs, list[str]]:
    """The data set, the pairs that a conditional model is told beside its training ratings, and what to say."""
    seed = jax.random.key(getattr(args, "seed", 1))
    known, notes = NO_PAIRS, []
    if args.ratings:
        how = Reading(**options.given(args, Reading))
        files = reading.read_dataset(
            args.ratings, args.valid or (), args.test or (), getattr(args, "rated", None) or (), how
        )
        data, notes = files.dataset, files.notes
        known = files.rated or NO_PAIRS
    elif args.valid or args.test or getattr(args, "rated", None) or options.given(args, Reading):
        raise UserError("the default data has its own parts", "--valid, --test, …", "give --ratings FILE")
    else:
        data = planted.planted(jax.random.key(0))
        notes = [f"no --ratings: {data.note}"]
    if carve and len(data.valid.user) == 0:
        data = splits.carve(jax.random.fold_in(seed, VALID), data)
        notes = [*notes, "no --valid: 5 % of the training ratings are set aside for it"]
    told = [known]
    for name in getattr(args, "condition", ["train"]):
        part = getattr(data, name)
        if part is None:
            raise UserError("there are no test ratings to condition on", "--condition", "give --test FILE")
        if name != "train":  # those of training are always told
            told.append(Pairs(part.user, part.item))
    pairs = Pairs(*(np.concatenate(column) for column in zip(*told, strict=True)))
    return data, pairs, notes


def _report(args: argparse.Namespace, trained: train.Trained, data: Dataset) -> None:
    model, fitted = trained.model, trained.fitted
    results = {}
    for name, part in (("valid", data.valid), ("test", data.test)):
        if part is not None and len(part.user):
            expected = model.expected(part.user, part.item)
            results[name] = evaluate.evaluate(expected, part.stars, data.catalogue.scale)
    stopped = fitted.stopped if fitted else "done"
    speed = fitted.events / fitted.train_seconds if fitted and fitted.train_seconds else None
    parameters = sum(int(np.size(array)) for array in jax.tree.leaves(model.params))
    if args.json:
        print_json(
            {
                "command": "train", "model": args.model, "out": args.out, "stopped": stopped,
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
    if stopped != "done":
        print("stopped after --max-minutes: give the same command with --resume to go on")
    if not trained.seconds:
        print("its training had finished before")
    else:
        spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in trained.seconds.items())
        print(f"time: {spent}" + (f", {speed:,.0f} ratings/s" if speed else ""))
