"""What is done with a trained recommender: `jaxcf eval`, `predict`, `recommend`, `similar`, `info`, `export`."""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from jaxcf import evaluate, reading
from jaxcf.kinds import Audience
from jaxcf.model import NO_PAIRS, Answer, Model, load
from jaxcf.ratings import Catalogue, Pairs, Ratings, relabel
from jaxcf.reading import PairTable, Reading
from jaxfit import options
from jaxfit.atomic import replacing
from jaxfit.command import Parser, print_json
from jaxfit.errors import UserError


def add(commands: Any) -> None:
    """Add the commands to those of `jaxcf`."""

    def command(name: str, about: str, run: Any, reads: bool = False) -> Parser:
        parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        parser.set_defaults(run=run)
        parser.add_argument("directory", metavar="DIR", help="folder of a model")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")
        if reads:
            options.add(parser.add_argument_group("reading"), Reading)
        return parser

    rated = "pairs of user and item that conditional models are told of"
    parser = command("eval", "errors of predictions of ratings, in stars", run_eval, reads=True)
    parser.add_argument("--ratings", nargs="+", metavar="FILE", help="ratings to predict")
    parser.add_argument("--rated", nargs="+", metavar="FILE", help=rated)
    parser.add_argument(
        "--known", nargs="+", metavar="FILE",
        help="ratings of users that were not in training, who are folded in; only those are then evaluated",
    )  # fmt: skip

    parser = command("predict", "stars for pairs of user and item, one a line", run_predict, reads=True)
    parser.add_argument(
        "--pairs", nargs="+", metavar="FILE", help="users and items (other columns are not read)"
    )
    parser.add_argument("--rated", nargs="+", metavar="FILE", help=rated)

    parser = command("recommend", "the best items that a user has not rated", run_recommend, reads=True)
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--user", metavar="ID", help="a user of the training ratings")
    who.add_argument(
        "--rated", metavar="ITEMS", help='somebody new: "item:stars,item,…", stars where they are known'
    )
    who.add_argument(
        "--users", nargs="+", metavar="FILE", help="ratings of new users, each of whom is answered"
    )
    _top(parser)

    parser = command("similar", "the items most like an item", run_similar)
    parser.add_argument("--item", metavar="ID", help="an item of the training ratings")
    _top(parser)

    command("info", "what a model is and how it was trained", run_info)
    parser = command("export", "factors as safetensors, with the ids beside them", run_export)
    parser.add_argument("--out", metavar="FILE", help="the .safetensors file")


def _top(parser: Parser) -> None:
    parser.add_argument(
        "--top", type=options.number("--top"), default=10, metavar="N", help="how many items (default: 10)"
    )
    parser.add_argument(
        "--titles", metavar="FILE", help="titles by item id, as MovieLens' movies.dat or u.item"
    )


def run_eval(args: argparse.Namespace) -> None:
    """Sum up the errors on files of ratings."""
    model, how = load(args.directory), Reading(**options.given(args, Reading))
    files = _required(args, "ratings", "name the ratings to predict: --ratings FILE")
    table = reading.read(files, how, model.catalogue.scale)
    ratings = relabel(table.ratings, table.catalogue, model.catalogue)
    if args.known:
        ratings, user, expected = _folded(model, args, how, table)
    else:
        user, expected = ratings.user, _expected(model, args, how)
        _say_unknown(model, user, ratings.item)
        _say_told(model.known.ratings, user, ratings.item, model.catalogue.num_items)
    result = evaluate.evaluate(expected(user, ratings.item), ratings.stars, model.catalogue.scale)
    if args.json:
        print_json({"command": "eval", "model": model.kind, **result.record()})
    else:
        print(summary(result))


def summary(result: evaluate.Evaluation) -> str:
    """An evaluation in a line."""
    return (
        f"RMSE {result.rmse:.4f} stars (not clipped to the scale: {result.rmse_unclipped:.4f}), "
        f"MAE {result.mae:.4f}, {result.count:,} ratings"
    )


def _folded(model: Model, args: argparse.Namespace, how: Reading, asked: reading.Table) -> Any:
    """Ratings of folded-in users, whose numbers are those of the catalogue of known and asked users."""
    known = reading.read(args.known, how, model.catalogue.scale)
    users = Catalogue(known.catalogue.users, model.catalogue.items, model.catalogue.scale)
    told = _of_known_items(relabel(known.ratings, known.catalogue, users))
    expected = model.fold_in(Audience(users.num_users, told, _told(model, args, how, users)))
    ratings = relabel(asked.ratings, asked.catalogue, users)
    mine = ratings.user >= 0
    if not mine.all():
        print(
            f"eval: {int((~mine).sum()):,} ratings are of users without known ones; left out", file=sys.stderr
        )
    ratings = Ratings(ratings.user[mine], ratings.item[mine], ratings.stars[mine])
    _say_told(told, ratings.user, ratings.item, model.catalogue.num_items)
    return ratings, ratings.user, expected


def _of_known_items(ratings: Ratings) -> Ratings:
    known = ratings.item >= 0
    if not known.all():
        print(
            f"{int((~known).sum()):,} ratings of items that were not in training are left out",
            file=sys.stderr,
        )
    return Ratings(ratings.user[known], ratings.item[known], ratings.stars[known])


def _told(model: Model, args: argparse.Namespace, how: Reading, users: Catalogue) -> Pairs:
    """The pairs of `--rated` whose users and items are known, as indices."""
    if not args.rated:
        return NO_PAIRS
    if not model.described.conditional:
        raise UserError(f"a model of kind {model.kind} is told of no pairs", "--rated", "train cpmf or crbm")
    table: PairTable = reading.read_pairs(args.rated, how)
    user, item = (
        users.user_index(table.users)[table.pairs.user],
        users.item_index(table.items)[table.pairs.item],
    )
    known = (user >= 0) & (item >= 0)
    return Pairs(user[known], item[known])


def _expected(model: Model, args: argparse.Namespace, how: Reading) -> Any:
    told = _told(model, args, how, model.catalogue)
    return model.given(told) if len(told.user) else model.expected


def _say_unknown(model: Model, user: np.ndarray, item: np.ndarray) -> None:
    """Say of how many pairs the model has not seen a side in training: it predicts them without it."""
    known = model.known.ratings
    for side, index, seen, number in (
        ("users", user, known.user, model.catalogue.num_users),
        ("items", item, known.item, model.catalogue.num_items),
    ):
        trained = np.append(np.bincount(seen, minlength=number) > 0, False)  # at -1: the unknown
        unknown = int(np.count_nonzero(~trained[index]))
        if unknown:
            print(
                f"{unknown:,} pairs are of {side} without ratings in training: predicted without them",
                file=sys.stderr,
            )


def _say_told(known: Ratings, user: np.ndarray, item: np.ndarray, number: int) -> None:
    """Say of how many pairs the model was told the stars that it is asked for."""
    told = np.isin(user.astype(np.int64) * number + item, known.user.astype(np.int64) * number + known.item)
    if told.any():
        print(
            f"{int(told.sum()):,} of the ratings are known to the model: their errors are not those of predictions",
            file=sys.stderr,
        )


def run_predict(args: argparse.Namespace) -> None:
    """Print a line of user, item and stars for each pair, in their order."""
    model, how = load(args.directory), Reading(**options.given(args, Reading))
    files = _required(args, "pairs", "name the pairs to predict: --pairs FILE")
    table = reading.read_pairs(files, how)
    user = model.catalogue.user_index(table.users)[table.pairs.user]
    item = model.catalogue.item_index(table.items)[table.pairs.item]
    _say_unknown(model, user, item)
    stars = model.stars(_expected(model, args, how), user, item)
    ids = zip(
        table.users[table.pairs.user].tolist(), table.items[table.pairs.item].tolist(), stars, strict=True
    )
    sys.stdout.writelines(f"{u}\t{i}\t{s:.4f}\n" for u, i, s in ids)
    if args.json:
        print_json({"command": "predict", "model": model.kind, "pairs": len(stars)})


def run_recommend(args: argparse.Namespace) -> None:
    """Print the best items for a user of the training ratings, or for new ones."""
    model, titles = load(args.directory), read_titles(args.titles)
    answers: dict[str, list[Answer]] = {}
    if args.user is not None:
        answers[args.user] = model.recommend(args.user, top=args.top)
    elif args.rated is not None:
        ratings, others = parse_rated(args.rated)
        answers["new"] = model.recommend(ratings=ratings, rated=others, top=args.top)
    elif args.users:
        how = Reading(**options.given(args, Reading))
        table = reading.read(args.users, how, model.catalogue.scale)
        users = Catalogue(table.catalogue.users, model.catalogue.items, model.catalogue.scale)
        told = _of_known_items(relabel(table.ratings, table.catalogue, users))
        audience = Audience(users.num_users, told, NO_PAIRS)
        expected = model.fold_in(audience)
        best = model.best(expected, audience, range(users.num_users), args.top)
        answers = {str(name): found for name, found in zip(users.users.tolist(), best, strict=True)}
    else:
        raise UserError("for whom?", args.parser.prog, "give --user ID, --rated ITEMS or --users FILE")
    if args.json:
        listed = {
            user: [{"item": a.item, "stars": a.value} for a in found] for user, found in answers.items()
        }
        print_json({"command": "recommend", "model": model.kind, "recommended": listed})
        return
    for user, found in answers.items():
        _print(found, titles, "stars", f"{user}\t" if args.users else "")


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
    model, titles = load(args.directory), read_titles(args.titles)
    found = model.similar(_required(args, "item", "name an item: --item ID"), top=args.top)
    if args.json:
        listed = [{"item": a.item, "cosine": a.value} for a in found]
        print_json({"command": "similar", "model": model.kind, "item": args.item, "similar": listed})
    else:
        _print(found, titles, "cosine")


def _print(found: list[Answer], titles: dict[str, str], what: str, before: str = "") -> None:
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
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    lines = text.splitlines()
    separator = next((s for s in ("::", "|", "\t", ",") if lines and s in lines[0]), None)
    if separator is None:
        raise UserError("no ids and titles in its first line", path, "separate them by ::, |, tab or comma")
    if separator == ",":
        import csv

        return {row[0]: row[1] for row in csv.reader(lines) if len(row) > 1}
    return {p[0]: p[1] for p in (line.split(separator) for line in lines) if len(p) > 1}


def run_info(args: argparse.Namespace) -> None:
    """Print what a model is and how it was trained."""
    model = load(args.directory)
    if args.json:
        print_json({"command": "info", **model.info})
        return
    data = model.info["data"]
    print(f"{model.kind}: {model.described.about}")
    print(f"{data['users']:,} users, {data['items']:,} items, {data['training ratings']:,} training ratings")
    print(f"ratings: {model.catalogue.scale}")
    for name in ("config", "recipe"):
        for key, value in (model.info.get(name) or {}).items():
            print(f"{name} {key}: {value}")
    if model.info.get("validation RMSE") is not None:
        print(
            f"validation RMSE {model.info['validation RMSE']:.4f} (not clipped), {model.info['epochs']} epochs"
        )


def run_export(args: argparse.Namespace) -> None:
    """Write the parameters as safetensors, and the ids of their rows as text files beside them."""
    model, out = load(args.directory), Path(_required(args, "out", "name the file: --out FILE.safetensors"))
    arrays = {
        name: np.ascontiguousarray(array)
        for name, array in zip(model.params._fields, model.params, strict=True)
    }
    with replacing(out) as aside:
        save_file(
            arrays, aside, metadata={"model": model.kind, "mean": str(model.info["config"].get("mean", ""))}
        )
    for name, ids in (("users", model.catalogue.users), ("items", model.catalogue.items)):
        with replacing(out.with_suffix(f".{name}.txt")) as aside:
            aside.write_text("".join(f"{i}\n" for i in ids.tolist()), encoding="utf-8")
    if args.json:
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        print_json({"command": "export", "model": model.kind, "out": str(out), "arrays": shapes})
    else:
        print(f"{out}: {', '.join(f'{name} {array.shape}' for name, array in arrays.items())}")


def _required(args: argparse.Namespace, name: str, advice: str) -> Any:
    if not getattr(args, name):
        raise UserError(f"--{name} is missing", args.parser.prog, advice)
    return getattr(args, name)
