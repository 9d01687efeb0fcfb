"""`jaxcf eval`: errors of a model's predictions, measures of its rankings, exact predictions of RBMs."""

import argparse
import math
import time
from typing import Any

import numpy as np

from jaxcf import metrics, ranking
from jaxcf.cli.queries import (
    Queried,
    add_files,
    note_number,
    note_unknown,
    opened,
    queried,
    reading_of,
    warn_unknown,
)
from jaxcf.contract import Predictor
from jaxcf.data import checks, reading
from jaxcf.data.ratings import Pairs, Ratings, pair_keys, relabel, take
from jaxcf.recommender import Model
from jaxfit.cli import options
from jaxfit.cli.command import add_model, note, print_json, required
from jaxfit.cli.parser import Parser
from jaxfit.errors import UserError

MANY = 100  # known ratings of a user, which nearly determine the hidden units of an RBM


def add(parser: Parser) -> None:
    """Give the parser of `jaxcf eval` its options."""
    add_model(parser, run_eval)
    parser.add_argument("--ratings", nargs="+", action="extend", metavar="FILE", help="ratings to predict")
    parser.add_argument(
        "--exact", action="store_true",
        help="RBMs: predict also exactly, by Eq. 5.9, and say how far that is from mean field",
    )  # fmt: skip
    parser.add_argument(
        "--top", type=options.number("--top"), metavar="K",
        help="also rank all items that a user is not known to have rated with stars: precision, recall and NDCG of the "
        "first K (not the thesis')",
    )  # fmt: skip
    parser.add_argument(
        "--relevant", type=options.number("--relevant", float, low=-math.inf), metavar="STARS",
        help="with --top, the stars from which an item was worth finding (default: 3/4 up the scale, as 4 of 5)",
    )  # fmt: skip
    add_files(parser, users=True)


def run_eval(args: argparse.Namespace) -> None:
    """Evaluate predictions on files of ratings."""
    if args.relevant is not None and args.top is None:
        raise UserError("--relevant needs --top", args.parser.prog, "give --top K")
    model, files = opened(args), required(args, "ratings", "name the ratings to predict: --ratings FILE")
    table = reading.read(files, reading_of(args), model.catalogue.scale)
    note(args, *table.notes)
    warn_unknown(model, files, table, users=not args.known)
    checks.warn_other_scale(f"the ratings of {', '.join(files)}", table.ratings.stars, model.known.ratings.stars)
    asked = queried(model, args)
    ratings = _of_asked(model, args, relabel(table.ratings, table.catalogue, asked.ids), asked)
    began = time.perf_counter()
    predictor = asked.predictor(False)
    predicted = predictor(ratings.user, ratings.item)
    seconds = time.perf_counter() - began
    result = metrics.evaluate(predicted, ratings.stars, model.catalogue.scale)
    record = {"command": "eval", "model": model.name, **result.record(), "seconds": seconds}
    lines = [summary(result)]
    if args.known:
        record["users_folded_in"] = asked.ids.num_users
        lines.append(
            f"{asked.ids.num_users:,} users given parameters of their own, {result.count:,} ratings predicted, "
            f"in {seconds:.2f} s"
        )
    if args.exact:
        more, line = _exact(asked, ratings, predicted)
        record |= more
        lines.append(line)
    if args.top is not None:
        more, line = _ranked(args, asked, ratings, predictor)
        record |= more
        lines.append(line)
    if args.json:
        print_json(record)
    else:
        print("\n".join(lines))


def summary(result: metrics.Evaluation) -> str:
    """Describe an evaluation in a line."""
    return (
        f"RMSE {result.rmse:.4f} stars (not clipped to the scale: {result.rmse_unclipped:.4f}), "
        f"MAE {result.mae:.4f}, {result.count:,} ratings"
    )


def _of_asked(model: Model, args: argparse.Namespace, ratings: Ratings, asked: Queried) -> Ratings:
    """Select the ratings of the queried users, and report those that are not predictions."""
    if args.known:
        mine = ratings.user >= 0
        if not mine.any():
            do = "give --known ratings of users of --ratings"
            raise UserError("no rating is of a user of --known", args.ratings[0], do)
        note_number(args, ~mine, "ratings are of users without known ones: left out")
        ratings = take(ratings, mine)
    note_unknown(args, model, ratings.item, None if args.known else ratings.user)
    what = "of the ratings are known to the model: their errors are not those of predictions"
    note_number(args, _among(ratings, asked.users.ratings, asked.ids.num_items), what)
    return ratings


def _among(ratings: Ratings, pairs: Ratings | Pairs, num_items: int) -> np.ndarray:
    """Return which ratings are of one of the pairs; unknown users and items, -1, are in none."""
    found = np.isin(pair_keys(ratings, num_items), pair_keys(pairs, num_items))
    return (ratings.user >= 0) & (ratings.item >= 0) & found


def _exact(asked: Queried, ratings: Ratings, predicted: np.ndarray) -> tuple[dict[str, Any], str]:
    """Evaluate the exact predictions of an RBM beside those by mean field: JSON fields and a line."""
    exact = asked.predictor(True)(ratings.user, ratings.item)
    result = metrics.evaluate(exact, ratings.stars, asked.ids.scale)
    apart = np.abs(exact - predicted)
    known = np.append(np.bincount(asked.users.ratings.user, minlength=asked.ids.num_users), 0)
    many = known[ratings.user] >= MANY
    mean = float(apart.mean())
    of_many = float(apart[many].mean()) if many.any() else math.nan
    record = {"exact": result.record(), "apart": mean, f"apart_of_users_with_{MANY}_ratings": of_many}
    line = f"exactly, by Eq. 5.9: {summary(result)}\nexact and mean-field predictions are {mean:.4f} stars apart"
    if many.any():
        line += f", {of_many:.4f} of users with {MANY} known ratings or more ({int(many.sum()):,} ratings)"
    return record, line


def _ranked(
    args: argparse.Namespace, asked: Queried, ratings: Ratings, predictor: Predictor
) -> tuple[dict[str, Any], str]:
    """Evaluate how all items are ranked for the users of the ratings: JSON fields and a line."""
    scale, number = asked.ids.scale, asked.ids.num_items
    relevant = scale.low + 0.75 * (scale.high - scale.low) if args.relevant is None else args.relevant
    if relevant > scale.high:
        raise UserError(f"no rating is of {relevant:g} stars", "--relevant", f"ratings are {scale}")
    known = (ratings.user >= 0) & (ratings.item >= 0)
    found = take(ratings, known)
    note_number(args, ~known, "ratings of users or items that the model does not know are not ranked")
    conditioned = _among(found, asked.users.rated, number) & ~_among(found, asked.users.ratings, number)
    note_number(
        args, conditioned, "of the ratings are of pairs that the model conditions on: it ranks knowing them rated"
    )
    users = asked.ids.num_users
    result = ranking.recommended(predictor, asked.users.ratings, found, users, number, args.top, relevant)
    if not result.users:
        what = f"no rating to rank is of {relevant:g} stars or more"
        raise UserError(what, args.ratings[0], "lower --relevant, or leave --top out")
    line = (
        f"precision@{args.top} {result.precision:.4f}, recall@{args.top} {result.recall:.4f}, NDCG@{args.top} "
        f"{result.ndcg:.4f} of items of at least {relevant:g} stars, for {result.users:,} users, among all that they "
        "are not known to have rated with stars (measures that are not the thesis')"
    )
    return {**result.record(), "relevant_stars": relevant}, line
