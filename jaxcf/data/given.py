"""Ratings that a caller of the library gives: files, a table such as a pandas DataFrame, or rows in memory."""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from jaxcf.data import reading
from jaxcf.data.formats.file_layout import COLUMNS
from jaxcf.data.options import Reading
from jaxcf.data.ratings import Catalogue, Ratings, RatingScale, relabel
from jaxfit.call import checked
from jaxfit.errors import UserError, named

# A file by its name or path; several paths; a table (pandas, polars, Arrow); columns by name; rows, of
# (user, item, stars) or of columns by name.
Table: TypeAlias = str | os.PathLike[str] | Iterable[Any] | Any
TEMPORARY = "jaxcf-table-"  # begins the names of folders


@contextmanager
def as_files(ratings: Table, name: str) -> Iterator[list[str]]:
    """Yield the names of the given files, or of a temporary Parquet file of the given ratings.

    Args:
        ratings: as `Table`. Columns are found by their names, as in a file; rows are (user, item[, stars[, time]]), or
            have columns by name, as {"user": 196, "item": 242, "stars": 3}.
        name: of a temporary file: "ratings", "valid", ….

    Raises:
        UserError: the ratings are none of these, or empty; rows have different lengths, or columns mixed types.
    """
    if isinstance(ratings, str | os.PathLike):
        yield [os.fspath(ratings)]
        return
    if not _is_table(ratings):
        ratings = list(ratings) if isinstance(ratings, Iterable) else ratings
        if isinstance(ratings, list) and ratings and isinstance(ratings[0], str | os.PathLike):
            yield [os.fspath(file) for file in ratings]
            return
    table = _table(ratings, name)
    if not table.num_rows:
        raise UserError("there are no ratings", name, "give at least one")
    import pyarrow.parquet as pq  # here, as it takes a while, and files do not need it

    with tempfile.TemporaryDirectory(prefix=TEMPORARY) as folder:
        path = Path(folder) / f"{name}.parquet"
        pq.write_table(table, path)
        with named(path, name):
            yield [str(path)]


def hide_temporary_paths(note: str) -> str:
    """Return a note about files in which the paths of temporary files are replaced by what these hold."""
    return re.sub(rf"\S*{TEMPORARY}\w+[/\\](\w+)\.parquet", r"\1", note)


def _is_table(ratings: Any) -> bool:
    return isinstance(ratings, Mapping | pa.Table) or hasattr(ratings, "columns")


def _table(ratings: Any, name: str) -> pa.Table:
    """Return ratings as a table of named columns."""
    try:
        if isinstance(ratings, Mapping):
            return pa.table(dict(ratings))
        if hasattr(ratings, "iloc") and _is_table(ratings):  # of pandas, whose index holds no ratings
            return pa.Table.from_pandas(ratings, preserve_index=False)
        if _is_table(ratings):
            return pa.table(ratings)
        rows = list(ratings)
        if rows and all(isinstance(row, Mapping) for row in rows):  # a value that a row lacks is missing
            names = dict.fromkeys(column for row in rows for column in row)
            return pa.table({str(column): pa.array([row.get(column) for row in rows]) for column in names})
        if wrong := next((row for row in rows if isinstance(row, Mapping | Set | str | bytes)), None):
            what = f"a row is a {type(wrong).__name__}, not a tuple of user, item and stars"
            raise UserError(what, name, "give rows of (user, item, stars)")
        rows = [tuple(row) for row in rows]
        width = {len(row) for row in rows}
        if rows and not (len(width) == 1 and width <= {2, 3, 4}):
            what = f"rows have {' or '.join(map(str, sorted(width)))} columns"
            raise UserError(what, name, "give rows of (user, item, stars)")
        columns = zip(*rows, strict=True)
        return pa.table({column: pa.array(values) for column, values in zip(COLUMNS, columns, strict=False)})
    except pa.ArrowException as error:
        what = f"the values of a column are not of one type: {str(error).splitlines()[0]}"
        raise UserError(what, name, "give ids as text, or all as whole numbers, and stars as numbers") from None
    except UnicodeError as error:
        what = f"an id is not valid text: {error}"
        raise UserError(what, name, "correct it: it has half of a surrogate pair") from None
    except ValueError as error:  # of columns of the same name
        raise UserError(str(error).splitlines()[0], name, "give each column once, and all of one length") from None
    except OverflowError:
        raise UserError("a whole number is of more than 64 bits", name, "give ids as text") from None
    except TypeError:
        what = f"{type(ratings).__name__} holds no ratings"
        raise UserError(what, name, "give a file, a table, or rows of (user, item, stars)") from None


def read(
    ratings: Table, catalogue: Catalogue, scale: RatingScale | None, counts: bool, how: Mapping[str, Any]
) -> Ratings:
    """Read ratings, or counts, with the indices of a catalogue, -1 for users and items that it lacks.

    Args:
        ratings: as in `as_files`.
        catalogue: ids of users and items.
        scale, counts: as in `jaxcf.data.reading.read`.
        how: fields of `Reading`, as options of `jaxcf.train`.

    Raises:
        UserError: as `as_files` and `jaxcf.data.reading.read`; there is no such field, or a value is of another type.
    """
    chosen = Reading.of(checked(how, [Reading]), counts)
    with as_files(ratings, "ratings") as files:
        table = reading.read(files, chosen, scale, counts)
    return relabel(table.ratings, table.catalogue, catalogue)
