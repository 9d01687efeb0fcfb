"""A folder of records and its page."""

from pathlib import Path

import pytest
import sample_records
from PIL import Image

from benchmarks.report import html


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write sample records, and return their folder."""
    records = tmp_path / "results"
    sample_records.write(records)
    return records


@pytest.fixture
def text(folder: Path) -> str:
    """Write the page of that folder to `docs.html` beside it, and return its text."""
    claims = folder.parent / "claims.png"
    Image.new("RGB", (40, 20), "blue").save(claims)
    return html.write(folder.parent / "docs.html", folder, sample_records.TABLES, claims).read_text(encoding="utf-8")
