"""The page of all results: that all of the records is on it, safely, and that it loads nothing else."""

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sample_records
from sample_records import TABLES, UNSAFE

from benchmarks import registry
from benchmarks.core import markdown, record
from benchmarks.core.verdict import SEEDS
from benchmarks.report import html, maps, overview
from benchmarks.speed import page as speed_page

ROOT = Path(__file__).parents[3]


class Page(HTMLParser):
    """A page as parsed: ids, attributes by element, and tables as lists of rows of (text, number)."""

    def __init__(self, text: str):
        super().__init__()
        self.ids: list[str] = []
        self.attributes: list[tuple[str, dict]] = []
        self.tables: list[list[list[list[str]]]] = []
        self.text, self._cell = "", None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        found = dict(attrs)
        self.attributes.append((tag, found))
        self.ids += [found["id"]] if "id" in found else []
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._cell = ["", found.get("data-value", "")]
            self.tables[-1][-1].append(self._cell)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell is not None:
            self._cell[0] += data

    def of(self, tag: str, name: str) -> list[str]:
        """Return the values of an attribute of these elements."""
        return [attributes[name] for each, attributes in self.attributes if each == tag and name in attributes]

    def texts(self) -> list[list[list[str]]]:
        """Return the tables without numbers."""
        return [[[text for text, _ in row] for row in table] for table in self.tables]


@pytest.fixture
def parsed(text: str) -> Page:
    return Page(text)


def test_every_recorded_table_is_there_beside_the_thesis(folder: Path, parsed: Page) -> None:
    tables = parsed.texts()
    for path in folder.glob("table-*.json"):
        result = json.loads(path.read_text())
        expected = [markdown.header(result), *(markdown.cells(result, row) for row in result["rows"])]
        assert expected[1] == ["HLBL", "T1", "131.3 ± 3.2", "151.2"]
        assert expected in tables
        assert path.stem in parsed.ids
        assert f"results/{path.name}" in parsed.of("a", "href")
    assert [["name", "words/s", "found"], ["ours", "2 [1.5-2.5]", "late"], [UNSAFE, "missed", ""]] in tables
    assert tables.count([["name", "words/s", "found"], ["ours", "2 [1.5-2.5]", "late"], [UNSAFE, "missed", ""]]) == 1
    assert "#speed.lbl.training" in parsed.of("a", "href"), "of another model, the same table is linked"


def test_what_the_bootstrap_is_over_is_that_of_the_tables(parsed: Page) -> None:
    said = "paired bootstrap over up to 50 parts of consecutive lines or users, and spread over seeds"
    assert said in " ".join(parsed.text.split())


def test_every_verdict_is_there_with_its_intervals(parsed: Page) -> None:
    heads = ["compared", "figure [95 % interval]", "claimed", "interval and claim", "holds"]
    for answer in ("no", "unresolved"):
        rows = [
            ["T1 and T2", "-3.0 [-4.5, -1.5]", "below 0", "", answer],
            ["T2 and T3", "1.25 [1.00, 1.50]", "-0.5 to 2.5", "", "yes"],
        ]
        assert [heads, *rows] in parsed.texts()
    # of each decisive comparison, which is the first, in the list of all verdicts, then of all of each verdict
    assert parsed.of("rect", "x") == [*["0.0"] * 3, *["0.0", "56.5"] * 3]
    assert parsed.of("rect", "width")[2:5] == ["63.0", "63.0", "39.0"]
    assert parsed.of("path", "d")[2:5] == [*["M4.5 5H43.5"] * 2, "M76.0 5H82.5"], "on one scale, of -4.85 to 2.85"
    assert parsed.of("circle", "cx")[2:5] == ["24.0", "24.0", "79.2"]
    percent = [
        ["T1 and T2", "-300 [-450, -150] %", "below 0 %", "", "yes"],
        ["T2 and T3", "125 [100, 150] %", "-50 to 250 %", "", "yes"],
    ]
    assert [heads, *percent] in parsed.texts()
    (every,) = (table[1:] for table in parsed.texts() if table[0][0] == "answer")
    record = ["table-4.4, ptb, cpu, tuned", "§4.6.3"]
    assert every == [
        ["no", "T1 is better", "T1 and T2", "-3.0 [-4.5, -1.5]", "below 0", "", *record],
        ["unresolved", "T1 is better!", "T1 and T2", "-3.0 [-4.5, -1.5]", "below 0", "", *record],
        ["yes", "5 %", "T1 and T2", "-300 [-450, -150] %", "below 0 %", "", *record],
    ]
    assert "1 yes, 1 unresolved, 1 no." in parsed.text
    assert "Seeds: 2, too few. On validation: yes." in parsed.text
    assert parsed.text.count("Claims are not judged here") == 2, "one is not complete, one is from before verdicts"


def test_a_claim_that_is_judged_on_validation_alone_says_so(folder: Path, tmp_path: Path) -> None:
    content = sample_records.record(
        verdicts=[
            sample_records.verdict("one", "unresolved", test=None),
            sample_records.verdict("two", "yes", validation=None),
            sample_records.verdict("three", "yes", validation=None),
        ]
    )
    content["verdicts"][2]["test"]["seeds"] = SEEDS
    (folder / "table-4.4.ptb.cpu.json").write_text(json.dumps(content))
    found = Page(html.render(tmp_path / "page.html", folder, TABLES)).text
    assert "There is no test; on validation: yes." in found
    assert "Seeds: 2, too few.\n" in found
    assert f"Seeds: {SEEDS}.\n" in found, "so many are enough"


def test_every_picture_is_embedded_with_its_size(folder: Path, parsed: Page) -> None:
    """That of a record which is not complete is of an earlier one."""
    begin, sources = "data:image/png;base64,", parsed.of("img", "src")
    assert all(source.startswith(begin) for source in sources)
    names = ("../claims.png", "table-4.4.ptb.cpu.png", speed_page.picture("lbl", "by size"))
    assert [b64decode(source.removeprefix(begin)) for source in sources] == [
        (folder / name).read_bytes() for name in names
    ]
    assert parsed.of("img", "width") == ["40", "900", "30"]
    assert parsed.of("img", "height") == ["20", "20", "20"]
    assert all(parsed.of("img", "alt"))


def test_each_figure_has_its_provenance(parsed: Page) -> None:
    assert all(
        part in parsed.text for part in ("5a" * 32, "10,000", "test 82,430", "python -m benchmarks run table-4.4")
    )
    by = (
        "Python 3.11.7, JAX 0.10.2, jaxlib 0.10.1, 2 × gpu: H100 (16 cores), matrix precision highest, XLA_FLAGS --flag"
    )
    row = ["HLBL, T1", "1, 2", "hlbl", "0123456789ab with changes", "2026-01-31", by]
    tables = parsed.texts()
    assert sum(row in table for table in tables) == 2
    assert sum([*row[:4], "not recorded", by] in table for table in tables) == 1, "records once had no date"
    fields = ["num_features 100", 'optimizer sgd, rate {"*": 0.1}', "", "3", "perplexity", "121.0, 122.0", "60, 120"]
    assert sum(["hlbl", "1, 2", "fedcba987654", "abcd1234", "not recorded", *fields] in table for table in tables) == 2
    fields[2] = 'warnings ["no progress"]'
    early = ["hlbl", "1, 2", "aaaabbbbcccc with changes", "not recorded", "not recorded", *fields]
    assert sum(early in table for table in tables) == 1, "a model's commit was once in its environment"


def test_columns_are_sorted_by_numbers(parsed: Page) -> None:
    table = next(
        table for table in parsed.tables if [text for text, _ in table[0]] == ["model", "tree", "perplexity", "thesis"]
    )
    assert [[number for _, number in row] for row in table[1:]] == [
        ["", "", "131.26", "151.2"], ["", "", "99.5", "112.1"], ["", "", "1002", ""],
    ]  # fmt: skip
    (speeds,) = (table for table in parsed.tables if table[0][-1][0] == "found")
    assert [row[1][1] for row in speeds[1:]] == ["2", "Infinity"]


def test_what_is_not_recorded_yet_is_listed_by_data_and_scale(parsed: Page) -> None:
    language, ratings = (table for table in parsed.texts() if table[0][:2] == ["table", "what"] and "," in table[0][2])
    heads, *rows = language
    assert heads[2:5] == ["prose, smoke", "ptb, cpu", "holmes, full"]
    assert "wikitext-2, any scale" in heads
    assert not any("tiny" in head or "planted" in head for head in heads), "what is for the tests"
    found = {row[0]: dict(zip(heads, row, strict=True)) for row in rows}
    assert found.keys() == {"table-4.4", "table-4.5"}
    assert found["table-4.4"]["ptb, cpu"] == "tuned, thesis (not all rows)"
    assert found["table-4.5"]["prose, smoke"] == "tuned"
    assert list(found["table-4.4"].values()).count(overview.MISSING) == len(heads) - 3
    assert ratings[1:] == [["figure-5.4", TABLES["figure-5.4"].title] + [overview.MISSING] * (len(ratings[0]) - 2)]
    assert {"planted, smoke", "ml-1m, cpu", "netflix, any scale"} <= set(ratings[0])


def test_rows_that_a_record_lacks_are_listed(folder: Path, tmp_path: Path, parsed: Page) -> None:
    heads = ["table", "data", "scale", "recipe", "rows"]
    assert heads not in [table[0] for table in parsed.texts()], "all rows are there"
    tables = TABLES | {"table-4.4": sample_records.of_rows("table-4.4", "T1", "T10", UNSAFE, "T11", "T12")}
    found = Page(html.render(tmp_path / "page.html", folder, tables))
    (lacking,) = (table[1:] for table in found.texts() if table[0] == heads)
    assert lacking == [
        ["table-4.4", "ptb", "cpu", recipe, "HLBL T11, HLBL T12"] for recipe in ("tuned", "thesis")
    ]  # fmt: skip
    assert "ptb, cpu, tuned (rows were added since)" in found.text
    assert "ptb, cpu, thesis (not all rows)" in found.text
    assert "rows were added since" not in parsed.text
    readme = maps.write(folder, tables).read_text()
    assert readme.count("(rows were added since) |") == readme.count("(not all rows) |") == 1
    assert "[table-4.5.prose.smoke](table-4.5.prose.smoke.md) |" in readme


def test_ids_are_unique_and_every_link_within_the_page_leads_to_one(parsed: Page) -> None:
    assert len(parsed.ids) == len(set(parsed.ids))
    inside = {target.removeprefix("#") for target in parsed.of("a", "href") if target.startswith("#")}
    assert inside <= set(parsed.ids)
    verdicts = {"t1-is-better", "t1-is-better-2", "5"}
    assert {f"table-4.4.ptb.cpu.{claim}" for claim in verdicts} <= inside
    assert {"table-4.4", "table-4.4.ptb.cpu", "table-4.4.ptb.cpu.figures", "speed.lbl.training", "missing"} <= inside


def test_addresses_are_links_without_the_punctuation_after_them() -> None:
    text = "<b>; https://a.org/1m/; random (https://b.org/x?y=1&z=2)."
    first, second = "https://a.org/1m/", "https://b.org/x?y=1&amp;z=2"
    expected = f'&lt;b&gt;; <a href="{first}">{first}</a>; random (<a href="{second}">{second}</a>).'
    assert html.linked(text) == expected


def test_the_page_loads_nothing(text: str, parsed: Page) -> None:
    for tag, attributes in parsed.attributes:
        for name in ("src", "srcset", "data", "action", "poster", "background", "style"):
            assert attributes.get(name, "data:").startswith("data:"), (tag, attributes)
        if tag != "a":
            assert attributes.get("href", "data:").startswith("data:"), (tag, attributes)
    assert not {tag for tag, _ in parsed.attributes} & {"iframe", "object", "embed", "base", "video", "audio"}
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert "default-src 'none'" in " ".join(parsed.of("meta", "content"))


def test_texts_of_records_are_escaped(text: str, parsed: Page) -> None:
    assert UNSAFE not in text
    assert sum(UNSAFE in cell for table in parsed.texts() for row in table for cell in row) >= 3
    assert len([tag for tag, _ in parsed.attributes if tag == "script"]) == 1, "the page's own"


def test_the_same_records_give_the_same_bytes(folder: Path, text: str) -> None:
    again = html.write(folder.parent / "docs.html", folder, TABLES, folder.parent / "claims.png").read_bytes()
    assert again == text.encode()


@pytest.mark.extended
def test_the_records_of_the_project_all_have_a_section() -> None:
    found = Page(html.render(record.RESULTS / "report.html", record.RESULTS, registry.TABLES))
    records = list(record.RESULTS.glob("*.json"))
    assert {path.stem for path in records} <= set(found.ids)
    assert {f"./{path.name}" for path in records} <= set(found.of("a", "href"))
    assert len(found.ids) == len(set(found.ids))
    assert {target[1:] for target in found.of("a", "href") if target.startswith("#")} <= set(found.ids)
