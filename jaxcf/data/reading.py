"""Reading ratings, pairs and data sets from files, with errors that name the line."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jaxcf.data import checks
from jaxcf.data.formats import netflix, parsing, typed_files
from jaxcf.data.formats.columns import Columns, join
from jaxcf.data.formats.file_layout import COLUMNS, COUNTS, format_of
from jaxcf.data.ids import union
from jaxcf.data.options import Reading
from jaxcf.data.ratings import (
    EMPTY,
    Catalogue,
    Dataset,
    Pairs,
    Ratings,
    RatingScale,
    chosen,
    counted,
    digest,
    pair_keys,
    relabel,
    take,
)
from jaxcf.data.values import indices, parse_scale, scale_of, stars_of, without_duplicates
from jaxfit.errors import UserError
from jaxfit.files.large_arrays import filled
from jaxfit.files.opening import Source
from jaxfit.wording import quantity

PAIRS, RATINGS = COLUMNS[:2], COLUMNS[:3]  # what may be read of files that have more columns
_OF_LINES = {"delimited": parsing.delimited, "json": typed_files.json_lines}  # each a rating, which may be left out
_OTHERS = {"parquet": typed_files.parquet, "netflix": netflix.netflix, "mat": parsing.mat}
SHOWN = 3  # files that are named in a message
LARGE = 1 << 25  # ratings; more of them are stored in files, not in memory (`jaxfit.files.large_arrays.stored_in`)


class Table(NamedTuple):
    """The ratings in some files, and a catalogue of their users and items."""

    ratings: Ratings
    catalogue: Catalogue
    notes: list[str]  # messages for the user: first what was read, and how
    values: np.ndarray  # the distinct ratings, ascending, before duplicates are averaged


class PairTable(NamedTuple):
    """The pairs of user and item in some files, and the ids of their users and items, ascending."""

    pairs: Pairs
    users: np.ndarray
    items: np.ndarray
    notes: list[str]  # messages for the user: first what was read, and how

    def relabelled(self, catalogue: Catalogue) -> Pairs:
        """Return the pairs with the indices of a catalogue, -1 for users and items that it lacks."""
        user, item = catalogue.user_index(self.users), catalogue.item_index(self.items)
        return Pairs(chosen(user, self.pairs.user), chosen(item, self.pairs.item))


class DatasetFiles(NamedTuple):
    """A data set read from files, with additional pairs of user and item."""

    dataset: Dataset
    rated: Pairs | None  # pairs of the `rated` files; None without such files
    notes: list[str]  # messages for the user


def read(
    paths: Source | Sequence[Source],
    reading: Reading | None = None,
    scale: RatingScale | None = None,
    counts: bool = False,
    times: bool = False,
    exact: bool = False,
) -> Table:
    """Read ratings from files, in their order.

    Args:
        paths: one or several files, or a folder of the Netflix Prize; `-` is standard input; an array of a .mat file is
            named as in `moviedata.mat:probe_vec`.
        reading: options; by default everything is detected from the files.
        scale: scale of the training ratings, which these must be on; by default that of `reading`, or else detected
            from the files.
        counts: whether the values are counts of implicit data: 1 for each line in files of pairs.
        times: whether times are read, where files have them.
        exact: whether ratings are float64, as to be written again, in place of float32, as models take them.

    Raises:
        UserError: a file is missing or cannot be parsed, a value is missing or invalid, a rating is off a given scale,
            a rating is repeated where that is an error, or both `scale` and the scale of `reading` are given. The
            message names the file and the line.
    """
    reading = reading or Reading()
    scale = _one_scale(reading, scale)
    columns = _columns(paths, reading, COLUMNS if times else RATINGS, scale, counts)
    return _table(columns, paths, reading, scale, counts, exact)


def read_either(
    paths: Source | Sequence[Source],
    reading: Reading | None = None,
    scale: RatingScale | None = None,
    counts: bool = False,
) -> Table | PairTable:
    """Read ratings or counts without times as `read` does; pairs as `read_pairs` does if the files have no ratings."""
    reading = reading or Reading()
    scale = _one_scale(reading, scale)
    columns = _columns(paths, reading, RATINGS, scale, counts)
    if counts or "stars" in columns.codes:
        return _table(columns, paths, reading, scale, counts)
    return _pairs(columns, paths)


def read_pairs(paths: Source | Sequence[Source], reading: Reading | None = None) -> PairTable:
    """Read pairs of user and item from files, in their order, with duplicates; other columns are ignored.

    Raises:
        UserError: as `read`, for users and items; if there are no pairs.
    """
    return _pairs(_columns(paths, reading or Reading(), PAIRS), paths)


def read_dataset(
    train: Source | Sequence[Source],
    valid: Source | Sequence[Source] = (),
    test: Source | Sequence[Source] = (),
    rated: Source | Sequence[Source] = (),
    reading: Reading | None = None,
    counts: bool = False,
    test_ids: bool = False,
) -> DatasetFiles:
    """Read a data set from files, in one catalogue of their users and items; times are not read.

    Args:
        train: training files; `moviedata.mat` has test ratings, too.
        valid: validation files; without them validation is empty. Pairs without ratings (such as the Netflix Prize's
            `probe.txt`) are split off the training ratings.
        test: test files, of ratings or pairs like those for validation.
        rated: files of additional pairs of user and item.
        reading: options. A scale that is not given is detected from training and validation ratings, and test ratings
            must lie on it.
        counts: as in `read`; the scale of counts is the range of all of them, those of the test included.
        test_ids: whether users and items that only the test has are in the catalogue, as models need that condition on
            the test's pairs; otherwise they are -1, and the test has no effect on what is trained.

    Raises:
        UserError: as `read`; if pairs to split off have no training rating.
    """
    reading = reading or Reading()
    scale = parse_scale(reading.scale)
    train = _as_list(train)
    if len(train) == 1 and not test and format_of(train[0], reading) == "mat" and parsing.has_probe(train[0]):
        train, test = [f"{train[0]}:train_vec"], [f"{train[0]}:probe_vec"]
    tables, listed = {"train": read(train, reading, counts=counts)}, {}
    for name, files in (("valid", valid), ("test", test)):
        found = None
        if name == "test" and not (scale or counts):  # its ratings must lie on the scale of the others
            scale = found = scale_of(np.concatenate([table.values for table in tables.values()]))
        if files:
            table = read_either(files, reading, found, counts)
            if isinstance(table, Table):
                tables[name] = table
            else:
                listed[name] = table
    scale = scale or scale_of(np.concatenate([table.values for table in tables.values()]))
    known = read_pairs(rated, reading) if rated else None
    ids = [table.catalogue for name, table in tables.items() if test_ids or name != "test"] + ([known] if known else [])
    catalogue = Catalogue(union(*(s.users for s in ids)), union(*(s.items for s in ids)), scale)
    ratings = {name: relabel(table.ratings, table.catalogue, catalogue) for name, table in tables.items()}
    for name, table in listed.items():
        ratings["train"], ratings[name] = _split_off(ratings["train"], table.relabelled(catalogue), catalogue, name)
    sources: list[Table | PairTable] = [*tables.values(), *listed.values(), *([known] if known else [])]
    notes = [note for source in sources for note in source.notes] + _overlaps(ratings, catalogue)
    held_out = {name: table.catalogue for name, table in tables.items() if name != "train"}
    _warn_apart(ratings["train"], catalogue, {**held_out, **listed, **({"rated": known} if known else {})})
    of_train, of_valid = ratings["train"], ratings.get("valid", EMPTY)
    if not counts:
        checks.warn_equal(tables["train"].values, len(of_train.user))
        for name, title in (("valid", "the validation ratings"), ("test", "the test ratings")):
            checks.warn_other_scale(title, ratings.get(name, EMPTY).stars, of_train.stars)
    sha256, note = digest(of_train, of_valid, catalogue), ", ".join(map(str, train))
    data = Dataset(Path(train[0]).name, of_train, of_valid, ratings.get("test"), catalogue, sha256, note)
    return DatasetFiles(data, known.relabelled(catalogue) if known else None, notes)


def _as_list(paths: Source | Sequence[Source]) -> list[Source]:
    return [paths] if isinstance(paths, str | Path) else list(paths)  # type: ignore[arg-type]


def _one_scale(reading: Reading, scale: RatingScale | None) -> RatingScale | None:
    """Return the scale that ratings must lie on: of training, or as given."""
    if scale and reading.scale:
        raise UserError(f"the ratings of training are {scale}", "--scale", "leave it out, or train with it")
    return scale or parse_scale(reading.scale)


def _columns(
    paths: Source | Sequence[Source],
    reading: Reading,
    columns: Sequence[str],
    scale: RatingScale | None = None,
    counts: bool = False,
) -> Columns:
    files, columns = _as_list(paths), [*columns, *([COUNTS] if counts else [])]
    found = join(itertools.chain.from_iterable(_of_file(path, reading, columns, scale) for path in files))
    if found.rows and found.rated is not None and found.unrated is not None:
        name = COUNTS if counts else "ratings"
        do = f"give files that all have {name}" + (", or take the pairs of all: --columns USER,ITEM" if counts else "")
        what = f"there are no {name} here, but there are in {found.rated.locate(0)}"
        raise parsing.without_values(found.unrated, counts) or UserError(what, found.unrated.locate(0), do)
    return found


def _of_file(
    path: Source, reading: Reading, columns: Sequence[str], scale: RatingScale | None
) -> Iterator[parsing.Part]:
    layout = format_of(path, reading)
    if layout in _OF_LINES:
        return _OF_LINES[layout](path, reading, columns, scale)
    if reading.skip_bad:
        raise UserError("--skip-bad is for files of lines with a rating each", path, "leave it out")
    return _OTHERS[layout](path, reading, columns)


def _pairs(columns: Columns, paths: Source | Sequence[Source]) -> PairTable:
    if columns.rows == 0:
        raise parsing.no_rows(_as_list(paths)[0], pairs=True)
    (user, users), (item, items) = (indices(columns, name) for name in ("user", "item"))
    sizes = f"{quantity(len(user), 'pair')} of {quantity(len(users), 'user')} and {quantity(len(items), 'item')}"
    return PairTable(Pairs(user, item), users, items, [f"{_said(columns)}; {sizes}", *columns.notes])


def _said(columns: Columns) -> str:
    """Say which columns of which files were taken as what."""
    files: dict[str, list[str]] = {}
    for file, taken in columns.taken:
        files.setdefault(taken, []).append(file)
    return "; ".join(f"{_named(names)}: {taken}" for taken, names in files.items())


def _named(files: list[str]) -> str:
    more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return ", ".join(files[:SHOWN]) + more


def _table(
    columns: Columns,
    paths: Source | Sequence[Source],
    reading: Reading,
    scale: RatingScale | None,
    counts: bool = False,
    exact: bool = False,
) -> Table:
    """Convert columns to ratings, or to counts; if a scale is given, ratings off it are errors."""
    file, rated = _as_list(paths)[0], "stars" in columns.codes
    if columns.rows == 0:
        raise parsing.no_rows(file, pairs=False)
    if columns.unrated is not None:
        _require_pairs(columns.unrated, file, counts)
    if rated:
        stars, values = stars_of(columns, scale, reading, np.float64 if exact else np.float32)
    else:
        stars, values = np.ones(columns.rows, np.float32), np.ones(1)
    (user, users), (item, items) = (indices(columns, name) for name in PAIRS)
    ratings = Ratings(user, item, stars, columns.time)
    columns = columns._replace(codes={})
    ratings, notes = without_duplicates(ratings, users, items, columns.locate, reading, counts)
    if columns.guessed:
        checks.warn_swapped(ratings, _named([str(path) for path in _as_list(paths)]))
    catalogue = Catalogue(users, items, scale or scale_of(values))
    known = "by --scale" if reading.scale else "as in training"
    number = quantity(len(user), "count" if counts else "rating")
    said = (
        f"{_said(columns)}; {number} of {quantity(len(items), 'item')} by {quantity(len(users), 'user')}, "
        f"{catalogue.scale} ({known if scale else 'as found'})"
    )
    return Table(ratings, catalogue, [said, *columns.notes, *notes], values)


def _require_pairs(part: parsing.Part, file: Source, counts: bool) -> None:
    """Raise UserError for rows without ratings, or if these are counts, for a header that may name a column of them."""
    if error := parsing.without_values(part, counts):
        raise error
    if not counts:
        do = "name the column of the ratings: --columns USER,ITEM,STARS"
        do += "; pairs are for models of implicit data, and split by --counts"
        raise UserError("the file holds pairs of user and item without ratings", file, do)


def _split_off(train: Ratings, listed: Pairs, catalogue: Catalogue, name: str) -> tuple[Ratings, Ratings]:
    """Split training ratings into those of other pairs and those of the listed pairs."""
    known = (listed.user >= 0) & (listed.item >= 0)
    keys = np.unique(pair_keys(listed, catalogue.num_items)[known])
    out = _among(train, keys, catalogue.num_items)
    missing = int(np.count_nonzero(~known)) + len(keys) - int(np.count_nonzero(out))
    if missing:
        has = "has" if missing == 1 else "have"
        what = f"{quantity(missing, 'pair')} of the {name} file {has} no rating in the training file"
        raise UserError(what, f"--{name}", "give a file with ratings, or pairs of the training file")
    return take(train, ~out), take(train, out)


def _warn_apart(train: Ratings, catalogue: Catalogue, others: Mapping[str, Catalogue | PairTable]) -> None:
    """Warn if validation, test or additional pairs share no user or no item with training."""
    known = {
        "user": catalogue.users[np.flatnonzero(counted(train.user))],
        "item": catalogue.items[np.flatnonzero(counted(train.item))],
    }
    for name, title in (("valid", "the validation ratings"), ("test", "the test ratings"), ("rated", "--rated")):
        if name in others:
            ids = {"user": others[name].users, "item": others[name].items}
            checks.warn_apart(title, ids, known, "training")


def _overlaps(ratings: dict[str, Ratings], catalogue: Catalogue) -> list[str]:
    """Return a message for each held-out set whose pairs also occur in training."""
    notes = []
    train = ratings["train"]
    for name, part in ratings.items():
        if name == "train":
            continue
        keys = pair_keys(part, catalogue.num_items)[(part.user >= 0) & (part.item >= 0)]
        trained = pair_keys(take(train, _among(train, keys, catalogue.num_items)), catalogue.num_items)
        shared = int(np.count_nonzero(np.isin(keys, trained)))
        if shared:
            notes.append(f"{shared} of the {len(part.user)} {name} ratings are of pairs that are also in training")
    return notes


def _among(ratings: Ratings, keys: np.ndarray, num_items: int) -> np.ndarray:
    """Return whether each rating's pair of user and item is among some: bool [N].

    Args:
        keys: these pairs, as numbers from `pair_keys`.
    """
    among = pa.array(keys)

    def of_piece(piece: slice) -> np.ndarray:
        pairs = pair_keys(Pairs(ratings.user[piece], ratings.item[piece]), num_items)
        return pc.is_in(pa.array(pairs), among).to_numpy(zero_copy_only=False)

    return filled(len(ratings.user), bool, of_piece)
