"""Opening the files that a user names: compression, standard input, and errors that say what to do. Free of JAX."""

import bz2
import codecs
import contextlib
import functools
import gzip
import io
import lzma
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from jaxfit.errors import UserError
from jaxfit.files.limits import Source, bounded, limits

# how files begin that are not plain text; of compressed ones a pattern
COMPRESSED: dict[bytes, tuple[str, Callable[[Any], Any]]] = {
    rb"\x1f\x8b": ("gzip", gzip.open),
    rb"BZh[1-9](1A|\x17r)": ("bzip2", bz2.open),
    rb"\xfd7zXZ\x00": ("xz", lzma.open),
}
KINDS = {
    b"PAR1": "a parquet file",
    b"ARROW1": "an Arrow (Feather) file",
    b"%PDF-": "a PDF file",
    b"\xd0\xcf\x11\xe0": "an old Office file (doc, xls)",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"7z\xbc\xaf": "a 7z archive",
}
ZIP = b"PK\x03\x04"
OFFICE = {"word/": "a Word document", "xl/": "an Excel workbook", "ppt/": "a PowerPoint file"}
SPECIAL = {stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket", stat.S_IFIFO: "a named pipe"}
# a pipe that the shell has opened: <(zcat ratings.gz)
DESCRIPTOR = re.compile(r"/dev/(fd/\d+|stdin)|/proc/(self|\d+)/fd/\d+")


@contextlib.contextmanager
def open_bytes(path: Source, content: IO[bytes] | None = None, readable: Collection[bytes] = ()) -> Iterator[IO[bytes]]:
    """Open a file, or standard input (`-`), for reading bytes; gzip, bzip2 and xz are recognised and decompressed.

    Args:
        path: the file.
        content: a buffered stream to read in place of the file, of what it holds.
        readable: how files begin (as in `KINDS`) that the caller reads although they are no plain text.

    Raises:
        UserError: if the file is missing, a directory, a device, a named pipe, empty, an archive or a document,
            damaged, or cannot be read, or expands beyond `Limits`; also for such errors while the caller reads.
    """
    compression = ""
    try:
        with contextlib.ExitStack() as stack:
            refuse_special_file(path)
            if content is not None or str(path) == "-":
                raw = cast(io.BufferedReader, content or sys.stdin.buffer)
            else:
                raw = stack.enter_context(open(path, "rb"))
            start = raw.peek(6)[:6]
            if not start:
                raise UserError("the file is empty", path, "check the name")
            if start[:4] not in readable:
                _require_text(start, path)
            found = next((known for magic, known in COMPRESSED.items() if re.match(magic, start)), None)
            if found is None:
                yield raw
            else:
                compression, decompress = found
                yield stack.enter_context(bounded(raw, decompress, compression, path))
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise UserError(f"the {compression} file is damaged: {error}", path, "fetch or compress it again") from None
    except IsADirectoryError:
        raise UserError("a directory was given instead of a file", path, "name a file inside it") from None
    except FileNotFoundError:
        raise UserError("there is no such file", path or "''", "check the name") from None
    except OSError as error:
        raise UserError(f"the file cannot be read: {error.strerror or error}", path, "check it") from None


def is_pipe(path: Source) -> bool:
    """Return whether a name is that of a stream: standard input, or what the shell makes of `<(command)`."""
    return str(path) == "-" or (DESCRIPTOR.fullmatch(str(path)) is not None and Path(path).is_fifo())


def require_read_once(files: Iterable[Source | None]) -> None:
    """Raise a UserError where several of the files are standard input (`-`)."""
    if [*files].count("-") > 1:
        raise UserError("standard input cannot be read twice", "-", "name a file for one of them")


def lines_of(file: IO[bytes], path: Source) -> Iterator[bytes]:
    """Read the lines of an open file; raises a UserError for one that is longer than `Limits` says."""
    known = limits()
    most = known.max_line_mb << 20
    for number, line in enumerate(iter(functools.partial(file.readline, most + 1), b""), 1):
        if len(line) > most:
            known.require_line(len(line), f"{path}, line {number}")
        yield line


def refuse_special_file(path: Source) -> None:
    """Raise a UserError for a special file, which may never end or never begin."""
    piped = str(path) == "-"
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode if piped else os.stat(path).st_mode
    except (OSError, ValueError, AttributeError):  # a missing file; an object in place of standard input
        return
    kind = SPECIAL.get(stat.S_IFMT(mode))
    refused = kind is not None and not is_pipe(path)
    if piped:  # a pipe in the shell, or a terminal, is what it is for
        refused = kind == "a device" and not sys.stdin.isatty()
    if refused:
        do = f"give - in its place, and < {path} at the end" if kind == "a named pipe" else "name a file"
        raise UserError(f"the file is {kind}", path, do)


def _require_text(start: bytes, path: Source) -> None:
    """Raise a UserError for a file that begins as a known kind that holds no plain text."""
    for magic, kind in KINDS.items():
        if start.startswith(magic):
            raise UserError(f"the file is {kind}", path, "save its content as plain text, and name that file")
    if not start.startswith(ZIP):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):  # standard input, or a damaged file
        names = []
    for folder, kind in OFFICE.items():
        if any(name.startswith(folder) for name in names):
            raise UserError(f"the file is {kind}", path, "save its content as plain text, and name that file")
    raise UserError("the file is a zip archive", path, "unpack it and name the file inside")


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
