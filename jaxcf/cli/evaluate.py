"""`jaxcf eval`: errors of a model's predictions, measures of its rankings, exact predictions of RBMs.

A model of implicit data has rankings alone.
"""

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
    read,
    warn_unknown,
)
from jaxcf.contract import PredictsExactly
from jaxcf.data import checks
from jaxcf.data.ratings import Pairs, Ratings, pair_keys, relabel, take
from jaxcf.models import require
from jaxcf.recommender import Model
from jaxfit.cli import options
from jaxfit.cli.command import add_model, print_answer, required
from jaxfit.cli.parser import Parser
from jaxfit.errors import UserError
from jaxfit.wording import quantity

TOP = 10  # places by which a model of implicit data is evaluated
MANY = 100  # known ratings of a user, which nearly determine the hidden units of an RBM


def add(parser: Parser) -> None:
    """Give the parser of `jaxcf eval` its options."""
    add_model(parser, run_eval)
    options.files(parser, "--ratings", "ratings to predict, or pairs of user and item")
    parser.add_argument(
        "--exact", action="store_true",
        help="RBMs: predict also exactly, by Eq. 5.9, and say how far that is from mean field",
    )  # fmt: skip
    parser.add_argument(
        "--top", type=options.number("--top"), metavar="K",
        help="also rank all items that a user is not known to have rated with stars: NDCG, precision, recall and "
        "coverage of the first K, beside those of popularity (not in the thesis; models of implicit data: default "
        f"{TOP})",
    )  # fmt: skip
    parser.add_argument(
        "--relevant", type=options.number("--relevant", float, low=-math.inf), metavar="STARS",
        help="with --top, the stars from which an item was worth finding (default: 3/4 up the scale, as 4 of 5)",
    )  # fmt: skip
    add_files(parser, users=True)


def run_eval(args: argparse.Namespace) -> None:
    """Evaluate predictions, or rankings, on files of ratings."""
    if args.relevant is not None and args.top is None:
        raise UserError("--relevant needs --top", args.parser.prog, "give --top K")
    model, files = opened(args), required(args, "ratings", "name the ratings to predict: --ratings FILE")
    if args.exact:
        require(model.record, PredictsExactly, "--exact")
    if args.relevant is not None and model.record.implicit:
        what = f"{model.name} ranks positives, which --positive of its training tells"
        raise UserError(what, "--relevant", "leave it out")
    scale = model.catalogue.scale
    if args.relevant is not None and args.relevant > scale.high:
        raise UserError(f"no rating is of {args.relevant:g} stars", "--relevant", f"ratings are {scale}")
    table = read(args, model, files)
    warn_unknown(model, files, table, users=not args.known)
    if not model.record.implicit:
        checks.warn_other_scale(f"the ratings of {', '.join(files)}", table.ratings.stars, model.known.ratings.stars)
    asked = queried(model, args)
    ratings = _of_asked(model, args, relabel(model.taken(table.ratings), table.catalogue, asked.ids), asked)
    record: dict[str, Any] = {}
    if args.known:
        record["users_folded_in"] = asked.ids.num_users
    if not model.record.implicit:
        more, lines = _errors(args, model, asked, ratings)
        record |= more
        if not args.json:
            print("\n".join(lines), flush=True)
    if args.top is not None or model.record.implicit:
        more, line = _ranked(args, model, asked, ratings)
        record |= more
        if not args.json:
            print(line)
    if args.json:
        print_answer(args, model.name, record)


def _errors(
    args: argparse.Namespace, model: Model, asked: Queried, ratings: Ratings
) -> tuple[dict[str, Any], list[str]]:
    """Evaluate predictions of ratings: JSON fields and lines."""
    began = time.perf_counter()
    predicted = asked.predictor(False)(ratings.user, ratings.item)
    seconds = time.perf_counter() - began
    result = metrics.evaluate(predicted, ratings.stars, model.catalogue.scale)
    record, lines = {**result.record(), "seconds": seconds}, [summary(result)]
    if args.known:
        lines.append(
            f"{quantity(asked.ids.num_users, 'user')} given parameters of their own, "
            f"{quantity(result.count, 'rating')} predicted, "
            f"in {seconds:.2f} s"
        )
    if args.exact:
        more, line = _exact(asked, ratings, predicted)
        record |= more
        lines.append(line)
    return record, lines


def summary(result: metrics.Evaluation) -> str:
    """Describe an evaluation in a line."""
    return (
        f"RMSE {result.rmse:.4f} stars (not clipped to the scale: {result.rmse_unclipped:.4f}), "
        f"MAE {result.mae:.4f}, {quantity(result.count, 'rating')}"
    )


def _of_asked(model: Model, args: argparse.Namespace, ratings: Ratings, asked: Queried) -> Ratings:
    """Select the ratings of the queried users, and report those that are not predictions."""
    if args.known:
        mine = ratings.user >= 0
        if not mine.any():
            do = "give --known ratings of users of --ratings"
            raise UserError("no rating is of a user of --known", args.ratings[0], do)
        note_number(args, ~mine, "rating", "of users without known ones: left out")
        ratings = take(ratings, mine)
    known = _among(ratings, asked.users.ratings, asked.ids.num_items)
    trained = np.zeros_like(known)
    if args.known:  # which may be users of training
        user = model.catalogue.user_index(asked.ids.users)[ratings.user]
        trained = _among(ratings._replace(user=user), model.known.ratings, asked.ids.num_items) & ~known
    if model.record.implicit:  # what is unknown is not ranked, which `_ranked` says
        note_number(args, known, "positive", "known to the model: not ranked")
        note_number(args, trained, "positive", "of training: ranked, though the model was trained on them")
    else:
        note_unknown(args, model, ratings.item, None if args.known else ratings.user)
        what = "known to the model: such errors are not those of predictions"
        note_number(args, known | trained, "rating", what)
    return ratings


def _among(ratings: Ratings, pairs: Ratings | Pairs, num_items: int) -> np.ndarray:
    """Return which ratings are of one of the pairs; unknown users and items, -1, are in none."""
    found = np.isin(pair_keys(ratings, num_items), pair_keys(pairs, num_items))
    return (ratings.user >= 0) & (ratings.item >= 0) & found


def _exact(asked: Queried, ratings: Ratings, predicted: np.ndarray) -> tuple[dict[str, Any], str]:
    """Evaluate an RBM's exact predictions beside those by mean field: JSON fields and a line."""
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


def _ranked(args: argparse.Namespace, model: Model, asked: Queried, ratings: Ratings) -> tuple[dict[str, Any], str]:
    """Evaluate how all items are ranked for the users of the ratings, and by popularity: JSON fields and lines."""
    scale, number, implicit = asked.ids.scale, asked.ids.num_items, model.record.implicit
    relevant = scale.low + 0.75 * (scale.high - scale.low) if args.relevant is None else args.relevant
    if implicit:
        relevant = -math.inf
    known = (ratings.user >= 0) & (ratings.item >= 0)
    found = take(ratings, known)
    note_number(args, ~known, "rating", "of users or items that the model does not know: not ranked")
    conditioned = _among(found, asked.users.rated, number) & ~_among(found, asked.users.ratings, number)
    note_number(args, conditioned, "rating", "of pairs that the model conditions on: it ranks knowing them rated")
    to_rank = asked.users.ratings, found, asked.ids.num_users, number, args.top or TOP, relevant
    result = ranking.recommended(asked.scorer(), *to_rank)
    if not len(result.users):
        if implicit:
            raise UserError("there is no positive to rank", args.ratings[0], "give others than those of training")
        if not known.any():
            what = "there is no rating to rank: none is of a user and an item that the model knows"
            raise UserError(what, args.ratings[0], "check the ids, or leave --top out")
        if _among(found, asked.users.ratings, number).all():
            what = "there is no rating to rank: none is new to its user"
            raise UserError(what, args.ratings[0], "give others than those of training, or leave --top out")
        what = f"no rating to rank is of {relevant:g} stars or more"
        raise UserError(what, args.ratings[0], "lower --relevant, or leave --top out")
    popular = ranking.recommended(ranking.by_popularity(model.known.ratings, number), *to_rank)
    kind = "positives" if implicit else "ratings"
    wanted = kind if implicit else f"items of at least {relevant:g} stars"
    among = "taken" if implicit else "rated with stars"
    lines = (
        f"{result}: {wanted} of {len(result.users):,} users, among all that they are not known to have {among} "
        f"(measures that are not in the thesis)\n{popular}: by popularity, the number of training {kind} of an item"
    )
    stars = {} if implicit else {"relevant_stars": relevant}
    return {**result.record(), **stars, "popularity": popular.record()}, lines
