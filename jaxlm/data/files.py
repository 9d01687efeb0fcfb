"""Text files as a stream of words: encodings, compression, standard input, and the thesis' preprocessing.

A text has one sentence per line; words are separated by white space, also by that of Unicode (U+3000, no-break space).
A line ends with a line feed and nothing else: the line separator U+2028 and its like separate words. A text is read in
pieces of a few megabytes, so that memory depends neither on its size nor on the length of its lines, which has a limit
(`jaxfit.files.limits`) because lines of hundreds of megabytes are no text.
"""

import codecs
import dataclasses
import re
from collections.abc import Iterator, Sequence

from jaxfit.errors import UserError
from jaxfit.files.limits import limits, require_countable
from jaxfit.files.opening import Source, open_bytes, text_decoder
from jaxfit.recipe import option

EOS = "<eos>"
CHUNK = 1 << 22  # bytes read at a time: about a million words, 100 MB of working memory
MAX_WORD_BYTES = 1 << 22
# Punctuation becomes a word of its own, except inside a word (don't, well-known) or a number (3.14, 1,000).
# Runs of one mark (--, ...) are one word, and so are bracketed words such as <unk>.
_PUNCTUATION = re.compile(r"(<\w+>|--+|\.\.+|(?<!\w)['’&-]|['’&-](?!\w)|[.,:/](?!\d)|(?<!\d)[.,:/]|[^\w\s'’&.,:/-])")
_SEPARATORS = "\x1c\x1d\x1e\x1f"  # ASCII characters that are blanks to str.split, not to bytes.split
# white space besides that of bytes.split
_BLANKS = _SEPARATORS + "\x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_SPACES = " \t\n\r\x0b\x0c" + _BLANKS
_BLANK = re.compile(f"[{_BLANKS}]")
_NUMBER = re.compile(rf"(?<![^{_SPACES}])[+-]?\d+(?:[.,:/-]\d+)*(?![^{_SPACES}])")


@dataclasses.dataclass(frozen=True)
class Reading:
    """How text files are read; a model's evaluation text is read as its training text was."""

    encoding: str = option("utf-8", "encoding of the text files")
    lower: bool = option(False, "turn upper case into lower case", first=True)
    numbers: bool = option(False, "replace every number by the word N")
    punctuation: bool = option(False, "treat punctuation marks as words of their own")

    def prepare(self, text: str) -> str:
        """Preprocess text that begins and ends between words."""
        if self.punctuation:
            text = " ".join(_PUNCTUATION.split(text))  # two or three times as fast as sub
        if self.lower:
            text = text.lower()
        return _NUMBER.sub("N", text) if self.numbers else text

    def words(self, line: str) -> list[str]:
        """Preprocess a line, and split it into words.

        Raises:
            UserError: there is a line end inside.
        """
        if "\n" in line.removesuffix("\n"):
            raise UserError("a line has a line end inside", do="give one line at a time")
        return self.prepare(line).split()


ENCODING_ADVICE = "name the file's encoding, for example --encoding latin-1"


def chunks(path: Source, reading: Reading, advice: str = ENCODING_ADVICE) -> Iterator[str]:
    """Read a file as preprocessed text, in pieces cut between words; a missing last line end is added.

    Args:
        advice: what to do about a text that is not valid in its encoding.

    Raises:
        UserError: as `jaxfit.files.opening.open_bytes`; the encoding is unknown, or the text is not valid in it; its
            lines end in carriage returns alone; a line or a word is too long.
    """
    decoder = text_decoder(reading.encoding)
    read, pending, line, rest, last = 0, 0, 0, "", ""
    feeds = returns = False  # whether there are line feeds, and before these carriage returns
    try:
        with open_bytes(path) as f:
            while data := f.read(CHUNK):
                pending = len(decoder.getstate()[0])  # error offsets count from the unfinished character
                text = decoder.decode(data)
                text = rest + (text.removeprefix("\ufeff") if read == 0 else text)
                if not feeds:
                    feeds, returns = "\n" in text, returns or "\r" in text
                first, end = data.find(b"\n"), data.rfind(b"\n")
                limits().require_line(line + (first if end >= 0 else len(data)), f"{path}, byte offset {read - line}")
                line = len(data) - end - 1 + (line if end < 0 else 0)
                read += len(data)
                cut = max(map(text.rfind, _SPACES)) + 1
                rest = text[cut:]
                if len(rest) > MAX_WORD_BYTES:  # one word
                    where = f"{path}, byte offset {read - len(rest)}"
                    raise UserError(
                        f"a word is longer than {MAX_WORD_BYTES >> 20} MB", where, "separate words by blanks"
                    )
                if cut:
                    last = text[cut - 1]
                    yield reading.prepare(text[:cut])
        pending = len(decoder.getstate()[0])
        rest += decoder.decode(b"", final=True)
    except UnicodeError as error:
        # UTF-16 without its byte order mark has another error, without a place
        start, given = (error.start, error.object) if isinstance(error, UnicodeDecodeError) else (0, b"")
        where = f"{path}, byte offset {read - pending + start}"
        if read == pending and given.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            advice = advice.replace("latin-1", "utf-16")
        elif b"\0" in given:
            advice = "it does not seem to be text: name another file, or its encoding by --encoding"
        raise UserError(f"the text is not valid {reading.encoding}", where, advice) from None
    if read == 0:
        raise UserError("the file is empty", path, "give a text of one sentence per line")
    if returns and not feeds:
        raise UserError("the lines end in carriage returns alone", path, "convert it: tr '\\r' '\\n' < FILE > NEW")
    if rest or last != "\n":
        yield reading.prepare(rest + "\n")


def read_lines(path: Source, reading: Reading, advice: str = ENCODING_ADVICE) -> Iterator[str]:
    """Read a file as preprocessed lines, without their ends, which may have carriage returns.

    Raises as `chunks`.
    """
    rest = ""
    for text in chunks(path, reading, advice):
        *whole, rest = (rest + text).split("\n")
        yield from (line.rstrip("\r") for line in whole)


def split(text: str) -> list[bytes]:
    """Split text into words, with `<eos>` for each line end."""
    if not text.isascii() or any(separator in text for separator in _SEPARATORS):
        text = _BLANK.sub(" ", text)
    return text.encode().replace(b"\n", b" <eos> ").split()


def line_end_as_word(where: object | None = None) -> UserError:
    """Return the error of a text in which `<eos>` is a word."""
    what = f"the text contains the line-end marker {EOS} as a word"
    return UserError(what, where, "remove it: it is added at each line end")


def tokens(files: Sequence[Source], reading: Reading) -> Iterator[tuple[list[bytes], str, int]]:
    """Split files into words, with `<eos>` for each line end.

    Yields:
        the words of a piece, the name of its file, and the number of the file's lines before the piece.

    Raises:
        UserError: as `chunks`; `<eos>` is a word of the text; there are too many words.
    """
    events = 0
    for path in files:
        lines = 0
        for text in chunks(path, reading):
            marker = re.search(r"(?<!\S)<eos>(?!\S)", text) if EOS in text else None
            if marker:
                raise line_end_as_word(f"{path}, line {lines + text.count(chr(10), 0, marker.start()) + 1}")
            words = split(text)
            events += len(words)
            require_countable(events, "words and line ends", path)
            yield words, str(path), lines
            lines += text.count("\n")
