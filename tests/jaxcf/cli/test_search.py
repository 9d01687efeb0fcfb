"""`jaxcf search`: its best trial is that of separate trainings; what is done is not repeated; mistakes."""

import errno
import json
import os
import shlex
from pathlib import Path

import numpy as np
import pytest

from jaxcf import training
from jaxcf.cli.main import main
from jaxfit.errors import UserError
from jaxfit.files.large_arrays import _room_in
from jaxfit.process.signals import Signalled

DATA = ("--ratings", "train.csv", "--valid", "valid.csv")
SMALL = ("--batch-size", "100", "--epochs", "2", "--num-features", "3")


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Write ratings of 40 users and 20 items, the sum of a taste of each and noise."""
    draws = np.random.default_rng(0)
    taste = draws.normal(size=40)[:, None] + draws.normal(size=20)
    stars = np.clip(np.round(3 + taste + draws.normal(scale=0.5, size=taste.shape)), 1, 5).astype(int)
    pairs = draws.permutation(800)[:500]
    for name, part in (("train", pairs[100:]), ("valid", pairs[:100])):
        rows = [f"{pair // 20},{pair % 20},{stars[pair // 20, pair % 20]}" for pair in part.tolist()]
        (tmp_path / f"{name}.csv").write_text("\n".join(["user,item,rating", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)


def test_the_best_of_a_grid_is_that_of_separate_trainings(call):
    found, err = call("search", "pmf", *DATA, *SMALL, "--try", "rate=0.01,0.2", "--out", "s")
    assert err.count("train.csv: columns") == 1, "the data are read once"
    scores = {}
    for trial in found["trials"]:
        words = shlex.split(trial["train"])
        assert words[:2] == ["jaxcf", "train"]
        result, _ = call(*words[1:-1], f"own/{trial['trial']}")
        scores[trial["trial"]] = trial["score"]
        assert trial["score"] == result["valid"]["rmse_clipped"]
        recipe = json.loads(Path(f"own/{trial['trial']}/config.json").read_text())["recipe"]
        assert trial["settings"] == {"rate": recipe["rate"]["*"]}
    assert len(set(scores.values())) == 2
    assert found["best"]["trial"] == min(scores, key=scores.get)
    assert [trial["score"] for trial in found["trials"]] == sorted(scores.values())


def test_what_was_done_is_not_repeated(call, capsys, monkeypatch):
    argv = ["search", "pmf", *DATA, *SMALL, "--try", "rate=0.01..0.1", "--try", "decay=1e-4..1"]
    argv += ["--seed", "3"]
    whole, _ = call(*argv, "--trials", 2, "--out", "whole")
    train, trained = training.train, []

    def counted(name, data, directory, **options):
        trained.append(directory.name)
        if trained == ["1", "2"]:
            raise Signalled
        return train(name, data, directory, **options)

    monkeypatch.setattr(training, "train", counted)
    assert main([*argv, "--trials", "2", "--out", "s"]) == 130
    assert capsys.readouterr().err.endswith("stopped by Ctrl-C (s) - give the same command with --resume to go on\n")
    assert main([*argv, "--trials", "2", "--out", "s"]) == 2
    assert "trials are there already (s) - add --resume" in capsys.readouterr().err
    resumed, _ = call(*argv, "--trials", 2, "--out", "s", "--resume")
    assert trained == ["1", "2", "2"]
    same = [
        [(trial["trial"], trial["settings"], trial["score"]) for trial in each["trials"]] for each in (whole, resumed)
    ]
    assert same[0] == same[1], "the same seed draws the same, and an interrupted search ends as another"
    more, _ = call(*argv, "--trials", 3, "--out", "s", "--resume")
    assert trained[3:] == ["3"]
    assert len(more["trials"]) == 3
    with open("s/trials.json") as file:
        assert json.load(file)["trials"] == more["trials"]
    for changed in (["--epochs", "3"], ["--seed", "4"], ["--try", "init_scale=0.1,0.2"]):
        assert main([*argv, *changed, "--trials", "3", "--out", "s", "--resume"]) == 2
        assert "choose another --out" in capsys.readouterr().err
    assert len(trained) == 4
    with open("train.csv", "a") as file:
        file.write("39,19,3\n")
    assert main([*argv, "--trials", "3", "--out", "s", "--resume"]) == 2
    assert "trials there were begun with another train.csv (s) - choose another --out" in capsys.readouterr().err


def test_a_trial_that_was_begun_is_not_gone_on_with_by_other_settings(capsys, monkeypatch):
    argv = ["search", "pmf", *DATA, *SMALL, "--out", "s"]

    def stopped(name, data, directory, **options):
        (directory / "journal.jsonl").write_text("")
        raise Signalled

    with monkeypatch.context() as patch:
        patch.setattr(training, "train", stopped)
        assert main([*argv, "--try", "rate=0.01,0.2"]) == 130
    assert main([*argv, "--try", "rate=0.05,0.2", "--resume"]) == 2
    assert "trial 1 there has other options, rate 0.01 (s)" in capsys.readouterr().err


def test_trials_that_failed_or_had_less_time_are_gone_on_with(call, monkeypatch):
    argv = ["search", "pmf", *DATA, *SMALL, "--try", "rate=0.01,0.05,0.1", "--out", "s"]
    train, trained = training.train, []

    def counted(name, data, directory, **options):
        trained.append(directory.name)
        if len(trained) == 1:
            raise UserError("the options do not fit")
        found = train(name, data, directory, **options)
        return found._replace(stopped="max-minutes") if len(trained) == 2 else found

    monkeypatch.setattr(training, "train", counted)
    first, _ = call(*argv, "--max-minutes", 1)
    assert {trial["trial"]: trial["ended"] for trial in first["trials"]} == {1: "failed", 2: "max-minutes", 3: "done"}
    call(*argv, "--max-minutes", 1, "--resume")
    assert trained[3:] == ["1"], "the same time is up for trial 2"
    last, _ = call(*argv, "--max-minutes", 2, "--resume")
    assert trained[4:] == ["2"]
    assert {trial["ended"] for trial in last["trials"]} == {"done"}


def test_trials_to_be_gone_on_with_are_kept_until_they_are(call, monkeypatch):
    argv = ["search", "pmf", *DATA, *SMALL, "--try", "rate=0.01,0.05,0.1", "--out", "s"]
    train = training.train

    def stopped(name, data, directory, **options):
        return train(name, data, directory, **options)._replace(stopped="max-minutes")

    def killed(name, data, directory, **options):
        raise Signalled

    with monkeypatch.context() as patch:
        patch.setattr(training, "train", stopped)
        first, _ = call(*argv, "--max-minutes", 1)
        patch.setattr(training, "train", killed)
        assert main([*argv, "--max-minutes", "2", "--resume"]) == 130
    scores = {each["trial"]: each["score"] for each in first["trials"]}
    left = json.loads(Path("s/trials.json").read_text())["trials"]
    assert {each["trial"]: each["score"] for each in left} == {**scores, 1: None}


@pytest.mark.parametrize(
    ("command", "do"),
    [(["search", "--try", "rate=0.1"], "give their pairs"), (["train"], "give --test FILE, or their pairs")],
)
def test_without_test_ratings_the_options_that_give_them_are_named(command, do, capsys):
    name, *options = command
    assert main([name, "crbm", *DATA, "--condition", "test", *options, "--out", "s"]) == 2
    said = f"there are no test ratings to condition on (--condition) - {do}: --rated FILE\n"
    assert capsys.readouterr().err.endswith(said)


def test_a_full_disk_ends_the_search_and_not_a_trial(call, capsys, monkeypatch):
    argv = ["search", "pmf", *DATA, *SMALL, "--try", "rate=0.01,0.05", "--out"]
    whole, _ = call(*argv, "whole")
    train = training.train

    def full(name, data, directory, **options):
        if directory.name == "2":
            with _room_in(directory):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return train(name, data, directory, **options)

    with monkeypatch.context() as patch:
        patch.setattr(training, "train", full)
        assert main([*argv, "s"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("cannot be written: No space left on device (s/2) - free some disk space\n")
    found, _ = call(*argv, "s", "--resume")
    assert [trial["score"] for trial in found["trials"]] == [trial["score"] for trial in whole["trials"]]


def test_trials_that_diverge_are_the_worst(call, capsys):
    sizes = ("--epochs", 2, "--num-features", 3)
    found, err = call(
        "search", "pmf", *DATA, *sizes, "--try", "rate=1e30,0.1", "--try", "batch_size=5000,100", "--out", "s"
    )
    assert [(trial["trial"], trial["ended"]) for trial in found["trials"]] == [
        (4, "done"), (1, "failed"), (2, "diverged"), (3, "failed"),
    ]  # fmt: skip
    assert [trial["score"] is None for trial in found["trials"]] == [False, True, True, True]
    assert "trial 3 of 4: failed: a minibatch of 5,000 examples, and there are 400 in all (--batch-size)" in err
    assert main(["search", "pmf", *DATA, *SMALL, "--try", "rate=1e30", "--out", "none"]) == 2
    out, err = capsys.readouterr()
    assert "1  1e+30         diverged" in out
    assert "none of 1 trials has a finite validation RMSE" in err


def test_models_that_the_engine_does_not_train(call):
    biases, _ = call("search", "bias", *DATA, "--try", "decay_users=0,5", "--out", "bias")
    assert biases["measure"] == "validation RMSE"
    assert len({trial["score"] for trial in biases["trials"]}) == 2
    ranked, _ = call("search", "wmf", *DATA, "--positive", 4, "--num-features", 3, "--try", "epochs=1,3", "--out", "w")
    assert ranked["measure"] == "validation NDCG@10"
    assert ranked["best"]["score"] == max(trial["score"] for trial in ranked["trials"])
    found, _ = call(*shlex.split(ranked["best"]["train"])[1:-1], "again")
    assert found["valid"]["ndcg@10"] == ranked["best"]["score"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--try", "num_featurs=2"], "no option --num-featurs to try (--try) - did you mean --num-features?"),
        (["--try", "num_features=2,x"], "invalid value 'x' (--num-features) - give a whole number"),
        (["--try", "num_features="], "has no values"),
        (["--try", "rate=0.1..1"], "needs a number of trials (--try rate) - add --trials N"),
        (["--try", "num_features=1.5..3", "--trials", "2"], "invalid value '1.5' (--num-features)"),
        (["--try", "rate=0.1", "--rate", "0.2"], "it is given for all trials, and tried (--rate)"),
        (["--try", "rate=0.1", "--try", "rate=0.2"], "it is tried twice (--rate)"),
        (["--try", "scale=1,2"], "--scale is no option of the model or its training"),
        (["--try", "anneal=1"], "unknown value '1' (--anneal) - write yes or no"),
        (["--try", "rate=0.1,q=1"], "no parameter is called 'q'"),
        (["--try", "rate=0.1", "--trials", "2"], "there are only 1 different settings"),
        (["--try", "rate=0.1", "--test", "valid.csv"], "there is no option --test"),
        (["--try", "rate=0.1", "--solver", "als"], "--rate applies to SGD only"),
        ([], "--try is missing"),
        (["--try", "rate=0.1", "--ratings", "nix.csv"], "there is no such file (nix.csv)"),
    ],
)
def test_mistakes_are_one_line_before_anything_is_trained(options, said, capsys, tmp_path):
    assert main(["search", "pmf", *DATA, *options, "--out", "s", "--quiet"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_what_is_there_stays(capsys, tmp_path):
    (tmp_path / "s" / "1").mkdir(parents=True)
    argv = ["search", "bias", *DATA, "--try", "decay_users=1,2", "--out", "s"]
    assert main(argv) == 2
    assert "it exists already (s/1)" in capsys.readouterr().err
    (tmp_path / "s" / "1").rmdir()
    for text in ("{", "[]", '{"options": {}, "trials": [1]}', '{"options": 1, "trials": []}'):
        (tmp_path / "s" / "trials.json").write_text(text)
        assert main([*argv, "--resume"]) == 2
        assert "it is damaged (s/trials.json)" in capsys.readouterr().err
    assert main(["search", "bias", "--ratings", "train.csv", "--try", "decay_users=1,2", "--out", "t"]) == 2
    assert "bias does not hold out validation ratings (--valid is missing)" in capsys.readouterr().err
