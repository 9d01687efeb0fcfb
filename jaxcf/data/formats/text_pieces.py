"""The text of delimited files as Arrow parses it: lines in UTF-8, with one character between columns.

Arrow parses blocks of lines at a time, so that a line break within a quoted field would be read or not by where blocks
end. Files with one are refused, whatever their size; a carriage return alone is such a line break too.
"""

import codecs
import contextvars
import io
from collections.abc import Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from jaxcf.data.formats.file_layout import Layout, lines
from jaxcf.data.formats.quoted_fields import separated, separator_of, unended
from jaxfit.errors import UserError
from jaxfit.files.limits import limits
from jaxfit.files.opening import Source

BYTES_AT_ONCE = 1 << 26  # of a file, in a piece


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


def pieces(stream: IO[bytes], path: Source, layout: Layout) -> Iterator[bytes]:
    """Yield the lines of an open file, some at a time.

    Raises:
        UserError: for a line that is not valid in the encoding, or whose columns cannot be told apart.
    """
    separator = separator_of(layout.delimiter)
    while piece := stream.read(BYTES_AT_ONCE):
        piece = _in_utf8(piece + stream.readline(limits().max_line_mb << 20), path, layout)
        quoted = layout.quoted and b'"' in piece
        if separator != layout.delimiter:
            if separator.encode() in piece:
                check_lines([path], layout)
            delimiter = layout.delimiter.encode()
            piece = separated(piece, layout.delimiter) if quoted else piece.replace(delimiter, separator.encode())
        if quoted and _occurs(unended(separator)[1], piece):
            require_quotes_to_end(path, layout)
        yield piece


def require_quotes_to_end(path: Source, layout: Layout, skip_bad: bool = False) -> None:
    """Raise a UserError for the first line in which a quoted field does not end, if there is one.

    Args:
        skip_bad: whether a line with a carriage return inside is left out, which is then no line break for Arrow.
    """
    if not layout.quoted:
        return
    pattern = unended(separator_of(layout.delimiter))[0]
    for number, text in lines(path, layout.encoding, strict=False):
        if '"' not in text:
            continue
        text = text.replace("\r", " ") if skip_bad else text
        if pattern.match(separated(text.encode("utf-8", "replace"), layout.delimiter)):
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
        return piece.decode(layout.encoding).encode()
    except UnicodeError as error:
        check_lines([path], layout)
        raise UserError(f"the file is not valid {layout.encoding}: {error}", path, "check it") from None


def _occurs(pattern: str, text: bytes) -> bool:
    found: bool = pc.match_substring_regex(pa.scalar(text, pa.large_binary()), pattern).as_py()
    return found
