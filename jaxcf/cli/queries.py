"""Whom the commands ask a trained model about: users of training, told more or not, and new ones, read from files."""

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxcf.data import reading
from jaxcf.data.ratings import EMPTY, Catalogue, Pairs, Ratings, relabel, take, union
from jaxcf.data.reading import PairTable, Reading
from jaxcf.kinds import Audience, Expected
from jaxcf.recommender import NO_PAIRS, Model, load
from jaxfit.cli import options
from jaxfit.cli.command import Parser
from jaxfit.errors import UserError


class Asked(NamedTuple):
    """Users with their ids, what is known of them, and expected(exact) -> their expected stars."""

    users: Catalogue
    audience: Audience
    expected: Callable[[bool], Expected]


def command(commands: Any, name: str, about: str, run: Any, reads: bool = False) -> Parser:
    """Add a command that takes a model's folder; `reads`: and files of ratings."""
    parser: Parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    parser.set_defaults(run=run)
    parser.add_argument("directory", metavar="DIR", help="folder of a model")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    if reads:
        options.add(parser.add_argument_group("reading"), Reading)
    return parser


def add_known(parser: Parser) -> None:
    """Add the options that say of whom and of what else there are ratings or identities."""
    parser.add_argument(
        "--known", nargs="+", metavar="FILE",
        help="ratings of users that were not in training (conditional models: also pairs without ratings): they, and "
        "new users of --rated, are folded in, and only they are asked about",
    )  # fmt: skip
    told = parser.add_mutually_exclusive_group()
    told.add_argument(
        "--rated", nargs="+", metavar="FILE", help="further pairs of user and item that conditional models are told of"
    )  # fmt: skip
    told.add_argument(
        "--only-rated", nargs="+", metavar="FILE",
        help="the pairs that conditional models are told of, in place of those of training and of what ratings are of",
    )  # fmt: skip
    add_new_items(parser)


def add_new_items(parser: Parser) -> None:
    """Add `--new-items`."""
    parser.add_argument(
        "--new-items", nargs="+", metavar="FILE",
        help="ratings of items that were not in training, by users that were: the items are folded in (pmf)",
    )  # fmt: skip


def required(args: argparse.Namespace, name: str, advice: str) -> Any:
    """An option's value; raises UserError where it is not given."""
    if not getattr(args, name):
        raise UserError(f"--{name} is missing", args.parser.prog, advice)
    return getattr(args, name)


def opened(args: argparse.Namespace) -> Model:
    """The model, with the items of `--new-items`."""
    model = load(args.directory)
    if not args.new_items:
        return model
    table = reading.read(args.new_items, Reading(**options.given(args, Reading)), model.catalogue.scale)
    grown = model.with_items(table.ratings, table.catalogue)
    left = len(table.ratings.user) - (len(grown.known.ratings.user) - len(model.known.ratings.user))
    if left:
        say(f"{left:,} ratings of --new-items are by users or of items that cannot use them: left out")
    return grown


def asked(model: Model, args: argparse.Namespace, how: Reading) -> Asked:
    """The users of training, or those of `--known`, told what `--rated` or `--only-rated` say."""
    only = bool(args.only_rated)
    files = args.only_rated or args.rated
    if args.known:
        users, audience = newcomers(model, args.known, files, how, only)
        return Asked(users, audience, lambda exact: model.fold_in(audience, exact))
    if not files:
        known = model.known
        return Asked(
            model.catalogue, known, lambda exact: model.given(known, True) if exact else model.expected
        )
    told = _of_known(_pairs(model, files, how), model.catalogue)
    audience = model.known.told(told, only)
    return Asked(model.catalogue, audience, lambda exact: model.given(audience, exact))


def newcomers(
    model: Model, files: list[str], rated: list[str] | None, how: Reading, only: bool = False
) -> tuple[Catalogue, Audience]:
    """The users of files, as new ones, and what is known of them.

    rated: files of further pairs of theirs, and of other users, who are among them unless they were in training.
    """
    found = reading.read_either(files, how, model.catalogue.scale)
    pairs = [_pairs(model, rated, how)] if rated else []
    ids = [table.users[model.catalogue.user_index(table.users) < 0] for table in pairs]
    if isinstance(found, PairTable):
        _check_conditional(model, files[0])
        pairs, ratings = [*pairs, found], EMPTY
        ids.append(found.users)
    else:
        ratings = found.ratings
        ids.append(found.catalogue.users)
    users = Catalogue(union(*ids), model.catalogue.items, model.catalogue.scale)
    if not isinstance(found, PairTable):
        ratings = relabel(ratings, found.catalogue, users)
        known = ratings.item >= 0
        if not known.all():
            say(f"{int((~known).sum()):,} ratings of items that were not in training are left out")
        ratings = take(ratings, known)
    audience = Audience(users.num_users, ratings, NO_PAIRS, only)
    for table in pairs:
        audience = audience.told(_of_known(table, users))
    return users, audience


def _check_conditional(model: Model, where: str) -> None:
    if not model.described.conditional:
        raise UserError(f"a model of kind {model.kind} is told of no pairs", where, "train cpmf or crbm")


def _pairs(model: Model, files: list[str], how: Reading) -> PairTable:
    _check_conditional(model, "--rated")
    return reading.read_pairs(files, how)


def _of_known(table: PairTable, users: Catalogue) -> Pairs:
    """Pairs as indices, without those that a catalogue does not know."""
    user, item = users.user_index(table.users), users.item_index(table.items)
    pairs = Pairs(user[table.pairs.user], item[table.pairs.item])
    known = (pairs.user >= 0) & (pairs.item >= 0)
    if not known.all():
        say(f"{int((~known).sum()):,} pairs are of users or items that the model does not know: left out")
    return Pairs(pairs.user[known], pairs.item[known])


def say_unknown(model: Model, item: np.ndarray, user: np.ndarray | None = None) -> None:
    """Say of how many pairs the model has not seen the item (or user) in training: it predicts them without it."""
    known = model.known.ratings
    for side, index, seen, number in (
        ("users", user, known.user, model.catalogue.num_users),
        ("items", item, known.item, model.catalogue.num_items),
    ):
        trained = np.append(np.bincount(seen, minlength=number) > 0, False)  # at -1: the unknown
        unknown = 0 if index is None else int(np.count_nonzero(~trained[index]))
        if unknown:
            say(f"{unknown:,} pairs are of {side} without ratings in training: predicted without them")


def say_told(known: Ratings, user: np.ndarray, item: np.ndarray, number: int) -> None:
    """Say of how many pairs the model was told the stars that it is asked for."""
    told = int(among(user, item, known, number).sum())
    if told:
        say(f"{told:,} of the ratings are known to the model: their errors are not those of predictions")


def among(user: np.ndarray, item: np.ndarray, pairs: Ratings | Pairs, number: int) -> np.ndarray:
    """Which users and items (-1: unknown), of `number` items, are among pairs."""
    found = np.isin(user.astype(np.int64) * number + item, pairs.user.astype(np.int64) * number + pairs.item)
    return (user >= 0) & (item >= 0) & found


def say(text: str) -> None:
    """A line for people, who may have standard output in a file."""
    print(text, file=sys.stderr)
