"""The maps that are made from records and registries."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sample_records

from benchmarks import registry
from benchmarks.core import markdown, record
from benchmarks.core.table import Row
from benchmarks.language.store import LanguageStore
from benchmarks.language.tables import TABLES
from benchmarks.report import fidelity, highlights, html, maps, pages
from jaxfit.errors import UserError

ROOT = Path(__file__).parents[3]


def test_the_map_in_a_page_is_replaced_whole(tmp_path: Path) -> None:
    row = {"label": ["HLBL", "T7", "ADAPTIVE(0.4) ×4"], "models": ["t7"]}
    row["cells"] = {"perplexity": {"mean": 112.13, "sd": 0.3, "interval": [110.1, 114.1]}}
    # better on the test, but not by validation
    other = {"label": ["LBL", "", ""], "cells": {"perplexity": {"mean": 111.0, "sd": 0.5}}, "models": ["lbl", "kn"]}
    ngram = {"label": ["Int. KN6", "", ""], "cells": {"perplexity": {"mean": 90.0, "sd": None}}, "models": ["kn"]}
    for each in (row, other, ngram):
        each |= {"thesis": {}, "seeds": [1]}
    models = {
        "t7": {"validation_perplexity": [120.0, 130.0]}, "lbl": {"validation_perplexity": [121.0, 125.0]}, "kn": {},
    }  # fmt: skip
    recorded = sample_records.record(models=models)
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    text = json.dumps(recorded | {"rows": [other, row, ngram]})
    (folder / "table-4.4.ptb.cpu.json").write_text(text)
    text = json.dumps(recorded | {"recipe": "thesis", "rows": [other], "complete": False})
    (folder / "table-4.4.ptb.cpu.thesis.json").write_text(text)

    made = [Row(tuple(each["label"]), (), {}, lambda store, specs, part: {}) for each in (row, other, ngram)]
    tables = TABLES | {"table-4.4": dataclasses.replace(TABLES["table-4.4"], rows=lambda scale, seeds: made)}

    def filled_map(page: str) -> str:
        return maps.fill(page, maps.RESULTS, maps.results_map(folder, tables, "benchmarks/results"))

    page = "above\n\n<!-- results -->\nold\n<!-- /results -->\n\nbelow\n"
    filled = filled_map(page)
    assert filled_map(filled) == filled
    assert filled.startswith("above\n\n<!-- results -->\n\n| table ")
    assert filled.endswith("|\n\n<!-- /results -->\n\nbelow\n")
    assert "old" not in filled
    lines = filled.splitlines()
    (line,) = (line for line in lines if line.startswith("| 4.4 "))
    assert line.endswith(
        "| `python -m benchmarks run table-4.4` "
        "| [ptb, cpu](benchmarks/results/table-4.4.ptb.cpu.md): HLBL T7 ADAPTIVE(0.4) ×4, test perplexity 112.1 ± 2.0"
        "<br>[ptb, cpu, thesis](benchmarks/results/table-4.4.ptb.cpu.thesis.md): LBL, test perplexity 111.0 ± 0.5 (sd) "
        "(not all rows) |"
    )
    assert sum("not recorded yet" in line for line in lines) == len(TABLES), "the others, and speed"
    with pytest.raises(UserError, match="no place"):
        filled_map("<!-- results -->")


def test_intervals_over_former_units_have_a_dagger_and_a_note() -> None:
    cell = {"mean": 124.0, "sd": 0.1, "interval": [117.5, 130.5]}
    row = {"cells": {"perplexity": cell, "minutes": {"mean": 2.0, "sd": 0.5}}, "resampled": markdown.FORMER}
    shown = maps.figure(row, "perplexity", 1)
    assert shown == "124.0 ± 6.5 †"
    assert maps.figure(row, "minutes", 1) == "2.0 ± 0.5 (sd)"
    now = maps.figure(row | {"resampled": "up to 50 parts of consecutive lines"}, "perplexity", 1)
    assert now == "124.0 ± 6.5"
    assert maps.noted(["a table", now], "fidelity.md") == ["a table", now]
    note = "† Intervals over blocks of ten lines are too narrow: see [fidelity](fidelity.md#older-intervals-of-texts)."
    assert maps.noted(["a table", shown], "fidelity.md") == ["a table", shown, "", note]


def test_a_readme_that_is_no_map_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("# A project\n")
    with pytest.raises(UserError, match="no map of recorded results"):
        maps.write(tmp_path, {})
    assert path.read_text() == "# A project\n"
    path.unlink()
    recorded = tmp_path / "table-4.4.ptb.cpu.json"
    result = sample_records.record(command="here", complete=False)
    recorded.write_text(json.dumps(result))
    assert maps.write(tmp_path, TABLES) == maps.write(tmp_path, TABLES) == path
    assert "| `here` | [table-4.4.ptb.cpu](table-4.4.ptb.cpu.md) (not all rows) |" in path.read_text()
    assert json.loads(recorded.read_text()) == result


@pytest.mark.parametrize(
    "read",
    [
        lambda folder: maps.write(folder, TABLES),
        lambda folder: maps.results_map(folder, TABLES, "here"),
        lambda folder: highlights.lines(folder, highlights.RESULTS, "here"),
        fidelity.records,
        lambda folder: html.write(folder / "report.html", folder, TABLES),
    ],
    ids=["map", "results", "highlights", "claims", "report"],
)
def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, read: Callable[[Path], object]) -> None:
    (tmp_path / "table-4.4.ptb.cpu.json").write_text('{"table": "table-4.4", "rows"')
    with pytest.raises(UserError, match=r"not a record: .*table-4\.4\.ptb\.cpu\.json\) - remove it"):
        read(tmp_path)


def test_a_model_that_validation_measures_in_another_way_is_not_chosen_by_it() -> None:
    rows = [
        {"label": [name], "cells": {"perplexity": {"mean": mean, "sd": None}}, "models": [name]}
        for name, mean in (("RBM", 40.0), ("DocNADE", 50.0))
    ]
    models = {
        "RBM": {"validation_perplexity_of_held-out_words": [30.0]},
        "DocNADE": {"validation_document_perplexity": [51.0]},
    }
    chosen, _ = maps.chosen({"columns": [{"name": "perplexity"}], "rows": rows, "models": models})
    assert chosen["label"] == ["DocNADE"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [({}, (120.0 + 100.0) / 2), ({"valid": {"mean": 90.0}}, 90.0), ({"perplexity": {"mean": 1.0}}, 110.0)],
)
def test_a_row_is_chosen_by_the_mean_over_seeds_of_best_epochs_or_by_its_own_column(cells: dict, expected: float):
    models = {"one": {"validation_perplexity": [130.0, 120.0, 125.0]}, "two": {"validation_perplexity": [100.0, 101.0]}}
    row = {"cells": cells, "models": ["one", "two", "ngram"]}
    assert maps.validation(row, models | {"ngram": {}}) == expected


def test_of_rows_that_begin_alike_the_one_that_validation_chooses_is_shown(tmp_path: Path) -> None:
    """Not the best on the test, nor the first; another model's row plays no role."""
    labels = {"LBL 2": 90.0, "LBL 5": 110.0, "LBL 9": 100.0, "NPLM 2": 80.0}
    rows = [
        {"label": [*label.split(), ""], "cells": {"perplexity": {"mean": mean, "sd": None}}, "models": [label],
         "thesis": {"perplexity": 2 * mean}, "seeds": [1]}
        for label, mean in labels.items()
    ]  # fmt: skip
    models = {
        label: {"validation_perplexity": [score]} for label, score in zip(labels, (99.0, 97.0, 98.0, 1.0), strict=True)
    }
    found = sample_records.record(rows=rows, models=models)
    (tmp_path / "some.json").write_text(json.dumps(found))
    chosen = {"some": [("LBL",), ("RNN",)], "another": [("LBL",)]}
    _, _, *shown = highlights.lines(tmp_path, chosen, "there")
    assert shown == ["| LBL 5 | Penn Treebank | perplexity 110.0 | 220.0 | [table-4.4](there/some.md) |"]


def test_pages_are_as_written_from_models() -> None:
    """`python -m benchmarks report` brings them up to date; those of results are held to the records elsewhere."""
    written = pages.written(record.RESULTS, [])
    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    assert maps.fill(text, maps.MODELS, written["docs/models.md"][maps.MODELS]) == text
    for store, model in registry.models().values():
        command = f"{'jaxlm' if store is LanguageStore else 'jaxcf'} train {model.name}"
        assert f"| {model.name} | {model.about} | {model.source} | `{command}` |" in text
    for page, places in written.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        assert all(maps.fill(text, place, ["filled"]) != text for place in places), "each place is marked"


def test_chosen_rows_are_recorded() -> None:
    for chosen in (highlights.RESULTS, highlights.TEXT, highlights.RATINGS):
        shown = highlights.lines(record.RESULTS, chosen, "here")
        assert len(shown) == 2 + sum(map(len, chosen.values()))


def test_the_best_recorded_model_of_a_text_is_among_the_chosen_rows() -> None:
    """Of all rows of the records that help to choose one."""
    best = {}
    for name in highlights.TEXT:
        rows = json.loads((record.RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]
        best |= {(name, *filter(None, row["label"])): row["cells"]["perplexity"]["mean"] for row in rows}
    name, *label = min(best, key=best.__getitem__)
    assert tuple(label) in highlights.TEXT[name]
