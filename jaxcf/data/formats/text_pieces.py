"""The text of delimited files as Arrow parses it: lines in UTF-8, with one character between columns.

Arrow parses blocks of lines at a time, so that a line break within a quoted field would be read or not by where blocks
end. Files with one are refused, whatever their size.
"""

import codecs
import contextvars
import functools
import io
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from jaxcf.data.formats.file_layout import Layout, lines
from jaxfit.errors import UserError
from jaxfit.files.limits import limits
from jaxfit.files.opening import Source

BYTES_AT_ONCE = 1 << 26  # of a file, in a piece
_SEPARATORS = ("\x1f", "\x1e")  # in place of a delimiter of several characters: the first that it does not consist of


class Stream(io.RawIOBase):
    """Pieces of a file as one stream, which Arrow reads in a thread of its own."""

    def __init__(self, pieces: Iterator[bytes]):
        self._pieces, self._rest = pieces, memoryview(b"")
        self._context = contextvars.copy_context()  # with the limits on files

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into a buffer and return their number, 0 at the end."""
        if not self._rest:
            self._rest = memoryview(self._context.run(next, self._pieces, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def separator(layout: Layout) -> str:
    """Return the character between the columns in pieces: the delimiter, or what stands for several characters."""
    sign = layout.delimiter
    return sign if len(sign) == 1 else next(other for other in _SEPARATORS if other not in sign)


def pieces(stream: IO[bytes], path: Source, layout: Layout) -> Iterator[bytes]:
    """Yield the lines of an open file, some at a time.

    Raises:
        UserError: for a line that is not valid in the encoding, or whose columns cannot be told apart.
    """
    sign = separator(layout)
    _, line_break, quoted_sign = _patterns(sign)
    while piece := stream.read(BYTES_AT_ONCE):
        piece = _in_utf8(piece + stream.readline(limits().max_line_mb << 20), path, layout)
        quoted = layout.quoted and b'"' in piece
        if sign != layout.delimiter:
            if sign.encode() in piece:
                require_separable(path, layout)
            replaced = piece.replace(layout.delimiter.encode(), sign.encode())
            piece = _separated(piece, layout) if quoted and _occurs(quoted_sign, replaced) else replaced
        if quoted and _occurs(line_break, piece):
            require_separable(path, layout)
        yield piece


def require_separable(path: Source, layout: Layout) -> None:
    """Raise a UserError for the first line whose columns cannot be told apart, if there is one."""
    sign = separator(layout)
    for number, text in lines(path, layout.encoding, strict=False):
        if sign != layout.delimiter and sign in text:
            raise UserError(f"the line has the control character {sign!r}", f"{path}, line {number}", "remove it")
        if not (layout.quoted and '"' in text):
            continue
        line = text.encode("utf-8", "replace")
        if _patterns(sign)[0].fullmatch(line if sign == layout.delimiter else _separated(line, layout)):
            do = "remove line breaks within quoted fields, or the column, or a quotation mark that stands alone"
            raise UserError("a quoted field does not end in its line", f"{path}, line {number}", do)


def check_lines(paths: Sequence[Source], layout: Layout) -> None:
    """Raise a UserError for the first line of some files that is not laid out like this, if there is one."""
    for path in paths:
        for number, line in lines(path, layout.encoding):
            fault = layout.fault(line)
            if fault:
                do = "correct the line, or the options for reading it"
                do += "" if layout.headings else "; --skip-bad N leaves up to N such lines out"
                raise UserError(fault, f"{path}, line {number}", do)


def _in_utf8(piece: bytes, path: Source, layout: Layout) -> bytes:
    if codecs.lookup(layout.encoding).name == "utf-8":
        return piece.removeprefix(codecs.BOM_UTF8)
    try:
        return codecs.getincrementaldecoder(layout.encoding)().decode(piece, final=True).encode()
    except UnicodeError as error:
        check_lines([path], layout)
        raise UserError(f"the file is not valid {layout.encoding}: {error}", path, "check it") from None


@functools.lru_cache
def _patterns(sign: str) -> tuple[re.Pattern[bytes], str, str]:
    """Return patterns for lines with a sign between columns, in which a quoted field may end as Arrow ends it.

    Returns:
        a line whose last field is quoted and does not end; for Arrow, such a line within a text, and a line with the
        sign within a quoted field.
    """
    sign = f"\\x{ord(sign):02x}"
    quoted = r'"[^"\n]*(?:""[^"\n]*)*'  # up to the quotation mark at its end
    plain = rf'[^"{sign}\r\n][^{sign}\r\n]*'
    unended = rf'(?:(?:{quoted}"(?:{plain})?|{plain})?[{sign}\r])*{quoted}'
    return re.compile(unended.encode()), rf"(?:\A|\n){unended}(?:\n|\z)", rf"(?:\A|\n){unended}{sign}"


def _occurs(pattern: str, text: bytes) -> bool:
    found: bool = pc.match_substring_regex(pa.scalar(text, pa.large_binary()), pattern).as_py()
    return found


def _separated(text: bytes, layout: Layout) -> bytes:
    """Replace the delimiter outside quoted fields."""
    delimiter, sign = layout.delimiter.encode(), separator(layout).encode()
    begin_and_field = rb'(^|\r|%b)("[^"\n]*+(?:""[^"\n]*+)*+")?' % re.escape(delimiter)

    def replaced(match: re.Match[bytes]) -> bytes:
        return (sign if match[1] == delimiter else match[1]) + (match[2] or b"")

    return re.sub(begin_and_field, replaced, text, flags=re.MULTILINE)
