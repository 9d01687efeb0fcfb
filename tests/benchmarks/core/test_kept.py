"""What was measured of a table's models, kept seed by seed: rows and seeds of different machines are compared."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.core import source, table
from benchmarks.core.kept import FOLDER, Kept
from benchmarks.core.table import Column, Row, Table
from benchmarks.core.verdict import Claim, Scores
from benchmarks.language import measures, scales
from benchmarks.language.claims import TextModels
from benchmarks.language.store import LanguageStore
from benchmarks.language.tables import kn
from jaxfit.errors import UserError

SCALE = scales.SCALES["tiny"]
BEGIN = {"table": "table-0", "data": {"name": "planted"}, "columns": []}
KEY = (("LBL", "5"), ("0123",))


def scores(units: int = 20, seeded: bool = True) -> Scores:
    rng = np.random.default_rng(units)
    return Scores(rng.normal(1000, 100, units), rng.integers(100, 300, units).astype(float), np.exp, seeded)


def test_what_was_measured_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, one = tmp_path / "table-0.json", scores()
    measured = {"perplexity": one, "proportion": 0.25, "reduction": (one, scores(20, False)), "lost": float("nan")}
    Kept(path, BEGIN).add(KEY, {"test": measured, "valid": {"perplexity": scores(10)}}, {"folder": {"label": "lbl"}})
    kept = Kept(path, BEGIN)
    assert kept.models(KEY) == {"folder": {"label": "lbl"}}
    found = kept.parts(KEY)
    assert found["test"]["proportion"] == 0.25
    assert np.isnan(found["test"]["lost"])
    assert found["valid"]["perplexity"].value == pytest.approx(scores(10).value, rel=1e-6)
    for read, written in zip(found["test"]["reduction"], measured["reduction"], strict=True):
        np.testing.assert_allclose(read.total, written.total, rtol=1e-7)
        np.testing.assert_array_equal(read.count, written.count)
        assert (read.finish, read.seeded) == (written.finish, written.seeded)


def test_what_cannot_be_compared_is_dropped(tmp_path: Path) -> None:
    path, other = tmp_path / "table-0.json", (("LBL", "2"), ("4567",))
    kept = Kept(path, BEGIN)
    kept.add(KEY, {"test": {"perplexity": scores(20)}}, {})
    kept.add(other, {"test": {"perplexity": scores(30)}}, {})  # of blocks of another size
    assert Kept(path, BEGIN).parts(KEY) is None
    assert Kept(path, BEGIN).parts(other) is not None
    assert Kept(path, {**BEGIN, "data": {"name": "another"}}).parts(other) is None
    (tmp_path / FOLDER / "table-0.json").write_text(json.dumps({**BEGIN, "rows": [{"label": ["LBL"]}]}))
    with pytest.raises(UserError, match="not a table's measurements"):
        Kept(path, BEGIN)


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

    def run(folder: str, only: str | None = None, missing: bool = False) -> dict:
        store = LanguageStore(corpus, SCALE, "tuned", tmp_path / folder)
        return table.run(made, store, tmp_path / f"{folder}-results", only=only, missing=missing)

    whole = run("whole")
    assert run("parts", "KN1")["verdicts"] is None
    shutil.rmtree(tmp_path / "parts")  # another machine, and another version of the source code
    fingerprint = source.fingerprint
    monkeypatch.setattr(source, "fingerprint", lambda modules: fingerprint(modules)[::-1])
    run("parts", "KN2")
    shutil.rmtree(tmp_path / "parts")
    capsys.readouterr()
    result = run("parts", missing=True)
    assert capsys.readouterr().err.count("  trained ") == 1
    assert [row["label"] for row in result["rows"]] == [["KN1"], ["KN2"], ["KN3"]]
    assert set(result["models"]) == {name for row in result["rows"] for name in row["models"]}
    assert len({model["source"] for model in result["models"].values()}) == 2
    for one, other in zip(result["rows"], whole["rows"], strict=True):
        assert one["cells"]["perplexity"]["mean"] == pytest.approx(other["cells"]["perplexity"]["mean"], rel=1e-6)
    (ours,), (expected,) = result["verdicts"], whole["verdicts"]
    assert ours["answer"] == expected["answer"]
    for part in ("test", "validation"):
        for one, other in zip(ours[part]["comparisons"], expected[part]["comparisons"], strict=True):
            assert one["holds"] == other["holds"]
            assert one["interval"] == pytest.approx(other["interval"], rel=1e-4)
