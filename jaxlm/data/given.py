"""Texts that a caller of the library gives: files, or lines in memory."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from jaxfit.errors import UserError, named

# A file by its name or path, several paths, or lines: strings, or lists of words; also as a column of a data frame.
Text: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Iterable[str]]


def are_files(text: Text) -> bool:
    """Return whether a list is one of paths."""
    return isinstance(text, list | tuple) and bool(text) and isinstance(text[0], os.PathLike)


@contextmanager
def as_files(text: Text, name: str, encoding: str = "utf-8") -> Iterator[list[str]]:
    """Yield the names of the given files, or of a temporary file with the given lines.

    Args:
        text: a file (a string or a path), paths, or lines, as strings or lists of words, also as the only column of a
            data frame. A list of strings is always one of lines.
        name: of a temporary file: "train", "valid", ….
        encoding: encoding in which the files will be read, and the temporary one is written.

    Raises:
        UserError: it is none of these, or empty; a line has a line end, a word has white space or is empty; the
            encoding is unknown, or lacks a character of the text.
    """
    if isinstance(text, str | os.PathLike):
        if isinstance(text, str) and "\n" in text:
            raise UserError("a text in memory is given as its lines, not as one string", name, "text.splitlines()")
        if isinstance(text, str) and " " in text and not os.path.exists(text):
            raise UserError(f"there is no file {text!r}", name, "for a text in memory give a list of its lines")
        yield [os.fspath(text)]
        return
    lines = _column(text, name)
    try:
        if isinstance(lines, Mapping | Set):
            raise TypeError
        elements = iter(lines)
        first = next(elements)
    except TypeError:
        do = "give the name of a file, or a list of lines"
        raise UserError(f"{type(lines).__name__} is neither a file nor lines", name, do) from None
    except StopIteration:
        raise UserError("the text is empty", name, "give at least one line, or a file") from None
    elements = chain([first], elements)
    if isinstance(first, os.PathLike):
        yield [_path(file, number, name) for number, file in enumerate(elements, 1)]
        return
    if isinstance(first, str) and os.path.isfile(first):
        what = f"a list of strings is one of lines, and {first!r} is the name of a file"
        raise UserError(what, name, f"give {first!r} alone, or paths: [Path({first!r}), …]")
    with _written((_line(element, number, name) for number, element in enumerate(elements, 1)), name, encoding) as file:
        yield [file]


@contextmanager
def as_words(words: str | os.PathLike[str] | Sequence[str], name: str, *further: str) -> Iterator[str]:
    """Yield the name of the given file of words, or of a temporary file with the given words.

    Args:
        *further: words that are added to a list that lacks them.

    Raises:
        UserError: it is neither a file nor a list of words, or empty.
    """
    if isinstance(words, str | os.PathLike):
        yield os.fspath(words)
        return
    try:
        if isinstance(words, Mapping | Set):
            raise TypeError
        listed = list(words)  # also of an array, or a column
    except TypeError:
        raise UserError(f"{type(words).__name__} is no list of words", name, "give a list, or a file") from None
    if not listed:
        raise UserError("the list of words is empty", name, "give at least one word, or a file")
    lines = [_line([word], number, name) for number, word in enumerate(listed, 1)]
    with _written([*lines, *(word for word in further if word not in lines)], name, "utf-8") as file:
        yield file


@contextmanager
def _written(lines: Iterable[str], name: str, encoding: str) -> Iterator[str]:
    """Write lines to a temporary file, and yield its name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        try:
            with path.open("w", encoding=encoding, newline="\n") as file:
                for number, line in enumerate(lines):  # reading skips a U+FEFF at the beginning of a file
                    file.write("\ufeff" * (number == 0 and line.startswith("\ufeff")) + f"{line}\n")
        except LookupError:
            raise UserError(f"unknown encoding {encoding!r}", name, "leave it out, for lines in memory") from None
        except UnicodeEncodeError as error:
            what = f"the text has a character that {encoding} lacks: {error.object[error.start : error.end]!r}"
            raise UserError(what, name, "remove it, or leave out the encoding") from None
        with named(path, name):
            yield str(path)


def _column(text: Any, name: str) -> Any:
    """Return the only column of a data frame, over which a loop would give its column names; or else the text."""
    columns = getattr(text, "column_names", None) or getattr(text, "columns", None)  # of Arrow; of pandas, polars
    if columns is None:
        return text
    if len(columns) != 1:
        listed = ", ".join(map(repr, columns)) or "none"
        raise UserError(f"a data frame with the columns {listed} is no text", name, "give one: frame[column]")
    column = text[columns[0]]
    return column.to_pylist() if hasattr(column, "to_pylist") else column  # of Arrow, whose values are no strings


def _path(element: object, number: int, name: str) -> str:
    """Return an element of a list of paths as a string."""
    if not isinstance(element, str | os.PathLike):
        what = f"an element of the list of paths is {type(element).__name__}"
        raise UserError(what, f"{name}, element {number}", "give paths alone, or lines alone")
    return os.fspath(element)


def _line(element: object, number: int, name: str) -> str:
    """Return a line of a text as a string, without its end."""
    where = f"{name}, line {number}"
    if isinstance(element, str):
        line = element.removesuffix("\n")
        if "\n" in line:
            raise UserError("a line of the text has a line end inside", where, "split it: text.splitlines()")
        return line
    words: list[str] = []
    for word in element if isinstance(element, Iterable) else [element]:
        if not isinstance(word, str):
            what = f"a line of the text is {type(word).__name__}, neither a string nor a list of words"
            raise UserError(what, where, "give strings")
        words.append(word)
        if word.split() != [word]:
            raise UserError(f"{word!r} is not a word", where, "separate words by blanks, or give a string for the line")
    return " ".join(words)
