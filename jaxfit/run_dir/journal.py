"""What a training reports while it runs: metrics as JSON lines, times as JSON lines, a progress bar.

`journal.jsonl` holds what the computation determines (losses, scores, rates), one line an epoch: a training that
was killed and resumed writes the same bytes as one that was not. `timing.jsonl` holds what was measured by the clock.
"""

import json
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from jaxfit.errors import UserError
from jaxfit.run_dir import json_text, manifest
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.lock import require_there


class Journal:
    """JSON lines in a folder; `cut` removes what was written after a checkpoint."""

    def __init__(self, directory: Path):
        self.path, self.timing = directory / manifest.JOURNAL, directory / manifest.TIMES

    def write(self, **metrics: Any) -> None:
        """Add one line of metrics."""
        _append(self.path, metrics)

    def time(self, **seconds: Any) -> None:
        """Add one line of times."""
        _append(self.timing, seconds)

    def size(self) -> int:
        """The journal's length in bytes, which a checkpoint remembers."""
        return self.path.stat().st_size if self.path.exists() else 0

    def cut(self, size: int) -> None:
        """Remove every line written after the journal was `size` bytes long, and an unfinished line of times."""
        _cut(self.path, min(size, self.size()))
        _cut(self.timing, self.timing.read_bytes().rfind(b"\n") + 1 if self.timing.exists() else 0)

    def lines(self) -> list[dict[str, Any]]:
        """All lines of metrics; raises UserError for a line that `write` has not written, as does `times`."""
        return _lines(self.path)

    def epochs(self) -> list[dict[str, Any]]:
        """The lines of metrics that say which epoch they are of and how it did on validation.

        Warns where the journal is not that of the model in its folder.
        """
        problem = manifest.journal_damage(self.path.parent)
        if problem is not None:
            warnings.warn(f"{self.path}: {problem}: what is shown of the epochs may be wrong", stacklevel=2)
        types = {"epoch": int, "valid": float}
        return [line for line in self.lines() if all(type(line.get(name)) is kind for name, kind in types.items())]

    def times(self) -> list[dict[str, Any]]:
        """All lines of times; an epoch that was trained again after a kill has several."""
        return _lines(self.timing)


def _cut(path: Path, size: int) -> None:
    """Shorten a file; a link is replaced by a file of its own: what it points to is not ours to change."""
    if path.is_symlink():
        with replacing(path) as own:
            shutil.copyfile(path, own) if path.exists() else own.touch()
    if path.exists() and path.stat().st_size != size:  # a finished training's disk may be read-only
        os.truncate(path, size)


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines that are complete; one without its end is being written, or its writer was killed."""
    if path.exists() and not path.is_file():  # a named pipe would be waited for
        raise UserError("the journal is no regular file", path, "remove it")
    complete = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [_record(line, f"{path}, line {number}") for number, line in enumerate(complete, 1)]


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise UserError("the line is not one of a training's journal", where, "remove it")
    return record


def _append(path: Path, record: dict[str, Any]) -> None:
    require_there(path)
    try:
        with path.open("a") as file:
            file.write(json_text.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UserError(
            f"cannot write: {error.strerror or error}", path, "free some space, then go on by --resume"
        ) from error


def _clock(seconds: float) -> str:
    """Seconds as people read them: 2:07, 1:02:07."""
    minutes, seconds = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Bar:
    """A progress bar on standard error; where that is no terminal, one line an epoch."""

    def __init__(self, title: str, unit: str, epochs: int, show: bool):
        self.console = Console(stderr=True, quiet=not show, highlight=False)
        self.title, self.unit, self.epochs = title, unit, epochs
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[now]}"))
        self.progress = Progress(*columns, TimeRemainingColumn(), console=self.console, transient=True)
        self.task = self.progress.add_task(title, total=float(epochs), now="compiling")
        if show and sys.stderr.isatty():
            self.progress.start()

    def update(self, done: float, means: str, per_second: float) -> None:
        """Training is `done` epochs in, with this epoch's metrics so far and speed."""
        now = f"{means}  {per_second:,.0f} {self.unit}/s"
        title = f"{self.title} {min(int(done) + 1, self.epochs)}/{self.epochs}"
        self.progress.update(self.task, completed=done, description=title, now=now)

    def line(self, text: str, elapsed: float, left: float, at_most: bool) -> None:
        """A line that stays, with the seconds since the beginning and those left, or at most left."""
        times = f"{_clock(elapsed)} elapsed, {'at most ' if at_most and left else ''}{_clock(left)} left"
        self.console.print(f"{self.title}: {text}, {times}", markup=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bar off the screen."""
        if self.progress.live.is_started:  # stopping one that never began prints an empty line
            self.progress.stop()
