"""The commands beside making tables: lists, pages, projections and traces of models, mistakes."""

import argparse
import importlib.util
import json
import re
from pathlib import Path

import pytest

from benchmarks import __main__, commands, registry
from benchmarks.core import record
from benchmarks.core.kept import Kept, Measurement, identity
from benchmarks.core.run import file_name
from benchmarks.core.table import named
from benchmarks.data import sets
from benchmarks.language import scales
from benchmarks.language.store import LanguageStore
from benchmarks.language.tables import TABLES
from benchmarks.measurement import dry_run, limits
from benchmarks.profiling import breakdown
from jaxfit.errors import UserError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, place_in):
    return place_in(tmp_path_factory.mktemp("benchmarks"))


def test_a_recipe_tuned_on_other_data_is_said(place, capsys: pytest.CaptureFixture) -> None:
    said = "benchmarks: the tuned recipe of scale tiny was tuned on planted, not on prose"
    for options, times in ((("--data", "prose"), 1), ((), 0), (("--data", "prose", "--recipe", "thesis"), 0)):
        where = ("--work", str(place.work), "--out", str(place.out))
        assert __main__.main(["run", "table-4.4", "--scale", "tiny", "--rows", "KN2", *where, *options]) == 0
        assert capsys.readouterr().err.splitlines().count(said) == times


@pytest.mark.parametrize(("name", "steps"), [("lbl", "20"), ("crbm", r"\d+")])
def test_profile_says_where_the_time_of_steps_goes(tmp_path: Path, place, name: str, steps: str) -> None:
    where = ("--work", str(place.work), "--trace", str(tmp_path))
    out, _ = place.run("profile", name, "--scale", "tiny", *where, "--top", "3", "--json")
    assert re.match(f"(1 step|(?!1 ){steps} steps) of {name}, traced in ", out)
    assert "shown: 3 of " in out
    result = json.loads(out.splitlines()[-1])
    assert [result["trace"]] == [str(path) for path in tmp_path.rglob("*.xplane.pb")]
    assert list(tmp_path.rglob("perfetto_trace.json.gz"))
    assert result["totals"][breakdown.MATCHED] > 0.95
    for table in (result["operations"], result["parts"]):
        total = sum(row[breakdown.TIME] for row in table.values())
        assert total == pytest.approx(result["totals"]["device, ms a step"])
    if name == "lbl":
        assert {"context", "prediction", "softmax", "update"} <= set(result["parts"])
        computed = sum(row[breakdown.FLOP] or 0 for row in result["operations"].values())
        assert 1 <= computed / _products(name) < 1.2  # biases are a further feature of the words
    else:
        assert "gibbs_step" in result["parts"]


def test_no_folder_is_made_for_a_trace_where_the_data_are_missing(tmp_path: Path, capsys) -> None:
    where = ("--trace", str(tmp_path / "trace"), "--data", "ml-100k", "--data-dir", str(tmp_path / "none"))
    assert __main__.main(["profile", "pmf", *where]) == 2
    assert capsys.readouterr().err.startswith("benchmarks: the data set ml-100k is not here")
    assert list(tmp_path.iterdir()) == []


def _products(name: str) -> float:
    """Count the operations of a step by the model's own formula."""
    kind, model = registry.models()[name]
    store = kind.open("tiny", None, None, "tuned", Path("unused"))
    trainer = store.trainer(store.example(name, store.scale))
    return limits.cost(model, trainer).operations * trainer.recipe.batch_size


def test_models_that_the_engine_fits_can_be_projected_by_name(place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of each of the kinds of events; nothing that is projected is found in the cache of compiled programs."""
    monkeypatch.setattr(dry_run, "WINDOW", 1e-9)  # a step of each program: how fast it is is not asked
    names = "lbl", "docnade", "glove", "pmf"
    results, _, _ = place.tables(*names, options=("--dry-run",))
    for name, result in results.items():
        (shape,) = result["shapes"]
        assert shape["model"].startswith(name)
        assert shape["events_per_second"] > 0
        assert result["hours"] > 0
    assert results.keys() == set(names)
    events = {name: result["shapes"][0]["events"] for name, result in results.items()}
    assert events == {"lbl": "words", "docnade": "documents", "glove": "pairs", "pmf": "ratings"}


def test_what_is_kept_is_not_projected_with_missing(tmp_path: Path, place_in, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "WINDOW", 1e-9)
    place, made = place_in(tmp_path), registry.TABLES["docnade-table-4"]
    store = LanguageStore.open("tiny", None, None, "tuned", place.work)
    (row,) = named(made.rows(store.scale, 2), "LBL")
    kept = Kept(place.out / file_name(made.name, store))
    kept.add(identity(row, row.draws[0], store), Measurement({}, {}, {}, "2026-11-30", 1.0))
    for seeds, options, models in (("1", ("--missing",), 0), ("2", ("--missing",), 1), ("2", (), 2)):
        projected, _, _ = place.table(made.name, "--dry-run", "--rows", "LBL", "--seeds", seeds, *options)
        assert projected["models"] == models


def test_report_makes_no_folder_of_records(tmp_path, capsys: pytest.CaptureFixture) -> None:
    missing = tmp_path / "reslts"
    assert __main__.main(["report", "--out", str(missing)]) == 2
    assert "there is no such folder of records" in capsys.readouterr().err
    assert not missing.exists()


def test_list_and_report(place, capsys: pytest.CaptureFixture) -> None:
    assert __main__.main(["list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*TABLES, *scales.SCALES))
    place.table("table-4.4", "--rows", "KN")
    assert __main__.main(["report", "--out", str(place.out)]) == 0
    page = (place.out / "README.md").read_text()
    assert "`python -m benchmarks run table-4.4 --scale tiny`" in page
    assert "(table-4.4.planted.tiny.md)" in page
    assert 'href="./table-4.4.planted.tiny.json"' in (place.out / "report.html").read_text()


def test_trainings_of_other_lengths_have_a_record_of_their_own(place) -> None:
    result, _, _ = place.table("table-4.4", "--rows", "LBL", "--epochs", "1")
    assert result["recipe"] == "tuned, 1 epochs"
    assert result["command"] == "python -m benchmarks run table-4.4 --scale tiny --epochs 1"
    assert (place.out / "table-4.4.planted.tiny.tuned.1-epochs.json").is_file()
    (neural,) = (model for model in result["models"].values() if "recipe" in model)
    assert neural["recipe"]["epochs"] == 1


def test_recorded_results_are_replaced_on_demand_only() -> None:
    for words in (["run", "table-4.4"], ["speed"]):
        parser = __main__.parser()
        out = parser.parse_args(words).out
        assert not out.is_absolute()
        assert record.RESULTS not in (ROOT / out).parents
        assert parser.parse_args([*words, "--record"]).out == record.RESULTS
    places = ["--out", "/there", "--work", "/here", "--data-dir", "/data", "--data", "ptb"]
    args = parser.parse_args(["run", "table-4.4", *places])
    command = "python -m benchmarks run table-4.4 --scale smoke --data ptb"
    assert commands.command_of(args, "table-4.4") == command


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("run", "table-9.9"), "benchmarks: there is no table 'table-9.9' - did you mean table-4.9?"),
        (("run", "table-4.4", "--seeds", "0"), "benchmarks: '0' is not a whole number from 1 on (--seeds)"),
        (("run", "table-4.4", "--scale", "huge"), "benchmarks: there is no --scale 'huge' ("),
        (("run", "table-4.4", "--data", "ptb", "--data-dir", "/nowhere"), "benchmarks: the data set ptb is not here"),
        (("run", "docnade-table-1", "--data", "20news", "--data-dir", "/nowhere"),
         "benchmarks: the data set 20news is not here (/nowhere/20news-2000/train.feat) - get it from https://github.com/"),
        (("run", "table-4.4", "--data", "20news"), "benchmarks: table-4.4 is not made on 20news (--data) - choose "),
        (("run", "table-4.3", "--scale", "tiny", "--rows", "T9"), "benchmarks: no row is named 'T9' (--rows) - "),
        (("run", "table-9.9", "all"), "benchmarks: there is no table 'table-9.9'"),
        (("run", "table-4.4", "--scale", "tiny", "--rows", "KN2", "--out", "/proc/no"), "benchmarks: cannot write"),
        (("profile", "pmf", "--trace", "/proc/no"), "benchmarks: cannot write: No such file or directory (/proc/no)"),
        (("run", "table-4.4", "--scale", "tiny", "--rows", "KN2", "--out", __file__),
         "benchmarks: a file was given instead of a directory ("),
        (("profile", "pmf", "--trace", __file__), "benchmarks: a file was given instead of a directory ("),
        (("lower", "pmf-s", "--out", __file__), "benchmarks: a file was given instead of a directory ("),
        (("profile", "pmf", "--trace", ".", "--top", "0"), "benchmarks: '0' is not a whole number from 1 on (--top)"),
        (("profile", "kn", "--trace", "."), "benchmarks: there is no name 'kn'"),
        (("run", "table-4.4", "--sedes", "2"), "benchmarks: there is no option --sedes (python -m benchmarks run)"),
        (("speed", "lbll"), "benchmarks: no speed is measured of 'lbll' - did you mean lbl?"),
        (("speed", "everything"), "benchmarks: no speed is measured of 'everything'"),
        (("data", "enron"), "benchmarks: there is no data set 'enron' to fetch"),
        (("run", "pmf"), "benchmarks: pmf is a model, not a table - add --dry-run, or name a table"),
        ((), "benchmarks: COMMAND is missing ("),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(place, capsys: pytest.CaptureFixture, arguments: tuple[str, ...], line: str) -> None:
    where = ("--work", str(place.work)) if arguments[:1] == ("run",) else ()
    assert __main__.main([*arguments, *where]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith(line)


def test_a_missing_package_is_said_before_anything_is_done(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert __main__.main(["list"]) == 2
    expected = "benchmarks: matplotlib is not installed (python -m benchmarks) - pip install -e '.[benchmarks]'\n"
    assert capsys.readouterr() == ("", expected)


def test_an_unknown_data_set_is_one_line_with_those_known(capsys, tmp_path):
    assert __main__.main(["data", "nosuch", "--data-dir", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("benchmarks: there is no data set 'nosuch' to fetch - choose one of ptb, wikitext-2, brown")
    assert said.endswith("; prose, planted come with the project\n")
    assert said.count("\n") == 1


def test_data_sets_are_listed_with_those_that_are_here(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "ptb").mkdir()
    for part in ("train", "valid", "test"):
        (tmp_path / "ptb" / f"{part}.txt").touch()
    for where in (["--data-dir", str(tmp_path)], []):
        monkeypatch.delenv(sets.VARIABLE, raising=False)
        assert __main__.main(["data", *where]) == 0
        out = capsys.readouterr().out
        assert [line.split()[0] for line in out.splitlines() if "  yes  " in line] == (["ptb"] if where else [])
        said = f"here: in {tmp_path}" if where else "here: not known without --data-dir or BENCHMARK_DATA"
        assert out.splitlines()[-1] == said


def test_all_tables_are_made_but_those_whose_data_are_missing(place, tmp_path: Path) -> None:
    where = ("--work", str(tmp_path / "work"), "--out", str(tmp_path / "out"), "--data-dir", str(tmp_path / "none"))
    _, err = place.run("run", "all", "--rows", "cache", "--scale", "smoke", *where)
    assert "slides-ptb: cache in " in err
    assert "nbest-switchboard is left out: the data set nbest-switchboard is not here" in err
    _, err = place.run("run", "all", "--rows", "KN4", "--scale", "smoke", *where, status=2)  # there is no other
    assert err.startswith("benchmarks: the data set msr-sentence-completion is not here")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(("recipe", "there"), [("tuned", True), ("thesis", False)])
def test_rows_are_those_that_a_table_has_with_the_recipe(recipe, there) -> None:
    """With the thesis' recipe, the scale `cpu` leaves out the largest sizes, whose training takes long."""
    none = dict.fromkeys(("data", "seeds", "dry_run", "missing"))
    args = argparse.Namespace(names=["table-5.2"], rows="PMF 200", scale="cpu", recipe=recipe, **none)
    if there:
        assert commands._chosen(args) == [registry.TABLES["table-5.2"]]
        return
    with pytest.raises(UserError, match="no row is named 'PMF 200'"):
        commands._chosen(args)
