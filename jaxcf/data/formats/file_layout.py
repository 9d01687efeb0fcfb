"""The layout of a file of ratings: how it is opened, its format, delimiter, columns, whether it has a header."""

import codecs
import collections
import contextlib
import functools
import io
import itertools
import os
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from jaxcf.data.formats import quoted_fields
from jaxcf.data.options import Reading
from jaxfit.errors import UserError
from jaxfit.files.opening import Source, is_pipe, lines_of, open_bytes, refuse_special_file, text_decoder

COLUMNS = ("user", "item", "stars", "time")
# names that publishers and programs use for these columns, in lower case and without punctuation
_NAMES = {
    "user": {"user", "userid", "uid", "u", "username", "customer", "customerid", "member", "memberid", "reader",
             "readerid", "reviewer", "reviewerid"},
    "item": {"item", "itemid", "iid", "i", "movie", "movieid", "mid", "film", "filmid", "product", "productid",
             "book", "bookid", "isbn", "asin", "song", "songid", "business", "businessid"},
    "stars": {"stars", "star", "rating", "ratings", "r", "rate", "score", "value", "overall", "bookrating"},
    "time": {"time", "timestamp", "ts", "t", "date", "datetime", "unixreviewtime"},
}  # fmt: skip
COUNTS = "counts"  # wanted with stars: these are counts, whose column may also have one of these names
_COUNT_NAMES = {"count", "counts", "plays", "playcount", "playcounts", "numplays", "listens", "listencount", "views",
                "viewcount", "clicks", "clickcount", "visits", "downloads", "purchases", "quantity", "qty", "frequency",
                "freq", "weight"}  # fmt: skip
PARQUET = b"PAR1"  # how such a file begins
BLOCK = 1 << 22  # bytes that Arrow parses at a time with each thread; a line may not be longer
FIRST_LINES = 100  # of which the layout is that of most, where bad ones are left out
_DELIMITERS = ("::", "\t", ",", ";", "|", " ")
_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "space": " ", "semicolon": ";", "pipe": "|"}


class Layout(NamedTuple):
    """The layout of a file of lines."""

    delimiter: str  # one character, or one repeated
    width: int  # number of columns
    columns: dict[str, int]  # column numbers, from 0, of user, item, stars, time
    skip: int = 0  # lines before the first rating
    quoted: bool = False  # fields may be quoted
    headings: bool = False  # lines may be a movie's number and a colon, as the Netflix Prize's are
    encoding: str = "utf-8"
    taken: str = ""  # which columns were taken as what, and by which rule
    guessed: bool = False  # neither a header nor `--columns` says what the columns are
    header: tuple[str, ...] = ()  # names of all columns, where they alone say what these are

    def split(self, line: str) -> list[str]:
        """Split a line into its fields."""
        quoted = self.quoted and '"' in line
        return quoted_fields.split(line, self.delimiter) if quoted else line.split(self.delimiter)

    def fault(self, line: str) -> str | None:
        """Return what is wrong with a line, if it is not laid out like this."""
        if self.headings and ":" in line:
            what = "the line has a colon, but is not a movie's number and a colon"
            return None if re.fullmatch(r"\s*\d+:\s*", line) else what
        if "\r" in line:
            return "the line has a carriage return inside"
        if len(line) > BLOCK / 4 and len(line.encode("utf-8", "surrogatepass")) > BLOCK:
            return f"the line is longer than {BLOCK >> 20} MB"
        if len(self.delimiter) > 1 and (separator := quoted_fields.separator_of(self.delimiter)) in line:
            return f"the line has the control character {separator!r}"
        found = len(self.split(line))
        return None if found == self.width else f"the line has {found} column{'s' * (found != 1)}, not {self.width}"


@functools.lru_cache(maxsize=64)  # all pipes of a command: a message names a line of one that was read long before
def _piped(path: str, number: int) -> bytes:
    """Read a pipe, which can be read once.

    Args:
        number: number of the pipe in the system, as names are used again.
    """
    refuse_special_file(path)
    if path == "-":
        return sys.stdin.buffer.read()
    with open(path, "rb") as file:
        return file.read()


def opened(path: Source) -> contextlib.AbstractContextManager[IO[bytes]]:
    """Open a file as `jaxfit.files.opening.open_bytes` does, also Parquet; a pipe several times."""
    content = None
    if is_pipe(path):
        number = 0 if str(path) == "-" else os.stat(path).st_ino
        content = io.BufferedReader(io.BytesIO(_piped(str(path), number)))
    return open_bytes(path, content, readable=[PARQUET])


def lines(path: Source, encoding: str, strict: bool = True) -> Iterator[tuple[int, str]]:
    """Read the lines of a file, without line ends, numbered from 1; blank ones are skipped.

    Args:
        strict: whether a line that is not valid in the encoding is an error; else such bytes become U+DC80 to U+DCFF.

    Raises:
        UserError: as `opened`; if the encoding is unknown or its line ends are not one byte, or a line is not
            valid in it.
    """
    text_decoder(encoding)
    try:
        one_byte = b"\n".decode(encoding) == "\n"
    except UnicodeError:
        one_byte = False
    if not one_byte:  # a file is split into lines before it is decoded
        what = f"in {encoding} the end of a line is not the single byte \\n"
        raise UserError(what, "--encoding", "convert the file to utf-8 and leave --encoding out")
    with opened(path) as f:
        for number, line in enumerate(lines_of(f, path), 1):
            codec = "utf-8-sig" if number == 1 and encoding == "utf-8" else encoding
            try:
                text = line.decode(codec, "strict" if strict else "surrogateescape")
            except UnicodeError:
                do = "name the file's encoding, for example --encoding latin-1"
                if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    do = "it is in UTF-16: convert it, iconv -f utf-16 -t utf-8"
                elif b"\0" in line:
                    do = "it does not seem to be text: name another file"
                raise UserError(f"the line is not valid {encoding}", f"{path}, line {number}", do) from None
            text = text.rstrip("\r\n")
            if text:
                yield number, text


def format_of(path: Source, reading: Reading) -> str:
    """Return the format of a file: `netflix`, `mat`, `parquet`, `json` or `delimited`."""
    if reading.format != "auto":
        return reading.format
    if Path(path).is_dir() or re.fullmatch(r".*\.mat:\w+", str(path)):
        return "netflix" if Path(path).is_dir() else "mat"
    with opened(path) as f:
        start = f.read(64)
    if start.startswith((b"MATLAB", b"\x89HDF")):
        return "mat"
    if start.startswith(PARQUET):
        return "parquet"
    if re.match(rb"(\xef\xbb\xbf)?\s*(\[\s*)?\{", start):
        return "json"
    return "netflix" if re.match(rb"(\xef\xbb\xbf)?\s*\d+:\r?\n", start) else "delimited"


def layout_of(path: Source, reading: Reading, wanted: Collection[str]) -> Layout:
    """Detect the layout of a delimited file from its first two lines and the given options.

    Where bad lines are left out, these are the first two that are laid out as most of the first lines are.

    Columns without names are taken as user, item, stars, time, in this order. A first line without numbers is a
    header if it has a column of stars, or if the second line has numbers only. If no stars are wanted, or in a file of
    two columns, only user and item are required.

    Raises:
        UserError: as `lines`; if columns or the delimiter are missing or cannot be detected.
    """
    number = FIRST_LINES if reading.skip_bad else 2
    start = list(itertools.islice(lines(path, reading.encoding, strict=not reading.skip_bad), number))
    if not start:
        raise UserError("the file holds blank lines only", path, "check the name")
    if len(start) == 1 and "\r" in start[0][1]:
        raise UserError("the lines end in carriage returns alone", path, "convert them: tr '\\r' '\\n' < FILE > NEW")
    if reading.skip_bad:
        kinds = [_kind(line, reading) for _, line in start]
        most = collections.Counter(filter(None, kinds)).most_common(1)
        start = [numbered for numbered, kind in zip(start, kinds, strict=True) if not most or kind == most[0][0]]
    skip, line = start[0]
    where = f"{path}, line {skip}"
    layout = _separated(line, reading, where)
    delimiter, rows = layout.delimiter, [layout.split(text) for _, text in start[:2]]
    fields, *second = [[field.strip() for field in row] for row in rows]
    known = _known_columns(fields, COUNTS in wanted)
    in_header = named = {"user", "item"} <= known.keys()
    columns = known if named else dict(zip(COLUMNS, range(len(fields)), strict=False))
    if reading.columns:
        requested = [part.strip() for part in reading.columns.split(",")]
        columns = _requested_columns(requested, fields, where, "stars" not in wanted)
        named = named or not all(part.isdecimal() for part in requested)
    for (number, _), row in zip(start, rows, strict=False):
        if len(delimiter) == 1 and any(re.match(r'\s+"', row[place]) for place in columns.values() if place < len(row)):
            raise UserError("a blank stands before a quoted field", f"{path}, line {number}", "remove such blanks")
    words = all(to_number(field) is None for field in fields)
    numbers_follow = bool(second) and all(to_number(field) is not None for field in second[0])
    header = named or (words and ("stars" in columns or numbers_follow))
    if not named and not reading.columns:
        if delimiter == " " and "" in fields:
            do = "squeeze the spaces: awk '{$1=$1} 1' FILE; or give --delimiter two spaces, if it is always two"
            raise UserError("the columns are not separated by one space each", where, do)
        pairs_in_order = len(fields) == 2 and known.items() <= columns.items()
        if (header and not pairs_in_order) or not 2 <= len(fields) <= 4:
            raise unidentified(fields, where)
    rule = "by --columns" if reading.columns else "by the header" if in_header else _order(delimiter, len(fields))
    return layout._replace(
        width=len(fields),
        columns=columns,
        skip=skip if header else 0,
        taken=taken(columns, fields if header else range(1, len(fields) + 1), rule, wanted),
        guessed=not (reading.columns or in_header),
        header=tuple(fields) if in_header and not reading.columns else (),
    )


def _separated(line: str, reading: Reading, where: str) -> Layout:
    """Return the layout of a line as far as its delimiter tells it."""
    delimiter = _delimiter(line, reading, where)
    return Layout(delimiter, 0, {}, quoted=delimiter in (",", ";") or '"' in line, encoding=reading.encoding)


def _kind(line: str, reading: Reading) -> tuple[str, int] | None:
    """Return the delimiter of a line and the number of its columns, if it has a delimiter."""
    try:
        layout = _separated(line, reading, "")
    except UserError:
        return None
    return layout.delimiter, len(layout.split(line))


def columns_by_name(
    fields: list[str], reading: Reading, where: str, wanted: Collection[str]
) -> tuple[dict[str, int], str]:
    """Find the columns of a file whose columns have names; also return `Layout.taken`.

    Raises:
        UserError: if columns are missing or cannot be identified.
    """
    columns, rule = _known_columns(fields, COUNTS in wanted), "by their names"
    if reading.columns:
        requested = [part.strip() for part in reading.columns.split(",")]
        columns, rule = _requested_columns(requested, fields, where, "stars" not in wanted), "by --columns"
    elif not {"user", "item"} <= columns.keys():
        raise unidentified(fields, where)
    return columns, taken(columns, fields, rule, wanted)


def taken(columns: dict[str, int], names: Sequence[str | int], rule: str, wanted: Collection[str]) -> str:
    """Say which columns were taken as what: "columns 2, 1, 3 as user, item, stars (by --columns)"."""
    chosen = [name for name in COLUMNS if name in columns and name in wanted]
    called = [str(names[columns[name]]) for name in chosen]
    chosen = [COUNTS if name == "stars" and COUNTS in wanted else name for name in chosen]
    return f"columns {', '.join(called)}" + (f" as {', '.join(chosen)}" if called != chosen else "") + f" ({rule})"


def unidentified(fields: list[str], where: str) -> UserError:
    """Return the error of a file whose columns are not known by their names."""
    do = "name or number those of user, item and stars, in this order: --columns USER,ITEM,STARS"
    return UserError(f"the columns cannot be identified: {', '.join(fields)}", where, do)


def without_stars(header: Sequence[str], where: str, counts: bool) -> UserError | None:
    """Return the error of a file with a header that says which columns are users and items, but not which has stars.

    Args:
        counts: whether these are counts; then a header of a user, an item and perhaps a time is none: each count is 1.
    """
    known = _known_columns(header, counts)
    others = [name for column, name in enumerate(header) if column not in known.values()]
    if counts and not others:
        return None
    pair = [header[known["user"]], header[known["item"]]]
    kind, values = ("counts", "count") if counts else ("ratings", "stars")
    example = shlex.quote(",".join([*pair, *others[:1]]))
    do = f"the columns are {', '.join(header)}: name those of user, item and {values}, as --columns {example}"
    if counts:
        do += f", or of pairs alone: --columns {shlex.quote(','.join(pair))}"
    return UserError(f"no column, or more than one, is named as {kind} are", where, do)


def _order(delimiter: str, width: int) -> str:
    """State the rule for columns that nothing names: they are taken in order."""
    known = {"::": "in the order of MovieLens' ratings.dat", "\t": "in the order of MovieLens' u.data"}
    return known[delimiter] if delimiter in known and width == 4 else "in this order: no header names them"


def _delimiter(line: str, reading: Reading, where: str) -> str:
    given = reading.delimiter
    if given is None:
        found = next((delimiter for delimiter in _DELIMITERS if delimiter in line), None)
        if found == ",":  # which may be inside numbers or names
            commas = line.count(",")
            if reading.decimal == ",":
                found = next((other for other in (";", "|") if other in line), " " if line.count(" ") > commas else ",")
            elif line.count(";") > commas:
                found = ";"
        if found is None:
            raise UserError("the line has no known delimiter", where, "give what separates columns: --delimiter")
        return found
    text = _DELIMITER_NAMES.get(given, given)
    if not text or text != text[0] * len(text) or not text[0].isascii() or text[0] in '"\r\n':
        do = "give one character, or one repeated, for example ::"
        raise UserError(f"{given!r} cannot separate columns", "--delimiter", do)
    if text not in line:
        raise UserError(f"the delimiter {given!r} is not in the line", where, "check --delimiter")
    return text


def _requested_columns(requested: list[str], fields: list[str], where: str, pairs: bool) -> dict[str, int]:
    if not 2 <= len(requested) <= 4:
        do = "name those of user, item, stars and time, in this order; the last one or two are optional"
        raise UserError(f"--columns names {len(requested)} columns", None, do)
    two = len(fields) == 2
    if two and len(requested) > 2 and all(part.isdecimal() for part in requested):
        # numbers in a file of ratings, of which a file of pairs has the columns of user and item only
        order = sorted(requested[:2], key=int)
        requested = [str(order.index(part) + 1) for part in requested[:2]]
    columns = {}
    for name, part in zip(COLUMNS, requested, strict=False):
        if part.isdecimal() and len(part) < 10 and 1 <= int(part) <= len(fields):
            columns[name] = int(part) - 1
        elif part in fields and not part.isdecimal():
            columns[name] = fields.index(part)
        elif name in ("user", "item") or not (pairs or two):
            raise UserError(f"there is no column {part!r}", where, f"the columns are {', '.join(fields)}")
    if len(set(columns.values())) < len(columns):
        raise UserError(f"--columns names a column twice: {','.join(requested)}", None, "name each once")
    return columns


def _known_columns(fields: Sequence[str], counts: bool) -> dict[str, int]:
    plain = [re.sub(r"[\s_\-.]", "", text).lower() for text in fields]
    found = {}
    for name, known in _NAMES.items():
        names = known | _COUNT_NAMES if counts and name == "stars" else known
        matching = [column for column, text in enumerate(plain) if text in names]
        if len(matching) == 1:
            found[name] = matching[0]
    return found


def to_number(text: str) -> float | None:
    """Return the number that a text is, if it is one; digits are not divided, as Python's may be: 4_5 is none."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
