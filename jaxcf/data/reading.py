"""From files to ratings: ids as indices, the scale, duplicates, and what is wrong with which line."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from jaxcf.data import netflix, parsing
from jaxcf.data.file_layout import Reading, Source, kind_of
from jaxcf.data.ratings import EMPTY, Catalogue, Dataset, Pairs, Ratings, Scale, digest, relabel, take, union
from jaxcf.data.values import indices, parse_scale, scale_of, stars_of, without_duplicates
from jaxfit.errors import UserError
from jaxfit.run_dir.atomic import replacing

__all__ = [
    "Files",
    "PairTable",
    "Reading",
    "Table",
    "read",
    "read_dataset",
    "read_either",
    "read_pairs",
    "write",
]
_PARSERS = {"delimited": parsing.delimited, "netflix": netflix.netflix, "mat": parsing.mat}


class Table(NamedTuple):
    """What files of ratings hold: ratings of the users and items in them."""

    ratings: Ratings
    catalogue: Catalogue
    notes: list[str]  # what a user should be told


class PairTable(NamedTuple):
    """What files of pairs hold: pairs of the users and items in them, ascending ids."""

    pairs: Pairs
    users: np.ndarray
    items: np.ndarray


class Files(NamedTuple):
    """A data set from a user's files, and who rated what beside it."""

    dataset: Dataset
    rated: Pairs | None  # of the files named so; None where there are none
    notes: list[str]


class _Rows(NamedTuple):
    ratings: Ratings
    users: np.ndarray
    items: np.ndarray
    values: np.ndarray  # the distinct ratings, before means of duplicates are taken
    notes: list[str]


def read(
    paths: Source | Sequence[Source], reading: Reading | None = None, scale: Scale | None = None
) -> Table:
    """Read ratings from files, in their order.

    Args:
        paths: a file or several; a folder of the Netflix Prize; `-` is standard input; a part of a .mat file
            is named as `moviedata.mat:probe_vec`.
        reading: how; by default all is seen in the files.
        scale: of ratings; by default that of `reading`, or else seen in the files.

    Raises:
        UserError: a file that is not there or cannot be parsed, a missing or impossible value, a rating off a
            given scale, a duplicate where those are errors. It names the file and the line.
    """
    reading = reading or Reading()
    return _table(_columns(paths, reading), paths, reading, scale)


def read_either(
    paths: Source | Sequence[Source], reading: Reading | None = None, scale: Scale | None = None
) -> Table | PairTable:
    """Read ratings, or pairs of user and item where files have no ratings: as `read` or `read_pairs`."""
    reading = reading or Reading()
    columns = _columns(paths, reading)
    if columns.stars is None:
        return _pairs(columns, paths)
    return _table(columns, paths, reading, scale)


def read_pairs(paths: Source | Sequence[Source], reading: Reading | None = None) -> PairTable:
    """Read pairs of user and item from files, in their order, with duplicates; ratings in them are left out.

    Raises:
        UserError: as `read`, as far as users and items go; there are no pairs.
    """
    return _pairs(_columns(paths, reading or Reading(), pairs=True), paths)


def read_dataset(
    train: Source | Sequence[Source],
    valid: Source | Sequence[Source] = (),
    test: Source | Sequence[Source] = (),
    rated: Source | Sequence[Source] = (),
    reading: Reading | None = None,
) -> Files:
    """Read a data set from given files, in one catalogue of all that they name.

    Validation or test files of pairs without ratings (as the Netflix Prize's `probe.txt`) take those pairs out
    of training. `moviedata.mat` brings its own test. Without validation files validation is empty. A scale that is
    not given is seen in training and validation ratings; the test's decide nothing.

    Raises:
        UserError: as `read`; pairs to take out that training does not have.
    """
    reading = reading or Reading()
    scale = _given_scale(reading)
    train, valid, test, rated = map(_several, (train, valid, test, rated))
    if len(train) == 1 and not test and kind_of(train[0], reading) == "mat" and parsing.has_probe(train[0]):
        train, test = [f"{train[0]}:train_vec"], [f"{train[0]}:probe_vec"]
    tables = {"train": _rows(_columns(train, reading), train, reading, scale)}
    listed = {}
    for name, files in (("valid", valid), ("test", test)):
        columns = _columns(files, reading) if files else None
        if name == "test":  # whose ratings decide nothing: one off the scale of the others is an error
            scale = scale or scale_of(np.concatenate([table.values for table in tables.values()]))
        if columns is not None and columns.stars is None:
            listed[name] = _pairs(columns, files)
        elif columns is not None:
            tables[name] = _rows(columns, files, reading, scale)
    known = read_pairs(rated, reading) if rated else None
    users, items = [t.users for t in tables.values()], [t.items for t in tables.values()]
    if known is not None:
        users, items = [*users, known.users], [*items, known.items]
    assert scale is not None
    catalogue = Catalogue(union(*users), union(*items), scale)
    parts = {
        name: relabel(table.ratings, Catalogue(table.users, table.items, scale), catalogue)
        for name, table in tables.items()
    }
    for name, table in listed.items():
        parts["train"], parts[name] = _taken_out(
            parts["train"], _renumbered(table, catalogue), catalogue, name
        )
    notes = [note for table in tables.values() for note in table.notes]
    notes += _overlaps(parts, catalogue)
    data = Dataset(
        Path(train[0]).name, parts["train"], parts.get("valid", EMPTY), parts.get("test"), catalogue, "",
        ", ".join(map(str, train)),
    )  # fmt: skip
    data = data._replace(sha256=digest(data.train, data.valid, catalogue))
    return Files(data, _renumbered(known, catalogue) if known else None, notes)


def write(path: Path, ratings: Ratings, catalogue: Catalogue) -> None:
    """Write ratings as a CSV file with a header, with the ids of their users and items; `read` reads it back.

    Raises:
        UserError: it cannot be written.
    """
    columns = {
        "user": catalogue.users[ratings.user],
        "item": catalogue.items[ratings.item],
        "stars": ratings.stars,
    }
    if ratings.time is not None:
        columns["time"] = ratings.time
    with replacing(Path(path)) as aside:
        pcsv.write_csv(pa.table(columns), aside, pcsv.WriteOptions(quoting_style="needed"))


def _several(paths: Source | Sequence[Source]) -> list[Source]:
    return [paths] if isinstance(paths, str | Path) else list(paths)  # type: ignore[arg-type]


def _given_scale(reading: Reading) -> Scale | None:
    return parse_scale(reading.scale) if reading.scale else None


def _columns(paths: Source | Sequence[Source], reading: Reading, pairs: bool = False) -> parsing.Columns:
    return parsing.join([_PARSERS[kind_of(path, reading)](path, reading, pairs) for path in _several(paths)])


def _pairs(columns: parsing.Columns, paths: Source | Sequence[Source]) -> PairTable:
    if len(columns.user) == 0:
        what = "pairs of user and item"
        raise UserError(f"the file holds no {what}", _several(paths)[0], f"give a file of {what}")
    (user, users), (item, items) = (indices(columns, name) for name in ("user", "item"))
    return PairTable(Pairs(user, item), users, items)


def _table(
    columns: parsing.Columns, paths: Source | Sequence[Source], reading: Reading, scale: Scale | None
) -> Table:
    scale = scale or _given_scale(reading)
    rows = _rows(columns, paths, reading, scale)
    catalogue = Catalogue(rows.users, rows.items, scale or scale_of(rows.values))
    return Table(rows.ratings, catalogue, rows.notes)


def _rows(
    columns: parsing.Columns, paths: Source | Sequence[Source], reading: Reading, scale: Scale | None
) -> _Rows:
    """Make ratings of columns; those off a scale are errors where one is given."""
    files = _several(paths)
    if columns.stars is None:
        do = "name the column of the ratings: --columns USER,ITEM,STARS"
        raise UserError("the file holds pairs of user and item without ratings", files[0], do)
    if len(columns.user) == 0:
        raise UserError("the file holds no ratings", files[0], "give a file of ratings")
    stars, values = stars_of(columns, scale)
    (user, users), (item, items) = (indices(columns, name) for name in ("user", "item"))
    ratings, notes = without_duplicates(
        Ratings(user, item, stars, columns.time), users, items, columns.locate, reading
    )
    return _Rows(ratings, users, items, values, notes)


def _renumbered(table: PairTable, catalogue: Catalogue) -> Pairs:
    """Pairs as the catalogue numbers them, -1 for what it does not know."""
    user, item = catalogue.user_index(table.users), catalogue.item_index(table.items)
    return Pairs(user[table.pairs.user], item[table.pairs.item])


def _keys(pairs: Ratings | Pairs, catalogue: Catalogue) -> np.ndarray:
    return pairs.user.astype(np.int64) * catalogue.num_items + pairs.item


def _taken_out(train: Ratings, listed: Pairs, catalogue: Catalogue, name: str) -> tuple[Ratings, Ratings]:
    """Split training ratings into the others and the listed ones."""
    known = (listed.user >= 0) & (listed.item >= 0)
    out = np.isin(_keys(train, catalogue), _keys(listed, catalogue)[known])
    wanted = len(np.unique(_keys(listed, catalogue)[known]))
    missing = int(np.count_nonzero(~known)) + wanted - int(np.count_nonzero(out))
    if missing:
        what = f"{missing} pairs of the {name} file have no rating in the training file"
        raise UserError(what, f"--{name}", "give a file with ratings, or pairs of the training file")
    return take(train, ~out), take(train, out)


def _overlaps(parts: dict[str, Ratings], catalogue: Catalogue) -> list[str]:
    """Say which held-out ratings are of pairs that are trained on, too."""
    notes = []
    trained = _keys(parts["train"], catalogue)
    for name, part in parts.items():
        shared = int(np.count_nonzero(np.isin(_keys(part, catalogue), trained))) if name != "train" else 0
        if shared:
            notes.append(
                f"{shared} of the {len(part.user)} {name} ratings are of pairs that are trained on, too"
            )
    return notes
