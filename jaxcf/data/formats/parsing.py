"""Files of ratings as columns of dictionary-encoded text, some rows at a time.

Files are parsed by Arrow, column by column; Python reads single lines only to find an invalid one.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from jaxcf.data.formats import bad_lines
from jaxcf.data.formats.file_layout import BLOCK, Layout, layout_of, lines, opened, without_stars
from jaxcf.data.formats.matlab_file import DAMAGED, arrays_of, names_of
from jaxcf.data.formats.quoted_fields import separator_of
from jaxcf.data.formats.text_pieces import Stream, check_lines, pieces, require_quotes_to_end
from jaxcf.data.options import Reading
from jaxcf.data.ratings import RatingScale
from jaxfit.errors import UserError
from jaxfit.files import large_arrays
from jaxfit.files.opening import Source

TEXTS = pa.dictionary(pa.int32(), pa.utf8())


class Part(NamedTuple):
    """Consecutive rows of a file: user, item and, where present, stars as dictionary-encoded text, and time as int64.

    Batches are read lazily: errors are raised on iteration.
    """

    batches: Iterable[pa.RecordBatch]
    names: tuple[str, ...]  # of the columns
    locate: Callable[[int], str]  # returns file and line of a row
    taken: tuple[tuple[str, str], ...] = ()  # files, and which of their columns were taken as what, by which rule
    guessed: bool = False  # nothing in the file says what its columns are
    notes: tuple[str, ...] = ()  # messages for the user
    header: tuple[str, ...] = ()  # names of all columns of the file, where they alone say what these are


def of_table(table: pa.Table, locate: Callable[[int], str]) -> Part:
    """Return the rows of a table, whose times are as `seconds` takes them."""
    return Part(seconds(table, locate).to_batches(large_arrays.PIECE), tuple(table.column_names), locate)


def without_values(part: Part, counts: bool) -> UserError | None:
    """Return the error of rows without ratings, or counts, whose header may name a column of them."""
    return without_stars(part.header, part.taken[0][0], counts) if len(part.header) > 2 else None


def no_rows(path: Source, pairs: bool) -> UserError:
    """Return the error of a file that holds no ratings, or with `pairs` no pairs."""
    what = "pairs of user and item" if pairs else "ratings"
    return UserError(f"the file holds no {what}", path, f"give a file of {what}")


def delimited(
    path: Source, reading: Reading, columns: Collection[str], scale: RatingScale | None = None
) -> Iterator[Part]:
    """Read some columns of a delimited file.

    Args:
        scale: scale of the ratings, if one is given.
    """
    layout = layout_of(path, reading, columns)
    wanted = [name for name in layout.columns if name in columns]
    said, kept = ((str(path), layout.taken),), None
    if reading.skip_bad:
        require_quotes_to_end(path, layout, skip_bad=True)
        kept = bad_lines.kept(path, layout.skip, reading, bad_lines.of_delimited(layout, reading, wanted, scale))
        layout = layout._replace(skip=0, encoding="utf-8")
    locate = kept.locate if kept else line_locator([path], layout)

    def batches() -> Iterator[pa.RecordBatch]:
        with kept.stream() if kept else opened(path) as stream:
            text = pieces(stream, path, layout)
            if "time" in wanted:  # Arrow must see all times to find their type
                yield from seconds(parse(Stream(text), layout, [path], wanted), locate).to_batches()
                return
            skip = layout.skip
            for piece in text:
                yield from parse(pa.BufferReader(piece), layout._replace(skip=skip), [path], wanted).to_batches()
                skip = 0

    yield Part(batches(), tuple(wanted), locate, said, layout.guessed, kept.notes if kept else (), layout.header)


def parse(stream: Any, layout: Layout, paths: Sequence[Source], wanted: Sequence[str]) -> pa.Table:
    """Parse columns of lines of files as text, but for times, which have the type that Arrow detects.

    Args:
        stream: the lines, as `pieces` has them.

    Raises:
        UserError: for a line that is not laid out like this, or not valid in the encoding.
    """
    names = [str(i) for i in range(layout.width)]
    for name in wanted:
        names[layout.columns[name]] = name
    options = pcsv.ConvertOptions(
        column_types={name: TEXTS for name in wanted if name != "time"}, include_columns=list(wanted)
    )
    try:
        return pcsv.read_csv(
            stream,
            pcsv.ReadOptions(block_size=BLOCK, skip_rows=layout.skip, column_names=names),
            pcsv.ParseOptions(delimiter=separator_of(layout.delimiter), quote_char='"' if layout.quoted else False),
            options,
        )
    except pa.ArrowException as error:
        check_lines(paths, layout)
        what = str(error).splitlines()[0]
        raise UserError(f"the file cannot be parsed: {what}", paths[0], "check it") from None


def line_locator(paths: Sequence[Source], layout: Layout) -> Callable[[int], str]:
    """Return a function that returns file and line of a row of some files."""

    def locate(row: int) -> str:
        numbered = ((path, number) for path in paths for number, _ in lines(path, layout.encoding))
        rows = (f"{path}, line {number}" for path, number in numbered if number > layout.skip)
        return next(itertools.islice(rows, row, None), str(paths[0]))

    return locate


def seconds(table: pa.Table, locate: Callable[[int], str]) -> pa.Table:
    """Return a table with times as int64: whole numbers as they are, dates in seconds since 1970.

    Raises UserError for a missing or invalid time, or if their kinds are mixed: numbers, dates with a zone, dates
    without one.
    """
    if "time" not in table.column_names:
        return table
    column = table["time"] if table.num_rows else pa.chunked_array([], pa.int64())
    kind = column.type
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        do = "complete the line, or leave the time out: --columns USER,ITEM,STARS"
        raise UserError("the time is missing", locate(row), do)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("s"), safe=False)
    elif pa.types.is_floating(kind) and pc.all(pc.is_finite(column)).as_py():
        column = pc.floor(column)
    elif not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise _time_error(column, locate)
    return table.set_column(table.column_names.index("time"), "time", column.cast(pa.int64(), safe=False))


def _time_error(column: pa.ChunkedArray, locate: Callable[[int], str]) -> UserError:
    """Return the error of the first time that is invalid, or else of the first that is not of the first one's kind."""
    kinds = [bad_lines.kind_of_time(str(value.as_py())) for value in column]
    others = (row for row, kind in enumerate(kinds) if kind != kinds[0])
    row = kinds.index(None) if None in kinds else next(others, 0)
    if None in kinds or kinds[row] == kinds[0]:
        do = "give seconds since 1970 or dates such as 2005-09-06, or leave the column out"
        return UserError(f"invalid time {column[row].as_py()!r}", locate(row), do)
    numbers = "number" in (kinds[0], kinds[row])
    parts = "numbers and partly dates" if numbers else "dates with a zone and partly dates without one"
    return UserError(f"the times are partly {parts}", locate(row), "write all in one form, or leave the column out")


def mat(path: Source, reading: Reading, columns: Collection[str]) -> Iterator[Part]:
    """Read `moviedata.mat`, published with the code of Salakhutdinov and Mnih: rows of user, item, stars.

    `moviedata.mat:train_vec` and `moviedata.mat:probe_vec` name one of its arrays; without a name both are read.
    Raises UserError if the file cannot be read, or holds no such array.
    """
    file, _colon, array_name = str(path).partition(".mat:")
    file += ".mat" if array_name else ""
    content = _matlab(file, arrays_of)
    names = [array_name] if array_name else [name for name in ("train_vec", "probe_vec") if name in content]
    found = {name: content.get(name) for name in names}
    if not found or not all(map(_is_table, found.values())):
        do = f"give a file with train_vec or probe_vec, of three columns; it holds {', '.join(content)}"
        raise UserError("the .mat file holds no ratings", path, do)
    taken: tuple[tuple[str, str], ...] = ((str(path), f"arrays of user, item, stars ({', '.join(found)})"),)
    for name, array in found.items():
        yield _of_array(array, f"{file}, {name}", reading, columns)._replace(taken=taken)
        taken = ()


def _is_table(array: Any) -> bool:
    numbers = isinstance(array, np.ndarray) and array.dtype.kind in "biuf"
    return numbers and array.ndim == 2 and array.shape[1] == 3


def has_probe(path: Source) -> bool:
    """Return whether a .mat file has both training and test ratings; one of its arrays alone has not."""
    if ".mat:" in str(path):
        return False
    both = {"train_vec", "probe_vec"} <= set(_matlab(path, names_of))
    if both and not str(path).endswith(".mat"):
        what = "the file has training and test ratings, which are told apart by names such as FILE.mat:train_vec"
        raise UserError(what, path, "rename the file, so that its name ends in .mat")
    return both


def _matlab(path: Source, read: Callable[[bytes, Source], Any]) -> Any:
    """Read a file by a function of `matlab_file`."""
    with opened(path) as f:
        data = f.read()
    try:
        return read(data, path)
    except DAMAGED as error:
        raise UserError(f"the .mat file cannot be read: {error}", path, "save it as version 7") from None


def _of_array(array: np.ndarray, where: str, reading: Reading, columns: Collection[str]) -> Part:
    """Return the numbers of a MATLAB array [N, 3], of any type, as columns of text."""
    found = {}
    for name, numbers in zip(("user", "item", "stars"), array.T, strict=True):
        if name not in columns:
            continue
        distinct, codes = np.unique(numbers, return_inverse=True)
        texts = [f"{number:.15g}" if number == number else "" for number in distinct.tolist()]
        if name == "stars":
            texts = [text.replace(".", reading.decimal) for text in texts]
        found[name] = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(texts, pa.utf8()))
    return of_table(pa.table(found), lambda row: f"{where}, row {row + 1}")
