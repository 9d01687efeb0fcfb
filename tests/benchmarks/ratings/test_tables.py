"""Chapter 5's tables through their own command, at the smallest scale: resumed, projected, mistaken."""

import json
import signal
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from planted_store import Planted

import jaxcf
from benchmarks import __main__
from benchmarks.core.row import describe
from benchmarks.core.store import DONE
from benchmarks.data import rating_sets
from benchmarks.ratings import scales
from benchmarks.ratings.store import RatingStore, Share, Spec
from jaxcf.data.ratings import digest, join, take
from jaxfit.errors import UserError

SCALE = scales.SCALES["tiny"]


def test_a_model_without_a_group_is_of_that_number_of_groups(tmp_path: Path) -> None:
    """Scales of one data set may cut its users into more groups or fewer, and share their models."""
    few, many = (
        RatingStore(scales.rating_set("planted", SCALE), replace(SCALE, groups=groups), "tuned", tmp_path)
        for groups in (2, 3)
    )
    assert few.directory(Spec("item-bias", group=0)) != many.directory(Spec("item-bias", group=0))
    assert few.directory(Spec("item-bias")) == many.directory(Spec("item-bias"))


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


@pytest.mark.parametrize("spec", [Spec("bias"), Spec("pmf", 2)], ids=["bias", "pmf"])
@pytest.mark.parametrize("empty", [True, False], ids=["empty", "cut"])
def test_what_is_damaged_beside_a_model_is_made_again(spec: Spec, empty: bool, tmp_path: Path, capsys) -> None:
    def store() -> RatingStore:
        return RatingStore(scales.rating_set("planted", SCALE), SCALE, "tuned", tmp_path)

    whole = store().get(spec)
    expected, file = whole.predictions("test"), whole.directory / "predictions-test.npy"
    for path, cut in ((whole.directory / DONE, (whole.directory / DONE).read_bytes()), (file, file.read_bytes())):
        before = store().get(spec).info
        path.write_bytes(b"" if empty else cut[:-50])
        again = store()
        assert path != whole.directory / DONE or not again.is_there(spec)
        capsys.readouterr()
        found = again.get(spec)
        assert f"{path.name} is damaged, and is made again ({path})" in capsys.readouterr().err
        assert np.array_equal(found.predictions("test"), expected)
        assert found.info["history"] == whole.info["history"]
        assert path == whole.directory / DONE or found.info == before, "of the training that was"
        assert store().get(spec).info == found.info
        assert capsys.readouterr().err == ""
    file.unlink()
    with pytest.raises(UserError, match=r"predictions are lost or damaged.*remove .*benchmark\.json, and run"):
        found.predictions("test")


def test_what_validation_chose_is_trained_again_on_its_ratings(tmp_path: Path) -> None:
    store = RatingStore(scales.rating_set("planted", SCALE), SCALE, "tuned", tmp_path)
    tried = Spec("pmf", 3, changes=(("rate.*", 1e-6),)), Spec("pmf", 2)
    spec = Spec("pmf", 3, refit=tried)
    assert store.chosen(tried) == tried[1]  # the other has hardly been trained
    data, recipe, config = store.data, *store._recipe(tried[1])
    train, few = join(data.train, data.valid), take(data.train, np.arange(len(data.valid.user)))
    again = data._replace(train=train, valid=few, sha256=digest(train, few, data.catalogue))
    expected = jaxcf.training.train("pmf", again, tmp_path / "again", recipe=recipe, config=config, seed=1).model
    test = data.test
    stars = expected.stars(expected.predictor, test.user, test.item, clip=False)
    assert np.array_equal(store.get(spec).predictions("test"), stars)
    assert not np.array_equal(store.get(tried[1]).predictions("test"), stars)
    others = store.identity(spec), store.identity(Spec("pmf", 3, refit=tried[::-1])), store.identity(Spec("pmf", 3))
    assert len({str(identity) for identity in others}) == 3
    info = store.get(spec).info
    assert info["made_from"] == [store.directory(one).name for one in tried]
    described = describe(store.get(spec), {})
    chosen = json.loads(json.dumps({"config": config, "recipe": asdict(recipe)}))
    assert {name: described[name] for name in chosen} == chosen
    assert config["num_features"] == 2
    assert not any(name.startswith("validation") for name in described), "it was trained on those ratings"
    pairs = Spec("cpmf", 2, rated="all", refit=(Spec("cpmf", 2, rated="all"),))
    assert store.identity(pairs)["rated"] == store.identity(pairs.refit[0])["rated"] != "train"


def test_a_refit_sees_all_but_the_test(tmp_path: Path) -> None:
    store = RatingStore(scales.rating_set("planted", SCALE), SCALE, "tuned", tmp_path)
    tried = (Spec("pmf", 2, split=1),)
    data, _ = store.training_data(replace(tried[0], refit=tried))
    split = store.ratings(tried[0]).data
    train, valid, test = (
        set(zip(part.user, part.item, strict=True)) for part in (split.train, split.valid, split.test)
    )
    seen = set(zip(data.train.user, data.train.item, strict=True))
    assert seen == train | valid
    assert not seen & test
    assert set(zip(data.valid.user, data.valid.item, strict=True)) < train


def test_a_closed_form_is_refitted_with_the_settings_that_validation_chose(tmp_path: Path) -> None:
    store = RatingStore(scales.rating_set("planted", SCALE), SCALE, "tuned", tmp_path)
    tried = Spec("bias", changes=(("decay_users", 1e6), ("decay_items", 1e6))), Spec("bias")
    spec = Spec("bias", refit=tried)
    assert store.chosen(tried) == tried[1]
    assert store.get(spec).info["decided"] == {"config": store.identity(tried[1])["config"]}
    assert not np.array_equal(store.get(spec).predictions("test"), store.get(tried[1]).predictions("test"))


def test_without_a_falling_rate_a_refit_ends_with_the_best_epoch(tmp_path: Path, monkeypatch) -> None:
    store, spec = RatingStore(scales.rating_set("planted", SCALE), SCALE, "tuned", tmp_path), Spec("svd", 2)
    history = [{"valid": score} for score in (1.0, 0.9, 0.95)]
    monkeypatch.setattr(store, "get", lambda spec: SimpleNamespace(info={"history": history}))
    recipe, config = store._recipe(spec)
    assert not recipe.anneal
    assert store._recipe_of_choice(spec) == (replace(recipe, epochs=2), config)


def test_errors_are_of_clipped_predictions_user_by_user(tmp_path: Path) -> None:
    class Far(Planted):
        def _planted(self, spec, part):
            return np.random.default_rng(0).normal(3, 3, len(getattr(self.data, part).user)).astype(np.float32)

    store = Far(tmp_path, None)
    test, users, items = store.data.test, store.data.catalogue.num_users, store.data.catalogue.num_items
    inside, movies = np.arange(users) % 3 > 0, np.arange(items) % 2 > 0
    total, count = np.zeros((2, users))
    for user, item, stars, found in zip(*test[:3], store.get(Spec("bias")).predictions("test"), strict=True):
        if inside[user] and movies[item]:
            total[user] += (min(max(float(found), 1.0), 5.0) - float(stars)) ** 2
            count[user] += 1
    scores = store.errors((Spec("bias"),), "test", inside, movies)
    np.testing.assert_allclose(scores.total, total)
    np.testing.assert_array_equal(scores.count, count)
    assert scores.value == pytest.approx(np.sqrt(total.sum() / count.sum()))


def test_dry_run_projects_and_trains_nothing(tmp_path: Path, place_in) -> None:
    place = place_in(tmp_path)
    names = ("table-5.2", "table-5.1", "table-5.3", "random-splits")
    results, out, err = place.tables(*names, options=("--dry-run", "--rows", "RBM"))
    assert list(results) == list(names[1:])  # Table 5.2 has no such row
    measured = [line.split()[1] for line in err.splitlines() if line.startswith("  measured ")]
    assert measured == ["rbm3", "rbm5", "masked-rbm5-split1"]
    counted = {
        name: [(shape["model"], shape["models"]) for shape in table["shapes"]] for name, table in results.items()
    }
    assert counted["table-5.1"] == [("rbm3", 2), ("rbm5", 2)]  # also the plain ones
    assert counted["table-5.3"] == []  # what one table trains, the next finds
    assert counted["random-splits"] == [
        ("rbm5", 4),
        ("masked-rbm5-split1", 4),
    ]  # of other splits: the same shape, trained anew
    assert [(table["models"], table["found"]) for table in results.values()] == [(4, 0), (2, 2), (8, 0)]
    hours = sum(table["hours"] for table in results.values())
    assert f"all 3: at most {hours:.2f} hours" in out.splitlines()
    projected = results["table-5.1"]
    assert all(shape["events_per_second"] > 0 for shape in projected["shapes"])
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
