"""Records with text of the data: what is kept out of those that are published, and how it is written."""

import dataclasses
import json
from pathlib import Path

import pytest

from benchmarks.core import markdown, record, run, table
from benchmarks.language import measures, scales
from benchmarks.language.store import LanguageStore
from benchmarks.language.tables import kn
from jaxfit.errors import UserError

COLUMNS = (table.Column("share", "share", None), table.Column("context", "context"))


def test_text_is_left_out_of_cells_and_of_what_figures_are_made_of() -> None:
    cells = {"share": {"mean": 0.5}, "context": {"text": "he has joined"}}
    result = {
        "data": {"name": "text"},
        "rows": [{"cells": cells, "drawn": {"x": [1.0], "text": ["he"]}}, {"cells": {}}],
    }
    public = record.without_text(result)
    expected = [{"cells": {"share": {"mean": 0.5}}, "drawn": {"x": [1.0]}}, {"cells": {}}]
    assert public == {"data": {"name": "text"}, "rows": expected}
    assert result["rows"][0]["cells"]["context"] == {"text": "he has joined"}, "the record itself stays"


@pytest.mark.parametrize(
    ("text", "cell"), [("a <unk>", "`a <unk>`"), ("|", "`\\|`"), ("the ` key", "`` the ` key ``"), ("", "``")]
)
def test_text_is_code_in_a_page(text: str, cell: str) -> None:
    assert markdown.code(text) == cell


def test_figures_of_all_orders_of_magnitude() -> None:
    assert [record.number(x, None) for x in (3.2e-5, 1234.0, None)] == ["3.2e-05", "1.2e+03", ""]


def test_what_is_no_json_object_is_no_record(tmp_path: Path) -> None:
    assert record.read(tmp_path / "none.json") is None
    path = tmp_path / "list.json"
    for text in ("[]", "[1]", "3", "null"):
        path.write_text(text)
        with pytest.raises(UserError, match=r"not a record: it is no JSON object \(.*\) - remove it, or choose"):
            record.read(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "not a table's record: it has no table, section, "),
        ('{"table": ""}', "not a table's record: it has no section, "),
        ('{"table": "table-0",', "not a record: "),
        (
            '{"rows": [{"label": [], "cells": {}}], "models": {}}',
            "not a table's record: a row has no thesis, seeds, models",
        ),
        (
            '{"rows": [{"label": [], "cells": {}, "thesis": {}, "seeds": [], "models": ["lbl"]}], "models": {}}',
            "not a table's record: it does not describe the model lbl",
        ),
        ('{"rows": null, "models": {}}', "not a table's record: rows or models are not what they should be"),
    ],
)
def test_a_record_with_a_missing_part_is_an_error_before_anything_is_measured(
    tmp_path: Path, text: str, said: str
) -> None:
    def measure(store, specs, part) -> table.Measured:
        raise AssertionError

    rows = [table.Row(("one",), ((),), {}, measure)]
    made = table.Table(LanguageStore, "table-0", "0", "", ("rank",), COLUMNS, lambda *_: rows)
    scale = scales.SCALES["tiny"]
    path = tmp_path / "table-0.planted.tiny.json"
    path.write_text(text if "rows" not in text else json.dumps(dict.fromkeys(record.TABLE) | json.loads(text)))
    with pytest.raises(UserError) as error:
        run.run_table(made, LanguageStore(scales.text("planted", scale), scale, "tuned", tmp_path / "work"), tmp_path)
    assert str(error.value).startswith(said)
    assert str(error.value).endswith(f"({path}) - remove it, or choose another --out")


@pytest.mark.parametrize("quotable", [True, False])
def test_text_that_may_not_be_published_stays_in_the_work_folder(tmp_path: Path, quotable: bool) -> None:
    def draw(result: dict, path: Path) -> None:
        path.write_text(" ".join(result["rows"][0]["drawn"].get("text", ["none"])))

    def measure(store, specs, part) -> table.Measured:
        return {"share": 2e-6, "context": "secret words", "drawn": {"x": [1.5], "text": ["secret", "words"]}}

    rows = [table.Row((name,), ((),), {}, measure) for name in ("one", "two")]
    quoting = table.Table(
        LanguageStore, "table-0", "0", "Contexts", ("rank",), COLUMNS, lambda *_: rows, draw=draw, explore=draw
    )
    scale = scales.SCALES["tiny"]
    store = LanguageStore(scales.text("planted", scale), scale, "tuned", tmp_path / "work")
    store.quotable = quotable
    result = run.run_table(quoting, store, tmp_path / "out")
    assert result["rows"][1]["cells"]["context"] == {"text": "secret words"}, "whoever runs it has the data"
    hidden, public = tmp_path / "work" / run.UNPUBLISHED, tmp_path / "out"
    assert hidden.exists() != quotable
    with_text = public if quotable else hidden
    assert json.loads((with_text / "table-0.planted.tiny.json").read_text()) == result
    page = (with_text / "table-0.planted.tiny.md").read_text()
    assert "| one | 2.0e-06 | `secret words` |" in page
    assert "![Contexts](table-0.planted.tiny.png)" in page
    assert "[table-0.planted.tiny.html](table-0.planted.tiny.html)" in page
    for suffix in ("png", "html"):
        assert (with_text / f"table-0.planted.tiny.{suffix}").read_text() == "secret words"
    if not quotable:
        made = {path.name: path.read_text() for path in public.iterdir()}
        assert set(made) == {f"table-0.planted.tiny.{suffix}" for suffix in ("json", "md", "png", "html")}
        assert not any("secret" in text for text in made.values())
        assert "| one | 2.0e-06 |  |" in made["table-0.planted.tiny.md"]
        assert run.LEFT_OUT in made["table-0.planted.tiny.md"]
    assert run.LEFT_OUT not in page
    again = run.run_table(dataclasses.replace(quoting), store, tmp_path / "out", only="two")
    assert [row["label"] for row in again["rows"]] == [["one"], ["two"]], "a row of before is read again"


def test_rows_stay_if_their_models_are_those_of_the_seeds_that_are_asked_for(tmp_path: Path) -> None:
    def rows(scale: scales.LanguageScale, seeds: int | None) -> list[table.Row]:
        several = tuple((kn(2 + seed),) for seed in range(seeds or 1))  # in place of models with seeds
        draws = {"counted": ((kn(1),),), "seeded": several}
        return [table.Row((label,), specs, {}, measures.perplexity) for label, specs in draws.items()]

    columns = (table.Column("perplexity", ""),)
    made = table.Table(LanguageStore, "table-0", "0", "", ("model",), columns, rows)
    scale = scales.SCALES["tiny"]
    store = LanguageStore(scales.text("planted", scale), scale, "tuned", tmp_path / "work")

    def labels(seeds: int | None, only: str | None) -> list[str]:
        result = run.run_table(made, store, tmp_path / "out", seeds, only)
        assert result["complete"] == (len(result["rows"]) == 2)
        assert (result["verdicts"] is not None) == result["complete"]
        return [row["label"][0] for row in result["rows"]]

    both = ["counted", "seeded"]
    assert labels(None, None) == labels(1, "counted") == labels(None, "seeded") == both
    assert labels(2, "counted") == ["counted"], "the other row is of one seed"
    assert labels(2, "seeded") == both
    assert labels(1, "counted") == ["counted"], "the other row is of two seeds"


def test_whose_text_may_be_published() -> None:
    scale = scales.SCALES["tiny"]
    corpus = scales.text("planted", scale)
    names = ("planted", "prose", "wikitext-2", "holmes", "ptb", "brown")
    found = {name: LanguageStore(corpus._replace(name=name), scale, "tuned", Path()).quotable for name in names}
    assert [name for name, quotable in found.items() if not quotable] == ["ptb", "brown"]
