"""`jaxcf recommend` and `jaxcf similar`: the best items for users, and the items like an item, with their titles."""

import argparse
import csv
from pathlib import Path
from typing import Any

from jaxcf.cli_asked import add_new_items, command, newcomers, opened, required
from jaxcf.model import Answer
from jaxcf.reading import Reading
from jaxfit import options
from jaxfit.command import Parser, print_json
from jaxfit.errors import UserError


def add(commands: Any) -> None:
    """Add the commands to those of `jaxcf`."""
    parser = command(
        commands, "recommend", "the best items that a user has not rated", run_recommend, reads=True
    )
    parser.add_argument("--user", metavar="ID", help="a user of the training ratings")
    parser.add_argument(
        "--users", nargs="+", metavar="FILE",
        help="ratings of new users (for conditional models also pairs without ratings), each of whom is answered",
    )  # fmt: skip
    parser.add_argument(
        "--rated", nargs="+", metavar="ITEMS|FILE",
        help='somebody new: "item:stars,item,…", stars where they are known; with --users, files of further pairs of '
        "user and item that conditional models are told of",
    )  # fmt: skip
    add_new_items(parser)
    _top(parser)

    parser = command(commands, "similar", "the items most like an item", run_similar, reads=True)
    parser.add_argument("--item", metavar="ID", help="an item of the training ratings, or of --new-items")
    add_new_items(parser)
    _top(parser)


def _top(parser: Parser) -> None:
    parser.add_argument(
        "--top", type=options.number("--top"), default=10, metavar="N", help="how many items (default: 10)"
    )
    parser.add_argument(
        "--titles", metavar="FILE", help="titles by item id, as MovieLens' movies.dat or u.item"
    )


def run_recommend(args: argparse.Namespace) -> None:
    """Print the best items for a user of the training ratings, or for new ones."""
    if args.user is not None and (args.users or args.rated):
        other = "--users" if args.users else "--rated"
        raise UserError(f"--user and {other} ask for different people", args.parser.prog, "give one of them")
    model, titles = opened(args), read_titles(args.titles)
    answers: dict[str, list[Answer]] = {}
    if args.user is not None:
        answers[args.user] = model.recommend(args.user, top=args.top)
    elif args.users:
        how = Reading(**options.given(args, Reading))
        users, audience = newcomers(model, args.users, args.rated, how)
        best = model.best(model.fold_in(audience), audience, range(users.num_users), args.top)
        answers = {str(name): found for name, found in zip(users.users.tolist(), best, strict=True)}
    elif args.rated:
        ratings, others = parse_rated(",".join(args.rated))
        answers["new"] = model.recommend(ratings=ratings, rated=others, top=args.top)
    else:
        raise UserError("for whom?", args.parser.prog, "give --user ID, --rated ITEMS or --users FILE")
    if args.json:
        listed = {
            user: [{"item": a.item, "stars": a.value} for a in found] for user, found in answers.items()
        }
        print_json({"command": "recommend", "model": model.kind, "recommended": listed})
        return
    for user, found in answers.items():
        _print(found, titles, f"{user}\t" if args.users else "")


def parse_rated(text: str) -> tuple[dict[str, float], list[str]]:
    """Read "item:stars,item,…": stars by item, and items without. Raises UserError for stars that are no number."""
    ratings: dict[str, float] = {}
    others = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        item, colon, stars = part.rpartition(":")
        if not colon:
            others.append(part)
            continue
        try:
            ratings[item] = float(stars)
        except ValueError:
            raise UserError(
                f"{stars!r} is not a number of stars", "--rated", "write item:stars,item,…"
            ) from None
    if not ratings and not others:
        raise UserError("no items are named", "--rated", "write item:stars,item,…")
    return ratings, others


def run_similar(args: argparse.Namespace) -> None:
    """Print the items most like an item."""
    model, titles = opened(args), read_titles(args.titles)
    found = model.similar(required(args, "item", "name an item: --item ID"), top=args.top)
    if args.json:
        listed = [{"item": a.item, "cosine": a.value} for a in found]
        print_json({"command": "similar", "model": model.kind, "item": args.item, "similar": listed})
    else:
        _print(found, titles)


def _print(found: list[Answer], titles: dict[str, str], before: str = "") -> None:
    for item, value in found:
        title = titles.get(str(item), "")
        print(f"{before}{value:.3f}\t{item}" + (f"\t{title}" if title else ""))


def read_titles(path: str | None) -> dict[str, str]:
    """Titles by item id: lines of id and title, separated by ::, |, tab or comma, in UTF-8 or Latin-1."""
    if path is None:
        return {}
    try:
        raw = Path(path).read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        raise UserError("no such file", path, "name a file of item ids and titles") from None
    except OSError as error:
        raise UserError(f"the file cannot be read: {error.strerror or error}", path, "check it") from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    lines = text.splitlines()
    separator = next((s for s in ("::", "|", "\t", ",") if lines and s in lines[0]), None)
    if separator is None:
        raise UserError("no ids and titles in its first line", path, "separate them by ::, |, tab or comma")
    if separator == ",":
        return {row[0]: row[1] for row in csv.reader(lines) if len(row) > 1}
    return {p[0]: p[1] for p in (line.split(separator) for line in lines) if len(p) > 1}
