"""The users that commands ask a model about, and what is known of them: users of training, and new ones of files."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jaxcf.contract import KnownUsers, Predictor, Scorer, UsesRatedItems
from jaxcf.data import checks
from jaxcf.data.ids import union
from jaxcf.data.options import Reading
from jaxcf.data.ratings import EMPTY, Catalogue, Pairs, relabel, take
from jaxcf.model_files import load
from jaxcf.models import require
from jaxcf.recommender import Model
from jaxfit.cli import options
from jaxfit.cli.command import note
from jaxfit.cli.parser import Parser
from jaxfit.wording import quantity

if TYPE_CHECKING:
    from jaxcf.data.reading import PairTable, Table


class Queried(NamedTuple):
    """Users with their ids, and what is known of them.

    Attributes:
        predictor: (exact) -> the predictor for them.
        scorer: () -> the scorer for them.
    """

    ids: Catalogue
    users: KnownUsers
    predictor: Callable[[bool], Predictor]
    scorer: Callable[[], Scorer]


def add_files(parser: Parser, users: bool = False) -> None:
    """Add the options that name files of what is known of items, and with `users` of users, and of how to read them."""
    known = parser.add_argument_group("known")
    if users:
        options.files(
            known, "--known",
            "ratings of users that were not in training (models that use rated items or counts: also pairs "
            "without ratings): these users, and new ones of --rated, are given parameters of their own, and only they "
            "are predicted for",
        )  # fmt: skip
        rated = known.add_mutually_exclusive_group()
        options.files(rated, "--rated", "further pairs of user and item, for models that use rated items")
        options.files(
            rated, "--only-rated",
            "the pairs that models condition on, in place of all known ones and of the items of known ratings",
        )  # fmt: skip
    options.files(
        known, "--new-items",
        "ratings of items that were not in training, by users that were, for models that take new items",
    )  # fmt: skip
    options.add(parser.add_argument_group("reading"), Reading)


def reading_of(args: argparse.Namespace, counts: bool = False) -> Reading:
    """Return how the command's files are read; the counts of a pair are added up by default."""
    return Reading.of(options.given(args, Reading), counts)


def read(args: argparse.Namespace, model: Model, files: list[str]) -> Table:
    """Read ratings, or counts, of a model's kind of data, and say what was read."""
    from jaxcf.data import reading  # here and below: it takes a while, and users of training do without files

    counts = model.record.takes_counts(model.positive)
    scale = None if model.record.implicit else model.catalogue.scale
    table = reading.read(files, reading_of(args, counts), scale, counts)
    note(args, *table.notes)
    return table


def opened(args: argparse.Namespace) -> Model:
    """Load the model, with the items of `--new-items`."""
    model = load(args.directory, unfinished=args.unfinished, verify=args.verify)
    if not getattr(args, "new_items", None):
        return model
    table = read(args, model, args.new_items)
    extended = model.with_new_items(table.ratings, table.catalogue)
    unused = len(table.ratings.user) - (len(extended.known.ratings.user) - len(model.known.ratings.user))
    note_number(args, unused, "rating", "of --new-items by users or of items that cannot use ratings: left out")
    return extended


def queried(model: Model, args: argparse.Namespace) -> Queried:
    """Select the users of training, or those of `--known`, with the pairs of `--rated` or `--only-rated`."""
    files, only = args.only_rated or args.rated, bool(args.only_rated)
    if args.known:
        ids, users = new_users(args, model, args.known, files, only)
        scorer = functools.partial(model.scorer_given, users, new=True)
        return Queried(ids, users, functools.partial(model.fold_in, users), scorer)
    users = model.known
    if files:
        users = users.with_rated(_of_known(args, _pairs(args, model, files, new=False), model.catalogue), only)
    scorer = functools.partial(model.scorer_given, users)
    return Queried(model.catalogue, users, functools.partial(model.predictor_given, users), scorer)


def new_users(
    args: argparse.Namespace, model: Model, files: list[str], rated: list[str] | None, only: bool = False
) -> tuple[Catalogue, KnownUsers]:
    """Return the new users of files, and what is known of them.

    Args:
        args: of the command.
        model: the model.
        files: files of ratings, or of pairs.
        rated: files of further pairs, of these users and of others; the latter are new users, too, unless they were in
            training.
        only: whether the pairs of `rated` replace the items of `files` as rated items.
    """
    from jaxcf.data import reading

    counts = model.record.takes_counts(model.positive)
    scale = None if model.record.implicit else model.catalogue.scale
    found = reading.read_either(files, reading_of(args, counts), scale, counts)
    note(args, *found.notes)
    tables = [_pairs(args, model, rated, new=True)] if rated else []
    ids = [table.users[~model.in_training.user[model.catalogue.user_index(table.users)]] for table in tables]
    if isinstance(found, reading.PairTable):
        require(model.record, UsesRatedItems, "a file of pairs without ratings", files[0])
        if not only:
            tables.append(found)
    ids.append(found.users if isinstance(found, reading.PairTable) else found.catalogue.users)
    catalogue = Catalogue(union(*ids), model.catalogue.items, model.catalogue.scale)
    trained = model.in_training.user[model.catalogue.user_index(catalogue.users)]
    note_number(args, trained, "user", "from training among the new ones: treated as new, without what training had")
    ratings = EMPTY
    warn_unknown(model, files, found, users=False)
    if not isinstance(found, reading.PairTable):
        ratings = relabel(model.taken(found.ratings), found.catalogue, catalogue)
        note_number(args, ratings.item < 0, "rating", "of items that were not in training: left out")
        ratings = take(ratings, ratings.item >= 0)
    users = KnownUsers(catalogue.num_users, ratings, rated_only=only)
    for table in tables:
        users = users.with_rated(_of_known(args, table, catalogue))
    return catalogue, users


def _pairs(args: argparse.Namespace, model: Model, files: list[str], new: bool) -> PairTable:
    """Read pairs of users of training, or of new ones."""
    require(model.record, UsesRatedItems, "--rated")
    from jaxcf.data import reading

    table = reading.read_pairs(files, reading_of(args))
    note(args, *table.notes)
    warn_unknown(model, files, table, users=not new)
    return table


def _of_known(args: argparse.Namespace, table: PairTable, catalogue: Catalogue) -> Pairs:
    """Return pairs as indices, without those whose user or item a catalogue lacks."""
    pairs = table.relabelled(catalogue)
    known = (pairs.user >= 0) & (pairs.item >= 0)
    note_number(args, ~known, "pair", "of users or items that the model does not know: left out")
    return Pairs(pairs.user[known], pairs.item[known])


def warn_unknown(model: Model, files: list[str], table: Table | PairTable, users: bool) -> None:
    """Warn if none of the items (or users) of some files is one of the model's."""
    from jaxcf.data import reading

    read, catalogue = table if isinstance(table, reading.PairTable) else table.catalogue, model.catalogue
    ids, known = {"item": read.items}, {"item": catalogue.items}
    if users:
        ids, known = {"user": read.users, **ids}, {"user": catalogue.users, **known}
    checks.warn_apart(", ".join(files), ids, known, "training")


def note_unknown(args: argparse.Namespace, model: Model, item: np.ndarray, user: np.ndarray | None) -> None:
    """Print how many pairs have an item (or user) that was not in training: they are predicted without it."""
    sides = [("items", item, model.with_ratings.item)]
    if user is not None:
        sides.insert(0, ("users", user, model.with_ratings.user))
    for side, index, trained in sides:
        note_number(args, ~trained[index], "pair", f"of {side} without ratings in training: predicted without them")


def note_number(args: argparse.Namespace, which: np.ndarray | int, noun: str, text: str) -> None:
    """Print a count, of what, and a text as a note; nothing if the count is zero."""
    number = int(np.sum(which))
    if number:
        note(args, f"{quantity(number, noun)} {text}")
