"""Chapter 5's tables and figures through their own command, at the smallest scale; protocols, records, data sets."""

import dataclasses
import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import jaxcf
from accuracy import assert_better_than_constants
from benchmarks import __main__
from benchmarks.core import markdown, record
from benchmarks.core.store import DONE
from benchmarks.data import rating_sets
from benchmarks.ratings import scales
from benchmarks.ratings.store import RatingStore, Share, Spec
from benchmarks.ratings.tables import TABLES
from benchmarks.report import maps
from jaxcf.data.ratings import take

ROWS = {
    "table-5.1": 8, "table-5.2": 19, "table-5.3": 10, "random-splits": 10, "early-stopping": 6,
    "precision-ratings": 1, "figure-5.1": 4, "figure-5.2": 3, "figure-5.3": 16,
    **{f"figure-5.{i}": 11 for i in range(4, 9)},
}  # fmt: skip
SCALE = scales.SCALES["tiny"]


def test_every_table_and_figure_is_recorded_with_the_thesis_beside(place, results) -> None:
    assert set(TABLES) - {"recipe-choice"} == set(ROWS) == set(results)
    for name, rows in ROWS.items():
        path = place.out / f"{name}.planted.tiny.json"
        result = json.loads(path.read_text())
        assert result == results[name]
        assert result["complete"]
        assert len(result["rows"]) == rows
        page = path.with_suffix(".md").read_text()
        about = "the thesis' figures are of the Netflix Prize, 99 million ratings"
        assert (about if TABLES[name].section else "Not of the thesis.") in page
        assert "120 users, 40 movies; ratings: " in page
        for row in result["rows"]:
            for column, cell in row["cells"].items():
                if column in ("rated", "parameters", "fewest", "most", "ratings"):
                    assert "interval" not in cell
                    continue
                low, high = cell["interval"]
                assert low < cell["mean"] < high
                margin = record.number((high - low) / 2, 4)
                assert f"{record.number(cell['mean'], 4)} ± {margin} |" in page
                if " - " in column:
                    one, other = (row["cells"][name]["mean"] for name in column.split(" - "))
                    assert cell["mean"] == pytest.approx(one - other)
                else:
                    assert all(np.isfinite(value) and value > 0 for value in cell["values"]), "finite, no more"
            for column, value in row["thesis"].items():
                assert column in row["cells"]
                assert f"{value}" in page
        for model in result["models"].values():
            assert model["config"]
            if "recipe" in model:
                assert len(model["validation_rmse"]) == 2
                assert min(model["seconds_per_epoch"], model["examples_per_second"]) > 0
                assert model["config"]["prior"] in ("per-rating", "per-row"), "which prior is meant is recorded"
        assert "half of the 95 % interval" in page


@pytest.mark.parametrize("name", [name for name, rows in ROWS.items() if rows not in (1, 11)])  # RMSE by their parts
def test_every_model_is_better_than_constants(results, store, name) -> None:
    """But SVD without biases, still a constant; and, as validation of random splits is small, on their tests alone."""
    parts, splits = (("test",), (1, 2)) if name == "random-splits" else (("valid", "test"), (0,))
    for part in parts:
        stars = np.concatenate([getattr(store.ratings(Spec("", split=split)).data, part).stars for split in splits])
        for row in results[name]["rows"]:
            rmse = np.sqrt(np.mean(np.square(row["cells"][part]["values"])))
            if row["label"][0] != "Online SVD":
                assert_better_than_constants(rmse, stars, 0.005 if row["label"][0] == "User-bias" else 0.02)


@pytest.mark.parametrize("name", [name for name, rows in ROWS.items() if rows == 11])
def test_models_of_bins_of_users_are_better_than_constants(results, store, name) -> None:
    """Of all users, whose squared errors are those of the bins: one bin is too few ratings for that."""
    *bins, every = results[name]["rows"]
    count = [row["cells"]["ratings"]["mean"] for row in bins]
    assert sum(count) == every["cells"]["ratings"]["mean"] == len(store.data.test.user)
    for model in every["thesis"]:
        rmse = [row["cells"][model]["mean"] for row in bins]
        assert every["cells"][model]["mean"] == pytest.approx(np.sqrt(np.average(np.square(rmse), weights=count)))
        assert_better_than_constants(every["cells"][model]["mean"], store.data.test.stars, 0.02)


def test_figures_are_pictures(place, results) -> None:
    for name in ROWS:
        path = place.out / f"{name}.planted.tiny.png"
        assert path.exists() == name.startswith("figure")
        if not path.exists():
            continue
        content = path.read_bytes()
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert content[12:16] == b"IHDR"
        width, height = (int.from_bytes(content[i : i + 4], "big") for i in (16, 20))
        assert 800 < width < 2000
        assert 400 < height < 2000
        assert 10_000 < len(content) < 300_000
        assert f"]({path.name})" in path.with_suffix(".md").read_text()


def test_tables_and_figures_share_their_models(results) -> None:
    models = {name: set(result["models"]) for name, result in results.items()}
    biases = {folder for folder in models["table-5.2"] if "bias" in folder.split("-seed")[0] and "svd" not in folder}
    assert len(biases) == 3
    assert models["figure-5.3"] == models["table-5.2"] - biases
    for number in "4678":
        assert models[f"figure-5.{number}"] < models["table-5.1"] | models["table-5.2"]
    assert models["table-5.3"] < models["table-5.1"] | models["table-5.2"]
    assert len(models["figure-5.5"]) == 2 * SCALE.groups


def test_figures_are_those_of_the_models_in_the_store(store, results) -> None:
    spec = Spec("pmf", 3)
    model = jaxcf.load(store.directory(spec))
    (row,) = (r for r in results["table-5.2"]["rows"] if r["label"] == ["PMF", "3 (thesis: 50)"])
    ids, test, squared = store.data.catalogue, store.data.test, {}
    for part, ratings in (("valid", store.data.valid), ("test", test)):
        predicted = model.predict(ids.users[ratings.user], ids.items[ratings.item])
        squared[part] = (predicted.astype(np.float64) - ratings.stars) ** 2
        assert row["cells"][part]["mean"] == pytest.approx(np.sqrt(np.mean(squared[part])), abs=1e-6)
    assert row["thesis"] == {"valid": 0.9086}
    # bins: of users in the order of their training ratings, equally many; RMSE is on the test
    counts = np.bincount(store.data.train.user, minlength=ids.num_users)
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    third = order[len(order) * 2 // 10 : len(order) * 3 // 10]
    inside = np.isin(test.user, third)
    cells = results["figure-5.6"]["rows"][2]["cells"]
    assert cells["PMF50"]["mean"] == pytest.approx(np.sqrt(np.mean(squared["test"][inside])), abs=1e-6)
    assert [cells["fewest"]["mean"], cells["most"]["mean"]] == [counts[third].min(), counts[third].max()]
    assert cells["ratings"]["mean"] == inside.sum()
    every = results["figure-5.6"]["rows"][-1]["cells"]
    assert every["PMF50"]["mean"] == pytest.approx(row["cells"]["test"]["mean"], rel=1e-12)
    assert every["ratings"]["mean"] == len(test.user)
    assert sum(r["cells"]["ratings"]["mean"] for r in results["figure-5.6"]["rows"][:-1]) == len(test.user)
    (row,) = (r for r in results["table-5.3"]["rows"] if r["label"] == ["PMF", "3 (thesis: 50)"])
    assert row["cells"]["parameters"]["mean"] == pytest.approx((120 + 40) * (3 + 1) / 1e6)
    assert row["thesis"] == {"parameters": 25.4, "valid": 0.9086}


def test_rated_sets_grow_from_the_training_part_to_all(store, results) -> None:
    train = store.data.train
    total = len(train.user)
    pairs = train.user.astype(np.int64) * store.data.catalogue.num_items + train.item
    before: set[int] = set()
    for added in range(4):
        part, others = store.training_data(Spec("crbm", 3, trained_on=Share(10, added, 3)))
        assert len(part.train.user) == round(total * 10 / 99)
        keys, beside = (p.user.astype(np.int64) * store.data.catalogue.num_items + p.item for p in (part.train, others))
        assert not set(keys) & set(beside)
        assert before <= set(beside), "each set contains the one before"
        assert len(beside) == (total - len(keys)) * added // 3
        before = set(beside)
        assert part.valid is store.data.valid
    assert set(keys) | set(beside) == set(pairs)
    assert len(store.training_data(Spec("rbm", 3, trained_on=Share(20)))[0].train.user) == round(total * 20 / 99)
    rows = results["figure-5.1"]["rows"]
    assert [row["label"] for row in rows] == [
        ["RBM", "10%", ""], ["RBM", "20%", ""], ["CRBM", "10%", "10%"], ["CRBM", "10%", "100%"],
    ]  # fmt: skip
    assert [row["thesis"].get("valid") for row in rows] == [0.9914, 0.9646, 0.9912, 0.9814]
    assert rows[-1]["cells"]["rated"]["mean"] == total / 1e3


def test_models_condition_on_validation_and_test_pairs_where_the_thesis_does(store) -> None:
    held_out = store.data.valid.user.tolist() + store.data.test.user.tolist()
    assert store.training_data(Spec("cpmf", 3, rated="all"))[1].user.tolist() == held_out
    assert len(store.training_data(Spec("crbm", 3))[1].user) == 0


def test_users_left_out_are_predicted_from_what_they_rated_alone(place, store, results) -> None:
    spec = Spec("cpmf", 2, group=1)
    sizes = np.bincount(store.groups)
    assert sizes.tolist() == [60, 60]
    inside, rated = store.training_data(spec)
    for part in (inside.train, inside.valid):
        assert not np.any(store.groups[part.user] == 1)
    assert len(rated.user) == 0
    stars = store.get(spec).predictions("valid")
    valid = take(store.data.valid, store.groups[store.data.valid.user] == 1)
    assert len(stars) == len(valid.user)
    assert len({(u, s) for u, s in zip(valid.item.tolist(), stars.tolist(), strict=True)}) > len(
        set(valid.item.tolist())
    ), "what a user rated moves predictions"
    # whatever they gave for it: the same predictions
    model = jaxcf.load(store.directory(spec))
    noise = store.data.train._replace(stars=store.data.train.stars[::-1].copy())
    ratings = rating_sets.RatingSet(store.data._replace(train=noise), store.held_out)
    other = RatingStore(ratings, SCALE, "tuned", place.work)
    found = other._stars(spec, model, store.data.valid)
    assert np.array_equal(found, store._stars(spec, model, store.data.valid))
    np.testing.assert_allclose(found, stars, rtol=1e-6)  # that program may have been compiled elsewhere
    # the figure adds up the squared errors of all groups, user by user
    specs = [dataclasses.replace(spec, group=g) for g in range(SCALE.groups)]
    each = [store.errors([s], "test") for s in specs]
    assert [np.count_nonzero(scores.count) for scores in each] == [
        len(np.unique(store.data.test.user[store.groups[store.data.test.user] == g])) for g in range(SCALE.groups)
    ]
    assert sum(scores.count.sum() for scores in each) == len(store.data.test.user)
    mean = sum(scores.total.sum() for scores in each) / len(store.data.test.user)
    assert store.errors(specs, "test").value == pytest.approx(np.sqrt(mean))
    assert results["figure-5.5"]["rows"][-1]["cells"]["CPMF"]["mean"] == pytest.approx(np.sqrt(mean))


def test_a_table_is_resumed_row_by_row_with_seeds(tmp_path: Path, place_in) -> None:
    place = place_in(tmp_path)
    rows = ("--rows", "SVD w. biases", "--seeds", "2")
    where = ("--work", str(place.work), "--out", str(place.out))
    process = place.start("run", "table-5.2", "--scale", "tiny", *where, *rows)
    path = place.out / "table-5.2.planted.tiny.json"
    until = time.monotonic() + 200
    while not path.with_suffix(".md").exists():  # written after the record
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    cut = json.loads(path.read_text())
    assert not cut["complete"]
    assert "Not all rows" in path.with_suffix(".md").read_text()
    models = {folder: (place.work / "models" / folder / DONE).stat().st_mtime_ns for folder in cut["models"]}
    result, out, err = place.table("table-5.2", *rows)
    for folder, changed in models.items():
        assert (place.work / "models" / folder / DONE).stat().st_mtime_ns == changed, "trained again"
    for before, after in zip(cut["rows"], result["rows"], strict=False):
        assert before["cells"] == after["cells"]
    assert result == json.loads(path.read_text())
    assert "trained svd-bias2-seed1 " not in err
    assert "trained svd-bias3-seed2 " in err or len(cut["rows"]) > 1
    assert len(result["rows"]) == 4
    cell = result["rows"][0]["cells"]["valid"]
    assert cell["sd"] == pytest.approx(np.std(cell["values"], ddof=1))
    low, high = cell["interval"]
    assert f"{cell['mean']:.4f} ± {(high - low) / 2:.4f}" in out
    assert result["verdicts"] is None, "not all rows are there"


def test_choices_of_recipes_are_recorded_beside_what_was_tried(place) -> None:
    result, _, _ = place.table("recipe-choice", "--rows", "User")
    assert [row["label"] for row in result["rows"]] == [
        ["User and movie bias", text]
        for text in ("as it is", "decay_users 3", "decay_users 8", "decay_items 2", "decay_items 5")
    ]
    configs = [result["models"][row["models"][0]]["config"] for row in result["rows"]]
    assert [(config["decay_users"], config["decay_items"]) for config in configs] == [
        (5.0, 3.0), (3.0, 3.0), (8.0, 3.0), (5.0, 2.0), (5.0, 5.0),
    ]  # fmt: skip
    assert len({row["cells"]["valid"]["mean"] for row in result["rows"]}) == 5
    assert all(set(row["cells"]) == {"valid"} for row in result["rows"]), "no test is looked at"


def test_a_closed_form_that_was_interrupted_is_solved_again(tmp_path: Path) -> None:
    ours = RatingStore(scales.rating_set("planted", SCALE), SCALE, "tuned", tmp_path)
    spec = Spec("bias")
    stars = ours.get(spec).predictions("test")
    (ours.directory(spec) / DONE).unlink()
    again = RatingStore(scales.rating_set("planted", SCALE), SCALE, "tuned", tmp_path)
    assert np.array_equal(again.get(spec).predictions("test"), stars)


def test_dry_run_projects_and_trains_nothing(tmp_path: Path, place_in) -> None:
    place = place_in(tmp_path)
    names = ("table-5.2", "table-5.1", "table-5.3", "random-splits")
    results, out, err = place.tables(*names, options=("--dry-run", "--rows", "RBM"))
    assert list(results) == list(names[1:])  # Table 5.2 has no such row
    measured = [line.split()[1] for line in err.splitlines() if line.startswith("  measured ")]
    assert measured == ["rbm3", "rbm5"]
    counted = {
        name: [(shape["model"], shape["models"]) for shape in table["shapes"]] for name, table in results.items()
    }
    assert counted["table-5.1"] == [("rbm3", 2), ("rbm5", 2)]  # also the plain ones
    assert counted["table-5.3"] == []  # what one table trains, the next finds
    assert counted["random-splits"] == [("rbm3", 6)]  # of other splits and recipes: the same shape, trained anew
    assert [(table["models"], table["found"]) for table in results.values()] == [(4, 0), (2, 2), (6, 0)]
    hours = sum(table["hours"] for table in results.values())
    assert f"all 3: at most {hours:.2f} hours" in out.splitlines()
    projected = results["table-5.1"]
    assert all(shape["ratings_per_second"] > 0 for shape in projected["shapes"])
    assert all(1 <= shape["padding_ratio"] < 20 for shape in projected["shapes"])
    assert projected["hours"] > 0
    assert not (place.work / "models").exists()
    assert not place.out.exists()


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    missing = f"figure-5.5 --data netflix --data-dir /nowhere --work {tmp_path}"
    for words, line in (
        (missing, "the data set netflix is not here (/nowhere/netflix/probe.txt) - get it from "),
        ("table-5.1 --data ptb", "table-5.1 is not made on ptb (--data) - choose planted, ml-100k, ml-1m, "),
        ("table-4.4 --data ml-1m", "table-4.4 is not made on ml-1m (--data) - choose prose, planted, ptb, "),
        ("table-5.4", "there is no table 'table-5.4' - did you mean "),
    ):
        assert __main__.main(["run", *words.split()]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"benchmarks: {line}")
        assert len(err.splitlines()) == 1


def test_identity_is_all_that_determines_a_model(store, tmp_path: Path) -> None:
    spec = Spec("crbm", 3, trained_on=Share(10, 1, 3))
    others = [
        store.directory(other)
        for other in (
            Spec("crbm", 3), Spec("crbm", 4), Spec("rbm", 3), Spec("crbm", 3, seed=2), Spec("crbm", 3, rated="all"),
            Spec("crbm", 3, trained_on=Share(10, 2, 3)), Spec("crbm", 3, trained_on=Share(50, 1, 3)),
            Spec("crbm", 3, group=0), Spec("crbm", 3, group=1),
        )
    ]  # fmt: skip
    others.append(
        RatingStore(rating_sets.RatingSet(store.data, store.held_out), SCALE, "thesis", store.work).directory(spec)
    )
    changed = store.data._replace(sha256="0" * 64)
    others.append(
        RatingStore(rating_sets.RatingSet(changed, store.held_out), SCALE, "tuned", store.work).directory(spec)
    )
    assert len({store.directory(spec), *others}) == 1 + len(others)
    # the movies of the test matter only to models that condition on them
    fewer = RatingStore(
        rating_sets.RatingSet(store.data, store.held_out._replace(item=store.held_out.item[::-1])),
        SCALE,
        "tuned",
        store.work,
    )
    all_pairs, plain = Spec("cpmf", 3, rated="all"), Spec("cpmf", 3)
    assert fewer.directory(all_pairs) != store.directory(all_pairs)
    assert fewer.directory(plain) == store.directory(plain)


def test_report_maps_figures_too(place, results, tmp_path: Path) -> None:
    page = maps.write(place.out, TABLES).read_text()
    assert "`python -m benchmarks run figure-5.4 --scale tiny`" in page
    assert "(figure-5.4.planted.tiny.md)" in page
    lines = maps.results_map(place.out, TABLES, f"{place.out.parent.name}/{place.out.name}")
    # the test's figure, at validation's choice of the models that have epochs
    rows = [row for row in results["table-5.2"]["rows"] if row["label"][1]]
    best = min(rows, key=lambda row: row["cells"]["valid"]["mean"])
    shown = f"{best['cells']['test']['mean']:.4f} ± {markdown.margin(best['cells']['test']):.4f}"
    (line,) = (line for line in lines if line.startswith("| 5.2 "))
    assert f"table-5.2.planted.tiny.md): {' '.join(best['label']).strip()}, test RMSE {shown} |" in line
    assert any(line.startswith("| figure 5.4 ") for line in lines)
