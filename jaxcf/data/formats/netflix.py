"""Files of the Netflix Prize: one section per movie, which begins with the movie's number and a colon.

The lines of a section are `user,stars,date` (`mv_0000001.txt`, `combined_data_1.txt`), `user,date` (`qualifying.txt`)
or `user` (`probe.txt`).
"""

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jaxcf.data.formats.file_layout import Layout, opened
from jaxcf.data.formats.parsing import Part, line_locator, no_rows, of_table, parse
from jaxcf.data.formats.text_pieces import check_lines
from jaxcf.data.options import Reading
from jaxfit.errors import UserError
from jaxfit.files.opening import Source

BATCH = 1 << 27  # bytes of small files parsed at a time
_WIDTHS = {1: ("user",), 2: ("user", "time"), 3: ("user", "stars", "time")}


def netflix(path: Source, _: Reading, columns: Collection[str]) -> Iterator[Part]:
    """Read some columns of a file or a folder of the Netflix Prize; dates become seconds since 1970.

    A folder holds `mv_*.txt` (or has a folder `training_set` that does), or `combined_data_*.txt`. Raises UserError for
    another folder, a file that cannot be opened, a line with other columns than the first, or headings only.
    """
    taken: tuple[tuple[str, str], ...] = ((str(path), "the layout of the Netflix Prize"),)
    rows = 0
    for files, data in _batches(_files(path)):
        table, locate = _parse(files, data, columns)
        yield of_table(table, locate)._replace(taken=taken)
        rows, taken = rows + table.num_rows, ()
    if not rows:
        raise no_rows(path, "stars" not in columns)


def _files(path: Source) -> list[Source]:
    if not Path(path).is_dir():
        return [path]
    for pattern in ("mv_*.txt", "training_set/mv_*.txt", "combined_data_*.txt"):
        found = sorted(p for name in (pattern, f"{pattern}.gz") for p in Path(path).glob(name))
        if found:
            return list(found)
    do = "name a file inside it, or a folder of the Netflix Prize with mv_*.txt or combined_data_*.txt"
    raise UserError("a directory was given instead of a file of ratings", path, do)


def _batches(files: list[Source]) -> Iterator[tuple[list[Source], bytes]]:
    """Yield some files at a time, and their lines."""
    contents: dict[Source, bytes] = {}
    size = 0
    for file in files:
        with opened(file) as f:
            data = contents[file] = f.read().removeprefix(b"\xef\xbb\xbf")
        if not re.match(rb"[\r\n]*[^\S\r\n]*\d+:\s*\n", data):
            do = "give a file in the format of the Netflix Prize, or leave --format auto"
            raise UserError("the file does not begin with a movie's number and a colon", f"{file}, line 1", do)
        size += len(data)
        if size >= BATCH or file == files[-1]:
            yield list(contents), b"\n".join(contents.values())
            contents, size = {}, 0


def _parse(files: list[Source], data: bytes, columns: Collection[str]) -> tuple[pa.Table, Callable[[int], str]]:
    """Parse the lines of some files, and return what returns file and line of a row.

    A heading `17:` is completed to `17:,,`, so that every line has all columns; rows whose user contains a colon are
    headings.
    """
    first = re.match(rb"(\s*\d+:\s*\n)+(.*)", data)  # the headings before the first rating, and its line
    assert first is not None
    names = _WIDTHS.get(first[2].count(b",") + 1, _WIDTHS[3])
    layout = Layout(",", len(names), {name: i for i, name in enumerate(names)}, headings=True)
    data, completed = re.subn(rb":[^\S\n]*$", b":" + b"," * (len(names) - 1), data, flags=re.MULTILINE)
    if completed < data.count(b":"):  # a colon that ends no line
        check_lines(files, layout)
    table = parse(pa.BufferReader(data), layout, files, [name for name in names if name in columns])
    is_heading, movies = _headings(table)
    if not pc.all(pc.match_substring_regex(movies, "^[0-9]+$")).as_py():
        check_lines(files, layout)
    movie = np.cumsum(is_heading, dtype=np.int32)[~is_heading] - 1  # of each rating, its place in `movies`
    item = pa.DictionaryArray.from_arrays(pa.array(movie), movies)
    ratings = table.filter(pa.array(~is_heading)).append_column("item", item)
    locate = line_locator(files, layout)
    return ratings, lambda row: locate(np.flatnonzero(~is_heading)[row])


def _headings(table: pa.Table) -> tuple[np.ndarray, pa.Array]:
    """Return which rows are headings, bool [rows], and the movie ids in these, text [headings]."""
    chunks = [pc.match_substring(chunk.dictionary, ":").take(chunk.indices) for chunk in table["user"].chunks]
    mask = pc.fill_null(pa.chunked_array(chunks, pa.bool_()), False)
    headings = table["user"].filter(mask).cast(pa.utf8()).combine_chunks()
    return mask.to_numpy(), pc.utf8_rtrim(pc.utf8_trim_whitespace(headings), ":")
