"""The parts of README.md and of docs/ that are written from records and registries."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from benchmarks import registry
from benchmarks.core import record
from benchmarks.report import fidelity, highlights, maps, speeds
from benchmarks.report.fidelity import Judged

FROM_ROOT, FROM_DOCS = "benchmarks/results", "../benchmarks/results"  # the folder of records as seen from a page
FIDELITY = "fidelity.md"  # as seen from its neighbours


def write(root: Path, folder: Path, judged: list[Judged]) -> Iterator[Path]:
    """Bring the pages of a project up to date, and yield their paths.

    Args:
        folder, judged: as in `written`.
    """
    for name, places in written(folder, judged).items():
        path = root / name
        text = path.read_text(encoding="utf-8")
        for place, lines in places.items():
            text = maps.fill(text, place, lines)
        record.write_text(path, text)
        yield path


def written(folder: Path, judged: list[Judged]) -> Mapping[str, Mapping[str, Iterable[str]]]:
    """Return what is written: page -> place in it, as `<!-- place -->` marks it -> lines.

    Args:
        folder: folder of the records.
        judged: from `fidelity.records`.
    """
    return {
        "README.md": {
            "highlights": maps.noted(highlights.lines(folder, highlights.RESULTS, FROM_ROOT), f"docs/{FIDELITY}")
        },
        "docs/models.md": {maps.MODELS: maps.list_of_models(model for _, model in registry.models().values())},
        "docs/tables.md": {maps.RESULTS: maps.noted(maps.results_map(folder, registry.TABLES, FROM_DOCS), FIDELITY)},
        "docs/choosing.md": {
            "text": maps.noted(highlights.lines(folder, highlights.TEXT, FROM_DOCS, mixed=True), FIDELITY),
            "ratings": highlights.lines(folder, highlights.RATINGS, FROM_DOCS),
            "ranking": highlights.table(folder, highlights.RANKING),
        },
        "docs/accelerators.md": {"devices": speeds.by_device(folder)},
        "docs/fidelity.md": {"verdicts": fidelity.lines(judged, FROM_DOCS)},
    }
