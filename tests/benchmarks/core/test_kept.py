"""What was measured of a table's models, kept seed by seed: rows and seeds of different machines are compared."""

import base64
import json
import shutil
import threading
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.core import kept as kept_numbers
from benchmarks.core import markdown, record, source, table
from benchmarks.core.kept import Kept, Key, Measurement, comparable, identity, rows_of
from benchmarks.core.run import missing_rows, run_table
from benchmarks.core.table import Column, Row, Table
from benchmarks.core.verdict import Claim, Scores
from benchmarks.language import measures, scales
from benchmarks.language.claims import TextModels
from benchmarks.language.store import LanguageStore
from benchmarks.language.tables import kn
from benchmarks.language.tasks.completion import CompletionStore
from jaxfit.errors import UserError

SCALE = scales.SCALES["tiny"]
KEY = (("LBL", "5"), ("0123",))


def scores(units: int = 20, seeded: bool = True) -> Scores:
    rng = np.random.default_rng(units)
    return Scores(rng.normal(1000, 100, units), rng.integers(100, 300, units).astype(float), np.exp, seeded)


def measurement(parts: dict) -> Measurement:
    return Measurement(parts, {"folder": {"label": "lbl"}}, {"device": "here"}, "2026-11-24", 1.5)


def test_what_was_measured_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, one = tmp_path / "table-0.json", scores()
    measured = {"perplexity": one, "proportion": 0.25, "reduction": (one, scores(20, False)), "lost": float("nan")}
    written = measurement({"test": measured, "valid": {"perplexity": scores(10)}})
    Kept(path).add(KEY, written)
    found = Kept(path).find(KEY)
    assert found is not None
    assert {**vars(found), "parts": None} == {**vars(written), "parts": None}
    assert found.parts["test"]["proportion"] == 0.25
    assert np.isnan(found.parts["test"]["lost"])
    assert found.parts["valid"]["perplexity"].value == pytest.approx(scores(10).value, rel=1e-6)
    for read, score in zip(found.parts["test"]["reduction"], measured["reduction"], strict=True):
        np.testing.assert_allclose(read.total, score.total, rtol=1e-7)
        np.testing.assert_array_equal(read.count, score.count)
        assert (read.finish, read.seeded) == (score.finish, score.seeded)
    assert Kept(path).find((("LBL", "2"), ("0123",))) is None
    Kept(path).path.write_text(json.dumps({"rows": [{"label": ["LBL"]}]}))
    with pytest.raises(UserError, match="not a table's measurements"):
        Kept(path)


def test_what_another_process_has_kept_meanwhile_stays(tmp_path: Path) -> None:
    one, other = Kept(tmp_path / "table-0.json"), Kept(tmp_path / "table-0.json")
    keys = [KEY, (("LBL", "2"), ("4567",))]
    for kept, key in zip((one, other), keys, strict=True):
        kept.add(key, measurement({"test": {"perplexity": scores()}}))
    assert all(Kept(tmp_path / "table-0.json").find(key) is not None for key in keys)


def test_what_another_process_keeps_while_the_file_is_written_stays(tmp_path: Path, monkeypatch) -> None:
    one, other = Kept(tmp_path / "table-0.json"), Kept(tmp_path / "table-0.json")
    second, found, write = (("LBL", "2"), ("4567",)), measurement({"test": {"perplexity": scores()}}), record.write_text
    thread = threading.Thread(target=other.add, args=(second, found))

    def slowly(path: Path, text: str) -> None:
        if thread.ident is None:
            thread.start()
            thread.join(0.5)
        write(path, text)

    monkeypatch.setattr(record, "write_text", slowly)
    one.add(KEY, found)
    thread.join()
    assert all(Kept(tmp_path / "table-0.json").find(key) is not None for key in (KEY, second))


def test_numbers_that_earlier_versions_wrote_are_read() -> None:
    numbers = np.array([0.5, -1e-9, 12345.0], "<f4")
    texts = [base64.b64encode(numbers).decode(), f"zlib:{base64.b64encode(zlib.compress(numbers)).decode()}"]
    for text in [*texts, kept_numbers._text(numbers)]:
        np.testing.assert_array_equal(kept_numbers._array(text), numbers)


def test_what_was_kept_of_small_units_is_added_up(tmp_path: Path) -> None:
    path, fine = tmp_path / "table-0.json", scores(103)
    Kept(path).add(KEY, measurement({"test": {"perplexity": fine, "reduction": (fine, fine)}}))
    store = LanguageStore.open("tiny", None, None, "tuned", tmp_path)
    found = Kept(path, store.grouped).find(KEY)
    assert found is not None
    coarse, reduction = found.parts["test"]["perplexity"], found.parts["test"]["reduction"]
    assert len(coarse.total) == len(reduction[1].total) == 50
    assert coarse.value == pytest.approx(fine.value, rel=1e-6)
    np.testing.assert_allclose(coarse.total[:3], fine.total[:9].reshape(3, 3).sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(coarse.count[-2:], fine.count[-4:].reshape(2, 2).sum(axis=1), rtol=1e-6)


def test_of_a_tasks_scores_those_of_the_text_alone_are_added_up(tmp_path: Path) -> None:
    """Else rows that were kept of smaller parts of the text would never be compared with rows of today."""
    path, answers = tmp_path / "table-0.json", replace(scores(1040), finish=np.positive)
    earlier = measurement({"test": {"accuracy": answers, "perplexity": scores(185)}})
    Kept(path).add(KEY, earlier)
    store = CompletionStore.open("tiny", None, None, "tuned", tmp_path)
    found, now = Kept(path, store.grouped).find(KEY), measurement({"test": {"perplexity": scores(50)}})
    assert found is not None
    assert [len(each.total) for each in found.parts["test"].values()] == [1040, 50]
    assert comparable([found, now])
    assert not comparable([earlier, now])


def test_a_model_of_another_recipe_takes_the_place_of_its_predecessor(tmp_path: Path) -> None:
    """By label and names, seeds included: other seeds, and other rows of the same model, stay."""
    path, (label, _) = tmp_path / "table-0.json", KEY
    first, second = (replace(measurement({"test": {}}), models={"folder": {"label": f"lbl-seed{n}"}}) for n in (1, 2))
    kept = Kept(path)
    kept.add((label, ("former",)), first)
    kept.add((label, ("second seed",)), second)
    kept.add((("LBL", "again"), ("former",)), first)
    kept.add((label, ("present",)), first)
    kept = Kept(path)
    assert kept.find((label, ("former",))) is None
    for key in ((label, ("present",)), (label, ("second seed",)), (("LBL", "again"), ("former",))):
        assert kept.find(key) is not None


def test_figures_of_a_first_model_are_found_where_another_table_mixes_it(tmp_path: Path) -> None:
    mixed = measurement({"test": {"perplexity": scores(), "mixture": scores()}})
    models = {"lbl-0123": {"label": "lbl"}, "kn5-4567": {"label": "kn5"}}
    Kept(tmp_path / "table-0.json").add((("LBL",), ("0123", "4567")), replace(mixed, models=models))
    kept, key = Kept(tmp_path / "table-1.json"), (("LBL", "alone"), ("0123",))

    def found(key: Key, *columns: Column) -> Measurement | None:
        table = Table(LanguageStore, "table-1", "1", "", ("model",), columns, lambda *_: [])
        return kept.find_elsewhere(table, key)

    measured = found(key, Column("perplexity", "", first=True))
    assert measured is not None
    assert (measured.parts["test"].keys(), measured.models) == ({"perplexity"}, {"lbl-0123": {"label": "lbl"}})
    assert found((("KN5",), ("4567",)), Column("perplexity", "", first=True)) is None
    assert found(key, Column("perplexity", "", first=True), Column("mixture", "")) is None, "it depends on both models"
    Kept(tmp_path / "table-0.json").add(
        (("LBL",), ("89ab",)), measurement({"test": {"perplexity": scores()}, "valid": {}})
    )
    assert found((("LBL",), ("89ab",)), Column("perplexity", "", first=True)) is None, "it is of one part only"
    Kept(tmp_path / "table-1.json").add((("SVD", "128"), ()), measurement({"test": {"perplexity": 1.0}}))
    assert found((("SVD", "512"), ()), Column("perplexity", "")) is None, "only their labels tell them apart"


def test_rows_without_models_are_always_measured_again(tmp_path: Path) -> None:
    """Nothing says which source code their figures are of."""
    figures = iter((1.0, 2.0))
    rows = [Row(("first hypothesis",), ((),), {}, lambda *_: {"errors": next(figures)})]
    made = Table(LanguageStore, "table-0", "0", "", ("",), (Column("errors", ""),), lambda *_: rows, kept=True)
    store = LanguageStore(scales.text("planted", SCALE), SCALE, "tuned", tmp_path / "models")
    store.parts = ("test",)
    for expected in (1.0, 2.0):
        (row,) = run_table(made, store, tmp_path, missing=True)["rows"]
        assert row["cells"]["errors"]["mean"] == expected


def test_rows_are_named_by_their_label_or_by_the_beginning_of_a_word() -> None:
    rows = [Row(label, (), {}, measures.perplexity) for label in (("FRBM", "2"), ("Temporal FRBM", "2"), ("LBL", ""))]
    for text, found in {"FRBM 2": [0], "frbm": [0, 1], "temp": [1], "BM": [], "LBL": [2], None: [0, 1, 2]}.items():
        assert table.named(rows, text) == [rows[i] for i in found], text


def test_scores_of_other_units_are_not_compared() -> None:
    one, other = (measurement({"test": {"perplexity": scores(n)}, "valid": {"proportion": 0.5}}) for n in (20, 30))
    assert comparable([one, one])
    assert not comparable([one, other])
    both = measurement({"test": {"all": scores(30), "some": scores(20)}})
    assert comparable([both, both]), "columns may be of different units"


def test_rows_of_other_machines_are_judged_like_rows_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Row((f"KN{n}",), ((kn(n),),), {}, measures.perplexity) for n in (1, 2, 3)]

    def claims(store: LanguageStore, rows: list[Row], part: str) -> list[Claim]:
        models = TextModels(store, rows, part)
        return [Claim("0", "the order helps", models.falling(list(models.rows)))]

    columns = (Column("perplexity", ""),)
    made = Table(LanguageStore, "table-0", "0", "", ("model",), columns, lambda *_: rows, claims=claims, kept=True)
    corpus = scales.text("planted", SCALE)

    def run(folder: str, only: str | None = None, missing: bool = False, table: Table = made) -> dict:
        store = LanguageStore(corpus, SCALE, "tuned", tmp_path / folder)
        return run_table(table, store, tmp_path / f"{folder}-results", only=only, missing=missing)

    whole, environment, fingerprint = run("whole"), record.environment(), source.fingerprint
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(record, "environment", lambda: {**environment, "device": "another machine"})
        assert run("parts", "KN1")["verdicts"] is None
    shutil.rmtree(tmp_path / "parts")
    monkeypatch.setattr(source, "fingerprint", lambda modules: fingerprint(modules)[::-1])  # another version
    run("parts", "KN2")
    assert run("parts", "KN3")["verdicts"] is None, "they are of several versions of the source code"
    shutil.rmtree(tmp_path / "parts")
    capsys.readouterr()
    result = run("parts", missing=True)
    assert "trained" not in capsys.readouterr().err
    assert [row["label"] for row in result["rows"]] == [["KN1"], ["KN2"], ["KN3"]]
    assert environment_of(result) == ["another machine", *2 * [environment["device"]]]
    assert set(result["models"]) == {name for row in result["rows"] for name in row["models"]}
    assert len({model["source"] for model in result["models"].values()}) == 2
    page = (tmp_path / "parts-results" / "table-0.planted.tiny.md").read_text()
    assert "were trained by earlier source code" in page
    assert {row["resampled"] for row in result["rows"]} == {"up to 50 parts of consecutive lines"}
    assert "paired bootstrap over up to 50 parts of consecutive lines, and" in page
    for one, other in zip(result["rows"], whole["rows"], strict=True):
        assert one["cells"]["perplexity"]["mean"] == pytest.approx(other["cells"]["perplexity"]["mean"], rel=1e-6)
    (ours,), (expected,) = result["verdicts"], whole["verdicts"]
    assert ours["answer"] == expected["answer"]
    for part in ("test", "validation"):
        for one, other in zip(ours[part]["comparisons"], expected[part]["comparisons"], strict=True):
            assert one["holds"] == other["holds"]
            assert one["interval"] == pytest.approx(other["interval"], rel=1e-4)
    # what is measured anew takes the place of what was kept, in the row and in the verdicts
    again = run("parts")
    assert environment_of(again) == 3 * [environment["device"]]
    assert again["verdicts"] is not None
    # another table of the same models, by other names, trains nothing
    shutil.rmtree(tmp_path / "parts")
    capsys.readouterr()
    renamed = [replace(row, label=(f"order {n}",)) for n, row in enumerate(rows, 1)]
    other = run("parts", missing=True, table=replace(made, name="table-1", rows=lambda *_: renamed))
    assert "trained" not in capsys.readouterr().err
    for one, row in zip(other["rows"], again["rows"], strict=True):
        assert one["cells"]["perplexity"]["mean"] == pytest.approx(row["cells"]["perplexity"]["mean"], rel=1e-6)
    store = LanguageStore(corpus, SCALE, "tuned", tmp_path / "parts")
    table_3, folder = replace(made, name="table-3"), tmp_path / "parts-results"
    assert missing_rows(table_3, store, folder, renamed, missing=True) == [], "nor does another process for it"
    wider = replace(made, name="table-2", columns=(*columns, Column("minutes", "")))
    run("parts", "KN1", missing=True, table=wider)
    assert "trained" in capsys.readouterr().err, "a column is missing there"


def test_a_row_has_the_environments_of_all_its_seeds(tmp_path: Path) -> None:
    row = Row(("KN2",), ((kn(2),), (kn(3),), (kn(4),)), {}, measures.perplexity)
    made = Table(LanguageStore, "table-0", "0", "", ("model",), (Column("perplexity", ""),), lambda *_: [row])
    store = LanguageStore(scales.text("planted", SCALE), SCALE, "tuned", tmp_path)
    kept = Kept(tmp_path / "table-0.json")
    here = {"commit": "abc", "dirty": False, "python": "3", "jax": "0", "device": "cpu: here", "cores": 2}
    there = {**here, "device": "gpu: there"}
    for seed, (specs, where) in enumerate(zip(row.draws, (here, there, here), strict=True)):
        models, date = {f"folder{seed}": {"label": f"kn-seed{seed}"}}, f"2026-01-0{2 - seed % 2}"
        found = replace(measurement({"test": {"perplexity": scores()}}), environment=where, models=models, date=date)
        kept.add(identity(row, specs, store), found)
    rows, _ = rows_of(made, [row], store, kept)
    assert record.environments(rows["KN2",]) == [here, there]
    recorded = sample_result(list(rows.values()))
    page = markdown.page(recorded, "", "small", set())
    assert "cpu: here (2 cores)" in page
    assert "gpu: there (2 cores)" in page


def sample_result(rows: list[dict]) -> dict:
    columns = [{"name": "perplexity", "title": "", "digits": 1}]
    return {
        "table": "table-0", "title": "", "section": "", "data": {"name": "planted", "note": ""}, "scale": "tiny",
        "recipe": "tuned", "complete": True, "heads": ["model"], "columns": columns, "rows": rows, "models": {},
        "verdicts": [], "note": "", "command": "",
    }  # fmt: skip


def environment_of(result: dict) -> list[str]:
    return [row["environment"]["device"] for row in result["rows"]]
