"""`jaxcf cross-validate`: it equals splits, trainings and evaluations made one by one; finished folds stay."""

import json
from pathlib import Path

import numpy as np
import pytest

from jaxcf import training
from jaxcf.cli.main import main
from jaxfit.process.signals import Signalled

RATINGS = ("--ratings", "all.csv")


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Write ratings of 30 users and 25 items, some of which have a single one."""
    draws = np.random.default_rng(0)
    pairs = np.concatenate([draws.permutation(600)[:300], [623, 649]])
    rows = [f"u{pair % 25},{pair // 25},{draws.integers(1, 6)}" for pair in pairs.tolist()]
    (tmp_path / "all.csv").write_text("\n".join(["user,item,stars", *rows, "new,24,3"]) + "\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("model", "folds", "options", "measure"),
    [
        ("pmf", 2, ["--batch-size", "50", "--epochs", "2", "--num-features", "3"], "rmse_clipped"),
        ("bias", 5, [], "rmse_clipped"),
        ("wmf", 2, ["--positive", "3", "--epochs", "2", "--num-features", "3"], "ndcg@10"),
        ("crbm", 2, ["--condition", "train", "test", "--batch-size", "9", "--epochs", "2", "--num-hidden", "3"],
         "rmse_clipped"),
    ],
)  # fmt: skip
def test_it_equals_splits_trainings_and_evaluations_by_hand(call, model, folds, options, measure):
    found, _ = call("cross-validate", model, *RATINGS, *options, "--folds", folds, "--seed", 2)
    call("split", "all.csv", "--scheme", "kfold", "--folds", folds, "--seed", 2, "--out", "parts")
    seed = [] if model == "bias" else ["--seed", 2]
    by_hand = []
    for number in range(1, folds + 1):
        out = f"own/{number}"
        test = ["--test", f"parts/test{number}.csv"] if "--condition" in options else []
        call("train", model, "--ratings", f"parts/train{number}.csv", *test, *options, *seed, "--out", out)
        by_hand.append(call("eval", out, "--ratings", f"parts/test{number}.csv")[0])
        same = {name for name in by_hand[-1] if name in found["folds"][number - 1]} - {"seconds", "ranking_measures"}
        assert measure in same
        for name in same:
            assert found["folds"][number - 1][name] == pytest.approx(by_hand[-1][name], rel=1e-6), (number, name)
    values = [each[measure] for each in by_hand]
    assert found["mean"][measure] == pytest.approx(np.mean(values), rel=1e-6)
    assert found["standard_deviation"][measure] == pytest.approx(np.std(values, ddof=1), rel=1e-4)
    if model == "wmf":
        popular = [each["popularity"][measure] for each in by_hand]
        assert found["mean"][f"popularity_{measure}"] == pytest.approx(np.mean(popular), rel=1e-6)


def test_the_table_has_the_clipped_errors_of_folds_their_mean_and_deviation(call, capsys):
    argv = ["cross-validate", "bias", *RATINGS, "--folds", "3"]
    found, _ = call(*argv)
    names = ["rmse_clipped", "mae_clipped"]
    assert list(found["mean"]) == list(found["standard_deviation"]) == names
    errors = np.array([[fold[name] for name in names] for fold in found["folds"]])
    assert main(argv) == 0
    heads, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert heads == ["fold", "RMSE", "MAE", "seconds"]
    shown = [*errors, errors.mean(axis=0), errors.std(axis=0, ddof=1)]
    assert [row[:3] for row in rows[:3]] == [[str(n), *(f"{x:.4f}" for x in shown[n - 1])] for n in (1, 2, 3)]
    assert rows[3:] == [
        ["mean", *(f"{error:.4f}" for error in shown[3])], ["±", "sd", *(f"{error:.4f}" for error in shown[4])],
    ]  # fmt: skip


def test_folds_that_are_done_are_not_repeated(call, capsys, monkeypatch, tmp_path):
    argv = ["cross-validate", "bias", *RATINGS, "--folds", "3"]
    whole, _ = call(*argv)
    assert [path.name for path in tmp_path.iterdir()] == ["all.csv"], "nothing is kept"
    train, trained = training.train, []

    def counted(name, data, directory, **options):
        trained.append(directory.name)
        if len(trained) == 2:
            raise Signalled
        return train(name, data, directory, **options)

    monkeypatch.setattr(training, "train", counted)
    assert main([*argv, "--out", "cv"]) == 130
    assert "stopped by Ctrl-C (cv) - give the same command with --resume" in capsys.readouterr().err
    assert main([*argv, "--out", "cv"]) == 2
    assert "folds are there already (cv)" in capsys.readouterr().err
    resumed, _ = call(*argv, "--out", "cv", "--resume")
    assert trained == ["fold-1", "fold-2", "fold-2", "fold-3"]
    for fold, other in zip(whole["folds"], resumed["folds"], strict=True):
        assert {**fold, "seconds": 0} == {**other, "seconds": 0}
    assert call("eval", "cv/fold-1", "--ratings", "all.csv")[0]["ratings"] == 303
    assert main([*argv, "--folds", "4", "--out", "cv", "--resume"]) == 2
    assert "in folds (3 there, 4 here)" in capsys.readouterr().err
    with open("all.csv", "a") as file:
        file.write("u1,24,3\n")
    assert main([*argv, "--out", "cv", "--resume"]) == 2
    assert "folds there were begun with another all.csv (cv)" in capsys.readouterr().err


def test_a_fold_that_was_stopped_says_so_and_is_gone_on_with_given_more_time(call, capsys, monkeypatch):
    argv = ["cross-validate", "pmf", *RATINGS, "--folds", "2", "--batch-size", "50", "--epochs", "1", "--out", "cv"]
    train, trained = training.train, []

    def counted(name, data, directory, **options):
        trained.append(directory.name)
        found = train(name, data, directory, **options)
        return found._replace(stopped="max-minutes") if len(trained) == 1 else found

    monkeypatch.setattr(training, "train", counted)
    assert main([*argv, "--max-minutes", "1"]) == 0
    assert "(max-minutes)" in capsys.readouterr().out
    call(*argv, "--max-minutes", "1", "--resume")
    assert trained == ["fold-1", "fold-2"]
    folds = call(*argv, "--max-minutes", "2", "--resume")[0]["folds"]
    assert trained[2:] == ["fold-1"]
    assert [fold["ended"] for fold in folds] == ["done", "done"]


def test_folds_that_are_to_go_on_are_kept_until_they_do(call, monkeypatch):
    argv = ["cross-validate", "pmf", *RATINGS, "--folds", "3", "--batch-size", "50", "--epochs", "1", "--out", "cv"]
    train = training.train

    def stopped(name, data, directory, **options):
        return train(name, data, directory, **options)._replace(stopped="max-minutes")

    def killed(name, data, directory, **options):
        if directory.name == "fold-2":
            raise Signalled
        return train(name, data, directory, **options)

    with monkeypatch.context() as patch:
        patch.setattr(training, "train", stopped)
        first = call(*argv, "--max-minutes", 1)[0]["folds"]
        patch.setattr(training, "train", killed)
        assert main([*argv, "--max-minutes", "2", "--resume"]) == 130
    folds = json.loads(Path("cv/folds.json").read_text())["folds"]
    assert {fold["fold"]: fold["ended"] for fold in folds} == {1: "done", 2: "max-minutes", 3: "max-minutes"}
    assert folds[1:] == first[1:]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--ratings is missing"),
        ([*RATINGS, "--valid", "all.csv"], "there is no option --valid"),
        ([*RATINGS, "--folds", "1"], "invalid value '1' (--folds)"),
        ([*RATINGS, "--folds", "10001"], "invalid value '10001' (--folds) - give a whole number from 2 to 10000"),
        ([*RATINGS, "--folds", "1000"], "303 ratings cannot be split into 1000 folds"),
        ([*RATINGS, "--resume"], "--out is missing"),
        (["--ratings", "nix.csv"], "there is no such file (nix.csv)"),
    ],
)
def test_mistakes_are_one_line(options, said, capsys):
    assert main(["cross-validate", "bias", *options, "--quiet"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
