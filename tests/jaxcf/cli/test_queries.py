"""Commands beyond predictions for users of training: rankings, exact predictions, new items, other rated items."""

import dataclasses
import itertools
import json

import jax
import numpy as np
import pytest

import jaxcf
from jaxcf import metrics, training
from jaxcf.cli import evaluate
from jaxcf.cli import main as cli
from jaxcf.contract import PredictsExactly
from jaxcf.data import reading
from jaxcf.data import synthetic as planted
from jaxcf.data.ratings import Pairs, RatingScale, relabel
from jaxcf.data.synthetic import Planted
from jaxcf.models import get

ITEMS = 14


def run(capsys, *argv):
    status = cli.main([str(a) for a in argv])
    out, err = capsys.readouterr()
    return status, out, err


def write(path, rows, header="user,item,stars"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write ratings of 40 users (train, test), of two new users (known, test), of two new items; and pairs."""
    folder = tmp_path_factory.mktemp("ratings")
    draws = np.random.default_rng(0)
    rows = [
        (f"u{user}", f"m{item}", draws.integers(1, 6))
        for user in range(40)
        for item in draws.choice(ITEMS, 7, replace=False)
    ]
    rows = [rows[i] for i in draws.permutation(len(rows))]
    write(folder / "train.csv", rows[:220])
    write(folder / "test.csv", rows[220:])
    write(folder / "known.csv", [("ann", "m1", 5), ("ann", "m2", 2), ("bob", "m1", 1)])
    write(folder / "asked.csv", [("ann", "m3", 4), ("bob", "m4", 2), ("bob", "m5", 5)])
    write(
        folder / "new.csv",
        [("u1", "n1", 5), ("u2", "n1", 4), ("u3", "n2", 1), ("ann", "n2", 1), ("u4", "m1", 1)],
    )
    write(folder / "pairs.csv", [("ann", "m6"), ("cleo", "m7"), ("cleo", "m8"), ("u1", "m6")], "user,item")
    return folder


@pytest.fixture(scope="module")
def models(files, tmp_path_factory):
    """Train a pmf, an rbm and a crbm; the last conditions on the test's pairs, too."""
    folder = tmp_path_factory.mktemp("models")
    options = {
        "pmf": ["--num-features", "3", "--init-scale", "0.1"],
        "rbm": ["--num-hidden", "3", "--init-scale", "0.5"],
        "crbm": ["--num-hidden", "3", "--rated", files / "test.csv", "--rate", "0.05", "--init-scale", "0.5"],
    }
    for kind, more in options.items():
        argv = ["train", kind, "--ratings", files / "train.csv", "--epochs", "3", "--batch-size", "20", *more]
        assert cli.main([str(a) for a in [*argv, "--out", folder / kind]]) == 0
    return folder


def indexed(path, model):
    table = reading.read([path], scale=RatingScale(1, 5, 1))
    return relabel(table.ratings, table.catalogue, model.catalogue)


@pytest.mark.extended
def test_eval_reports_exact_and_mean_field_errors_of_an_rbm(files, models, capsys, monkeypatch):
    argv = ["eval", models / "rbm", "--ratings", files / "test.csv", "--exact"]
    status, out, _ = run(capsys, *argv, "--json")
    assert status == 0
    record = json.loads(out)
    model = jaxcf.load(models / "rbm")
    test = indexed(files / "test.csv", model)
    data = model.known.ratings
    expected = (
        get("rbm").capability(PredictsExactly).predictor(model.params, model.config, model.known)(test.user, test.item)
    )
    mean_field = model.predictor(test.user, test.item)
    assert record["apart"] == pytest.approx(np.abs(expected - mean_field).mean())
    assert record["apart"] > 1e-5
    assert record["exact"]["rmse_unclipped"] == pytest.approx(np.sqrt(np.mean((expected - test.stars) ** 2)))
    assert record["rmse_unclipped"] == pytest.approx(np.sqrt(np.mean((mean_field - test.stars) ** 2)))
    assert record["apart_of_users_with_100_ratings"] is None
    assert np.bincount(data.user).max() < 100
    _, out, _ = run(capsys, *argv)
    assert "exactly, by Eq. 5.9: RMSE" in out
    assert f"{record['apart']:.4f} stars apart" in out
    number = np.append(np.bincount(data.user, minlength=model.catalogue.num_users), 0)
    monkeypatch.setattr(evaluate, "MANY", int(np.median(number[test.user])) + 1)
    many = number[test.user] >= evaluate.MANY
    assert 0 < many.sum() < len(many)
    _, out, _ = run(capsys, *argv, "--json")
    of_many = json.loads(out)[f"apart_of_users_with_{evaluate.MANY}_ratings"]
    assert of_many == pytest.approx(np.abs(expected - mean_field)[many].mean())
    # new users, too
    argv = [
        "eval",
        models / "rbm",
        "--ratings",
        files / "asked.csv",
        "--known",
        files / "known.csv",
        "--exact",
    ]
    _, out, _ = run(capsys, *argv, "--json")
    record = json.loads(out)
    assert record["exact"]["ratings"] == 3
    assert record["users_folded_in"] == 2
    assert record["seconds"] > 0


def test_rankings_are_of_all_items_that_a_user_has_not_rated(files, models, capsys):
    argv = ["eval", models / "pmf", "--ratings", files / "test.csv", "--top", "3"]
    status, out, _ = run(capsys, *argv, "--relevant", "3", "--json")
    assert status == 0
    record, model = json.loads(out), jaxcf.load(models / "pmf")
    test, known = indexed(files / "test.csv", model), model.known.ratings
    figures = []
    for user in np.unique(test.user):
        items = [i for i in range(ITEMS) if i not in known.item[known.user == user]]
        good = set(test.item[(test.user == user) & (test.stars >= 3)].tolist())
        order = sorted(items, key=lambda i: -float(model.predictor(np.array([user]), np.array([i]))[0]))
        hits = [item in good for item in order[:3]]
        if good:
            gain = sum(hit / np.log2(place + 2) for place, hit in enumerate(hits))
            best = sum(1 / np.log2(place + 2) for place in range(min(3, len(good))))
            figures.append((sum(hits) / 3, sum(hits) / len(good), gain / best))
    found = [record[f"{name}@3"] for name in ("precision", "recall", "ndcg")]
    np.testing.assert_allclose(found, np.mean(figures, axis=0), rtol=1e-6)
    assert record["ranked_users"] == len(figures)
    assert record["ranking_measures"] == "not in the thesis"
    _, out, _ = run(capsys, *argv)
    assert "items of at least 4 stars of" in out
    assert "not in the thesis" in out


def test_a_line_of_errors_says_which_are_of_predictions_on_the_scale():
    """One is below the scale, one above it."""
    result = metrics.evaluate([-1.0, 7.0, 3.0], [2.0, 4.0, 3.0], RatingScale(1, 5, 1))
    rmse, unclipped, mae = np.sqrt((1 + 1) / 3), np.sqrt((9 + 9) / 3), (1 + 1) / 3
    expected = f"RMSE {rmse:.4f} stars (not clipped to the scale: {unclipped:.4f}), MAE {mae:.4f}, 3 ratings"
    assert evaluate.summary(result) == expected


def test_new_users_are_ranked_beside_the_popularity_of_training(files, models, capsys):
    """Of items with equally many ratings, as if in random order: the chance of each to be among the first three."""
    argv = ["eval", models / "pmf", "--ratings", files / "asked.csv", "--known", files / "known.csv", "--top", "3"]
    _, out, _ = run(capsys, *argv, "--relevant", "1", "--json")
    model, recalls = jaxcf.load(models / "pmf"), []
    number = np.bincount(model.known.ratings.item, minlength=ITEMS)
    for seen, wanted in ((["m1", "m2"], ["m3"]), (["m1"], ["m4", "m5"])):
        others = np.delete(number, model.catalogue.item_index(seen))
        chances = [
            np.clip((3 - np.sum(others > own)) / np.sum(others == own), 0, 1)
            for own in number[model.catalogue.item_index(wanted)]
        ]
        recalls.append(np.mean(chances))
    assert json.loads(out)["popularity"]["recall@3"] == pytest.approx(np.mean(recalls))


def test_eval_reports_what_a_ranking_omits_and_conditions_on(files, models, tmp_path, capsys):
    rows = [("u1", "nothing", 5), *(("u2", f"m{item}", 4) for item in range(ITEMS)), ("stranger", "m1", 3)]
    asked, model = write(tmp_path / "asked.csv", rows), jaxcf.load(models / "crbm")
    user = model.catalogue.user_index(np.array(["u2"]))[0]
    stars, rated = (int((pairs.user == user).sum()) for pairs in (model.known.ratings, model.known.rated))
    assert stars > 0
    assert rated > 0
    for name in ("pmf", "crbm"):
        _, out, err = run(capsys, "eval", models / name, "--ratings", asked, "--top", "3")
        assert "all that they are not known to have rated with stars" in out
        assert "2 ratings of users or items that the model does not know: not ranked" in err
        assert f"{stars} ratings known to the model" in err
        assert (f"{rated} ratings of pairs that the model conditions on" in err) == (name == "crbm")


def test_new_items_are_predicted_recommended_and_compared(files, models, tmp_path, capsys):
    new = ["--new-items", files / "new.csv"]
    pairs = write(tmp_path / "pairs.csv", [("u5", "n1"), ("u5", "m1"), ("u5", "n3")], "user,item")
    status, out, err = run(capsys, "predict", models / "pmf", "--pairs", pairs, *new)
    assert status == 0
    assert "2 ratings of --new-items by users or of items that cannot use ratings" in err
    assert "1 pair of items without ratings in training" in err
    model = jaxcf.load(models / "pmf")
    table = reading.read([files / "new.csv"])
    extended = model.with_new_items(table.ratings, table.catalogue)
    stars = [float(line.split("\t")[2]) for line in out.splitlines()]
    np.testing.assert_allclose(stars, extended.predict(["u5"] * 3, ["n1", "m1", "n3"], known_only=False), atol=6e-5)
    assert stars[1] == pytest.approx(float(model.predict(["u5"], ["m1"])[0]), abs=6e-5)
    _, out, _ = run(capsys, "recommend", models / "pmf", "--rated", "m1:5,n2:1", "--top", "50", *new, "--json")
    found = {answer["item"] for answer in json.loads(out)["recommended"]["new"]}
    assert found == {f"m{i}" for i in range(ITEMS)} - {"m1"} | {"n1"}
    _, out, _ = run(capsys, "similar", models / "pmf", "--item", "n1", "--top", "50", *new)
    assert len(out.splitlines()) == ITEMS + 1
    status, out, _ = run(capsys, "eval", models / "pmf", "--ratings", files / "new.csv", *new)
    assert status == 0
    assert "5 ratings" in out


def test_new_users_may_have_rated_items_without_ratings(files, models, capsys):
    crbm, model = models / "crbm", jaxcf.load(models / "crbm")
    ask = ["recommend", crbm, "--top", "50", "--json", "--users"]
    status, out, _ = run(capsys, *ask, files / "known.csv", "--rated", files / "pairs.csv")
    assert status == 0
    found = json.loads(out)["recommended"]
    assert set(found) == {"ann", "bob", "cleo"}
    for user, ratings, rated in (
        ("ann", {"m1": 5, "m2": 2}, ["m6"]), ("bob", {"m1": 1}, []), ("cleo", {}, ["m7", "m8"]),
    ):  # fmt: skip
        expected = model.recommend(ratings=ratings, rated=rated, top=50)
        assert {a["item"] for a in found[user]} == {a.item for a in expected}
        np.testing.assert_allclose([a["stars"] for a in found[user]], [a.value for a in expected], rtol=1e-5)
    _, out, err = run(capsys, *ask, files / "pairs.csv")
    assert "1 user from training among the new ones: treated as new, without what training had" in err
    alone = json.loads(out)["recommended"]
    assert set(alone) == {"ann", "cleo", "u1"}
    assert alone["cleo"] == found["cleo"]
    _, out, err = run(capsys, "predict", crbm, "--pairs", files / "asked.csv", "--known", files / "pairs.csv")
    assert len(out.splitlines()) == 3
    assert "2 pairs of users without known ratings" in err


def test_the_rated_items_of_training_can_be_replaced(files, models, capsys):
    model = jaxcf.load(models / "crbm")
    assert len(model.known.rated.user)
    test = indexed(files / "test.csv", model)
    found = [model.stars(model.predictor, test.user, test.item)]
    for path in (files / "train.csv", write(files / "one.csv", [("u1", "m1")], "user,item")):
        argv = ["predict", models / "crbm", "--pairs", files / "test.csv", "--only-rated", path]
        found.append([float(line.split("\t")[2]) for line in run(capsys, *argv)[1].splitlines()])
        table = reading.read_pairs([path])
        pairs = Pairs(
            model.catalogue.user_index(table.users)[table.pairs.user],
            model.catalogue.item_index(table.items)[table.pairs.item],
        )
        expected = model.stars(model.predictor_given(model.known.with_rated(pairs, only=True)), test.user, test.item)
        np.testing.assert_allclose(found[-1], expected, atol=6e-5)
    for one, other in itertools.combinations(found, 2):
        assert not np.allclose(one, other, atol=1e-3)


def test_pairs_of_new_users_are_not_rated_where_only_others_are(files, models, capsys):
    """Of a file of pairs, --only-rated takes the users alone, as of one of ratings."""
    crbm, only = models / "crbm", write(files / "only.csv", [("new", "m2")], "user,item")
    pairs = write(files / "of-new.csv", [("new", "m1"), ("new", "m3")], "user,item")
    asked = write(files / "of-new-asked.csv", [("new", "m5"), ("new", "m6")], "user,item")
    argv = ["predict", crbm, "--pairs", asked, "--known", pairs]
    found = run(capsys, *argv, "--only-rated", only)[1]
    assert found == run(capsys, "predict", crbm, "--pairs", asked, "--known", only)[1] != run(capsys, *argv)[1]


WRONG = {
    "exact pmf": (["eval", "{pmf}", "--ratings", "{test}", "--exact"], "ones; pmf has none - use rbm or crbm"),
    "relevant without top": (["eval", "{pmf}", "--ratings", "{test}", "--relevant", "4"], "give --top K"),
    "no such stars": (
        ["eval", "{pmf}", "--ratings", "{test}", "--top", "5", "--relevant", "9"], "no rating is of 9 stars"
    ),
    "no place": (["eval", "{pmf}", "--ratings", "{test}", "--top", "0"], "invalid value '0' (--top)"),
    "new items for an rbm": (
        ["eval", "{rbm}", "--ratings", "{test}", "--new-items", "{new}"], "rbm has none - use svd, svd-bias or pmf"
    ),
    "no new items": (
        ["eval", "{pmf}", "--ratings", "{test}", "--new-items", "{train}"], "no rating is of an item that was not"
    ),
    "new items off the scale": (
        ["eval", "{pmf}", "--ratings", "{test}", "--new-items", "{off}"],
        "off.csv, line 2) - correct it, or train with --scale LOW,HIGH,STEP",
    ),
    "scale of eval": (
        ["eval", "{pmf}", "--ratings", "{test}", "--scale", "1,9,1"],
        "the ratings of training are 1 to 5 in steps of 1 (--scale) - leave it out",
    ),
    "scale of known": (
        ["eval", "{pmf}", "--ratings", "{test}", "--known", "{known}", "--scale", "1,5,1"], "(--scale) - leave it out"
    ),
    "scale of users": (["recommend", "{pmf}", "--users", "{known}", "--scale", "1,5,1"], "(--scale) - leave it out"),
    "scale of new items": (
        ["similar", "{pmf}", "--item", "m1", "--new-items", "{new}", "--scale", "1,5,1"], "(--scale) - leave it out"
    ),
    "rated items for pmf": (["recommend", "{pmf}", "--users", "{pairs}"], "for rated items; "),
    "pairs for an rbm": (["recommend", "{rbm}", "--users", "{known}", "--rated", "{pairs}"], "for rated items; "),
    "replaced in vain": (["predict", "{rbm}", "--pairs", "{test}", "--only-rated", "{pairs}"], "for rated items; "),
    "added and replaced": (
        ["predict", "{crbm}", "--pairs", "{test}", "--only-rated", "{pairs}", "--rated", "{pairs}"],
        "not allowed with argument",
    ),
    "two people": (["recommend", "{pmf}", "--user", "u1", "--users", "{known}"], "ask for different people"),
    "a user and a list": (["recommend", "{pmf}", "--user", "u1", "--rated", "m1:5"], "ask for different people"),
    "known without pairs": (["eval", "{crbm}", "--ratings", "{test}", "--known", "{header}"], "holds no pairs"),
    "nobody known": (
        ["eval", "{pmf}", "--ratings", "{test}", "--known", "{known}"],
        "no rating is of a user of --known ({test})",
    ),
    "no pairs to predict": (["predict", "{pmf}", "--pairs", "{header}"], "holds no pairs of user and item"),
    "nobody to recommend to": (["recommend", "{crbm}", "--users", "{header}"], "holds no pairs of user and item"),
    "known but empty": (["eval", "{pmf}", "--ratings", "{test}", "--known", "{empty}"], "the file is empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_user_errors_are_one_line(case, files, models, tmp_path, capsys):
    names = {path.stem: path for path in files.glob("*.csv")} | {path.name: path for path in models.glob("*")}
    names["off"], names["empty"] = write(tmp_path / "off.csv", [("u1", "n1", 7)]), tmp_path / "empty.csv"
    names["empty"].write_text("")
    names["header"] = write(tmp_path / "header.csv", [], "user,item")
    argv, said = WRONG[case]
    status, out, err = run(capsys, *(word.format(**names) for word in argv))
    lines = [line for line in err.splitlines() if line.startswith("jaxcf: ")]
    assert status == 2
    assert out == ""
    assert len(lines) == 1
    assert said.format(**names) in lines[0]


@pytest.mark.extended
def test_exact_and_mean_field_predictions_agree_for_users_with_many_ratings(tmp_path):
    """At most 0.02 stars apart on average for users with 100 ratings or more, of an RBM of planted ratings."""
    data = planted.planted(jax.random.key(0), Planted(num_users=150, num_items=300, num_ratings=12_000))
    recipe, config = get("rbm").recipes["tuned"]
    recipe = dataclasses.replace(recipe, epochs=10, batch_size=10, rate={"*": 0.02}, decay={"*": 0.0})
    config = {**config, "num_hidden": 8}
    model = training.train("rbm", data, tmp_path / "m", recipe=recipe, config=config).model
    many = np.bincount(data.train.user, minlength=150)[data.test.user] >= 100
    assert many.sum() > 200
    user, item = data.test.user[many], data.test.item[many]
    exact, mean_field = (
        model.predictor_given(model.known, exact=True)(user, item),
        model.predictor(user, item),
    )
    assert 1e-5 < np.abs(exact - mean_field).mean() < 0.02
    assert mean_field.std() > 0.2
