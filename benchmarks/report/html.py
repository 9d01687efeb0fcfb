"""The page of all results: one HTML file that loads nothing else, for readers without the records at hand."""

import os
import re
import struct
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.core import markdown, record
from benchmarks.core.table import Table
from benchmarks.report import fidelity, overview
from benchmarks.report.grid import Anchors
from benchmarks.report.sections import Section, section
from benchmarks.report.speeds import places, speeds

if TYPE_CHECKING:
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


class Chapter(NamedTuple):
    """A table of the thesis and its records."""

    anchor: str
    name: str
    title: str
    sections: list[Section]


def write(path: Path, folder: Path, tables: Mapping[str, Table], claims: Path | None = None) -> Path:
    """Write the page; the same records give the same bytes.

    Args:
        path: of the page.
        folder: of the records.
        tables: those that can be recorded.
        claims: the picture of the claims that are not confirmed, of `fidelity.draw`.

    Returns:
        The page's path.
    """
    record.write_text(path, render(path, folder, tables, claims))
    return path


def render(path: Path, folder: Path, tables: Mapping[str, Table], claims: Path | None = None) -> str:
    """Return the page's text, arguments as for `write`."""
    import jinja2

    anchors = Anchors()
    for fixed in ("contents", "reading", "records", "verdicts", "missing"):
        anchors.new(fixed)
    chapters = list(_chapters(folder, tables, anchors))
    sections = [section for chapter in chapters for section in chapter.sections]
    said = [verdict["answer"] for one in fidelity.records(folder) for verdict in one.verdicts or ()]
    # StrictUndefined: a name that a template misspells is an error, not nothing
    loader = jinja2.FileSystemLoader(TEMPLATES)
    templates = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )  # fmt: skip
    templates.filters |= {"embedded": embedded, "linked": linked, "size": size, "place": markdown.section}
    return templates.get_template("page.html").render(
        chapters=[chapter for chapter in chapters if chapter.sections],
        speeds=[speeds(path, result, anchors) for path, result in places(folder)],
        recorded=overview.recorded(sections),
        verdicts=overview.verdicts(sections),
        counts={answer: said.count(answer) for answer in reversed(fidelity.ANSWERS)},
        evidence=fidelity.SCALES,
        missing=overview.missing(sections, tables, anchors),
        absent=overview.absent(sections),
        claims=claims,
        margins=re.sub(r"\*(.+?)\*", r"“\1”", markdown.margins(_resampled(tables, sections))),
        where=Path(os.path.relpath(folder, path.parent)).as_posix(),
    )


def _resampled(tables: Mapping[str, Table], sections: Iterable[Section]) -> str:
    """Name the units that the bootstraps of tables, and of records of them, are over."""
    recorded = [row["resampled"] for one in sections for row in one.result["rows"] if "resampled" in row]
    return " or ".join(dict.fromkeys([*(table.units for table in tables.values()), *recorded]))


def _chapters(folder: Path, tables: Mapping[str, Table], anchors: Anchors) -> Iterator[Chapter]:
    """Yield each table with its records."""
    for name, table in tables.items():
        found = [(path, record.read_table(path)) for path in sorted(folder.glob(f"{name}.*.json"))]
        anchor = anchors.new(name)
        sections = [section(path, result, table, anchors) for path, result in found]
        yield Chapter(anchor, name.replace("-", " ").capitalize(), table.title, sections)


def embedded(picture: Path) -> str:
    """Return a PNG as a data URL."""
    return f"data:image/png;base64,{b64encode(picture.read_bytes()).decode('ascii')}"


def linked(text: str) -> "Markup":
    """Return a text in which addresses are links, without the punctuation that follows them."""
    from markupsafe import Markup

    parts = re.split(r"(https?://[^\s<>\"']*[\w/])", text)
    link = Markup('<a href="{0}">{0}</a>')  # escapes what it is given
    return Markup("").join(link.format(part) if number % 2 else part for number, part in enumerate(parts))


def size(picture: Path) -> tuple[int, int]:
    """Return the width and height of a PNG, so that it can be laid out before it is decoded."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])  # of its first part, after the signature
    return width, height
