"""A figure of word vectors as one interactive HTML page, which needs no network: move, zoom, search."""

import json
from pathlib import Path
from typing import Any

from benchmarks.core import record
from benchmarks.language.analysis.embedding import caption

TEMPLATE = Path(__file__).with_name("explore.html")
PLACE = "/*DATA*/null"  # of the template


def write(result: dict[str, Any], path: Path) -> None:
    """Write the page of a record; words that may not be published are shown as numbers, by frequency."""
    drawn = result["rows"][0][record.DRAWN]
    counts = drawn["counts"]
    numbers = [f"#{1 + i}" for i in range(len(counts))]
    data = {
        "title": caption(result),
        "about": f"{len(counts):,} words. Drag to move, pinch or turn the wheel to zoom, point at a word or find it.",
        "words": drawn.get(record.TEXT, numbers),
        "x": drawn["x"],
        "y": drawn["y"],
        "counts": counts,
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")  # no end of the script
    record.write_text(path, TEMPLATE.read_text(encoding="utf-8").replace(PLACE, text))
