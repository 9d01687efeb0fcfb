"""Texts that a caller of the library gives: files, or lines in memory."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from jaxfit.errors import UserError

# A file by its name or path, several paths, or lines: strings, or lists of words.
Text: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Iterable[str]]


@contextmanager
def as_files(text: Text, name: str) -> Iterator[list[str]]:
    """Yield the names of the files that are given, or of a temporary one that holds the lines given.

    Args:
        text: a file (a string or a path), paths, or lines, as strings or lists of words. A list of strings is always
            one of lines.
        name: of a temporary file: "train", "valid", ….

    Raises:
        UserError: it is none of these, or empty; a line has a line end, a word has white space or is empty.
    """
    if isinstance(text, str | os.PathLike):
        if isinstance(text, str) and "\n" in text:
            raise UserError("a text in memory is given as its lines, not as one string", name, "text.splitlines()")
        yield [os.fspath(text)]
        return
    try:
        elements = iter(text)
        first = next(elements)
    except TypeError:
        do = "give the name of a file, or a list of lines"
        raise UserError(f"{type(text).__name__} is neither a file nor lines", name, do) from None
    except StopIteration:
        raise UserError("the text is empty", name, "give at least one line, or a file") from None
    elements = chain([first], elements)
    if isinstance(first, os.PathLike):
        yield [os.fspath(file) for file in elements]  # type: ignore[arg-type]
        return
    if isinstance(first, str) and os.path.isfile(first):
        what = f"a list of strings is one of lines, and {first!r} is the name of a file"
        raise UserError(what, name, f"give {first!r} alone, or paths: [Path({first!r}), …]")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{_line(element, number, name)}\n" for number, element in enumerate(elements, 1))
        yield [str(path)]


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
