"""Opening the files that a user names: gzip, bzip2 and xz, standard input, errors that say what to do. Free of JAX."""

import bz2
import codecs
import contextlib
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from jaxfit.errors import UserError

Source = str | os.PathLike[str]

# how compressed files begin: they are decompressed
_COMPRESSED: tuple[tuple[bytes, str, Callable[[IO[bytes]], Any]], ...] = (
    (rb"\x1f\x8b", "gzip", gzip.open),
    (rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", "bzip2", bz2.open),
    (rb"\xfd7zXZ\0", "xz", lzma.open),
)
# how files begin that no command reads: what they are, what to do
_UNREADABLE = (
    (
        rb"PK\x03\x04.{26}(\[Content_Types\]|_rels/|docProps/|xl/|word/|mimetypeapplication/vnd\.oasis)",
        "an Office document (xlsx, docx, ods)",
        "save it as CSV or plain text",
    ),
    (rb"PK\x03\x04", "a zip archive", "unpack it and name the file inside"),
    (rb"7z\xbc\xaf", "a 7z archive", "unpack it and name the file inside"),
    (rb"Rar!\x1a\x07", "a rar archive", "unpack it and name the file inside"),
    (rb"\x28\xb5\x2f\xfd", "compressed by zstd", "decompress it: zstd -d FILE"),
    (rb"\xd0\xcf\x11\xe0", "an Office document (xls, doc)", "save it as CSV or plain text"),
    (rb"%PDF-", "a PDF document", "save it as plain text"),
    (rb"SQLite format 3\0", "an SQLite database", "save its table as CSV"),
    (rb"ARROW1\0\0", "an Arrow (Feather) file", "save it as Parquet or CSV"),
    (rb"\x93NUMPY", "a NumPy array", "save it as text: numpy.savetxt"),
)


@contextlib.contextmanager
def open_bytes(path: Source, standard_input: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """Open a file, or standard input (`-`), for reading bytes; gzip, bzip2 and xz are recognised and decompressed.

    Args:
        path: the file.
        standard_input: a buffered stream to read instead of `sys.stdin` if `path` is `-`.

    Raises:
        UserError: if the file is missing, a directory, empty, of a kind that cannot be read (a zip archive, a
            spreadsheet, …) or damaged, or cannot be read; also for such errors that occur while the caller reads.
    """
    compression = None
    try:
        with contextlib.ExitStack() as stack:
            if str(path) == "-":
                raw = cast(io.BufferedReader, standard_input or sys.stdin.buffer)
            else:
                raw = stack.enter_context(open(path, "rb"))
            start = raw.peek(64)[:64]
            if not start:
                raise UserError("the file is empty", path, "check the name")
            for pattern, kind, do in _UNREADABLE:
                if re.match(pattern, start, re.DOTALL):
                    raise UserError(f"the file is {kind}", path, do)
            found = next((known for known in _COMPRESSED if re.match(known[0], start)), None)
            if found:
                _, compression, decompressed = found
                raw = stack.enter_context(decompressed(raw))
            yield cast(IO[bytes], raw)
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise UserError(f"the {compression} file is damaged: {error}", path, "fetch or compress it again") from None
    except IsADirectoryError:
        raise UserError("a directory was given instead of a file", path, "name a file inside it") from None
    except FileNotFoundError:
        raise UserError("there is no such file", path, "check the name") from None
    except OSError as error:
        damaged = compression is not None and error.errno is None  # as bzip2 says it
        what = f"the {compression} file is damaged" if damaged else "the file cannot be read"
        raise UserError(f"{what}: {error.strerror or error}", path, "check it") from None


def text_decoder(encoding: str) -> codecs.IncrementalDecoder:
    """Return a decoder for a text encoding.

    Raises:
        UserError: if Python has no text encoding of this name.
    """
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
        if isinstance(decoder.decode(b""), str):
            return decoder
    except (LookupError, UnicodeError):
        pass
    do = "name an encoding that Python knows, for example utf-8 or latin-1"
    raise UserError(f"unknown encoding {encoding!r}", do=do)
