"""Reading ratings, pairs and data sets from files, with errors that name the line; writing ratings."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from jaxcf.data import netflix, parsing
from jaxcf.data.file_layout import Reading, format_of
from jaxcf.data.ratings import (
    EMPTY,
    Catalogue,
    Dataset,
    Pairs,
    Ratings,
    Scale,
    digest,
    pair_keys,
    relabel,
    take,
    union,
)
from jaxcf.data.values import indices, parse_scale, scale_of, stars_of, without_duplicates
from jaxfit.cli.input_files import Source
from jaxfit.errors import UserError
from jaxfit.run_dir.atomic import replacing

_PARSERS = {"delimited": parsing.delimited, "netflix": netflix.netflix, "mat": parsing.mat}


class Table(NamedTuple):
    """The ratings in some files, and a catalogue of their users and items."""

    ratings: Ratings
    catalogue: Catalogue
    notes: list[str]  # messages for the user


class PairTable(NamedTuple):
    """The pairs of user and item in some files, and the ids of their users and items, ascending."""

    pairs: Pairs
    users: np.ndarray
    items: np.ndarray

    def relabelled(self, catalogue: Catalogue) -> Pairs:
        """Return the pairs with the indices of a catalogue, -1 for users and items that it lacks."""
        user, item = catalogue.user_index(self.users), catalogue.item_index(self.items)
        return Pairs(user[self.pairs.user], item[self.pairs.item])


class DatasetFiles(NamedTuple):
    """A data set read from files, with additional pairs of user and item."""

    dataset: Dataset
    rated: Pairs | None  # pairs of the `rated` files; None without such files
    notes: list[str]  # messages for the user


class _Rows(NamedTuple):
    ratings: Ratings
    users: np.ndarray
    items: np.ndarray
    values: np.ndarray  # distinct ratings, before duplicates are averaged
    notes: list[str]


def read(paths: Source | Sequence[Source], reading: Reading | None = None, scale: Scale | None = None) -> Table:
    """Read ratings from files, in their order.

    Args:
        paths: one or several files; a folder of the Netflix Prize; `-` for standard input; an array of a .mat
            file is named like `moviedata.mat:probe_vec`.
        reading: options; by default everything is detected from the files.
        scale: scale of the ratings; by default that of `reading`, or else detected from the files.

    Raises:
        UserError: if a file is missing or cannot be parsed, a value is missing or invalid, a rating is off a given
            scale, or a duplicate where those are errors. It names the file and the line.
    """
    reading = reading or Reading()
    return _table(_columns(paths, reading), paths, reading, scale)


def read_either(
    paths: Source | Sequence[Source], reading: Reading | None = None, scale: Scale | None = None
) -> Table | PairTable:
    """Read ratings as `read` does, or pairs as `read_pairs` does if the files have no ratings."""
    reading = reading or Reading()
    columns = _columns(paths, reading)
    return _pairs(columns, paths) if columns.stars is None else _table(columns, paths, reading, scale)


def read_pairs(paths: Source | Sequence[Source], reading: Reading | None = None) -> PairTable:
    """Read pairs of user and item from files, in their order, with duplicates; other columns are ignored.

    Raises:
        UserError: as `read`, for users and items; if there are no pairs.
    """
    return _pairs(_columns(paths, reading or Reading(), pairs=True), paths)


def read_dataset(
    train: Source | Sequence[Source],
    valid: Source | Sequence[Source] = (),
    test: Source | Sequence[Source] = (),
    rated: Source | Sequence[Source] = (),
    reading: Reading | None = None,
) -> DatasetFiles:
    """Read a data set from files, in one catalogue of all their users and items.

    Args:
        train: training files; `moviedata.mat` has test ratings, too.
        valid: validation files; without them validation is empty. Pairs without ratings (such as the Netflix
            Prize's `probe.txt`) are split off the training ratings.
        test: test files, of ratings or pairs like those for validation.
        rated: files of additional pairs of user and item.
        reading: options. A scale that is not given is detected from training and validation ratings; test
            ratings decide nothing.

    Raises:
        UserError: as `read`; if pairs to split off have no training rating.
    """
    reading = reading or Reading()
    scale = _given_scale(reading)
    train, valid, test, rated = map(_as_list, (train, valid, test, rated))
    if len(train) == 1 and not test and format_of(train[0], reading) == "mat" and parsing.has_probe(train[0]):
        train, test = [f"{train[0]}:train_vec"], [f"{train[0]}:probe_vec"]
    tables = {"train": _rows(_columns(train, reading), train, reading, scale)}
    listed = {}
    for name, files in (("valid", valid), ("test", test)):
        columns = _columns(files, reading) if files else None
        if name == "test":  # its ratings must lie on the scale of the others
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
    ratings = {
        name: relabel(table.ratings, Catalogue(table.users, table.items, scale), catalogue)
        for name, table in tables.items()
    }
    for name, table in listed.items():
        pairs = table.relabelled(catalogue)
        ratings["train"], ratings[name] = _split_off(ratings["train"], pairs, catalogue, name)
    notes = [note for table in tables.values() for note in table.notes]
    notes += _overlaps(ratings, catalogue)
    data = Dataset(
        Path(train[0]).name, ratings["train"], ratings.get("valid", EMPTY), ratings.get("test"), catalogue, "",
        ", ".join(map(str, train)),
    )  # fmt: skip
    data = data._replace(sha256=digest(data.train, data.valid, catalogue))
    return DatasetFiles(data, known.relabelled(catalogue) if known else None, notes)


def write(path: Path, ratings: Ratings, catalogue: Catalogue) -> None:
    """Write ratings, with the ids of their users and items, as a CSV file with a header that `read` reads.

    Raises:
        UserError: if the file cannot be written.
    """
    columns = {
        "user": catalogue.users[ratings.user],
        "item": catalogue.items[ratings.item],
        "stars": ratings.stars,
    }
    if ratings.time is not None:
        columns["time"] = ratings.time
    with replacing(Path(path)) as temporary:
        pcsv.write_csv(pa.table(columns), temporary, pcsv.WriteOptions(quoting_style="needed"))


def _as_list(paths: Source | Sequence[Source]) -> list[Source]:
    return [paths] if isinstance(paths, str | Path) else list(paths)  # type: ignore[arg-type]


def _given_scale(reading: Reading) -> Scale | None:
    return parse_scale(reading.scale) if reading.scale else None


def _columns(paths: Source | Sequence[Source], reading: Reading, pairs: bool = False) -> parsing.Columns:
    return parsing.join([_PARSERS[format_of(path, reading)](path, reading, pairs) for path in _as_list(paths)])


def _pairs(columns: parsing.Columns, paths: Source | Sequence[Source]) -> PairTable:
    if len(columns.user) == 0:
        what = "pairs of user and item"
        raise UserError(f"the file holds no {what}", _as_list(paths)[0], f"give a file of {what}")
    (user, users), (item, items) = (indices(columns, name) for name in ("user", "item"))
    return PairTable(Pairs(user, item), users, items)


def _table(columns: parsing.Columns, paths: Source | Sequence[Source], reading: Reading, scale: Scale | None) -> Table:
    scale = scale or _given_scale(reading)
    rows = _rows(columns, paths, reading, scale)
    catalogue = Catalogue(rows.users, rows.items, scale or scale_of(rows.values))
    return Table(rows.ratings, catalogue, rows.notes)


def _rows(columns: parsing.Columns, paths: Source | Sequence[Source], reading: Reading, scale: Scale | None) -> _Rows:
    """Convert columns to ratings; if a scale is given, ratings off it are errors."""
    files = _as_list(paths)
    if columns.stars is None:
        do = "name the column of the ratings: --columns USER,ITEM,STARS"
        raise UserError("the file holds pairs of user and item without ratings", files[0], do)
    if len(columns.user) == 0:
        raise UserError("the file holds no ratings", files[0], "give a file of ratings")
    stars, values = stars_of(columns, scale)
    (user, users), (item, items) = (indices(columns, name) for name in ("user", "item"))
    ratings, notes = without_duplicates(Ratings(user, item, stars, columns.time), users, items, columns.locate, reading)
    return _Rows(ratings, users, items, values, notes)


def _split_off(train: Ratings, listed: Pairs, catalogue: Catalogue, name: str) -> tuple[Ratings, Ratings]:
    """Split training ratings into those of other pairs and those of the listed pairs."""
    known = (listed.user >= 0) & (listed.item >= 0)
    keys = np.unique(pair_keys(listed, catalogue.num_items)[known])
    out = np.isin(pair_keys(train, catalogue.num_items), keys)
    missing = int(np.count_nonzero(~known)) + len(keys) - int(np.count_nonzero(out))
    if missing:
        what = f"{missing} pairs of the {name} file have no rating in the training file"
        raise UserError(what, f"--{name}", "give a file with ratings, or pairs of the training file")
    return take(train, ~out), take(train, out)


def _overlaps(ratings: dict[str, Ratings], catalogue: Catalogue) -> list[str]:
    """Return a message for each held-out set whose pairs also occur in training."""
    notes = []
    trained = pair_keys(ratings["train"], catalogue.num_items)
    for name, part in ratings.items():
        if name == "train":
            continue
        shared = int(np.count_nonzero(np.isin(pair_keys(part, catalogue.num_items), trained)))
        if shared:
            notes.append(f"{shared} of the {len(part.user)} {name} ratings are of pairs that are also in training")
    return notes
