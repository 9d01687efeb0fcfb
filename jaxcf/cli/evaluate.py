"""`jaxcf eval`: errors of a model's predictions, measures of its rankings, exact predictions of RBMs."""

import argparse
import math
import time
from typing import Any

import numpy as np

from jaxcf import metrics, ranking
from jaxcf.cli.queries import (
    Queried,
    add_known,
    add_model,
    among,
    opened,
    queried,
    say_known,
    say_number,
    say_unknown,
)
from jaxcf.data import reading
from jaxcf.data.ratings import Ratings, relabel, take
from jaxcf.data.reading import Reading
from jaxcf.recommender import Model
from jaxfit.cli import options
from jaxfit.cli.command import Parser, print_json, required
from jaxfit.errors import UserError

MANY = 100  # known ratings of a user, which nearly determine the hidden units of an RBM


def add(parser: Parser) -> None:
    """Give the parser of `jaxcf eval` its options."""
    add_model(parser, run_eval, reads=True)
    parser.add_argument("--ratings", nargs="+", metavar="FILE", help="ratings to predict")
    add_known(parser)
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


def run_eval(args: argparse.Namespace) -> None:
    """Evaluate predictions on files of ratings."""
    if args.relevant is not None and args.top is None:
        raise UserError("--relevant needs --top", args.parser.prog, "give --top K")
    model, how = opened(args), Reading(**options.given(args, Reading))
    table = reading.read(
        required(args, "ratings", "name the ratings to predict: --ratings FILE"), how, model.catalogue.scale
    )
    asked = queried(model, args, how)
    ratings = _of_asked(model, args, relabel(table.ratings, table.catalogue, asked.ids), asked)
    began = time.perf_counter()
    predicted = asked.predictor(False)(ratings.user, ratings.item)
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
    for more, line in (
        *_exact(model, args, asked, ratings, predicted),
        *_ranked(model, args, asked, ratings),
    ):
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
        say_number(~mine, "ratings are of users without known ones: left out")
        ratings = take(ratings, mine)
        say_unknown(model, ratings.item)
    else:
        say_unknown(model, ratings.item, ratings.user)
    say_known(asked.users.ratings, ratings.user, ratings.item, model.catalogue.num_items)
    return ratings


def _exact(
    model: Model, args: argparse.Namespace, asked: Queried, ratings: Ratings, predicted: np.ndarray
) -> list[tuple[dict[str, Any], str]]:
    """Evaluate the exact predictions of an RBM beside those by mean field: JSON fields and a line."""
    if not args.exact:
        return []
    exact = asked.predictor(True)(ratings.user, ratings.item)
    result = metrics.evaluate(exact, ratings.stars, model.catalogue.scale)
    apart = np.abs(exact - predicted)
    known = np.append(np.bincount(asked.users.ratings.user, minlength=asked.ids.num_users), 0)
    many = known[ratings.user] >= MANY
    mean = float(apart.mean())
    of_many = float(apart[many].mean()) if many.any() else math.nan
    record = {"exact": result.record(), "apart": mean, f"apart_of_users_with_{MANY}_ratings": of_many}
    line = f"exactly, by Eq. 5.9: {summary(result)}\nexact and mean-field predictions are {mean:.4f} stars apart"
    if many.any():
        line += f", {of_many:.4f} of users with {MANY} known ratings or more ({int(many.sum()):,} ratings)"
    return [(record, line)]


def _ranked(
    model: Model, args: argparse.Namespace, asked: Queried, ratings: Ratings
) -> list[tuple[dict[str, Any], str]]:
    """Evaluate how all items are ranked for the users of the ratings: JSON fields and a line."""
    if args.top is None:
        return []
    scale = model.catalogue.scale
    relevant = ranking.threshold(scale) if args.relevant is None else args.relevant
    if relevant > scale.high:
        raise UserError(f"no rating is of {relevant:g} stars", "--relevant", f"ratings are {scale}")
    known = (ratings.user >= 0) & (ratings.item >= 0)
    found = take(ratings, known)
    say_number(~known, "ratings of users or items that the model does not know are not ranked")
    conditioned, rated = (
        among(found.user, found.item, pairs, model.catalogue.num_items)
        for pairs in (asked.users.rated, asked.users.ratings)
    )
    what = "of the ratings are of pairs that the model conditions on: it ranks knowing them rated"
    say_number(conditioned & ~rated, what)
    result = ranking.recommended(
        asked.predictor(False), asked.users.ratings, found, asked.ids.num_users, model.catalogue.num_items,
        args.top, relevant,
    )  # fmt: skip
    if not result.users:
        what = f"no rating to rank is of {relevant:g} stars or more"
        raise UserError(what, args.ratings[0], "lower --relevant, or leave --top out")
    line = (
        f"precision@{args.top} {result.precision:.4f}, recall@{args.top} {result.recall:.4f}, NDCG@{args.top} "
        f"{result.ndcg:.4f} of items of at least {relevant:g} stars, for {result.users:,} users, among all that they "
        "are not known to have rated with stars (measures that are not the thesis')"
    )
    return [({**result.record(), "relevant_stars": relevant}, line)]
