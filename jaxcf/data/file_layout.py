"""How a file of ratings is laid out: opening it, its delimiter, its columns, whether it has a header."""

import contextlib
import csv
import functools
import gzip
import io
import itertools
import os
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, NamedTuple, cast

import pyarrow as pa

from jaxfit.errors import UserError

Source = str | os.PathLike[str]
COLUMNS = ("user", "item", "stars", "time")
# names that publishers and programs give to these columns, without case and signs
_NAMES = {
    "user": {"user", "userid", "uid", "u", "customer", "customerid", "member", "memberid", "reviewer", "reviewerid"},
    "item": {"item", "itemid", "iid", "i", "movie", "movieid", "mid", "film", "filmid", "product", "productid",
             "book", "bookid", "isbn", "asin", "song", "songid", "business", "businessid"},
    "stars": {"stars", "star", "rating", "ratings", "score", "value", "overall", "bookrating"},
    "time": {"time", "timestamp", "ts", "date", "datetime", "unixreviewtime"},
}  # fmt: skip
_DELIMITERS = ("::", "\t", ",", ";", "|", " ")
_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "space": " ", "semicolon": ";", "pipe": "|"}


@dataclass(frozen=True)
class Reading:
    """How files of ratings are read; what is not given is seen in the file."""

    format: Literal["auto", "delimited", "netflix", "mat"] = field(
        default="auto", metadata={"help": "layout of the ratings files"}
    )
    columns: str | None = field(
        default=None,
        metadata={"help": "columns of user, item, stars and time (the last one or two may be left out), by their "
                  "names or by their numbers from 1, as userId,movieId,rating or 2,1,3; in files of pairs those "
                  "of user and item count"},
    )  # fmt: skip
    delimiter: str | None = field(
        default=None,
        metadata={"help": "what separates columns: tab, comma, space, or the sign itself, as ::"},
    )
    scale: str | None = field(
        default=None,
        metadata={"help": "the ratings there are, as LOW,HIGH,STEP; step 0 for any value between"},
    )
    duplicates: Literal["error", "last", "first", "mean"] = field(
        default="error", metadata={"help": "what to do where a user has rated an item more than once"}
    )
    encoding: str = field(default="utf-8", metadata={"help": "encoding of the ratings files"})


class Layout(NamedTuple):
    """How a delimited file is laid out."""

    delimiter: str  # one character …
    repeat: int  # … this many times
    width: int  # columns in a line
    places: dict[str, int]  # from user, item, stars, time to the column, from 0
    skip: int  # lines before the first rating
    quoted: bool  # fields may stand in quotes
    encoding: str

    def split(self, line: str) -> list[str]:
        """The fields of a line."""
        if self.quoted and '"' in line and self.repeat == 1:
            return next(csv.reader([line], delimiter=self.delimiter), [])
        return line.split(self.delimiter * self.repeat)


@functools.cache
def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


@contextlib.contextmanager
def opened(path: Source) -> Iterator[IO[bytes]]:
    """Open a file or standard input (`-`) for bytes, through gzip where it is gzipped.

    Raises:
        UserError: no such file, a directory, an empty file, a damaged gzip file, a zip archive.
    """
    try:
        with contextlib.ExitStack() as stack:
            raw = io.BytesIO(_standard_input()) if str(path) == "-" else stack.enter_context(open(path, "rb"))
            magic = raw.read(4)
            raw.seek(0)
            if not magic:
                raise UserError("the file is empty", path, "check the name")
            if magic == b"PK\x03\x04":
                raise UserError("the file is a zip archive", path, "unpack it and name the file in it")
            zipped = magic[:2] == b"\x1f\x8b"
            yield cast(IO[bytes], stack.enter_context(gzip.open(raw))) if zipped else cast(IO[bytes], raw)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"the gzip file is damaged: {error}", path, "fetch or compress it again") from None
    except IsADirectoryError:
        do = "name the file in it; only the Netflix Prize's folders of mv_*.txt or combined_data_*.txt are read whole"
        raise UserError("a directory stands where a file should", path, do) from None
    except FileNotFoundError:
        raise UserError("there is no such file", path, "check the name") from None
    except OSError as error:
        raise UserError(f"the file cannot be read: {error.strerror or error}", path, "check it") from None


@contextlib.contextmanager
def arrow_stream(path: Source) -> Iterator[pa.NativeFile]:
    """Open a file as `opened` does, for the parser of Arrow."""
    with opened(path) as f:
        zipped = isinstance(f, gzip.GzipFile)
    source = pa.BufferReader(_standard_input()) if str(path) == "-" else pa.OSFile(os.fspath(path), "rb")
    with source, pa.CompressedInputStream(source, "gzip") if zipped else source as stream:
        yield stream


def lines(path: Source, encoding: str) -> Iterator[tuple[int, str]]:
    """The lines of a file without their ends, numbered from 1, blank ones left out.

    Raises:
        UserError: as `opened`; an encoding that there is not, or whose line ends are not one byte; bytes that are
            not of the encoding.
    """
    _check_encoding(encoding)
    with opened(path) as f:
        for number, line in enumerate(f, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 and encoding == "utf-8" else encoding)
            except UnicodeDecodeError:
                do = "name the file's encoding, for example --encoding latin-1"
                raise UserError(f"the line is not valid {encoding}", f"{path}, line {number}", do) from None
            text = text.rstrip("\r\n")
            if text:
                yield number, text


def _check_encoding(encoding: str) -> None:
    try:
        readable = b"\n".decode(encoding) == "\n"
    except LookupError:
        do = "name one that Python knows, as utf-8 or latin-1"
        raise UserError(f"unknown encoding {encoding!r}", None, do) from None
    except UnicodeError:
        readable = False
    if not readable:  # lines are told apart before they are decoded
        what = f"in {encoding} the end of a line is not the one byte \\n"
        raise UserError(what, "--encoding", "convert the file to utf-8 and leave --encoding out")


def kind_of(path: Source, reading: Reading) -> str:
    """Tell the layout of a file: `netflix`, `mat` or `delimited`."""
    if reading.format != "auto":
        return reading.format
    if Path(path).is_dir() or re.fullmatch(r".*\.mat:\w+", str(path)):
        return "netflix" if Path(path).is_dir() else "mat"
    with opened(path) as f:
        start = f.read(64)
    if start.startswith((b"MATLAB", b"\x89HDF")):
        return "mat"
    return "netflix" if re.match(rb"(\xef\xbb\xbf)?\s*\d+:\r?\n", start) else "delimited"


def layout_of(path: Source, reading: Reading, pairs: bool = False) -> Layout:
    """See how a delimited file is laid out, from its first two lines and from what is given.

    Columns without names are user, item, stars, time, as far as there are any. A line without numbers is a header
    where stars should stand in it, or above a line of numbers only. With `pairs`, and where there are but two
    columns, those of user and item are all that must be there.

    Raises:
        UserError: as `lines`; columns or a delimiter that cannot be told or are not there.
    """
    start = list(itertools.islice(lines(path, reading.encoding), 2))
    if not start:
        raise UserError("the file holds blank lines only", path, "check the name")
    number, line = start[0]
    where = f"{path}, line {number}"
    sign = _delimiter(line, reading.delimiter, where)
    quoted = sign in (",", ";") or '"' in line
    layout = Layout(sign[0], len(sign), 0, {}, 0, quoted, reading.encoding)
    rows = [[text.strip() for text in layout.split(text)] for _, text in start]
    fields, last = rows[0], rows[-1]  # the same where there is but one line
    asked = [part.strip() for part in reading.columns.split(",")] if reading.columns else None
    known = _known_places(fields)
    named = {"user", "item"} <= known.keys()
    if asked is not None:
        places = _asked_places(asked, fields, where, pairs)
        named = named or not all(part.isdecimal() for part in asked)
    else:
        places = known if named else dict(zip(COLUMNS, range(len(fields)), strict=False))
    words = not any(map(_is_number, fields))
    header = named or (words and ("stars" in places or all(map(_is_number, last))))
    if asked is None and not named:
        _check_unnamed(fields, header, sign, where)
    return layout._replace(width=len(fields), places=places, skip=number if header else 0)


def _check_unnamed(fields: list[str], header: bool, sign: str, where: str) -> None:
    """Raise a UserError where columns without known names are not to be taken in their order."""
    if sign == " " and "" in fields:
        do = (
            "squeeze the spaces: awk '{$1=$1} 1' FILE; or give --delimiter two spaces, where it is always two"
        )
        raise UserError("the columns are not separated by one space each", where, do)
    pairs = len(fields) == 2 and _known_places(fields).items() <= {"user": 0, "item": 1}.items()
    if (header and not pairs) or not 2 <= len(fields) <= 4:
        what = f"the columns cannot be told: {', '.join(fields)}"
        raise UserError(what, where, "say which they are: --columns USER,ITEM,STARS by name or number")


def _delimiter(line: str, given: str | None, where: str) -> str:
    if given is None:
        sign = next((sign for sign in _DELIMITERS if sign in line), None)
        if sign is None:
            raise UserError("no delimiter is in the line", where, "say what separates columns: --delimiter")
        return sign
    sign = _DELIMITER_NAMES.get(given, given)
    if not sign or sign != sign[0] * len(sign) or len(sign[0].encode()) > 1 or sign[0] in '"\r\n':
        raise UserError(
            f"{given!r} cannot separate columns", "--delimiter", "give one sign, or one repeated, as ::"
        )
    if sign not in line:
        raise UserError(f"the delimiter {given!r} is not in the line", where, "check --delimiter")
    return sign


def _asked_places(asked: list[str], fields: list[str], where: str, pairs: bool) -> dict[str, int]:
    if not 2 <= len(asked) <= 4:
        do = "name those of user, item, stars and time, in this order, the last one or two left out or not"
        raise UserError(f"--columns names {len(asked)} columns", None, do)
    two = len(fields) == 2
    if two and len(asked) > 2 and all(part.isdecimal() for part in asked):
        order = sorted(asked[:2], key=int)  # what is left of the columns of a file of ratings
        asked = [str(order.index(part) + 1) for part in asked[:2]]
    places = {}
    for name, part in zip(COLUMNS, asked, strict=False):
        if part.isdecimal() and 1 <= int(part) <= len(fields):
            places[name] = int(part) - 1
        elif part in fields and not part.isdecimal():
            places[name] = fields.index(part)
        elif name in ("user", "item") or not (pairs or two):
            raise UserError(f"there is no column {part!r}", where, f"the columns are {', '.join(fields)}")
    if len(set(places.values())) < len(places):
        raise UserError(f"--columns names a column twice: {','.join(asked)}", None, "name each once")
    return places


def _known_places(fields: list[str]) -> dict[str, int]:
    plain = [re.sub(r"[\s_\-.]", "", text).lower() for text in fields]
    found = {}
    for name, known in _NAMES.items():
        matching = [place for place, text in enumerate(plain) if text in known]
        if len(matching) == 1:
            found[name] = matching[0]
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
