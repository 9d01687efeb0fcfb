"""The page of all results in a browser."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

LOOK = """
<iframe width="390" height="800" src="docs.html"></iframe>
<iframe width="1400" height="800" src="docs.html"></iframe>
<script>
addEventListener("load", () => {
  document.body.textContent = JSON.stringify(Array.from(frames, (view) => {
    const page = view.document;
    const table = page.getElementById("table-4.4.ptb.cpu.figures").querySelector("table");
    const [, tree, perplexity, thesis] = [...table.tHead.rows[0].cells];
    const click = (head) => {
      head.querySelector("button").click();
      const shown = [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[2].textContent));
      return [head.getAttribute("aria-sort"), ...shown];
    };
    const orders = [perplexity, perplexity, perplexity, thesis, thesis, tree].map(click);
    const picture = page.getElementById("table-4.4.ptb.cpu").querySelector(".picture");
    const width = () => picture.querySelector("img").getBoundingClientRect().width;
    const widths = [width()];
    for (let click = 0; click < 2; ++click) {
      picture.querySelector("button").click();
      widths.push(width());
    }
    const folded = !page.getElementById("contents").open;
    view.location.hash = "#table-4.4.ptb.cpu.5";
    return {
      widths,
      folded,
      wide: page.documentElement.scrollWidth - view.innerWidth,
      top: Math.round(page.getElementById("table-4.4.ptb.cpu.5").getBoundingClientRect().top),
      scrolled: view.scrollY > 0,
      orders,
    };
  }));
});
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_in_a_browser_tables_sort_anchors_lead_and_nothing_overflows(text: str, tmp_path: Path) -> None:
    look = tmp_path / "look.html"
    look.write_text(LOOK)
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        "--virtual-time-budget=9000",
    ]
    words = [str(CHROMIUM), *options, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", look.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    views = json.loads(re.sub(r"<[^>]*>", "", done.stdout))
    assert len(views) == 2
    narrow, wide = views
    assert narrow["widths"][0] == narrow["widths"][2] < 390 < 900 == narrow["widths"][1], "shrunk until it is clicked"
    assert wide["widths"] == [900] * 3
    assert narrow["folded"]
    assert not wide["folded"]
    for view in views:
        assert view["wide"] <= 0
        assert view["scrolled"]
        assert 0 <= view["top"] < 800
        assert view["orders"] == [
            ["ascending", 99.5, 131.3, 1002.0],
            ["descending", 1002.0, 131.3, 99.5],
            [None, 131.3, 99.5, 1002.0],
            ["ascending", 99.5, 131.3, 1002.0],  # by the thesis' figure, of which the last has none
            ["descending", 131.3, 99.5, 1002.0],
            ["ascending", 1002.0, 131.3, 99.5],  # by texts: T1 before T10
        ]
