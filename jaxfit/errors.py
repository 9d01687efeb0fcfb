"""Exceptions that a command reports in one line: a mistake of the user, a signal; bugs stay tracebacks."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jaxfit.process.signals import Signalled

MAX_MESSAGE = 350  # characters of a message, to which a command adds its name and what kind of message it is


def shortened(text: str, length: int) -> str:
    """Return a text of at most `length` characters: of a longer one the beginning and the end, with … between them."""
    end = (length - 1) // 2
    return text if len(text) <= length else f"{text[: length - 1 - end]}…{text[len(text) - end :]}"


def _shortened(parts: list[str]) -> list[str]:
    """Shorten the longest parts of a message until it is short enough."""
    left, result = MAX_MESSAGE, list(parts)
    for done, number in enumerate(sorted(range(len(parts)), key=lambda i: len(parts[i]))):
        result[number] = shortened(parts[number], left // (len(parts) - done))
        left -= len(result[number])
    return result


class UserError(Exception):
    """Bad input: a command prints it as one line and ends with exit status 2.

    Args:
        what: what is wrong.
        where: a file, a line, an option.
        do: what the user can do about it.
    """

    def __init__(self, what: str, where: object | None = None, do: str | None = None):
        self.what, self.where, self.do = what, None if where is None else str(where), do
        super().__init__(str(self))

    def __str__(self) -> str:
        what, where, do = _shortened([self.what, self.where or "", self.do or ""])
        return what + (f" ({where})" if where else "") + (f" - {do}" if do else "")


class Diverged(UserError):
    """A loss or validation score of a training that is not finite."""


class NoModel(UserError):
    """There is no trained model in a folder, or only an unfinished one."""


def rewrite(error: UserError, change: Callable[[str], str]) -> None:
    """Change each part of an error."""
    parts = error.what, error.where, error.do
    error.what, error.where, error.do = (part and change(part) for part in parts)  # type: ignore[assignment]
    error.args = (str(error),)


class FolderTaken(UserError):
    """A model is to be trained in a folder that holds one already."""


class NotInTraining(UserError):
    """A word, user or item that a model does not know."""


class Unsupported(UserError):
    """A model is asked for what models of its kind do not offer."""


class Interrupted(Signalled):
    """Ctrl-C, SIGTERM or SIGHUP in training, after the state was saved."""


def missing_package(name: str, where: object, extra: str = "benchmarks") -> UserError:
    """Return the error for a package of an extra of this project that is not installed."""
    return UserError(f"{name} is not installed", where, f"pip install -e '.[{extra}]'")


@contextmanager
def named(path: Path, name: str) -> Iterator[None]:
    """In errors raised within, replace the path or the name of a temporary file by the name of what it holds."""
    try:
        yield
    except UserError as error:
        error.where = name if error.where == path.name else error.where
        rewrite(error, lambda part: part.replace(str(path), name))
        raise


@contextmanager
def value_errors() -> Iterator[None]:
    """Within this context, raise UserErrors as ValueErrors, as users of scikit-learn expect."""
    try:
        yield
    except UserError as error:
        raise ValueError(str(error)) from error


def suggestion(given: str, known: Iterable[str]) -> str:
    """Say what to do about a name that is not known: the most similar one, or all of them."""
    import difflib  # here: Ctrl-C ends in one line once the package is imported

    known = list(known)
    close = difflib.get_close_matches(given, known, n=1, cutoff=0.65)
    shown = (name if any(map(str.isalnum, name)) else repr(name) for name in known)  # in quotes: '.', ','
    return f"did you mean {close[0]}?" if close else f"choose from {', '.join(shown)}"


def require_fields(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise a UserError for the first given name that is not one of the known fields of a configuration."""
    known = list(known)
    for name in given:
        if name not in known:
            raise UserError(f"the configuration has no field {name!r}", do=f"choose from {', '.join(known)}")
