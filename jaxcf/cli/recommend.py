"""`jaxcf recommend` and `jaxcf similar`: the best items for users, and the items like an item, with their titles."""

import argparse
import io
import math
import re
import warnings
from typing import Any

import numpy as np

from jaxcf.cli.queries import add_files, new_users, opened
from jaxcf.contract import FoldsIn, SimilarItems, UsesRatedItems
from jaxcf.data.formats import file_layout as layout
from jaxcf.models import require
from jaxcf.top_items import Answer
from jaxfit.cli import options
from jaxfit.cli.command import add_model, note, print_answer, required
from jaxfit.cli.parser import Parser
from jaxfit.errors import NotInTraining, UserError
from jaxfit.wording import quantity

_PART = re.compile(r'\s*"(?:[^"]|"")*"[^,"]*(?=,|$)|[^,]+')  # of a list that commas separate, perhaps with quotes
_QUOTED = re.compile(r'"((?:[^"]|"")*)"\s*(:?)(.*)', re.DOTALL)
SEPARATORS = ("::", "\t", ",", ";", "|")  # what may separate an id and its title


def add_recommend(parser: Parser) -> None:
    """Give the parser of `jaxcf recommend` its options."""
    add_model(parser, run_recommend)
    parser.add_argument("--user", metavar="ID", help="a user of the training ratings")
    options.files(
        parser, "--users",
        "ratings of new users, to recommend to each (models that use rated items or counts: also pairs without "
        "ratings)",
    )  # fmt: skip
    parser.add_argument(
        "--rated", nargs="+", action="extend", metavar="ITEMS|FILE",
        help='somebody new: "item:stars,item,…", stars (or counts) where they are known, ids with commas in double '
        "quotes; with --users, files of further pairs of user and item, for models that use rated items",
    )  # fmt: skip
    _top(parser)
    add_files(parser)


def add_similar(parser: Parser) -> None:
    """Give the parser of `jaxcf similar` its options."""
    add_model(parser, run_similar)
    parser.add_argument("--item", metavar="ID", help="an item of the training ratings, or of --new-items")
    _top(parser)
    add_files(parser)


def _top(parser: Parser) -> None:
    parser.add_argument(
        "--top", type=options.number("--top"), default=10, metavar="N", help="how many items (default: 10)"
    )
    parser.add_argument(
        "--titles", metavar="FILE", help="titles by item id, as MovieLens' movies.dat, movies.csv or u.item"
    )


def run_recommend(args: argparse.Namespace) -> None:
    """Print the best items for a user of the training ratings, or for new ones."""
    if args.user is not None and (args.users or args.rated):
        other = "--users" if args.users else "--rated"
        raise UserError(f"--user and {other} ask for different people", args.parser.prog, "give one of them")
    model = opened(args)
    titles = read_titles(args.titles, model.catalogue.items)
    answers: dict[str, list[Answer]] = {}
    if args.user is not None:
        answers[args.user] = model.recommend(args.user, top=args.top)
    elif args.users:
        ids, users = new_users(args, model, args.users, args.rated)
        best = model.best(model.scorer_given(users, new=True), users, range(users.number), args.top)
        answers = {str(name): found for name, found in zip(ids.users.tolist(), best, strict=True)}
    elif args.rated:
        ratings, others = parse_rated(",".join(args.rated), model.record.takes_counts(model.positive))
        by_stars = model.record.capability(FoldsIn) and not model.record.capability(UsesRatedItems)
        if others and by_stars and not model.record.implicit:
            raise UserError(f"{others[0]!r} has no stars", "--rated", "write item:stars,item:stars,…")
        try:
            answers["new"] = model.recommend(ratings=ratings, rated=others, top=args.top)
        except NotInTraining as error:
            raise NotInTraining(error.what, "--rated", error.do) from None
    else:
        raise UserError("no user is named", args.parser.prog, "give --user ID, --rated ITEMS or --users FILE")
    unknown = [found for found in answers.values() if found and not any(answer[1] for answer in found)]
    if unknown and model.record.implicit:
        who = f"{quantity(len(unknown), 'user')} whose scores are all 0"
        note(args, f"{who}: the items are in the order of their ids")
    if nothing := sum(not found for found in answers.values()):
        note(args, f"nothing is left to recommend to {quantity(nothing, 'user')}")
    if args.json:
        measure = "score" if model.record.implicit else "stars"
        listed = {user: _listed(found, measure, titles) for user, found in answers.items()}
        print_answer(args, model.name, {"recommended": listed})
        return
    for user, found in answers.items():
        _print(found, titles, f"{user}\t" if args.users else "")


def parse_rated(text: str, counts: bool = False) -> tuple[dict[str, float], list[str]]:
    """Parse "item:stars,item,…": stars by item, and items without stars; the counts of an item are added up.

    An item whose id has commas is in double quotes, as in CSV: '"Solaris, The":5,Stalker:4'.

    Raises:
        UserError: stars are no number, or an item has stars more than once.
    """
    ratings: dict[str, float] = {}
    others, advice = [], "write item:stars,item,…"
    for part in filter(None, (found[0].strip() for found in _PART.finditer(text))):
        quoted = _QUOTED.fullmatch(part)
        item, colon, stars = quoted.groups() if quoted else part.rpartition(":")
        if quoted:
            item = item.replace('""', '"')
        if not colon:
            others.append(item + stars)
            continue
        number = layout.to_number(stars)
        if number is None or not math.isfinite(number):
            raise UserError(f"{stars!r} is not a number of stars", "--rated", advice)
        if item in ratings and not counts:
            raise UserError(f"item {item!r} has more than one rating", "--rated", "give one of them")
        ratings[item] = ratings.get(item, 0) + number
    if not ratings and not others:
        raise UserError("no items are named", "--rated", advice)
    return ratings, others


def run_similar(args: argparse.Namespace) -> None:
    """Print the items most like an item."""
    model = opened(args)
    require(model.record, SimilarItems, "similar", args.directory)
    titles = read_titles(args.titles, model.catalogue.items)
    found = model.similar(required(args, "item", "name an item: --item ID"), top=args.top)
    if args.json:
        listed = _listed(found, "cosine", titles)
        item = model.catalogue.items[model.catalogue.one_item(args.item)].item()  # a number where those are
        print_answer(args, model.name, {"item": item, "similar": listed})
    else:
        _print(found, titles)


def _listed(found: list[Answer], measure: str, titles: dict[str, str] | None) -> list[dict[str, Any]]:
    """Return answers as JSON holds them, with titles (null where there is none) if they were asked for."""
    listed: list[dict[str, Any]] = [{"item": item, measure: value} for item, value in found]
    if titles is not None:
        listed = [{**answer, "title": titles.get(str(answer["item"]))} for answer in listed]
    return listed


def _print(found: list[Answer], titles: dict[str, str] | None, before: str = "") -> None:
    for item, value in found:
        title = (titles or {}).get(str(item), "")
        print(f"{before}{value:.3f}\t{item}" + (f"\t{title}" if title else ""))


def read_titles(path: str | None, items: np.ndarray) -> dict[str, str] | None:
    """Read titles of items by their ids; None without a file; warn if none is of an item of the model.

    A line has an id, a title and possibly more, separated by what ends the first line's id: ::, tab, comma, ; or |.
    The file is in UTF-8 or Latin-1, gzipped or not.

    Raises:
        UserError: as `jaxcf.data.formats.file_layout.opened`; no such line is the first.
    """
    if path is None:
        return None
    with layout.opened(path) as f:
        raw = f.read()
    if raw.startswith(layout.PARQUET):
        raise UserError("the file is a parquet file", path, "write the ids and titles as CSV")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    lines = [line for line in io.StringIO(text, newline=None) if line.strip()]
    signs = [sign for sign in SEPARATORS if lines and sign in lines[0]]
    if not signs:
        advice = "separate them by ::, tab, comma, ; or |"
        raise UserError("no id and title are in its first line", path, advice)
    sign = min(signs, key=lines[0].index)
    rows = map(layout.Layout(sign, 2, {}, quoted=sign in (",", ";")).split, lines)
    titles = {row[0].strip(): row[1].strip() for row in rows if len(row) > 1}
    if titles.keys().isdisjoint(map(str, items.tolist())):
        example = f"{next(reversed(titles), '')[:40]} there, {items[0]} in the model"
        warnings.warn(f"no id of {path} is of an item of the model ({example}): no titles", stacklevel=2)
    return titles
