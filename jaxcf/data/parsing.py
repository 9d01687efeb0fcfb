"""Files of ratings as columns of dictionary-encoded text.

Files are parsed by Arrow, column by column and in parallel; Python reads single lines only to find an invalid one.
"""

from collections.abc import Callable, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import scipy.io

from jaxcf.data.file_layout import Layout, Reading, arrow_stream, layout_of, lines, opened
from jaxfit.cli.input_files import Source
from jaxfit.errors import UserError

BLOCK = 1 << 22  # bytes parsed at a time by each thread
TEXTS = pa.dictionary(pa.int32(), pa.utf8())


class Columns(NamedTuple):
    """The rows of files. Text columns are dictionary-encoded, null where a value is missing."""

    user: pa.ChunkedArray
    item: pa.ChunkedArray
    stars: pa.ChunkedArray | None  # None for pairs without ratings
    time: np.ndarray | None  # int64
    locate: Callable[[int], str]  # returns file and line of a row


def dictionary_codes(column: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """Return a column as int32 indices, -1 where a value is missing, and the texts they refer to."""
    chunks = [chunk for chunk in column.unify_dictionaries().chunks if len(chunk)]
    if not chunks:
        return np.zeros(0, np.int32), pa.array([], pa.utf8())
    codes = [pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False) for chunk in chunks]
    return np.concatenate(codes, dtype=np.int32), chunks[-1].dictionary


def join(parts: Sequence[Columns]) -> Columns:
    """Concatenate the rows of files, with ratings and times if all files have them."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([len(part.user) for part in parts])

    def locate(row: int) -> str:
        part, row = part_of(ends, row)
        return parts[part].locate(row)

    def column(name: str) -> pa.ChunkedArray:
        return pa.chunked_array([chunk for part in parts for chunk in getattr(part, name).chunks], TEXTS)

    stars = column("stars") if all(part.stars is not None for part in parts) else None
    times = [part.time for part in parts if part.time is not None]
    time = np.concatenate(times) if len(times) == len(parts) else None
    return Columns(column("user"), column("item"), stars, time, locate)


def part_of(ends: np.ndarray, row: int) -> tuple[int, int]:
    """Return which part holds a row, and the row's position in it; `ends` are cumulative sizes of parts."""
    part = int(np.searchsorted(ends, row, side="right"))
    return part, row - int(ends[part - 1] if part else 0)


def delimited(path: Source, reading: Reading, pairs: bool = False) -> Columns:
    """Parse a delimited file; with `pairs`, its users and items only.

    Raises:
        UserError: as `jaxcf.data.file_layout.layout_of`; if a line has other columns than the first or is not
            valid in the encoding, or a time is invalid.
    """
    layout = layout_of(path, reading, pairs)
    wanted = [name for name in layout.columns if not pairs or name in ("user", "item")]
    # for Arrow a delimiter of two characters is one character, with a column in between that must be empty
    names = [str(i) for i in range((layout.width - 1) * layout.repeat + 1)]
    own = {name: str(column * layout.repeat) for name, column in layout.columns.items()}
    between = {name: pa.null() for i, name in enumerate(names) if i % layout.repeat}
    types = between | {own[name]: TEXTS for name in wanted if name != "time"}
    locate = _line_locator(path, layout)
    try:
        with arrow_stream(path) as stream:
            table = pcsv.read_csv(
                stream,
                pcsv.ReadOptions(
                    block_size=BLOCK, skip_rows=layout.skip, column_names=names, encoding=layout.encoding
                ),
                pcsv.ParseOptions(
                    delimiter=layout.delimiter, quote_char='"' if layout.quoted else False, double_quote=True
                ),
                pcsv.ConvertOptions(
                    column_types=types,
                    include_columns=[own[name] for name in wanted] + list(between),
                    strings_can_be_null=True,
                ),
            )  # fmt: skip
    except (pa.ArrowException, OSError) as error:
        check_widths(path, layout.encoding, layout.width, lambda line: len(layout.split(line)))
        what = str(error).splitlines()[0]
        raise UserError(f"the file cannot be parsed: {what}", path, "check it") from None
    time = seconds(table[own["time"]], locate) if "time" in wanted else None
    stars = table[own["stars"]] if "stars" in wanted else None
    return Columns(table[own["user"]], table[own["item"]], stars, time, locate)


def mat(path: Source, _: Reading, pairs: bool = False) -> Columns:
    """Read `moviedata.mat`, published with the code of Salakhutdinov and Mnih: rows of user, item, stars.

    `moviedata.mat:train_vec` and `moviedata.mat:probe_vec` name one of its arrays; without a name both are read.

    Raises:
        UserError: if the file cannot be read, or holds no such array.
    """
    file, _colon, array_name = str(path).partition(".mat:")
    file += ".mat" if array_name else ""
    content = _matlab(file, scipy.io.loadmat)
    names = [array_name] if array_name else [name for name in ("train_vec", "probe_vec") if name in content]
    found = [content.get(name) for name in names]
    if not found or not all(isinstance(x, np.ndarray) and x.ndim == 2 and x.shape[1] == 3 for x in found):
        present = ", ".join(name for name in content if not name.startswith("__"))
        do = f"give a file with train_vec or probe_vec, of three columns; it holds {present}"
        raise UserError("the .mat file holds no ratings", path, do)
    ends = np.cumsum([len(array) for array in found])

    def locate(row: int) -> str:
        which, row = part_of(ends, row)
        return f"{file}, {names[which]}, row {row + 1}"

    user, item, stars = (_texts(np.concatenate([array[:, i] for array in found])) for i in range(3))
    return Columns(user, item, None if pairs else stars, None, locate)


def has_probe(path: Source) -> bool:
    """Return whether a .mat file has both training and test ratings; one of its arrays alone has not."""
    if ".mat:" in str(path):
        return False
    return {"train_vec", "probe_vec"} <= {name for name, *_ in _matlab(path, scipy.io.whosmat)}


def seconds(column: pa.ChunkedArray, locate: Callable[[int], str]) -> np.ndarray:
    """Return times as int64: whole numbers as they are, dates in seconds since 1970.

    Raises:
        UserError: if a time is missing or invalid.
    """
    kind = column.type
    if column.null_count:
        row = int(np.flatnonzero(pc.is_null(column).to_numpy())[0])
        do = "complete the line, or leave the time out: --columns USER,ITEM,STARS"
        raise UserError("the time is missing", locate(row), do)
    if pa.types.is_integer(kind):
        return column.to_numpy()
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("s"), safe=False).cast(pa.int64()).to_numpy()
    if pa.types.is_floating(kind) and pc.all(pc.is_finite(column)).as_py():
        return np.floor(column.to_numpy()).astype(np.int64)
    row = next((i for i, value in enumerate(column) if not _is_time(value.as_py())), 0)
    do = "give seconds since 1970 or dates such as 2005-09-06, or leave the column out"
    raise UserError(f"invalid time {column[row].as_py()!r}", locate(row), do)


def _matlab(path: Source, read: Callable[[IO[bytes]], Any]) -> Any:
    with opened(path) as f:
        try:
            return read(f)
        except (ValueError, TypeError, NotImplementedError, scipy.io.matlab.MatReadError) as error:
            raise UserError(f"the .mat file cannot be read: {error}", path, "save it as version 7") from None


def _texts(values: np.ndarray) -> pa.ChunkedArray:
    """Return the numbers of a MATLAB array, of any type, as a text column."""
    distinct, codes = np.unique(values, return_inverse=True)
    texts = [None if number != number else f"{number:.15g}" for number in distinct.tolist()]
    chunk = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(texts, pa.utf8()))
    return pa.chunked_array([chunk], TEXTS)


def _line_locator(path: Source, layout: Layout) -> Callable[[int], str]:
    def locate(row: int) -> str:
        rows = (number for number, _ in lines(path, layout.encoding) if number > layout.skip)
        number = next((number for i, number in enumerate(rows) if i == row), None)
        return str(path) if number is None else f"{path}, line {number}"

    return locate


def check_widths(path: Source, encoding: str, width: int, num_columns: Callable[[str], int]) -> None:
    """Raise a UserError for the first line that has not `width` columns, if there is one."""
    for number, line in lines(path, encoding):
        found = num_columns(line)
        if found != width:
            what = f"the line has {found} column{'s' * (found != 1)}, not {width}"
            do = "correct the line, or the options for reading it"
            raise UserError(what, f"{path}, line {number}", do)


def _is_time(value: object) -> bool:
    if isinstance(value, int | float):
        return bool(np.isfinite(value))
    try:
        np.datetime64(str(value).strip())
    except ValueError:
        return str(value).strip().lstrip("+-").isdecimal()
    return True
