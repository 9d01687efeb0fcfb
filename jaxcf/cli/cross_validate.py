"""`jaxcf cross-validate MODEL`: a model trained on all folds of the ratings but one, and evaluated on that one."""

import argparse
import functools
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxcf import ranking, training
from jaxcf.cli import train
from jaxcf.cli.evaluate import TOP
from jaxcf.cli.queries import reading_of
from jaxcf.contract import BySGD, RatingModel
from jaxcf.data import reading, splits
from jaxcf.data.ratings import Dataset, Pairs
from jaxcf.models import REGISTRY
from jaxfit.cli import options, several, streams, training_options
from jaxfit.cli.command import note, output, print_json, required
from jaxfit.cli.parser import Parser
from jaxfit.process import temporary
from jaxfit.run_dir import json_text

FILE = "folds.json"
# heading -> what the file has of each fold
OF_RATINGS = {"RMSE": "rmse_clipped", "MAE": "mae_clipped"}
OF_RANKINGS = {f"{name}@{TOP}": f"{name.lower()}@{TOP}" for name in ("NDCG", "precision", "recall", "coverage")}
POPULARITY = {f"NDCG@{TOP} by popularity": f"popularity_ndcg@{TOP}"}


def add(parser: Parser) -> None:
    """Give the parser of `jaxcf cross-validate` a parser for each model."""
    training_options.add_models(parser, REGISTRY, "--ratings FILE…", _add_options, "Cross-validate")


def _add_options(parser: Parser, record: RatingModel) -> None:
    train.add_options(parser, record)
    seeded = "--seed" not in parser.options()
    several.leave_out(parser, "valid", "rated")
    parser.description = (
        f"{parser.description}\n\n  {parser.prog} --ratings ratings.csv --folds 5\n\n"
        "The folds are those of jaxcf split --scheme kfold; each is the test set once, and the others are trained on.\n"
        "Where training needs validation, 5 % of the ratings of those others are set aside for it."
    )
    own = parser.add_argument_group("cross-validation")
    own.add_argument(
        "--folds", type=options.number("--folds", low=2, high=10_000), default=5, metavar="N",
        help="number of folds (default: 5)",
    )  # fmt: skip
    several.add_own(own, f"folder for the folds' models and {FILE} (default: nothing is kept)", seeded)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Train and evaluate on each fold, and print the results."""
    streams.escape()
    required(args, "ratings", "name the ratings: --ratings FILE")
    if args.resuming:
        output(args, folder=True)
    record = REGISTRY.get(args.model)
    resumable = isinstance(record.solver(getattr(args, "solver", None)), BySGD)
    with nullcontext(output(args, folder=True)) if args.out else temporary.folder() as kept:
        folders = [Path(kept) / f"fold-{number}" for number in range(1, args.folds + 1)]
        trainings = [several.training(args, folder, resumable) for folder in folders]
        tasks = [train.check(each) for each in trainings]
        known, path, measures = several.identity(args), Path(kept) / FILE, _measures(record)
        types = {
            "fold": int,
            "ended": str,
            "max_minutes": float | None,
            "seconds": float,
            **dict.fromkeys(measures.values(), float | None),
        }
        with several.open_results(args, path, known, types, folders) as done:
            recorded = {each["fold"]: each for each in done}  # also those that are to go on
            results = [each for each in done if several.is_over(each, args)]
            if len(results) < args.folds:
                for fold in _folds(args, [each["fold"] for each in results], trainings, tasks):
                    results.append(fold)
                    recorded[fold["fold"]] = fold
                    several.save(path, known, recorded.values())
    _report(args, measures, sorted(results, key=lambda fold: fold["fold"]))


def _measures(record: RatingModel) -> dict[str, str]:
    return OF_RANKINGS | POPULARITY if record.implicit else OF_RATINGS


def _folds(
    args: argparse.Namespace,
    done: Collection[int],
    trainings: Sequence[argparse.Namespace],
    tasks: Sequence[train.Task],
) -> Iterator[dict[str, Any]]:
    """Train and evaluate on the folds that are not done."""
    table = reading.read(args.ratings, reading_of(args, tasks[0].counts), counts=tasks[0].counts)
    note(args, *table.notes)
    parts = splits.kfold(jax.random.key(args.seed), table.ratings, args.folds)
    for number, (task, training_args, part) in enumerate(zip(tasks, trainings, parts, strict=True), 1):
        if number in done:
            continue
        title, began = f"fold {number} of {args.folds}", time.perf_counter()
        name, test_ids = f"{Path(args.ratings[0]).name}, {title}", "test" in getattr(args, "condition", ())
        data = splits.of_fold(name, *part, table.catalogue, test_ids)
        note(args, f"{title}: {len(data.train.user):,} ratings of training, {len(part[1].user):,} of the test")
        if task.validated:
            data = splits.carve(jax.random.fold_in(jax.random.key(args.seed), training.VALID), data)
        trained, _, results = train.train(training_args, task, functools.partial(_with_pairs, args, data))
        if trained.stopped != "done":
            note(args, f"{title}: stopped by --max-minutes, and evaluated before its training had finished")
        result = results["test"]
        ended = {"ended": trained.stopped, "max_minutes": several.minutes(args)}
        fold = {"fold": number, **result.record(), **ended, "seconds": time.perf_counter() - began}
        if isinstance(result, ranking.Ranking) and data.test is not None:
            popular = ranking.by_popularity(trained.model.known.ratings, data.catalogue.num_items)
            fold[f"popularity_ndcg@{TOP}"] = train.ranked(trained.model, data.test, popular).ndcg
        yield json_text.plain(fold)


def _with_pairs(args: argparse.Namespace, data: Dataset) -> tuple[Dataset, Pairs]:
    return data, train.conditioned(args, data)


def _report(args: argparse.Namespace, measures: Mapping[str, str], folds: Sequence[Mapping[str, Any]]) -> None:
    values = {name: [math.nan if fold[name] is None else fold[name] for fold in folds] for name in measures.values()}
    mean = {name: float(np.mean(each)) for name, each in values.items()}
    deviation = {name: float(np.std(each, ddof=1)) for name, each in values.items()}
    if args.json:
        print_json({
            "command": "cross-validate", "model": args.model, "out": args.out, "folds": folds, "mean": mean,
            "standard_deviation": deviation,
        })  # fmt: skip
        return
    rows = [["fold", *measures, "seconds"]]
    for number, fold in enumerate(folds):
        shown = [f"{values[name][number]:.4f}" for name in measures.values()]
        stopped = "" if fold["ended"] == "done" else f" ({fold['ended']})"
        rows.append([str(fold["fold"]), *shown, f"{fold['seconds']:.1f}{stopped}"])
    rows.append(["mean", *(f"{each:.4f}" for each in mean.values()), ""])
    rows.append(["± sd", *(f"{each:.4f}" for each in deviation.values()), ""])
    print(several.table(rows))
