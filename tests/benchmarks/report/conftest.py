"""A folder of records and its page."""

from pathlib import Path

import pytest
import sample_records
from PIL import Image

from benchmarks.report import html


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of sample records."""
    records = tmp_path / "results"
    sample_records.write(records)
    return records


@pytest.fixture
def text(folder: Path) -> str:
    """The text of the page of that folder, which is written to `docs.html` beside it."""
    claims = folder.parent / "claims.png"
    Image.new("RGB", (40, 20), "blue").save(claims)
    return html.write(folder.parent / "docs.html", folder, sample_records.TABLES, claims).read_text(encoding="utf-8")
