"""The operations of a device in a trace that the profiler of JAX wrote.

Where they are depends on the platform. On a GPU or TPU each device has a plane. On a CPU, operations are events of the
host's threads: the event of one lasts until its thread goes on, while other threads may still work on it; when it is
done, a second event "end: NAME" says so.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jax.profiler import ProfileData

from jaxfit.errors import UserError

# lines of a device's plane that have only operations: one on a TPU, one for each stream on a GPU
OPERATIONS, STREAM = "XLA Ops", "Stream"
_END = "end: "
_NAME = re.compile(r"%?([\w.\-]+)")


class Event(NamedTuple):
    """An operation that ran once: its name in the compiled program, the event's own name, begin and end in seconds."""

    operation: str
    label: str
    begin: float
    end: float


def newest(folder: Path) -> Path:
    """Return the newest trace in a folder that traces were written to.

    Raises:
        UserError: there is none.
    """
    found = sorted(folder.glob("plugins/profile/*/*.xplane.pb"), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        raise UserError("the profiler wrote no trace", folder, "choose another folder")
    return found[-1]


def read(path: Path, module: str) -> list[Event]:
    """Read the operations of a program from a trace.

    Args:
        path: of the file `*.xplane.pb`.
        module: the program's name; operations that are known to be of another program are left out.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        planes = [(plane.name, list(plane.lines)) for plane in ProfileData.from_file(str(path)).planes]
    except Exception as error:  # of the reader's own, undocumented classes
        raise UserError(f"not a trace: {str(error).splitlines()[0]}", path, "remove it, and trace again") from None
    found = [event for name, lines in planes if name.startswith("/device:") for event in operations(lines, module)]
    host = (lines for name, lines in planes if name.startswith("/host:CPU"))
    return found or [event for lines in host for event in operations(lines, module)]


def operations(lines: Iterable[Any], module: str) -> list[Event]:
    """Return the operations of a program in the lines of a plane, which have `name` and `events`."""
    lines = list(lines)
    chosen = [line for line in lines if line.name == OPERATIONS] or lines
    found, ends = [], {}
    for line in chosen:
        of_device = line.name == OPERATIONS or line.name.startswith(STREAM)
        for event in line.events:
            stats = dict(event.stats)
            if event.name.startswith(_END) and "_c" in stats:
                ends[stats["_c"]] = event.start_ns
            elif stats.get("hlo_module", module) == module and (of_device or "hlo_op" in stats):
                found.append((event, stats))
    return list(_timed(found, ends))


def _timed(found: Iterable[tuple[Any, dict[str, Any]]], ends: dict[Any, float]) -> Iterator[Event]:
    for event, stats in found:
        end = ends.get(stats.get("_p"), event.start_ns + event.duration_ns)
        named = _NAME.match(event.name)
        operation = stats.get("hlo_op") or (named[1] if named else event.name)
        yield Event(str(operation), event.name, event.start_ns * 1e-9, max(event.start_ns, end) * 1e-9)
