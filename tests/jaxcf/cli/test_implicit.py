"""Commands on models of implicit data: what they read, rank and refuse."""

import json
import re

import numpy as np
import pytest

import jaxcf
from jaxcf.cli import main as cli


def run(capsys, *argv):
    status = cli.main([str(a) for a in argv])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write ratings of 1 to 5 stars by 24 users of two tastes, in two parts; who took what, as pairs, some repeated."""
    folder, rng = tmp_path_factory.mktemp("taken"), np.random.default_rng(0)
    rows = [
        (f"u{u}", f"i{i}", 5 - (u + i) % 2 * 3 - rng.integers(0, 2))
        for u in range(24)
        for i in rng.choice(12, 8, replace=False)
    ]
    rng.shuffle(rows)
    for name, part in (("train", rows[:150]), ("test", rows[150:])):
        (folder / f"{name}.csv").write_text("user,item,stars\n" + "".join(f"{u},{i},{s}\n" for u, i, s in part))
    pairs = [f"{u},{i}\n" for u, i, s in rows[:150] if int(s) >= 4]
    (folder / "pairs.csv").write_text("user,item\n" + "".join(pairs + pairs[:20]))
    return folder


@pytest.fixture(scope="module")
def models(files, tmp_path_factory):
    """Train a wmf and a popularity on ratings of at least 4 stars, and a wmf on pairs."""
    folder = tmp_path_factory.mktemp("models")
    small = ["--num-features", "2", "--epochs", "3", "--quiet", "--valid", files / "test.csv"]
    for name, argv in {
        "wmf": ["wmf", "--ratings", files / "train.csv", "--positive", "4", *small],
        "popularity": ["popularity", "--ratings", files / "train.csv", "--positive", "4", "--quiet"],
        "pairs": ["wmf", "--ratings", files / "pairs.csv", *small, "--solver", "cholesky", "--decay", "0.5"],
    }.items():
        assert cli.main(["train", *map(str, argv), "--out", str(folder / name)]) == 0
    return folder


def test_positives_are_what_is_known_and_their_counts(files, models):
    rated, taken = jaxcf.load(models / "wmf"), jaxcf.load(models / "pairs")
    pairs = np.loadtxt(files / "pairs.csv", delimiter=",", dtype=str, skiprows=1)
    assert rated.known.ratings.stars.tolist() == [1.0] * (len(pairs) - 20)
    assert sorted(taken.known.ratings.stars.tolist()) == [1.0] * (len(pairs) - 40) + [2.0] * 20
    popular = jaxcf.load(models / "popularity")
    _, counts = np.unique(pairs[:-20, 1], return_counts=True)
    assert sorted(filter(None, np.asarray(popular.params.positives).tolist())) == sorted(counts.tolist())


def test_validation_without_new_positives_is_not_ranked(files, tmp_path, capsys):
    """Neither the output nor the card shows measures that are undefined."""
    known = ["--ratings", files / "pairs.csv", "--valid", files / "pairs.csv"]
    status, out, _ = run(capsys, "train", "popularity", *known, "--out", tmp_path / "model")
    assert status == 0
    assert "\nvalidation not ranked: no relevant item is new to its user\n" in out
    card = (tmp_path / "model" / "README.md").read_text()
    assert "| ndcg@10 | - |" in card
    assert "nan" not in card


def test_a_validation_set_without_a_positive_is_not_called_missing(files, tmp_path, capsys):
    (tmp_path / "zero.csv").write_text("user,item,count\nu1,i1,0\nu2,i2,0\n")
    argv = ["train", "wmf", "--ratings", files / "pairs.csv", "--valid", tmp_path / "zero.csv", "--out", tmp_path / "m"]
    status, _, err = run(capsys, *argv, "--quiet")
    assert status == 2
    assert "there are no positives for validation (pairs.csv) - give some by --valid" in err


def test_eval_ranks_positives_beside_popularity_and_knows_no_stars(files, models, capsys):
    argv = ["eval", models / "wmf", "--ratings", files / "test.csv", "--top", "2"]
    status, out, err = run(capsys, *argv, "--json")
    assert status == 0, err
    record = json.loads(out)
    assert not [name for name in record if "rmse" in name or "stars" in name]
    model, popular = jaxcf.load(models / "wmf"), jaxcf.load(models / "popularity")
    rows = np.loadtxt(files / "test.csv", delimiter=",", dtype=str, skiprows=1)
    wanted = {(u, i) for u, i, s in rows if float(s) >= 4}
    for ranked, found in ((model, record), (popular, record["popularity"])):
        recalls, listed = [], set()
        for user in sorted({u for u, _ in wanted}):
            best = {answer.item for answer in ranked.recommend(user, top=2)}
            mine = {i for u, i in wanted if u == user}
            recalls.append(len(best & mine) / len(mine))
            listed |= best
        if ranked is model:  # popularity has equal scores
            assert found["recall@2"] == pytest.approx(np.mean(recalls))
        assert found["coverage@2"] == pytest.approx(len(listed) / 12)
        assert found["ranked_users"] == len(recalls)
    assert record["ndcg@2"] > record["popularity"]["ndcg@2"]
    _, out, _ = run(capsys, *argv)
    assert "by popularity, the number of training positives of an item" in out
    assert "stars" not in out
    _, alone, _ = run(capsys, "eval", models / "popularity", "--ratings", files / "test.csv", "--top", "2", "--json")
    assert json.loads(alone)["ndcg@2"] == record["popularity"]["ndcg@2"] == json.loads(alone)["popularity"]["ndcg@2"]


def test_positives_of_unknown_users_are_not_called_predicted(files, models, tmp_path, capsys):
    (tmp_path / "test.csv").write_text((files / "test.csv").read_text() + "u99,i1,5\n")
    status, _, err = run(capsys, "eval", models / "wmf", "--ratings", tmp_path / "test.csv", "--top", "2")
    assert status == 0
    assert "of users or items that the model does not know" in err
    assert "predicted without them" not in err


def test_what_needs_stars_is_refused_in_one_line(files, models, capsys):
    wmf, test = models / "wmf", files / "test.csv"
    for argv, said in (
        (["predict", wmf, "--pairs", test], "predict needs predictions of ratings; wmf has none"),
        (["eval", wmf, "--ratings", test, "--exact"], "--exact needs exact predictions"),
        (["eval", wmf, "--ratings", test, "--top", "2", "--relevant", "4"], "wmf ranks positives"),
        (["recommend", wmf, "--rated", "i1"], "this wmf takes items by their stars"),
        (["recommend", models / "popularity", "--rated", "i99:5"], "no item 'i99' was in training"),
    ):
        status, _, err = run(capsys, *argv)
        assert status == 2
        assert said in err
        assert len(err.splitlines()) == 1
    status, _, err = run(capsys, "similar", models / "popularity", "--item", "i1")
    assert status == 2
    assert f"popularity has none ({models / 'popularity'}) - use " in err
    with pytest.raises(jaxcf.UserError, match="predicting ratings needs predictions of ratings; wmf has none"):
        jaxcf.load(wmf).predict(["u1"], ["i1"])


def test_new_users_are_recommended_to_by_what_they_took(files, models, capsys):
    (files / "new.csv").write_text("user,item\nann,i1\nann,i1\nann,i3\nbob,i2\n")
    status, out, err = run(capsys, "recommend", models / "pairs", "--users", files / "new.csv", "--top", "3", "--json")
    assert status == 0, err
    found = json.loads(out)["recommended"]
    assert list(found["ann"][0]) == ["item", "score"]
    assert [answer["item"] for answer in found["ann"]] == ["i" + str(i) for i in odd(found["ann"])]
    model = jaxcf.load(models / "pairs")
    same = model.recommend(ratings={"i1": 2}, rated=["i3"], top=3)
    assert [answer["score"] for answer in found["ann"]] == pytest.approx([answer.value for answer in same])
    _, out, _ = run(capsys, "recommend", models / "wmf", "--rated", "i1:5,i2:1", "--top", "12", "--json")
    one = {answer["item"] for answer in json.loads(out)["recommended"]["new"]}
    assert one == {f"i{i}" for i in range(12)} - {"i1"}, "an item of one star is no positive"


def odd(answers):
    """Return the numbers of the items, which must be odd: of the taste of who took 1 and 3."""
    numbers = [int(answer["item"][1:]) for answer in answers]
    assert all(number % 2 for number in numbers)
    return numbers


def test_a_user_without_a_positive_is_told_that_all_scores_are_equal(models, capsys):
    said = "1 user whose scores are all 0: the items are in the order of their ids"
    for rated, expected in (("i1:0", True), ("i1:1", False)):
        status, _, err = run(capsys, "recommend", models / "pairs", "--rated", rated)
        assert status == 0
        assert (said in err) == expected


def test_training_and_info_say_what_validation_is_by(files, models, tmp_path, capsys):
    _, out, _ = run(capsys, "info", models / "wmf")
    assert re.search(r"^trained on    [\d,]+ positives; counts: ", out, re.MULTILINE)
    assert "validation NDCG@10 0." in out
    assert "RMSE" not in out
    argv = ["train", "popularity", "--ratings", files / "train.csv", "--test", files / "test.csv", "--positive", "4"]
    status, out, _ = run(capsys, *argv, "--out", tmp_path / "out", "--json")
    assert status == 0
    record = json.loads(out)
    _, out, _ = run(capsys, "eval", tmp_path / "out", "--ratings", files / "test.csv", "--json")
    assert record["test"]["ndcg@10"] == json.loads(out)["ndcg@10"]
    assert record["positives"]["train"] == len(jaxcf.load(tmp_path / "out").known.ratings.user)
