"""Files of the Netflix Prize: one section per movie, which begins with the movie's number and a colon.

The lines of a section are `user,stars,date` (`mv_0000001.txt`, `combined_data_1.txt`), `user,date` (`qualifying.txt`)
or `user` (`probe.txt`).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from jaxcf.data.file_layout import Reading, lines, opened
from jaxcf.data.parsing import BLOCK, TEXTS, Columns, check_widths, join, part_of, seconds
from jaxfit.cli.input_files import Source
from jaxfit.errors import UserError

BATCH = 1 << 27  # bytes of small files parsed at a time
_WIDTHS = {1: ("user",), 2: ("user", "time"), 3: ("user", "stars", "time")}


class Section(NamedTuple):
    """A movie's lines in a file."""

    path: Source
    number: int  # position of the section in its file, from 0
    item: str
    rows: int


def netflix(path: Source, _: Reading, pairs: bool = False) -> Columns:
    """Read a file or a folder of the Netflix Prize; dates become seconds since 1970.

    A folder holds `mv_*.txt` (or has a folder `training_set` that does), or `combined_data_*.txt`.

    Raises:
        UserError: as `jaxcf.data.file_layout.opened`; if a folder has no such files, or a line has other columns
            than the first.
    """
    batches = [_parse(sections, body, pairs) for sections, body in _batches(_files(path))]
    if not batches:
        what = "pairs of user and item" if pairs else "ratings"
        raise UserError(f"the file holds no {what}", path, f"give a file of {what}")
    return join(batches)


def _files(path: Source) -> list[Source]:
    if not Path(path).is_dir():
        return [path]
    for pattern in ("mv_*.txt", "training_set/mv_*.txt", "combined_data_*.txt"):
        found = sorted(p for name in (pattern, f"{pattern}.gz") for p in Path(path).glob(name))
        if found:
            return list(found)
    do = "name a file inside it, or a folder of the Netflix Prize with mv_*.txt or combined_data_*.txt"
    raise UserError("a directory was given instead of a file of ratings", path, do)


def _batches(files: list[Source]) -> Iterator[tuple[list[Section], bytes]]:
    """Yield the sections of some files at a time, and their lines without the headings."""
    sections: list[Section] = []
    bodies: list[bytes] = []
    size = 0
    for file in files:
        more, body = _sections(file)
        sections += more
        bodies.append(body)
        size += len(body)
        if size >= BATCH:
            yield sections, b"".join(bodies)
            sections, bodies, size = [], [], 0
    if size:
        yield sections, b"".join(bodies)


def _sections(file: Source) -> tuple[list[Section], bytes]:
    with opened(file) as f:
        data = f.read().removeprefix(b"\xef\xbb\xbf")
    if not re.match(rb"\s*\d+:\s*\n", data):
        do = "give a file in the format of the Netflix Prize, or leave --format auto"
        raise UserError("the file does not begin with a movie's number and a colon", f"{file}, line 1", do)
    sections: list[Section] = []
    pieces = []
    colon = data.find(b":")
    while colon >= 0:
        item = data[data.rfind(b"\n", 0, colon) + 1 : colon].strip()
        start = data.find(b"\n", colon) + 1 or len(data)
        if not item.isdigit() or data[colon + 1 : start].strip():
            line = data.count(b"\n", 0, colon) + 1
            what = "the line has a colon, but is not a movie's number and a colon"
            raise UserError(what, f"{file}, line {line}", "correct the line")
        colon = data.find(b":", colon + 1)
        end = data.rfind(b"\n", 0, colon) + 1 if colon >= 0 else len(data)
        piece = data[start:end].strip(b"\r\n")
        sections.append(Section(file, len(sections), item.decode("ascii", "replace"), piece.count(b"\n") + bool(piece)))
        if piece:
            pieces.append(piece + b"\n")
    return sections, b"".join(pieces)


def _parse(sections: list[Section], body: bytes, pairs: bool) -> Columns:
    ends = np.cumsum([section.rows for section in sections])

    def locate(row: int) -> str:
        section, row = part_of(ends, row)
        return _line(sections[section], row)

    names = _WIDTHS.get(body[: body.find(b"\n")].count(b",") + 1, _WIDTHS[3])
    wanted = [name for name in names if not pairs or name == "user"]
    options = pcsv.ConvertOptions(
        column_types={"user": TEXTS, "stars": TEXTS}, include_columns=wanted, strings_can_be_null=True
    )
    try:
        table = pcsv.read_csv(
            pa.BufferReader(body),
            pcsv.ReadOptions(block_size=BLOCK, column_names=names),
            pcsv.ParseOptions(quote_char=False),
            options,
        )
    except pa.ArrowException as error:
        _check_sections(sections, len(names))
        raise UserError(f"the file cannot be parsed: {error}", sections[0].path, "check it") from None
    if table.num_rows != int(ends[-1]):
        _check_sections(sections, len(names))
        raise UserError("the file has blank lines among its ratings", sections[0].path, "remove them")
    movies = np.repeat(np.arange(len(sections), dtype=np.int32), [section.rows for section in sections])
    items = pa.array([section.item for section in sections], pa.utf8())
    item = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(movies), items)], TEXTS)
    time = seconds(table["time"], locate) if "time" in wanted else None
    return Columns(table["user"], item, table["stars"] if "stars" in wanted else None, time, locate)


def _line(section: Section, row: int) -> str:
    """Return the file and line of a row of a section."""
    number = -1
    for line, text in lines(section.path, "utf-8"):
        if text.rstrip().endswith(":"):
            number += 1
        elif number == section.number:
            if row == 0:
                return f"{section.path}, line {line}"
            row -= 1
    return str(section.path)


def _check_sections(sections: list[Section], width: int) -> None:
    """Raise a UserError for the first line, headings aside, that has not `width` columns, if there is one."""

    def num_columns(line: str) -> int:
        return width if re.fullmatch(r"\d+:\s*", line) else line.count(",") + 1

    for path in dict.fromkeys(section.path for section in sections):
        check_widths(path, "utf-8", width, num_columns)
