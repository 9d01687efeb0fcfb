"""Opening the files that a user names: gzip, standard input, and errors that say what to do. Free of JAX."""

import codecs
import contextlib
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from typing import IO, cast

from jaxfit.errors import UserError

Source = str | os.PathLike[str]


@contextlib.contextmanager
def open_bytes(path: Source, standard_input: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """Open a file, or standard input (`-`), for reading bytes; gzip is recognised and decompressed.

    Args:
        path: the file.
        standard_input: a buffered stream to read instead of `sys.stdin` if `path` is `-`.

    Raises:
        UserError: if the file is missing, a directory, empty, a zip archive or a damaged gzip file, or cannot
            be read; also for such errors that occur while the caller reads.
    """
    try:
        with contextlib.ExitStack() as stack:
            if str(path) == "-":
                raw = cast(io.BufferedReader, standard_input or sys.stdin.buffer)
            else:
                raw = stack.enter_context(open(path, "rb"))
            start = raw.peek(4)[:4]
            if not start:
                raise UserError("the file is empty", path, "check the name")
            if start == b"PK\x03\x04":
                raise UserError("the file is a zip archive", path, "unpack it and name the file inside")
            gzipped = start[:2] == b"\x1f\x8b"
            yield cast(IO[bytes], stack.enter_context(gzip.open(raw))) if gzipped else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"the gzip file is damaged: {error}", path, "fetch or compress it again") from None
    except IsADirectoryError:
        raise UserError("a directory was given instead of a file", path, "name a file inside it") from None
    except FileNotFoundError:
        raise UserError("there is no such file", path, "check the name") from None
    except OSError as error:
        raise UserError(f"the file cannot be read: {error.strerror or error}", path, "check it") from None


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
