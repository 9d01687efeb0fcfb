"""The page of all results, and that of word vectors, in a browser."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.language.analysis import explore

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

# what `LOOK` says of a page, by its window `view` and its document `page`
RESULTS = """
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
"""

# the corners of the picture are at 0.46 of the shorter side from its middle; what is found or pointed at is coloured
VECTORS = """
    const at = (id) => page.getElementById(id);
    const canvas = at("canvas"), pen = canvas.getContext("2d");
    const colour = view.getComputedStyle(page.documentElement).getPropertyValue("--found").trim();
    const [red, green, blue] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
    const box = () => canvas.getBoundingClientRect();
    const place = (x, y) => {
      const side = 0.46 * Math.min(box().width, box().height);
      return [box().width / 2 + x * side, box().height / 2 - y * side];
    };
    const marked = (x, y) => {  // whether all that is coloured, if anything, is there
      const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
      let count = 0, far = 0;
      for (let i = 0; i < pixels.length; i += 4) {
        if (pixels[i + 3] < 200) continue;
        if (Math.hypot(pixels[i] - red, pixels[i + 1] - green, pixels[i + 2] - blue) > 30) continue;
        count += 1;
        const across = (i / 4 % canvas.width) * box().width / canvas.width;
        const down = Math.floor(i / 4 / canvas.width) * box().height / canvas.height;
        far = Math.max(far, Math.abs(across - x) - 30, Math.abs(down - y) - 10);
      }
      return count ? far <= 0 : null;
    };
    const said = async () => {
      await new Promise((done) => setTimeout(done, 100));  // the plane has got the height that is left
      return [at("said").textContent, page.documentElement.scrollWidth - view.innerWidth];
    };
    const hover = async (...where) => {
      const [x, y] = place(...where);
      const event = {clientX: box().left + x, clientY: box().top + y, pointerType: "mouse"};
      canvas.dispatchEvent(new view.PointerEvent("pointermove", event));
      return [...await said(), marked(...place(...where))];
    };
    const find = async (word) => {
      at("search").value = word;
      at("search").dispatchEvent(new view.Event("input"));
      return [...await said(), marked(box().width / 2, box().height / 2)];
    };
    const hovered = [], found = [];
    for (const where of [[0, 0], [1, 1], [-1, -1], [0.5, 0]]) hovered.push(await hover(...where));
    at("nearer").click();
    hovered.push(await hover(1, 1));
    at("whole").click();
    hovered.push(await hover(1, 1));
    for (const word of ["tea", "Coffee", "bre", "nonesuch", ""]) found.push(await find(word));
    return {
      hovered,
      found,
      loaded: view.performance.getEntriesByType("resource").length,
    };
"""

LOOK = """
<iframe width="390" height="800" src="NAME"></iframe>
<iframe width="1400" height="800" src="NAME"></iframe>
<script>
const look = async (view, page) => {SEEN};
addEventListener("load", async () => {
  const seen = await Promise.all(Array.from(frames, (view) => look(view, view.document)));
  document.body.textContent = JSON.stringify(seen);
});
</script>
"""


def looked(path: Path, seen: str) -> list[dict[str, Any]]:
    """Return what is seen of a page in windows of 390 and 1400 pixels, by the body of a function in JavaScript."""
    look = path.with_name("look.html")
    look.write_text(LOOK.replace("NAME", path.name).replace("SEEN", seen))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        "--virtual-time-budget=9000",
    ]
    words = [str(CHROMIUM), *options, f"--user-data-dir={path.with_name('profile')}", "--dump-dom", look.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
    views = json.loads(html.unescape(re.sub(r"<[^>]*>", "", done.stdout)))
    assert len(views) == 2
    return views


@needs_chromium
def test_in_a_browser_tables_sort_anchors_lead_and_nothing_overflows(text: str, tmp_path: Path) -> None:
    views = looked(tmp_path / "docs.html", RESULTS)
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


@needs_chromium
def test_in_a_browser_words_are_shown_under_the_pointer_and_found(tmp_path: Path) -> None:
    long = "breakfast" * 12  # what is said of a word takes more lines than what is said of none
    words = ["tea", "coffee", "bread", long]
    drawn = {"text": words, "x": [0.0, 1.0, -1.0, -1.0], "y": [0.0, 1.0, -1.0, 1.0], "counts": [4000, 30, 20, 10]}
    result = {"table": "figure-3.3", "title": "Word vectors", "data": {"name": "meals"}, "scale": "s", "recipe": "r"}
    explore.write(result | {"rows": [{"drawn": drawn}]}, tmp_path / "page.html")
    tea = f"tea: 4,000 times in the training text; near it here: coffee, bread, {long}"
    coffee = f"coffee: 30 times in the training text; near it here: tea, {long}, bread"
    bread = f"bread: 20 times in the training text; near it here: tea, {long}, coffee"
    about = "4 words. Drag to move, pinch or turn the wheel to zoom, point at a word or find it."
    for view in looked(tmp_path / "page.html", VECTORS):
        assert view["hovered"] == [
            [tea, 0, True],
            [coffee, 0, True],
            [bread, 0, True],
            [about, 0, None],  # no word is near
            [about, 0, None],  # the word that was there has moved away from the middle
            [coffee, 0, True],  # and is back
        ]
        assert view["found"] == [
            [tea, 0, True],
            [coffee, 0, True],
            [f"{bread} (2 found)", 0, True],
            ["nonesuch is not among these 4 words", 0, None],
            [about, 0, None],
        ]
        assert view["loaded"] == 0
    assert not re.search(r"(src|href)=|https?:|@import|fetch\(", (tmp_path / "page.html").read_text())
