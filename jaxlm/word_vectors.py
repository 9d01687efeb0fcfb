"""Word vectors in the files of word2vec, as text or binary, which gensim, fastText and most other programs read.

Both begin with a line `N_w N_f`. For each word, its name, a blank and its N_f features follow: as text, separated by
blanks, on one line, or as little-endian float32, where a line feed may follow (word2vec writes one, gensim none).
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxfit.errors import UserError, shortened
from jaxfit.files.opening import lines_of, open_bytes
from jaxfit.run_dir.atomic import writing
from jaxlm.capabilities import Embeds
from jaxlm.contract import LanguageModel
from jaxlm.ngram.model import NoConfig

HEADER = re.compile(rb"(?:\xef\xbb\xbf)?\s*(\d{1,18})[ \t]+(\d{1,6})[ \t\r]*\n")
LONGEST = 1 << 12  # bytes of a first line, or of a word
DIGITS = 32  # bytes of a number as text, at most
NUMERIC = re.compile(rb"[-+\d.,'eE]+")  # what is meant for a number, as 0,1
BLANK = re.compile(rb"[ \t]")
BLOCK = 1 << 20  # bytes that are read, or numbers that there is room for, at first
ADVICE = "create the file of word vectors again"


class Vectors(NamedTuple):
    """The vectors of a file: float32 [N_w, N_f]."""

    vectors: NDArray[np.float32]

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape by name."""
        return {"vectors": self.vectors.shape}


def write_text(words: Sequence[str], vectors: NDArray, path: Path) -> None:
    """Write word vectors, [N_w, N_f], as text, gzipped if the name ends in `.gz`.

    Raises:
        UserError: the file cannot be written.
    """
    with writing(path) as file:
        file.write(f"{vectors.shape[0]} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            file.write(f"{word} {' '.join(f'{x:.9g}' for x in vector)}\n".encode())


def write_binary(words: Sequence[str], vectors: NDArray, path: Path) -> None:
    """Write word vectors, [N_w, N_f], as float32, gzipped if the name ends in `.gz`.

    Raises:
        UserError: the file cannot be written.
    """
    with writing(path) as file:
        file.write(f"{vectors.shape[0]} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors.astype("<f4"), strict=True):
            file.write(word.encode() + b" " + vector.tobytes() + b"\n")


def begins(path: Path) -> bool:
    """Return whether a file begins as word vectors do: with two numbers on a line."""
    with open_bytes(path) as file:
        return HEADER.fullmatch(file.readline(LONGEST)) is not None


def read(path: Path) -> tuple[Vectors, tuple[str, ...]]:
    """Read word vectors, text or binary, compressed or not; return them and their words, in the file's order.

    Raises:
        UserError: the file cannot be read, or is not what its first line says; it names the line or the byte.
    """
    with open_bytes(path) as file:
        header = file.readline(LONGEST)
        sizes = HEADER.fullmatch(header)
        if sizes is None:
            raise UserError("the first line is not two numbers, of words and of features", f"{path}, line 1", ADVICE)
        number, width = map(int, sizes.groups())
        if number == 0 or width == 0:
            raise UserError("there are no word vectors", f"{path}, line 1", ADVICE)
        if _is_text(path, width):
            found = _lines(file, path, number, width)
        else:
            found = _records(file, path, len(header), number, width)
        names: dict[str, None] = {}
        vectors = np.empty((min(number, max(1, BLOCK // width)), width), np.float32)
        for name, vector, where in found:
            try:
                decoded = name.decode()
            except UnicodeDecodeError:
                raise UserError("a word that is not UTF-8", where, ADVICE) from None
            if name.split() != [name]:  # as where a part of a binary file is missing
                raise UserError("the vector has no word", where, ADVICE)
            if decoded in names:
                raise UserError(f"duplicate word {shortened(repr(decoded), 40)}", where, ADVICE)
            if not np.isfinite(vector).all():
                raise UserError(f"a vector that is not finite, of {shortened(repr(decoded), 40)}", where, ADVICE)
            if len(names) == len(vectors):  # the file has them: its first line alone is not believed
                vectors.resize((min(number, 2 * len(vectors)), width), refcheck=False)
            vectors[len(names)] = vector
            names[decoded] = None
    return Vectors(vectors), tuple(names)


Entry = tuple[bytes, NDArray[np.float32], str]  # word, vector, place in the file


def _is_text(path: Path, width: int) -> bool:
    """Return whether the first vector of a file, which has a first line, is text.

    It is text if its line has at least `width` / 2 numbers, or if at least half of the fields of its line, and two or
    more, look like numbers in some notation.
    """
    with open_bytes(path) as file:
        file.readline(LONGEST)
        line = file.readline(LONGEST + DIGITS * width)
    fields = line.split()[1:]
    meant = sum(NUMERIC.fullmatch(field) is not None for field in fields)
    return not line or 2 * sum(map(_is_number, fields)) >= width or 2 * meant >= max(4, len(fields))


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def lacks_first_line(path: Path) -> bool:
    """Return whether a file begins with a word and its numbers, as those of GloVe's program do."""
    with open_bytes(path) as file:
        fields = file.readline(1 << 16).split()[1:]
    return len(fields) > 1 and all(map(_is_number, fields[:-1]))  # the last may be cut


def _lines(file: IO[bytes], path: Path, number: int, width: int) -> Iterator[Entry]:
    """Read the entries of a text."""
    lines = lines_of(file, path)
    for row in range(number):
        where = f"{path}, line {row + 2}"
        line = next(lines, b"")
        word, *fields = line.split()[: width + 2] or [b""]
        if not line.strip():
            raise UserError(f"only {row:,} of {number:,} word vectors", where, ADVICE)
        try:
            vector = np.array(fields, np.float64)
        except ValueError:
            vector = np.zeros(0)
        if len(vector) != width:
            do = f"{ADVICE}, with a decimal point in numbers" if any(b"," in field for field in fields) else ADVICE
            raise UserError(f"expected a word and {width} numbers", where, do)
        with np.errstate(over="ignore"):  # to infinity, which is refused
            yield word, vector.astype(np.float32), where
    if any(line.strip() for line in islice(lines, 1)):
        raise UserError(f"more than {number:,} word vectors", f"{path}, line {number + 2}", ADVICE)


def _records(file: IO[bytes], path: Path, place: int, number: int, width: int) -> Iterator[Entry]:
    """Read binary entries, the first of which begins at byte `place`."""
    content, at, size = b"", 0, 4 * width  # what is read, and where in it the next entry begins
    for row in range(number):
        if len(content) - at < LONGEST + size:
            content, at = content[at:] + file.read(max(BLOCK, LONGEST + size)), 0
        blank = BLANK.search(content, at, at + LONGEST)
        word = content[at : blank.start() if blank else at + LONGEST]
        name = word.removeprefix(b"\n")
        where = f"{path}, byte offset {place + len(word) - len(name)}"
        begin = at + len(word) + 1
        if len(content) < begin + size:
            raise UserError(f"only {row:,} of {number:,} word vectors", where, ADVICE)
        yield name, np.frombuffer(content, "<f4", width, begin), where
        place, at = place + begin + size - at, begin + size
    rest = (content[at : at + 2] + file.read(2))[:2]
    if rest.strip():
        place += rest.startswith(b"\n")
        where = f"{path}, byte offset {place}"
        raise UserError(f"more than {number:,} word vectors", where, ADVICE)


MODEL = LanguageModel(
    name="word2vec",
    about="word vectors of a file, of any program",
    source="word2vec, gensim",
    config=NoConfig,
    fitting=None,
    capabilities=(Embeds(lambda params: params.vectors),),
)
