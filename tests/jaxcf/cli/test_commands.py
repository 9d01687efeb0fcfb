"""The `jaxcf` command: what it prints, its exit statuses, and every way its input can be wrong."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import jaxcf
from jaxcf import model_files as model
from jaxcf.cli import main as cli
from jaxcf.solvers import als


def run(capsys, *argv):
    status = cli.main([str(a) for a in argv])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write ratings of 30 users and 12 items with ids that are text, split in two, and titles."""
    folder = tmp_path_factory.mktemp("ratings")
    draws = np.random.default_rng(0)
    lines = [
        f"u{user},m{item},{draws.integers(1, 6)}"
        for user in range(30)
        for item in sorted(draws.choice(12, 6, replace=False))
    ]
    draws.shuffle(lines)
    (folder / "train.csv").write_text("user,item,stars\n" + "\n".join(lines[:150]) + "\n")
    (folder / "test.csv").write_text("user,item,stars\n" + "\n".join(lines[150:]) + "\n")
    (folder / "titles.dat").write_bytes("".join(f"m{i}::Titre n°{i}::x\n" for i in range(12)).encode("latin-1"))
    return folder


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("models") / "pmf"
    assert cli.main(["train", "pmf", "--ratings", str(files / "train.csv"), "--out", str(out), "--epochs", "2"]) == 0
    return out


def test_train_reports_the_errors_that_eval_reports(files, tmp_path, capsys):
    argv = [
        "train",
        "bias",
        "--ratings",
        files / "train.csv",
        "--test",
        files / "test.csv",
        "--out",
        tmp_path / "b",
    ]
    status, out, _ = run(capsys, *argv, "--json")
    assert status == 0
    record = json.loads(out.splitlines()[-1])
    assert record["ratings"] == {"train": 150, "test": 30}
    table = np.loadtxt(files / "test.csv", delimiter=",", dtype=str, skiprows=1)
    predicted = jaxcf.load(tmp_path / "b").predict(table[:, 0], table[:, 1])
    rmse = np.sqrt(np.mean((predicted - table[:, 2].astype(float)) ** 2))
    assert record["test"]["rmse_clipped"] == pytest.approx(rmse, rel=1e-5)
    _, out, _ = run(capsys, "eval", tmp_path / "b", "--ratings", files / "test.csv", "--json")
    assert json.loads(out)["rmse_clipped"] == pytest.approx(record["test"]["rmse_clipped"])
    _, out, _ = run(capsys, "eval", tmp_path / "b", "--ratings", files / "test.csv")
    assert f"RMSE {record['test']['rmse_clipped']:.4f} stars" in out
    assert "30 ratings" in out


def test_a_finished_training_is_not_repeated(files, trained, capsys):
    argv = ["train", "pmf", "--ratings", files / "train.csv", "--out", trained, "--epochs", "2"]
    status, _, err = run(capsys, *argv)
    assert status == 2
    assert "add --resume" in err
    status, out, _ = run(capsys, *argv, "--resume")
    assert status == 0
    assert "had finished before" in out


def test_predict_equals_the_python_api(files, trained, capsys):
    status, out, _ = run(capsys, "predict", trained, "--pairs", files / "test.csv")
    assert status == 0
    rows = [line.split("\t") for line in out.splitlines()]
    users, items, stars = zip(*rows, strict=True)
    np.testing.assert_allclose([float(s) for s in stars], model.load(trained).predict(users, items), atol=6e-5)
    asked = [line.split(",")[:2] for line in (files / "test.csv").read_text().splitlines()[1:]]
    assert [[u, i] for u, i, _ in rows] == asked


def test_unknown_ids_are_predicted_from_the_rest_and_reported(trained, tmp_path, capsys):
    (tmp_path / "pairs.csv").write_text("user,item\nu1,m1\nstranger,m1\nu1,nothing\n")
    status, out, err = run(capsys, "predict", trained, "--pairs", tmp_path / "pairs.csv")
    assert status == 0
    assert len(out.splitlines()) == 3
    assert "1 pair of users without ratings in training: predicted without them" in err
    assert "1 pair of items without ratings in training: predicted without them" in err


def test_recommend_prints_titles_for_known_and_new_users(files, trained, capsys):
    titles = ("--titles", files / "titles.dat")
    status, out, _ = run(capsys, "recommend", trained, "--user", "u1", "--top", "3", *titles)
    assert status == 0
    assert len(out.splitlines()) == 3
    assert "Titre n°" in out
    _, out, _ = run(capsys, "recommend", trained, "--rated", "m1:5,m2:1", "--top", "20", "--json")
    found = {answer["item"] for answer in json.loads(out)["recommended"]["new"]}
    assert found == {f"m{i}" for i in range(12)} - {"m1", "m2"}
    _, out, _ = run(capsys, "recommend", trained, "--users", files / "test.csv", "--top", "2")
    users = {line.split(",")[0] for line in (files / "test.csv").read_text().splitlines()[1:]}
    assert {line.split("\t")[0] for line in out.splitlines()} == users
    _, out, _ = run(capsys, "similar", trained, "--item", "m3", "--top", "2", *titles)
    assert len(out.splitlines()) == 2


def test_held_out_users_are_evaluated_from_their_known_ratings(files, trained, tmp_path, capsys):
    (tmp_path / "known.csv").write_text("user,item,stars\nnew,m1,5\nnew,m2,4\nother,m1,1\n")
    (tmp_path / "asked.csv").write_text("user,item,stars\nnew,m3,4\nother,m4,2\nstranger,m4,2\n")
    status, out, err = run(
        capsys, "eval", trained, "--ratings", tmp_path / "asked.csv", "--known", tmp_path / "known.csv"
    )
    assert status == 0
    assert "2 ratings" in out
    assert "1 rating of users without known ones" in err


def test_split_writes_files_that_train_reads(files, tmp_path, capsys):
    status, out, _ = run(capsys, "split", files / "train.csv", "--out", tmp_path / "s", "--valid", "0.1", "--json")
    assert status == 0
    assert sorted(json.loads(out)["files"].values()) == [15, 15, 120]
    for scheme, names in (("kfold", 10), ("users", 3)):
        _, out, _ = run(capsys, "split", files / "train.csv", "--scheme", scheme, "--out", tmp_path / scheme, "--json")
        assert len(json.loads(out)["files"]) == names
    status, _, err = run(capsys, "split", files / "train.csv", "--scheme", "thesis", "--out", tmp_path / "t")
    assert status == 2
    assert "no times" in err
    argv = ["train", "bias", "--ratings", tmp_path / "s/train.csv", "--valid", tmp_path / "s/valid.csv"]
    assert run(capsys, *argv, "--out", tmp_path / "m")[0] == 0


@pytest.mark.parametrize(
    ("scheme", "option", "of"),
    [
        ("kfold", "--test", "random"),
        ("thesis", "--valid", "random"),
        ("random", "--users", "users"),
        ("users", "--folds", "kfold"),
    ],
)
def test_shares_of_another_scheme_are_refused(files, tmp_path, capsys, scheme, option, of):
    words = ("split", files / "train.csv", "--scheme", scheme, "--out", tmp_path / "s", option)
    status, _, err = run(capsys, *words, "2" if option == "--folds" else "0.5")
    assert status == 2
    assert err == f"jaxcf: it does not go with --scheme {scheme} ({option}) - use --scheme {of}\n"
    assert not (tmp_path / "s").exists()


def test_a_split_is_written_whole_or_not_at_all(files, tmp_path, capsys):
    (tmp_path / "valid.csv").write_text("mine")
    status, _, err = run(capsys, "split", files / "train.csv", "--out", tmp_path)
    assert status == 2
    assert "valid.csv" in err
    assert [path.name for path in tmp_path.iterdir()] == ["valid.csv"]


def test_predictions_do_not_depend_on_test_ratings(files, tmp_path, capsys):
    predicted = []
    for stars in (1, 5):
        lines = (files / "test.csv").read_text().splitlines()
        changed = [lines[0], *(line.rpartition(",")[0] + f",{stars}" for line in lines[1:])]
        (tmp_path / f"{stars}.csv").write_text("\n".join(changed) + "\n")
        out = tmp_path / f"m{stars}"
        argv = ["train", "crbm", "--ratings", files / "train.csv", "--test", tmp_path / f"{stars}.csv"]
        options = ["--condition", "train", "test", "--epochs", "1", "--num-hidden", "3"]
        assert run(capsys, *argv, *options, "--out", out)[0] == 0
        predicted.append(run(capsys, "predict", out, "--pairs", files / "test.csv")[1])
    assert predicted[0] == predicted[1]


def test_pmf_is_trained_by_alternating_solutions(files, tmp_path, capsys):
    argv = ["train", "pmf", "--ratings", files / "train.csv", "--test", files / "test.csv", "--solver", "als"]
    options = [
        "--num-features",
        "3",
        "--init-scale",
        "0.1",
        "--decay",
        "0.2",
        "--epochs",
        "5",
        "--patience",
        "5",
    ]
    status, out, _ = run(capsys, *argv, *options, "--out", tmp_path / "m", "--json")
    assert status == 0
    record, info = json.loads(out), model.load(tmp_path / "m").info
    assert record["epochs"] == 5
    assert (info["solver"], info["finished"]) == ("als", True)
    assert info["recipe"] == {"decay": {"*": 0.2}, "epochs": 5, "patience": 5}
    journal = [json.loads(line) for line in (tmp_path / "m/journal.jsonl").read_text().splitlines()]
    assert min(line["valid"] for line in journal) == pytest.approx(info["validation RMSE"] ** 2)
    _, out, _ = run(capsys, "eval", tmp_path / "m", "--ratings", files / "test.csv", "--json")
    assert json.loads(out)["rmse_clipped"] == pytest.approx(record["test"]["rmse_clipped"])
    assert run(capsys, "recommend", tmp_path / "m", "--rated", "m1:5,m2:1")[0] == 0
    for again in (argv, argv[:-2]):  # by alternating solutions, and by gradients in their place
        status, _, err = run(capsys, *again, "--out", tmp_path / "m")
        assert status == 2
        assert "there already" in err
        assert "choose another --out" in err
        assert "--resume" not in err


def test_interrupted_alternating_solutions_start_over(files, tmp_path, capsys, monkeypatch):
    argv = ["train", "pmf", "--ratings", files / "train.csv", "--solver", "als", "--out", tmp_path / "m"]
    options = ["--num-features", "3", "--decay", "0.2", "--epochs", "2"]

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(als, "sweep", stopped)
        status, _, err = run(capsys, *argv, *options)
    assert status == 130
    assert "give the same command again" in err
    assert "--resume" not in err
    assert run(capsys, *argv, *options)[0] == 0


def test_a_divergence_in_the_last_step_is_reported(files, tmp_path, capsys):
    argv = ["train", "pmf", "--ratings", files / "train.csv", "--out", tmp_path / "m", "--epochs", "1"]
    status, _, err = run(capsys, *argv, "--batch-size", "1000", "--rate", "1e38")
    assert status == 2
    assert "not finite" in err


def test_export_holds_the_parameters_and_the_ids(trained, tmp_path, capsys):
    status, _, _ = run(capsys, "export", trained, "--out", tmp_path / "f.safetensors")
    assert status == 0
    arrays, known = load_file(tmp_path / "f.safetensors"), model.load(trained)
    for name, array in zip(known.params._fields, known.params, strict=True):
        np.testing.assert_array_equal(arrays[name], array)
    assert (tmp_path / "f.items.txt").read_text().split() == known.catalogue.items.tolist()
    _, out, _ = run(capsys, "info", trained)
    assert "30 users, 12 items" in out
    _, out, _ = run(capsys, "info", trained, "--json")
    found = json.loads(out)
    assert (found["directory"], found["model"]) == (str(trained), known.record.name)


def test_a_conditional_model_uses_the_pairs_of_rated_files(files, tmp_path, capsys):
    argv = ["train", "cpmf", "--ratings", files / "train.csv", "--test", files / "test.csv", "--epochs", "1"]
    status, *_ = run(capsys, *argv, "--condition", "train", "test", "--out", tmp_path / "c", "--json")
    assert status == 0
    assert len(model.load(tmp_path / "c").known.rated.user) == 30
    status, _, err = run(capsys, "train", "pmf", "--ratings", files / "train.csv", "--rated", "x", "--out", "y")
    assert status == 2
    assert "no option --rated" in err


WRONG = {
    "missing option": (["train", "pmf", "--ratings", "{train}"], "--out is missing"),
    "mistyped option": (["train", "pmf", "--raitings", "{train}", "--out", "{out}"], "did you mean --ratings?"),
    "mistyped model": (["train", "pfm", "--out", "{out}"], "did you mean pmf?"),
    "no file": (["train", "pmf", "--ratings", "{tmp}/none.csv", "--out", "{out}"], "none.csv"),
    "empty file": (["train", "pmf", "--ratings", "{empty}", "--out", "{out}"], "empty.csv"),
    "folder for a file": (["train", "pmf", "--ratings", "{tmp}", "--out", "{out}"], "{tmp}"),
    "wrong column": (
        ["train", "pmf", "--ratings", "{train}", "--columns", "user,film,stars", "--out", "{out}"], "film"
    ),
    "off the scale": (
        ["train", "pmf", "--ratings", "{off}", "--scale", "1,5,1", "--out", "{out}"], "off.csv, line 3"
    ),
    "a duplicate": (["train", "pmf", "--ratings", "{twice}", "--out", "{out}"], "twice.csv, line 4"),
    "not a number": (["train", "pmf", "--ratings", "{nan}", "--out", "{out}"], "nan.csv, line 2"),
    "no model": (["recommend", "{tmp}/nothing", "--user", "1"], "no model here"),
    "nobody": (["recommend", "{model}"], "give --user ID, --rated ITEMS or --users FILE"),
    "no such user": (["recommend", "{model}", "--user", "u999"], "no user 'u999'"),
    "no such item": (["recommend", "{model}", "--rated", "m999:5"], "no item 'm999' was in training (--rated)"),
    "stars in words": (["recommend", "{model}", "--rated", "m1:five"], "'five' is not a number of stars"),
    "no finite number": (["recommend", "{model}", "--rated", "m1:inf"], "'inf' is not a number of stars"),
    "too many stars": (["recommend", "{model}", "--rated", "m1:1e300"], "1e+300 stars of 'm1' are not on the scale"),
    "no stars": (
        ["recommend", "{model}", "--rated", "m1;5"],
        "'m1;5' has no stars (--rated) - write item:stars,item:stars,…",
    ),
    "test off the scale": (
        ["train", "pmf", "--ratings", "{low}", "--test", "{off}", "--out", "{out}"], "off.csv, line 3"
    ),
    "predictions on another scale": (
        ["predict", "{model}", "--pairs", "{train}", "--scale", "banana"], "the ratings of training are 1 to 5"
    ),
    "no titles": (["recommend", "{model}", "--user", "u1", "--titles", "{tmp}/none"], "no such file"),
    "titles below a file": (
        ["recommend", "{model}", "--user", "u1", "--titles", "{train}/x"], "the file cannot be read: Not a directory"
    ),
    "rates of exact solutions": (
        ["train", "pmf", "--solver", "als", "--rate", "0.1", "--out", "{out}"], "--rate applies to SGD only"
    ),
    "resumed exact solutions": (
        ["train", "pmf", "--solver", "als", "--resume", "--out", "{out}"], "--resume applies to SGD only"
    ),
    "exact solutions without a prior": (
        ["train", "pmf", "--ratings", "{train}", "--solver", "als", "--decay", "0", "--out", "{out}"],
        "give every parameter a decay above 0",
    ),
    "no such decimal sign": (
        ["train", "pmf", "--decimal", "utf-8", "--out", "{out}"], "(--decimal) - choose from '.', ','"
    ),
    "no such solver": (["train", "pmf", "--solver", "asl", "--out", "{out}"], "did you mean als?"),
    "svd by exact solutions": (["train", "svd", "--solver", "als", "--out", "{out}"], "no option --solver"),
    "devices for visits": (
        ["train", "cpmf", "--ratings", "{train}", "--devices", "2", "--out", "{out}"], "one after another"
    ),
    "means of visits": (
        ["train", "cpmf", "--ratings", "{train}", "--reduction", "mean", "--out", "{out}"], "(--reduction) - use sum"
    ),
    "rated items in vain": (
        ["eval", "{model}", "--ratings", "{train}", "--rated", "{train}"], "needs a use for rated items"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_user_errors_are_one_line(case, files, trained, tmp_path, capsys):
    contents = {
        "empty": "", "off": "user,item,stars\na,b,4\na,c,6\n", "twice": "user,item,stars\na,b,4\na,c,5\na,b,3\n",
        "nan": "user,item,stars\na,b,nan\na,c,5\n",
        "low": "user,item,stars\n" + "".join(f"u{i},b,{1 + i % 5}\n" for i in range(40)),
    }  # fmt: skip
    names = {"train": files / "train.csv", "out": tmp_path / "out", "tmp": tmp_path, "model": trained}
    for name, content in contents.items():
        names[name] = tmp_path / f"{name}.csv"
        names[name].write_text(content)
    argv, said = WRONG[case]
    status, out, err = run(capsys, *(word.format(**names) for word in argv))
    lines = [line for line in err.splitlines() if line.startswith("jaxcf: ") and "warning" not in line]
    assert status == 2
    assert out == ""
    assert len(lines) == 1
    assert said.format(**names) in lines[0]
    assert not (tmp_path / "out").exists()
