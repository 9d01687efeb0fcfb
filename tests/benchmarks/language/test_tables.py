"""Every table of chapters 3 and 4 through its own command, at the smallest scale; records."""

import dataclasses
import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from accuracy import assert_better_than_unigrams
from benchmarks.core import markdown, record, run, source, table, timing
from benchmarks.language import measures, scales, slides
from benchmarks.language.store import LanguageStore, Spec
from benchmarks.language.tables import TABLES, kn
from benchmarks.measurement import dry_run

SCALE = scales.SCALES["tiny"]


@pytest.fixture(scope="module")
def place(shared_place):
    return shared_place("language-models")


@pytest.fixture(scope="module")
def made(place) -> tuple[dict[str, dict], str]:
    """Make all tables of the thesis, by one command, and return what it printed, too."""
    results, out, _ = place.tables(*(name for name in TABLES if name.startswith("table-")))
    return results, out


@pytest.fixture(scope="module")
def results(made) -> dict[str, dict]:
    return made[0]


@pytest.mark.extended
def test_table_4_4_records_all_it_says(place, made) -> None:
    results, out = made
    result, path = results["table-4.4"], place.out / "table-4.4.planted.tiny.json"
    assert result == json.loads(path.read_text())
    assert result["complete"]
    assert [row["label"][1] for row in result["rows"][:8]] == [f"T{i}" for i in range(1, 8)] + [""]
    assert [row["label"][0] for row in result["rows"][7:]] == ["LBL", "Int. KN2", "Int. KN3", "Int. KN6"]
    first = result["rows"][0]
    assert first["thesis"] == {"perplexity": 151.2, "mixture": 107.2, "fitted": 106.0, "proportion": 0.34}
    assert first["seeds"] == [1]
    for row in result["rows"][:8]:
        cells = row["cells"]
        # the mixture of two is at least as good as the geometric mean of them
        kn6 = result["rows"][-1]["cells"]["perplexity"]["mean"]
        assert cells["mixture"]["mean"] < np.sqrt(cells["perplexity"]["mean"] * kn6)
        assert 0 <= cells["proportion"]["mean"] <= 1
    for model in result["models"].values():
        if model["label"].startswith("hlbl"):
            assert model["recipe"]["batch_size"] == 100
            assert len(model["validation_perplexity"]) == 2
            assert min(model["seconds_per_epoch"], model["examples_per_second"], model["compile_seconds"]) > 0
    (balanced,) = (model for model in result["models"].values() if "balanced" in model["label"])
    (bootstrap,) = balanced["made_from"]
    assert result["models"][bootstrap]["label"] == "hlbl-random-seed1"
    assert bootstrap == f"{balanced['tree']['bootstrap']}-{balanced['source']}"
    assert len(result["data"]["sha256"]) == 64
    keys = "commit dirty python jax jaxlib device devices cores matmul_precision XLA_FLAGS NPROC"
    for row in result["rows"]:
        assert set(row["environment"]) == set(keys.split())
        assert row["environment"]["matmul_precision"] == "highest"
    for part in (*result["rows"], *result["models"].values()):
        assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", part["date"])
    for text in (out, path.with_suffix(".md").read_text()):
        assert "151.2" in text
        assert "ADAPTIVE(0.4) ×4" in text


def test_rows_and_seeds_can_be_chosen(place) -> None:
    result, out, err = place.table("table-4.4", "--seeds", "3", "--rows", "Ran", "--out", f"{place.out}-2")
    assert "trained hlbl-random-seed3" in err
    assert [row["label"][1] for row in result["rows"]] == ["T1"]
    assert result["rows"][0]["seeds"] == [1, 2, 3]
    cell = result["rows"][0]["cells"]["perplexity"]
    assert len(cell["values"]) == 3
    assert cell["sd"] == pytest.approx(np.std(cell["values"], ddof=1))
    low, high = cell["interval"]
    assert low < cell["mean"] < high
    assert f"{cell['mean']:.1f} ± {(high - low) / 2:.1f}" in out
    assert not result["complete"]


@pytest.mark.extended
def test_tables_of_the_slides_show_training_times_and_published_figures_beside_their_data(place) -> None:
    result, _, _ = place.table("slides-ptb", "--rows", "LBL")
    assert [row["label"] for row in result["rows"]] == [["LBL"]]
    cells = result["rows"][0]["cells"]
    (model,) = (model for model in result["models"].values() if model["label"] == "lbl-seed1")
    minutes = 2 * model["seconds_per_epoch"] / 60  # to four digits
    assert cells["minutes"]["mean"] == pytest.approx(minutes, rel=1e-3)
    assert cells["fitted"]["mean"] < cells["perplexity"]["mean"] * 1.01
    result, _, _ = place.table("slides-nce", "--rows", "25")
    assert [row["label"] for row in result["rows"]] == [
        ["NCE", "25, unigram"], ["NCE", "25, uniform"], ["importance sampling", "25, unigram"]
    ]  # fmt: skip
    for name, published in (("slides-ptb", "Mirowski 2014 (Penn"), ("slides-nce", "Mnih and Teh 2012")):
        assert published not in (place.out / f"{name}.planted.tiny.md").read_text(), "published for other data"
        assert published in slides.TABLES[name].published


def test_rows_say_their_commit_and_go_when_other_models_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [table.Row((f"KN{n}",), ((kn(n),),), {}, measures.perplexity) for n in (1, 2)]
    perplexities = table.Table(
        LanguageStore, "table-0", "0", "", ("model",), (table.Column("perplexity", ""),), lambda *_: rows
    )
    ours = LanguageStore(scales.text("planted", SCALE), SCALE, "tuned", tmp_path)
    monkeypatch.setattr(record, "commit", lambda: {"commit": "one", "dirty": False})
    run.run_table(perplexities, ours, tmp_path)
    monkeypatch.setattr(record, "commit", lambda: {"commit": "two", "dirty": False})
    result = run.run_table(perplexities, ours, tmp_path, only="KN2")
    assert [row["environment"]["commit"] for row in result["rows"]] == ["one", "two"]
    *_, footer, _, trained = (tmp_path / "table-0.planted.tiny.md").read_text().splitlines()
    assert "commit one, " in footer
    assert "commit two, " in footer
    assert trained == "Models trained at commit one."
    # what a row was made of is asked for no longer: the row goes
    rows[0] = dataclasses.replace(rows[0], draws=((kn(1, False),),))
    result = run.run_table(perplexities, ours, tmp_path, only="KN2")
    assert [row["label"] for row in result["rows"]] == [["KN2"]]
    assert not result["complete"]


@pytest.mark.extended
def test_a_model_without_a_tree_is_timed_without_being_trained(tmp_path: Path) -> None:
    lbl, hlbl = Spec("lbl"), Spec("hlbl", tree=("random", 0.0, 1))
    rows = [table.Row((each.model,), ((each,),), {}, partial(measures.minutes, (lbl, hlbl))) for each in (lbl, hlbl)]
    times = table.Table(
        LanguageStore, "table-0", "0", "", ("model",), (table.Column("minutes", ""),), lambda *_: rows,
        claims=lambda *_: [], together=True, timed=True,
    )  # fmt: skip
    ours = LanguageStore(scales.text("planted", SCALE), SCALE, "tuned", tmp_path)
    result = run.run_table(times, ours, tmp_path)
    assert all(row["cells"]["minutes"]["mean"] > 0 for row in result["rows"])
    assert result["complete"]
    assert result["verdicts"] == []
    assert (ours.is_there(lbl), ours.is_there(hlbl)) == (False, True)
    assert [model["label"] for model in result["models"].values()] == ["hlbl-random-seed1"]
    (untrained,) = result["rows"][0]["not trained"]
    assert (untrained["kind"], untrained["recipe"]["batch_size"]) == ("lbl", 100)
    rows = rows[:1]
    assert not run.run_table(times, ours, tmp_path)["models"]
    assert "No model was trained." in (tmp_path / "table-0.planted.tiny.md").read_text()
    assert dry_run.DryRun().project(times, ours, times.rows(ours.scale, None))["models"] == 0


def test_rows_of_models_that_other_source_trained_stay_as_of_their_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [table.Row((f"KN{n}",), ((kn(n),),), {}, measures.perplexity) for n in (1, 2)]
    columns = (table.Column("perplexity", ""),)
    perplexities = table.Table(LanguageStore, "table-0", "0", "", ("model",), columns, lambda *_: rows)
    corpus = scales.text("planted", SCALE)
    results = []
    for commit, only in (("one", None), ("two", "KN2"), ("three", None)):
        monkeypatch.setattr(record, "commit", lambda commit=commit: {"commit": commit, "dirty": False})
        if commit == "two":  # from now on the source code is another
            monkeypatch.setattr(source, "fingerprint", lambda modules: "0" * 16)
        store = LanguageStore(corpus, SCALE, "tuned", tmp_path)
        results.append(run.run_table(perplexities, store, tmp_path, only=only))
        trained = (tmp_path / "table-0.planted.tiny.md").read_text().splitlines()[-1]
        if commit == "two":
            one = "kn1 at commit one (by earlier source code)"
            assert trained == f"Models trained: {one}; kn2 at commit two."
    before, mixed, after = ([row["models"] for row in result["rows"]] for result in results)
    assert mixed == [before[0], after[1]]
    assert after == [[store.directory(kn(n)).name] for n in (1, 2)]
    assert not {name for names in before for name in names} & {name for names in after for name in names}
    assert trained == "Models trained: kn1 at commit three; kn2 at commit two."
    for result in results[1:]:
        assert [row["cells"] for row in result["rows"]] == [row["cells"] for row in results[0]["rows"]]


def test_rows_are_chosen_by_the_beginnings_of_words() -> None:
    rows = TABLES["table-4.4"].rows(SCALE, None)
    assert [row.label[1] for row in table.named(rows, "HLBL")] == [f"T{i}" for i in range(1, 8)]
    assert [row.label[0] for row in table.named(rows, "LBL")] == ["LBL"]
    assert table.named(rows, None) == rows


@pytest.mark.extended
def test_tables_of_trees_take_the_models_of_table_4_4(results) -> None:
    statistics, speeds = results["table-4.3"], results["table-4.5"]
    for result in (statistics, speeds):
        assert set(result["models"]) < set(results["table-4.4"]["models"])
        assert len([name for name in result["models"] if "hlbl" in name]) >= 7
    cells = [{name: cell["mean"] for name, cell in row["cells"].items()} for row in statistics["rows"]]
    assert cells[0]["nodes"] == cells[1]["nodes"] == cells[2]["nodes"] == 59
    assert cells[0]["codes"] == pytest.approx(1)
    assert cells[4]["nodes"] < cells[5]["nodes"] < cells[6]["nodes"]
    assert len(speeds["rows"]) == 8
    assert speeds["rows"][-1]["thesis"] == {"minutes": 6420}
    for row in speeds["rows"]:
        minutes, words = row["cells"]["minutes"], row["cells"]["words"]
        assert len(minutes["values"]) == timing.ROUNDS
        assert minutes["over"] == "rounds"
        assert minutes["mean"] == np.median(minutes["values"]) > 0
        assert words["values"] == pytest.approx([SCALE.events / 60 / minute for minute in minutes["values"]], rel=0.1)


def test_all_rows_of_table_4_5_are_timed_in_the_same_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever rows are asked for, none of another run stays."""
    order = []

    class Timer:
        def __init__(self, trainer: str, window: float) -> None:
            assert window == SCALE.window
            self.name, self.trainer = trainer, SimpleNamespace(events=60)

        def seconds(self) -> float:
            order.append(self.name)
            return float(len(order))

    class Store(LanguageStore):
        get = trainer = lambda self, spec: spec.label()  # nothing is trained

    monkeypatch.setattr(measures, "EpochTimer", Timer)
    monkeypatch.setattr(run, "describe", lambda model, *_: {"label": model, "commit": "one", "dirty": False})
    store = Store(scales.text("planted", SCALE), SCALE, "tuned", tmp_path)
    result = run.run_table(TABLES["table-4.5"], store, tmp_path, only="T3")
    names = [spec.label() for row in TABLES["table-4.5"].rows(SCALE, None) for spec in row.specs()]
    turns = [timing.in_turn(names, number) for number in range(1 + timing.ROUNDS)]  # the first round is to warm up
    assert order == [name for turn in turns for name in turn]
    assert len(set(names)) == len(result["rows"]) == 8
    assert result["complete"]
    for name, row in zip(names, result["rows"], strict=True):
        rounds = [1.0 + 8 * number + turns[number].index(name) for number in range(1, 1 + timing.ROUNDS)]
        assert row["cells"]["minutes"]["values"] == [seconds / 60 for seconds in rounds]
        assert row["cells"]["words"]["mean"] == pytest.approx(np.median([60 / seconds for seconds in rounds]))


@pytest.mark.extended
@pytest.mark.parametrize(("name", "rows"), [("table-3.2", 6), ("table-4.1", 7), ("table-4.2", 5)])
def test_tables_of_perplexities(place, results, name: str, rows: int) -> None:
    result = results[name]
    assert len(result["rows"]) == rows
    assert result["complete"]
    assert (place.out / f"{name}.planted.tiny.md").exists()
    for row in result["rows"]:
        assert set(row["thesis"]) == set(row["cells"])
    if name == "table-4.1":
        assert [row["seeds"] for row in result["rows"][:3]] == [[1, 2]] * 3
    if name == "table-4.2":
        for row in result["rows"][:-1]:
            ours = {column: cell["mean"] for column, cell in row["cells"].items()}
            assert ours["reduction"] == pytest.approx(ours["random"] - ours["learned"])


@pytest.mark.extended
def test_every_perplexity_is_below_those_of_models_without_context(results) -> None:
    """Of all models and mixtures, also those of two features, of part of the text, and of back-off n-grams."""
    words = scales.text("planted", SCALE).test
    found = {name: 0 for name in results if name not in ("table-4.3", "table-4.5", "table-4.8")}
    for name in found:
        for row in results[name]["rows"]:
            for column in set(row["cells"]) - {"proportion", "reduction"}:
                for perplexity in row["cells"][column]["values"]:
                    assert_better_than_unigrams(perplexity, words, 0.05)
                    found[name] += 1
    assert all(found.values())
    for row in results["table-4.8"]["rows"]:  # of the average of models
        assert_better_than_unigrams(np.exp(row["cells"]["bias"]["mean"]), words, 0.05)


@pytest.mark.extended
def test_diversity_joins_the_parts_of_one_tree(results) -> None:
    result = results["table-4.6"]
    assert [row["label"] for row in result["rows"]] == [["S1 ×4"], ["S1+S2+S3+S4"]]
    assert set(result["rows"][0]["cells"]) == {"adaptive", "random", "noisy"}


@pytest.mark.extended
def test_verdicts_are_of_the_figures_that_the_table_shows(place, made) -> None:
    results, _ = made
    result = results["table-4.7"]
    values = [row["cells"]["perplexity"]["mean"] for row in result["rows"]]
    found = {verdict["claim"]: verdict for verdict in result["verdicts"]}
    falls = found["the HLBL's perplexity falls with every growth of the context"]
    assert falls["answer"] == "unresolved", "of one seed"
    (comparison,) = falls["test"]["comparisons"]
    assert comparison["label"] == "HLBL 5 and HLBL 2"
    assert comparison["value"] == pytest.approx(values[1] - values[0])
    best = found["the best n-gram model is KN6"]
    assert best["test"]["seeds"] is None
    of_ngrams = dict(zip((2, 3, 6, 8), values[2:], strict=True))
    for comparison, order in zip(best["test"]["comparisons"], (2, 3, 8), strict=True):
        assert comparison["value"] == pytest.approx(of_ngrams[6] - of_ngrams[order])
    page = (place.out / "table-4.7.planted.tiny.md").read_text()
    for verdict in result["verdicts"]:
        assert f"- {markdown.verdict_line(verdict)}\n" in page


@pytest.mark.extended
def test_every_table_but_that_of_trees_has_verdicts(results) -> None:
    assert {name for name, result in results.items() if not result["verdicts"]} == {"table-4.3"}


@pytest.mark.extended
def test_bias_variance_and_its_models(results) -> None:
    parts, result = results["table-4.9"], results["table-4.8"]
    assert set(result["models"]) == set(parts["models"])
    *single, combined = [row["cells"] for row in parts["rows"]]
    for column, row in (("hlbl", 0), ("kn", 1)):
        bias, variance = (result["rows"][row]["cells"][name]["mean"] for name in ("bias", "variance"))
        assert np.exp(bias) == pytest.approx(combined[column]["mean"])
        mean = np.mean([np.log(cells[column]["mean"]) for cells in single])
        assert bias + variance == pytest.approx(mean)  # Eq. 4.8
        assert variance > 0


def test_dry_run_projects_and_trains_nothing(place, tmp_path: Path) -> None:
    where = ("--work", str(tmp_path / "work"), "--out", str(tmp_path / "out"))
    out, _ = place.run("run", "table-4.2", "--scale", "tiny", *where, "--dry-run", "--json")
    projected = json.loads(out.splitlines()[-1])["table-4.2"]
    assert projected["models"] == 5
    assert [shape["models"] for shape in projected["shapes"]] == [2, 2, 1]
    assert projected["hours"] > 0
    assert all(1 <= shape["padding_ratio"] < 20 for shape in projected["shapes"])
    assert 0.05 < projected["memory_gb"] < 20
    assert not (tmp_path / "work" / "models").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.extended
def test_a_model_of_rounded_products_is_another_and_nearly_as_good(place, tmp_path: Path) -> None:
    store = LanguageStore.open("tiny", None, None, "tuned", tmp_path)
    (row,) = run.run_table(TABLES["precision-text"], store, tmp_path, seeds=1, only="NPLM")["rows"]
    rounded, exact, loss = (row["cells"][name]["mean"] for name in ("bfloat16", "float32", "loss"))
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=0.02)
    assert loss == pytest.approx(rounded - exact, abs=1e-3)
