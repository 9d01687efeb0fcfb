"""Text files as a stream of words: encodings, gzip, standard input, and the thesis' preprocessing.

A text has one sentence a line; words are what blanks of ASCII separate. It is read in pieces of a few
megabytes cut at blanks, so that neither its size nor the length of its lines matters.
"""

import codecs
import contextlib
import dataclasses
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, cast

from jaxfit.errors import UserError

EOS = "<eos>"
CHUNK = 1 << 22  # bytes read at a time: about a million words, 100 MB at work
Source = str | os.PathLike[str]
# Punctuation becomes a word of its own, except inside a word (don't, well-known) or a number (3.14, 1,000).
# Runs of one mark (--, ...) stay together, and so do marked words such as <unk>.
_PUNCTUATION = re.compile(
    r"<\w+>|--+|\.\.+|(?<!\w)['’&-]|['’&-](?!\w)|[.,:/](?!\d)|(?<!\d)[.,:/]|[^\w\s'’&.,:/-]"
)
_NUMBER = re.compile(r"(?<![^ \t\n\r\x0b\x0c])[+-]?\d+(?:[.,:/-]\d+)*(?![^ \t\n\r\x0b\x0c])")


@dataclasses.dataclass(frozen=True)
class Reading:
    """How text files are read; for a model, always in the one way."""

    encoding: str = dataclasses.field(default="utf-8", metadata={"help": "encoding of the text files"})
    lower: bool = dataclasses.field(default=False, metadata={"help": "turn upper case into lower case"})
    numbers: bool = dataclasses.field(default=False, metadata={"help": "replace every number by the word N"})
    punctuation: bool = dataclasses.field(
        default=False, metadata={"help": "treat punctuation marks as words of their own"}
    )

    def prepare(self, text: str) -> str:
        """Preprocess text that is cut at blanks."""
        if self.punctuation:
            text = _PUNCTUATION.sub(r" \g<0> ", text)
        if self.lower:
            text = text.lower()
        return _NUMBER.sub("N", text) if self.numbers else text


@contextlib.contextmanager
def _opened(path: Source) -> Iterator[IO[bytes]]:
    """Open a file or standard input (`-`) for bytes, through gzip where it is gzipped."""
    with contextlib.ExitStack() as stack:
        raw = sys.stdin.buffer if str(path) == "-" else stack.enter_context(open(path, "rb"))
        zipped = cast(io.BufferedReader, raw).peek(2)[:2] == b"\x1f\x8b"
        yield cast(IO[bytes], stack.enter_context(gzip.open(raw))) if zipped else raw


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
        if isinstance(decoder.decode(b""), str):
            return decoder
    except LookupError:
        pass
    raise UserError(f"unknown encoding {encoding!r}", do="name one that Python knows, as utf-8 or latin-1")


def chunks(path: Source, reading: Reading) -> Iterator[str]:
    """Read a file as preprocessed text, in pieces cut at blanks; a last line without an end is given one.

    Raises:
        UserError: no such file, a directory, an empty file, damaged gzip, bytes that are not of the encoding.
    """
    decoder = _decoder(reading.encoding)
    read, pending, carry, last = 0, 0, "", ""
    try:
        with _opened(path) as f:
            while data := f.read(CHUNK):
                pending = len(decoder.getstate()[0])  # errors count from the character still unfinished
                text = decoder.decode(data)
                text = carry + (text.removeprefix("\ufeff") if read == 0 else text)
                read += len(data)
                cut = max(text.rfind("\n"), text.rfind(" ")) + 1
                carry = text[cut:]
                if cut:
                    last = text[cut - 1]
                    yield reading.prepare(text[:cut])
        pending = len(decoder.getstate()[0])
        carry += decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        where = f"{path}, byte offset {read - pending + error.start}"
        do = "name the file's encoding, for example --encoding latin-1"
        raise UserError(f"the text is not valid {reading.encoding}", where, do) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"the gzip file is damaged: {error}", path, "fetch or compress it again") from None
    except IsADirectoryError:
        raise UserError("a directory stands where a file should", path, "name the files in it") from None
    except FileNotFoundError:
        raise UserError("there is no such file", path, "check the name") from None
    except OSError as error:
        raise UserError(f"the file cannot be read: {error.strerror or error}", path, "check it") from None
    if read == 0:
        raise UserError("the file is empty", path, "give a text of one sentence a line")
    if carry or last != "\n":
        yield reading.prepare(carry + "\n")


def split(text: str) -> list[bytes]:
    """Split text into words, `<eos>` for each line end."""
    return text.encode().replace(b"\n", b" <eos> ").split()


def tokens(files: Sequence[Source], reading: Reading) -> Iterator[tuple[list[bytes], str, int]]:
    """Split files into words, `<eos>` for each line end.

    Yields:
        words of a piece, the name of its file, the number of that file's lines before the piece.

    Raises:
        UserError: as `chunks`; `<eos>` as a word of the text.
    """
    for path in files:
        lines = 0
        for text in chunks(path, reading):
            marker = re.search(r"(?<!\S)<eos>(?!\S)", text) if EOS in text else None
            if marker:
                where = f"{path}, line {lines + text.count(chr(10), 0, marker.start()) + 1}"
                do = "remove it: each line end gets one"
                raise UserError(f"the line-end marker {EOS} is a word of the text", where, do)
            yield split(text), str(path), lines
            lines += text.count("\n")
