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

from jaxfit.errors import UserError
from jaxfit.run_dir import json_text, manifest
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.lock import require_there


class Journal:
    """JSON lines in a folder; `cut` removes what was written after a checkpoint.

    Attributes:
        path: of the metrics.
        timing: path of the times.
    """

    def __init__(self, directory: Path):
        self.path, self.timing = directory / manifest.JOURNAL, directory / manifest.TIMES

    def write(self, **metrics: Any) -> None:
        """Add one line of metrics."""
        _append(self.path, metrics)

    def time(self, **seconds: Any) -> None:
        """Add one line of times."""
        _append(self.timing, seconds)

    def size(self) -> int:
        """Return the journal's length in bytes, which a checkpoint remembers."""
        return self.path.stat().st_size if self.path.exists() else 0

    def cut(self, size: int) -> None:
        """Remove every line written after the journal was `size` bytes long, and unfinished lines."""
        _cut(self.path, size)
        _cut(self.timing)

    def go_on(self, size: int, listed: dict[str, Any] | None) -> None:
        """Remove what was written after a checkpoint; warn where what was written before has been changed or lost.

        Args:
            size: in bytes, at the checkpoint.
            listed: `manifest.of_journal` there; None without a checkpoint, or for one of an earlier version.
        """
        self.cut(size)
        if self.size() < size:
            lost = "has lost epochs before the checkpoint: it lists those that follow"
            warnings.warn(f"{self.path} {lost}", stacklevel=2)
        elif listed not in (None, manifest.of_journal(self.path.parent)):
            warnings.warn(f"{self.path}: {manifest.JOURNAL_DAMAGE}", stacklevel=2)

    def lines(self) -> list[dict[str, Any]]:
        """Return all lines of metrics; warns of those that `write` has not written, which are left out."""
        return _lines(self.path)

    def epochs(self) -> list[dict[str, Any]]:
        """Read the lines of metrics that say which epoch they are of and how it did on validation.

        Warns where the journal is not that of the model in its folder.
        """
        problem = manifest.journal_damage(self.path.parent)
        if problem is not None:
            warnings.warn(f"{self.path}: {problem}", stacklevel=2)
        types = {"epoch": int, "valid": float}
        return [line for line in self.lines() if all(type(line.get(name)) is kind for name, kind in types.items())]

    def times(self) -> list[dict[str, Any]]:
        """Return all lines of times, as `lines`; an epoch that was trained again after a kill has several."""
        return _lines(self.timing)


def _cut(path: Path, size: int | None = None) -> None:
    """Shorten a file to the lines within its first `size` bytes.

    A link is replaced by a file of its own: what it points to is not ours to change.
    """
    if path.is_symlink():
        with replacing(path) as own:
            shutil.copyfile(path, own) if path.exists() else own.touch()
    if path.exists():
        end = _content(path)[:size].rfind(b"\n") + 1
        if path.stat().st_size != end:  # a finished training's disk may be read-only
            os.truncate(path, end)


def _content(path: Path) -> bytes:
    if not path.is_file():  # a named pipe would be waited for
        raise UserError("the journal is no regular file", path, "remove it")
    return path.read_bytes()


def _lines(path: Path) -> list[dict[str, Any]]:
    """Read the lines that are complete; one without its end is being written, or its writer was killed."""
    complete = _content(path).split(b"\n")[:-1] if path.exists() else []
    records = list(map(_record, complete))
    wrong = [number for number, record in enumerate(records, 1) if record is None]
    if wrong:
        what = f"line {wrong[0]}" + (f" and {len(wrong) - 1} more" if len(wrong) > 1 else "")
        warnings.warn(f"{path}: {what} cannot be read: left out", stacklevel=2)
    return [record for record in records if record is not None]


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


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
    """Format seconds as people read them: 2:07, 1:02:07."""
    minutes, seconds = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Bar:
    """A progress bar on standard error; where that is no terminal, one line an epoch; without `show`, nothing.

    In a notebook it is one line below the cell, which is replaced, so that the last epoch's stays.
    """

    def __init__(self, title: str, unit: str, epochs: int, show: bool):
        self.show, self.title, self.unit, self.epochs = show, title, unit, epochs
        self.handle: Any = None  # of the line in a notebook
        if not show:
            return
        from rich.console import Console  # here: it takes a thirtieth of a second
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[now]}"))
        self.progress = Progress(*columns, TimeRemainingColumn(), console=self.console, transient=True)
        self.task = self.progress.add_task(title, total=float(epochs), now="compiling")
        if sys.stderr.isatty():
            self.progress.start()

    def update(self, done: float, means: str, per_second: float) -> None:
        """Show that training is `done` epochs in, with this epoch's metrics so far and speed."""
        if not self.show:
            return
        now = f"{means}  {per_second:,.0f} {self.unit}/s"
        title = f"{self.title} {min(int(done) + 1, self.epochs)}/{self.epochs}"
        if self.console.is_jupyter:
            self._replace(f"{title}: {now}")
        else:
            self.progress.update(self.task, completed=done, description=title, now=now)

    def line(self, text: str, elapsed: float, left: float, at_most: bool) -> None:
        """Print a line that stays, with the seconds since the beginning and those left, or at most left."""
        if not self.show:
            return
        times = f"{_clock(elapsed)} elapsed, {'at most ' if at_most and left else ''}{_clock(left)} left"
        if self.console.is_jupyter:
            self._replace(f"{self.title}: {text}, {times}")
        else:
            self.console.print(f"{self.title}: {text}, {times}", markup=False, soft_wrap=True)

    def _replace(self, text: str) -> None:
        """Show a line in place of the last one, below the cell of a notebook."""
        from IPython.display import display

        if self.handle is None:
            self.handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self.handle.update({"text/plain": text}, raw=True)

    def close(self) -> None:
        """Take the bar off the screen."""
        if self.show and self.progress.live.is_started:  # stopping one that never began prints an empty line
            self.progress.stop()
