"""What is recorded of chapter 5's tables and figures, made once by their own command at the smallest scale."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import jaxcf
from accuracy import assert_better_than_constants
from benchmarks.core import markdown, record
from benchmarks.data import rating_sets
from benchmarks.ratings import scales
from benchmarks.ratings.store import RatingStore, Share, Spec
from benchmarks.ratings.tables import TABLES
from benchmarks.report import maps
from jaxcf.data.ratings import take

pytestmark = pytest.mark.extended

OF_BIASES = {  # which have no seed
    "biases of movies are better than of users",
    "biases of movies and users are much better than either alone (by more than 0.01)",
}
UNJUDGED = ("recipe-choice", "precision-ratings")  # which draw no verdicts
ROWS = {
    "table-5.1": 8, "table-5.2": 19, "table-5.3": 10, "random-splits": 11, "early-stopping": 6,
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
            if "refit" in model["label"]:
                assert "validation_rmse" not in model
            elif "recipe" in model:
                assert len(model["validation_rmse"]) == 2
                assert min(model["seconds_per_epoch"], model["examples_per_second"]) > 0
                assert model["config"]["prior"] in ("per-rating", "per-row"), "which prior is meant is recorded"
        assert "half of the 95 % interval" in page


@pytest.mark.parametrize("name", [name for name, rows in ROWS.items() if rows not in (1, 11)])  # RMSE by their parts
def test_every_model_is_better_than_constants(results, store, name) -> None:
    """But SVD without biases, still a constant; of random splits, whose validation is small, on their tests alone.

    There the models of a row are those before and after refitting.
    """
    parts, splits = (("test",), (1, 2)) if name == "random-splits" else (("valid", "test"), (0,))
    for part in parts:
        stars = np.concatenate([getattr(store.ratings(Spec("", split=split)).data, part).stars for split in splits])
        for row in results[name]["rows"]:
            cells = [cell for column, cell in row["cells"].items() if column in (part, "before")]
            rmse = np.sqrt(np.mean(np.square([cell["values"] for cell in cells])))
            if row["label"][0] != "Online SVD":
                assert_better_than_constants(rmse, stars, 0.005 if row["label"][0] == "User-bias" else 0.02)


@pytest.mark.parametrize("name", [name for name, rows in ROWS.items() if rows == 11 and name.startswith("figure")])
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


def test_verdicts_are_of_the_test_with_intervals(place, results) -> None:
    for name, result in results.items():
        if name in UNJUDGED:
            continue
        page = (place.out / f"{name}.planted.tiny.md").read_text()
        assert len(result["verdicts"]) >= (1 if name in ("figure-5.8", "early-stopping") else 2)
        for verdict in result["verdicts"]:
            assert verdict["section"] in TABLES[name].section or name == "random-splits"
            seeded = verdict["test"]["seeds"] is not None
            assert seeded == (verdict["claim"] not in OF_BIASES)
            if seeded:
                assert verdict["test"]["seeds"] == (2 if name == "random-splits" else 1)
                assert verdict["answer"] == "unresolved", "of fewer than three seeds"
            assert verdict["answer"] == verdict["test"]["answer"]
            for part in ("test", "validation"):
                assert verdict[part]["comparisons"]
                for found in verdict[part]["comparisons"]:
                    low, high = found["interval"]
                    assert low <= found["value"] <= high  # equal where two seedless or untrained models are
            begin = f"- **{verdict['answer']}**: {verdict['claim']} (§{verdict['section']}). Test"
            (line,) = (line for line in page.splitlines() if line.startswith(begin))
            assert line.endswith(f"Validation: {verdict['validation']['answer']}.")
            compared = verdict["test"]["comparisons"]
            failing = [found for found in compared if found["holds"] != "yes"]
            written = failing if len(compared) > markdown.MOST_WRITTEN and failing else compared
            assert all(markdown.shown(found) in line for found in written)
            assert (f"{len(compared) - len(written)} of {len(compared)} comparisons hold" in line) == (
                len(written) < len(compared)
            )


def test_verdicts_compare_the_figures_of_the_rows(results) -> None:
    cells = {tuple(row["label"]): row["cells"] for row in results["table-5.2"]["rows"]}
    (verdict,) = (v for v in results["table-5.2"]["verdicts"] if "PMF is better than SVD with biases" in v["claim"])
    for part, column in (("test", "test"), ("validation", "valid")):
        differences = {
            label[1].rpartition(" ")[2].rstrip(")"): cells[label][column]["mean"]
            - cells[("Online SVD w. biases", label[1])][column]["mean"]
            for label in cells if label[0] == "PMF"
        }  # fmt: skip
        assert {f["label"]: f["value"] for f in verdict[part]["comparisons"]} == pytest.approx(differences)
