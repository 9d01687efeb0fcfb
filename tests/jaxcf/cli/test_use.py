"""What commands say of the files that they read, results as one JSON object, where files are named."""

import json

import pytest
from safetensors.numpy import load_file

import jaxcf
from jaxcf.cli import main as cli


def run(capsys, *argv):
    status = cli.main([str(a) for a in argv])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make a folder with ratings, pairs, ids of others, and trained models."""
    folder = tmp_path_factory.mktemp("use")
    rows = [(user, item, 1 + user * item % 5) for user in range(1, 9) for item in range(50, 57) if (user + item) % 3]
    (folder / "ratings.csv").write_text("u,i,r\n" + "".join(f"{u},{i},{s}\n" for u, i, s in rows))
    (folder / "pairs.csv").write_text("user,item\n1,50\n2,51\n")
    (folder / "others.csv").write_text("user,item,stars\nx1,y1,3\nx2,y1,4\n")
    (folder / "bad.csv").write_text("user,item,stars\noops\n1,50,4\n")
    assert cli.main(["train", "bias", "--ratings", str(folder / "ratings.csv"), "--out", str(folder / "bias")]) == 0
    assert cli.main([
        "train", "pmf", "--ratings", str(folder / "ratings.csv"), "--out", str(folder / "pmf"), "--epochs", "1",
        "--num-features", "2",
    ]) == 0  # fmt: skip
    assert cli.main([
        "train", "wmf", "--ratings", str(folder / "ratings.csv"), "--out", str(folder / "wmf"), "--epochs", "1",
        "--num-features", "2",
    ]) == 0  # fmt: skip
    return folder


def read_line(folder, name, rest):
    return f"{folder / name}: columns {rest}"


def test_train_and_split_say_what_was_read(folder, tmp_path, capsys):
    ratings = folder / "ratings.csv"
    said = read_line(folder, "ratings.csv", "u, i, r as user, item, stars (by the header); ")
    said += "37 ratings of 7 items by 8 users, 1 to 5 in steps of 1 (as found)\n"
    _, _, err = run(capsys, "train", "bias", "--ratings", ratings, "--out", tmp_path / "b")
    assert f"bias: {said}" in err
    _, _, err = run(capsys, "split", ratings, "--out", tmp_path / "s")
    assert f"split: {said}" in err


def test_eval_and_predict_say_what_was_read(folder, capsys):
    _, out, err = run(capsys, "predict", folder / "bias", "--pairs", folder / "pairs.csv")
    assert err == "predict: " + read_line(
        folder, "pairs.csv", "user, item (by the header); 2 pairs of 2 users and 2 items\n"
    )
    _, out, err = run(capsys, "eval", folder / "bias", "--ratings", folder / "bad.csv", "--skip-bad", "1")
    assert "1 to 5 in steps of 1 (as in training)" in err
    assert "1 of the lines cannot be read and are left out; the first: the line has 1 column, not 3" in err
    assert ", 1 rating\n" in out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["predict", "{bias}", "--pairs", "{others}"], "no user and no item of {others} occurs in training (user x1 "),
        (["eval", "{bias}", "--ratings", "{others}"], "no user and no item of {others} occurs in training"),
        (["eval", "{pmf}", "--ratings", "{ratings}", "--known", "{others}"], "no item of {others} occurs in training"),
        (["recommend", "{pmf}", "--users", "{others}"], "no item of {others} occurs in training (item y1 there, 50 in"),
        (["recommend", "{pmf}", "--user", "1", "--titles", "{others}"], "no id of {others} is of an item of the model"),
    ],
)
def test_ids_that_are_in_no_other_file_are_warned_of(folder, capsys, argv, said):
    names = {name: folder / name for name in ("bias", "pmf")}
    names |= {path.stem: path for path in folder.glob("*.csv")}
    _, _, err = run(capsys, *(word.format(**names) for word in argv))
    assert f"jaxcf: warning: {said.format(**names)}" in err


def test_new_users_that_were_in_training_are_reported(folder, tmp_path, capsys):
    mine = [row for row in (folder / "ratings.csv").read_text().splitlines() if row.startswith("1,")]
    (tmp_path / "known.csv").write_text("\n".join(["user,item,stars", mine[0], "ann,51,5"]))
    (tmp_path / "asked.csv").write_text("\n".join(["user,item,stars", *mine, "1,99,3", "ann,52,4"]))
    said = "1 user from training among the new ones: treated as new, without what training had"
    for model in ("pmf", "wmf"):
        argv = ["eval", folder / model, "--ratings", tmp_path / "asked.csv", "--known", tmp_path / "known.csv"]
        _, _, err = run(capsys, *argv)
        assert said in err
        if model == "pmf":
            assert f"{len(mine)} ratings known to the model: such errors are not those of predictions" in err
        else:
            assert "1 positive known to the model: not ranked" in err
            assert f"{len(mine) - 1} positives of training: ranked, though the model was trained on them" in err
    _, _, err = run(capsys, "recommend", folder / "pmf", "--users", tmp_path / "known.csv")
    assert said in err
    (tmp_path / "known.csv").write_text("user,item,stars\nann,51,5\n")
    _, _, err = run(capsys, *argv)
    assert "from training" not in err
    assert "of training" not in err


def test_a_user_of_validation_alone_is_a_new_one(folder, tmp_path, capsys):
    (tmp_path / "valid.csv").write_text("u,i,r\nnew,50,4\n1,51,3\n")
    (tmp_path / "rated.csv").write_text("user,item\nnew,52\nnew,53\n")
    argv = ["--ratings", folder / "ratings.csv", "--valid", tmp_path / "valid.csv", "--epochs", "1"]
    assert run(capsys, "train", "crbm", *argv, "--out", tmp_path / "crbm")[0] == 0
    (tmp_path / "known.csv").write_text("user,item,stars\nother,50,4\n")
    argv = ["--users", tmp_path / "known.csv", "--rated", tmp_path / "rated.csv", "--json"]
    status, out, err = run(capsys, "recommend", tmp_path / "crbm", *argv)
    assert (status, set(json.loads(out)["recommended"])) == (0, {"other", "new"})
    assert "left out" not in err


def test_errors_are_printed_where_there_is_nothing_to_rank(folder, tmp_path, capsys):
    low, trained = tmp_path / "low.csv", folder / "ratings.csv"
    low.write_text("user,item,stars\n1,50,1\n1,51,1\n")
    for file, said in (
        (low, "no rating to rank is of 4 stars or more ({}) - lower --relevant, or leave --top out"),
        (trained, "there is no rating to rank: none is new to its user ({}) - give others than those of training, or"),
        (folder / "others.csv", "there is no rating to rank: none is of a user and an item that the model knows"),
    ):
        argv = ["eval", folder / "bias", "--ratings", file, "--top", "3"]
        status, out, err = run(capsys, *argv)
        assert status == 2
        assert f"jaxcf: {said.format(file)}" in err
        assert out == run(capsys, *argv[:-2])[1] != ""
        assert run(capsys, *argv, "--json")[:2] == (2, "")


def test_a_user_who_has_rated_everything_is_reported(folder, tmp_path, capsys):
    items = list(range(50, 57))
    all_rated = ",".join(f"{item}:3" for item in items)
    status, out, err = run(capsys, "recommend", folder / "pmf", "--rated", all_rated)
    assert (status, out) == (0, "")
    assert "nothing is left to recommend to 1 user" in err
    rows = [f"{user},{item},3" for user in "ab" for item in items]
    (tmp_path / "all.csv").write_text("\n".join(["user,item,stars", *rows, "c,50,3"]))
    _, out, err = run(capsys, "recommend", folder / "pmf", "--users", tmp_path / "all.csv", "--top", "1")
    assert len(out.splitlines()) == 1
    assert "nothing is left to recommend to 2 users" in err


COMMANDS = {
    "predict": ["predict", "{pmf}", "--pairs", "{pairs}"],
    "eval": ["eval", "{pmf}", "--ratings", "{ratings}"],
    "recommend": ["recommend", "{pmf}", "--users", "{others}"],
    "similar": ["similar", "{pmf}", "--item", "50"],
    "split": ["split", "{ratings}", "--out", "{out}"],
    "export": ["export", "{pmf}", "--out", "{out}/f.safetensors"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_one_object_alone(folder, tmp_path, capsys, command):
    names = {"pmf": folder / "pmf", "out": tmp_path / "out", **{path.stem: path for path in folder.glob("*.csv")}}
    status, out, _ = run(capsys, *(word.format(**names) for word in COMMANDS[command]), "--json")
    assert status == 0
    found = json.loads(out)
    assert found["command"] == command
    if command != "split":
        assert (found["directory"], found["model"]) == (str(names["pmf"]), "pmf")


def test_predictions_in_json_are_numbers(folder, capsys):
    _, out, _ = run(capsys, "predict", folder / "bias", "--pairs", folder / "pairs.csv", "--json")
    stars = jaxcf.load(folder / "bias").predict([1, 2], [50, 51]).tolist()
    expected = [{"user": 1, "item": 50, "stars": stars[0]}, {"user": 2, "item": 51, "stars": stars[1]}]
    assert json.loads(out)["pairs"] == 2
    assert json.loads(out)["predicted"] == expected


def test_the_folder_may_follow_the_files(folder, capsys):
    first = run(capsys, "predict", folder / "bias", "--pairs", folder / "pairs.csv")
    assert run(capsys, "predict", "--pairs", folder / "pairs.csv", folder / "bias") == first
    status, _, err = run(capsys, "eval", "--ratings", folder / "ratings.csv", folder / "pairs.csv")
    assert status == 2
    assert "DIR is missing" in err
    assert "--ratings takes all names after it" in err


def test_export_refuses_other_kinds_of_file(folder, tmp_path, capsys):
    status, _, err = run(capsys, "export", folder / "pmf", "--out", tmp_path / "x.csv")
    assert status == 2
    assert err == (
        f"jaxcf: the factors are written as safetensors, not as .csv ({tmp_path / 'x.csv'}) - name a .safetensors "
        f"file: --out {tmp_path / 'x.safetensors'}\n"
    )
    assert not any(tmp_path.iterdir())
    assert run(capsys, "export", folder / "pmf", "--out", tmp_path / "x")[0] == 0
    assert load_file(tmp_path / "x").keys() == {"U", "V", "b", "c"}
